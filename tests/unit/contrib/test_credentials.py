"""Which names are about passwords, keys, tokens and sign-ins, and which only look like them."""

from __future__ import annotations

from typing import Any

import pytest
from ninja import NinjaAPI, Schema
from rest_framework import serializers, viewsets
from rest_framework.decorators import action
from rest_framework.response import Response

from django_mcp import MCPServer
from django_mcp.contrib.credentials import find_credential_word
from django_mcp.contrib.drf import viewset_tools
from django_mcp.contrib.ninja import operation_tools


class TokenPair(Schema):
    access: str


class Account(Schema):
    user_pass: str


class Booking(Schema):
    passengers: int
    boarding_pass: str
    page_token: str


class Flights(viewsets.GenericViewSet[Any]):
    serializer_class = serializers.Serializer

    @action(detail=False, methods=["post"], url_path="set-password")
    def update_account(self, request: Any) -> Response:
        return Response({})

    @action(detail=False, methods=["post"])
    def board(self, request: Any) -> Response:
        return Response({})


@pytest.mark.parametrize(
    "name",
    [
        *("obtain_auth_token", "TokenObtainPairView", "PasswordResetConfirm", "LogInView", "OTPDevice"),
        *("change_pw", "changePwd", "resetpassword", "passcode", "PassKeyView", "passkeys", "Credentials"),
        *("api-key", "ApiKeyViewSet", "APIKeys", "apikey", "access_key", "client_secret", "private-key"),
        *("impersonate", "hijack", "sudo", "login_as", "authenticate"),
        *("mfa_device", "verify_2fa", "TwoFactorView", "recovery_codes", "magic-link", "one_time_code"),
        *("rotate_secret", "webhook_secret", "SecretViewSet", "secrets", "secret-rotate", "obtain_pair"),
        *("switch_user", "become_user", "reset_pass", "set_pin", "pin_reset", "issue_pat", "revoke-pats"),
        *("ssh_key", "SigningKeyViewSet", "deploy-keys", "rotate_keys", "key_rotation", "set_key"),
        *("Session", "SessionViewSet", "session_list", "user_sessions", "revoke_session", "active-sessions"),
        *("OAuthCallback", "oauth2", "SAMLView", "OpenIDView", "sso", "OIDCCallbackView", "auth", "AuthView"),
        *("token", "Tokens", "TokenViewSet", "refresh_token", "token_refresh", "issue_tokens", "TokenPair"),
        *("TokenBlacklistView", "new_token", "user_tokens", "count_tokens_login"),
    ],
)  # fmt: skip
def test_names_of_credentials_are_found(name: str):
    assert find_credential_word(["order", name]) == name


@pytest.mark.parametrize(
    "name",
    [
        *("Tokenizer", "tokenized", "blog_info", "Authors", "passengers", "compass", "boarding_pass"),
        *("key_accounts", "monkeys", "power", "secretary", "catalogue", "signing_bonus"),
        *("token_count", "count_tokens", "TokenUsageView", "max_tokens", "next_page_token", "tokenize"),
        *("input_tokens", "DesignTokenViewSet", "token-holders", "TokenClassification", "tokens_per_second"),
        *("secret_santa", "SecretMenuViewSet", "training_sessions", "TrainingSessionViewSet", "sessions"),
        *("book_session", "pin", "unpin", "PinViewSet", "drop_pin", "pass", "passes", "skip_pass", "patients"),
        *("public_key", "keys", "KeyResults", "answer_key", "user", "switch", "AuthorViewSet", "authors"),
        *("LoginRequiredMixin", "AuthRequiredMixin", "AuthMixin", "obtain_quote", "pair", "callback"),
    ],
)  # fmt: skip
def test_names_that_only_look_like_credentials_are_left(name: str):
    assert find_credential_word([name]) is None


def test_the_path_of_an_action_says_that_it_is_about_passwords():
    server = MCPServer("flights")
    viewset_tools(Flights, server=server, prefix="flights")

    assert set(server.registry.tools) == {"flights_board"}


def test_the_data_of_an_operation_say_that_it_is_about_passwords_or_tokens():
    api = NinjaAPI(urls_namespace="credentials")

    @api.post("/begin", response=TokenPair)
    def begin(request: Any) -> Any:
        return {"access": "secret"}

    @api.post("/account")
    def change(request: Any, data: Account) -> Any:
        return None

    @api.post("/booking")
    def book(request: Any, data: Booking) -> Any:
        return None

    server = MCPServer("flights")
    operation_tools(api, server=server)

    assert set(server.registry.tools) == {"book"}
