"""Authentication of OAuth clients by their secret, with a limit on wrong secrets."""

from __future__ import annotations

import base64
from typing import Any
from urllib.parse import unquote_plus

from django.contrib.auth.hashers import identify_hasher
from oauth2_provider.oauth2_validators import OAuth2Validator
from oauthlib.oauth2.rfc6749.errors import CustomOAuth2Error

from django_mcp.contrib.oauth.limits import wrong_secrets_of


class TooManyWrongSecrets(CustomOAuth2Error):
    """A client sent too many wrong secrets from one address, or the address did for several clients."""

    def __init__(self, wait_s: int, request: Any) -> None:
        super().__init__(
            error="temporarily_unavailable",
            description=f"Too many wrong client secrets came from this address. Try again in {wait_s} s",
            status_code=429,
            request=request,
        )
        self._wait_s = wait_s

    @property
    def headers(self) -> dict[str, str]:
        """The headers that oauthlib adds to the response."""
        return {"Retry-After": str(self._wait_s)}


class ClientAuthentication(OAuth2Validator):
    """Checks the secret of a client.

    Wrong secrets are counted, so a request above the limit costs no hash, and clients with the right
    secret have no limit, however many of their requests come at once. Requests that are already being
    checked can exceed the limit, by the number of the server's threads. Wrong secrets are counted by
    address, so that a stranger cannot lock a client out at another address.
    """

    def authenticate_client(self, request: Any, *args: Any, **kwargs: Any) -> bool:
        """Return whether a request has the right secret of its client.

        A request with an `Authorization` header is authenticated by that alone (RFC 6749 section
        2.3: one method in each request).

        Raises:
            TooManyWrongSecrets: there were too many wrong secrets. The secret was not checked.
        """
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

    def _check_secret(self, provided_secret: str, stored_secret: str) -> bool:
        try:
            hasher = identify_hasher(stored_secret)
        except ValueError:
            return bool(super()._check_secret(provided_secret, stored_secret))
        # Django's check_password() would spend the default number of iterations on a wrong secret,
        # also where the stored one was hashed with fewer.
        return hasher.verify(provided_secret, stored_secret)


def _client_of(basic: str) -> str | None:
    """Return the client id of HTTP Basic credentials as the toolkit reads it; None: malformed."""
    try:
        text = base64.b64decode(basic).decode()
    except ValueError:
        return None
    client_id, separator, secret = map(unquote_plus, text.partition(":"))
    # PostgreSQL rejects NUL characters, as do some hashers.
    return client_id if separator and "\0" not in client_id + secret else None
