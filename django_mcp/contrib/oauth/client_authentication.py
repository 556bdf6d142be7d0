"""Authentication of OAuth clients by a secret or a key, with a limit on wrong ones."""

from __future__ import annotations

import base64
from typing import Any
from urllib.parse import unquote_plus

from django.contrib.auth.hashers import identify_hasher
from oauth2_provider.oauth2_validators import OAuth2Validator
from oauthlib.oauth2.rfc6749.errors import InvalidClientError

from django_mcp.contrib.oauth.assertions import (
    TYPE,
    Assertion,
    AssertionRefused,
    check_signature,
    read_assertion,
    use_up,
)
from django_mcp.contrib.oauth.limits import TooMany, wrong_secrets_of
from django_mcp.contrib.oauth.sign_ins import Step, report_refused

AUDIENCES = "django_mcp.audiences"
"""Among the headers of oauthlib's request: what an assertion may be for. No client can send it."""


class TooManyWrongSecrets(TooMany):
    """A client sent too many wrong secrets from one address, or the address did for several clients."""

    def __init__(self, wait_s: int, request: Any) -> None:
        super().__init__("Too many wrong client secrets came from this address", wait_s, request)


class ClientAuthentication(OAuth2Validator):
    """Checks the secret or the assertion of a client.

    A client that sends an assertion has to prove its key, even if it could do without.

    Wrong secrets are counted, so a request above the limit costs no hash, and clients with the right
    secret have no limit, however many of their requests come at once. Requests that are already being
    checked can exceed the limit, by the number of the server's threads. Wrong secrets are counted by
    address, so that a stranger cannot lock a client out at another address.
    """

    def client_authentication_required(self, request: Any, *args: Any, **kwargs: Any) -> bool:
        """Return whether a request has to prove its client, or tries to."""
        return _has_assertion(request) or bool(
            super().client_authentication_required(request, *args, **kwargs)
        )

    def authenticate_client(self, request: Any, *args: Any, **kwargs: Any) -> bool:
        """Return whether a request has the right secret or assertion of its client.

        A request with an `Authorization` header is authenticated by that alone (RFC 6749 section
        2.3: one method in each request).

        Raises:
            TooManyWrongSecrets: there were too many wrong secrets. The secret was not checked.
            InvalidClientError: the assertion is wrong. The text names what to correct.
        """
        if _has_assertion(request):
            return self._authenticate_by_key(request)
        authorization = self._extract_basic_auth(request)
        client_id = _client_of(authorization) if authorization else request.client_id
        if not client_id or self._load_application(client_id, request) is None:
            # Nothing is hashed for an unknown client.
            return False
        allowances = wrong_secrets_of(request.headers.get("REMOTE_ADDR") or "", client_id)
        for allowance in allowances:
            if allowance.is_used_up():
                raise TooManyWrongSecrets(allowance.wait_s, request)
        if authorization:
            is_right = bool(self._authenticate_basic_auth(request))
        else:
            is_right = bool(self._authenticate_request_body(request))
        if not is_right:
            for allowance in allowances:
                allowance.take()
        return is_right

    def _authenticate_by_key(self, request: Any) -> bool:
        try:
            assertion = _read(request, self._extract_basic_auth(request))
        except AssertionRefused as error:
            raise _refusal(error, request) from error
        application = self._load_application(assertion.client_id, request)
        allowances = wrong_secrets_of(request.headers.get("REMOTE_ADDR") or "", assertion.client_id)
        for allowance in allowances:
            if allowance.is_used_up():
                raise TooManyWrongSecrets(allowance.wait_s, request)
        try:
            check_signature(assertion, application)
            use_up(assertion, application)
        except AssertionRefused as error:
            for allowance in allowances:
                allowance.take()
            raise _refusal(error, request) from error
        request.client_id = assertion.client_id
        return True

    def _check_secret(self, provided_secret: str, stored_secret: str) -> bool:
        try:
            hasher = identify_hasher(stored_secret)
        except ValueError:
            return bool(super()._check_secret(provided_secret, stored_secret))
        # Django's check_password() would spend the default number of iterations on a wrong secret,
        # also where the stored one was hashed with fewer.
        return hasher.verify(provided_secret, stored_secret)


def _has_assertion(request: Any) -> bool:
    return any(
        getattr(request, name, None) is not None
        for name in ("client_assertion", "client_assertion_type")
    )


def _read(request: Any, authorization: str | None) -> Assertion:
    if authorization or getattr(request, "client_secret", None):
        raise AssertionRefused(
            "client_assertion",
            "The request authenticates in two ways.",
            "Send the assertion without a secret.",
        )
    if getattr(request, "client_assertion_type", None) != TYPE:
        raise AssertionRefused("client_assertion_type", "It is not supported.", f"Send {TYPE!r}.")
    text = getattr(request, "client_assertion", None) or ""
    return read_assertion(text, request.client_id, request.headers.get(AUDIENCES) or ())


def _refusal(error: AssertionRefused, request: Any) -> InvalidClientError:
    step = Step.REFRESH if request.grant_type == "refresh_token" else Step.TOKEN
    report_refused(step, request, error, request.client or request.client_id)
    return InvalidClientError(description=f"{error}", request=request)


def _client_of(basic: str) -> str | None:
    """Return the client id of HTTP Basic credentials as the toolkit reads it; None: malformed."""
    try:
        text = base64.b64decode(basic).decode()
    except ValueError:
        return None
    client_id, separator, secret = map(unquote_plus, text.partition(":"))
    # PostgreSQL rejects NUL characters, as do some hashers.
    return client_id if separator and "\0" not in client_id + secret else None
