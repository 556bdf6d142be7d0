"""Principals by bearer token, which is their name, and their permissions."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.backends import BaseBackend

from django_mcp.auth.authenticators import Authenticator
from django_mcp.auth.principal import AuthInfo, Principal
from django_mcp.server.exchange.exchange import Exchange

PERMISSIONS = {"ann": {"shop.see_secrets"}, "bob": set[str]()}
SCOPES = {"ann": frozenset({"write"}), "bob": frozenset[str]()}


class Backend(BaseBackend):
    def has_perm(self, user_obj: Any, perm: str, obj: Any = None) -> bool:
        return perm in PERMISSIONS.get(user_obj.get_username(), ())


class Named(Authenticator):
    kind = "named"

    async def authenticate(self, exchange: Exchange) -> Principal | None:
        header = exchange.headers.get("authorization") if exchange.headers else None
        return principal(header.removeprefix("Bearer ")) if header else None

    def challenge(self, exchange: Exchange) -> str | None:
        return "Bearer"


def principal(name: str, **auth: Any) -> Principal:
    from django.contrib.auth.models import User

    info = AuthInfo(subject=name, authenticator="named", scopes=SCOPES.get(name, frozenset()))
    return Principal(key=f"named:{name}", user=User(username=name), auth=info)
