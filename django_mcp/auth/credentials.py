"""Read credentials from headers, and check their form.

Sources: RFC 9110 section 11.6.2, RFC 6750 section 2.1. Tokens in the query string do not count
(2025-03-26 and later, basic/authorization "Access Token Usage").
"""

from __future__ import annotations

import re
from typing import Final

from django_mcp.auth.principal import Rejection
from django_mcp.protocol.headers import Headers

AUTHORIZATION: Final = "authorization"
API_KEY: Final = "x-api-key"
CREDENTIAL_HEADERS: Final = (AUTHORIZATION, API_KEY)
STRIPPED_HEADERS: Final = (*CREDENTIAL_HEADERS, "proxy-authorization")
"""Headers that handlers do not get. A proxy may add its own credentials."""

KEY_START: Final = "mcp_"
"""The prefix of API keys, by which other authenticators ignore them."""

MAX_CREDENTIAL_LENGTH: Final = 16 * 1024
"""Characters of one credential header; a token may have some thousands. Our own limit."""

_VISIBLE = re.compile(r"[!-~](?:[ -~]*[!-~])?")
_BEARER = re.compile(r"bearer +([a-z0-9._~+/-]+=*)", re.IGNORECASE)


def find_fault(headers: Headers) -> Rejection | None:
    """Return the rejection of malformed credential headers; None if they are well-formed.

    The status is 400 (2025-03-26 and later, basic/authorization "Error Handling").
    """
    for name in CREDENTIAL_HEADERS:
        value = headers.get(name)
        if value is None:
            continue
        if headers.is_repeated(name):
            return _malformed(name, "is there more than once")
        if len(value) > MAX_CREDENTIAL_LENGTH:
            return Rejection(reason=f"The header {name.title()} is too long")
        if not _VISIBLE.fullmatch(value):
            return _malformed(name, "is empty, or has characters other than visible ASCII")
        if name == AUTHORIZATION and _is_bearer(value) and not _BEARER.fullmatch(value):
            return _malformed(name, "must be: Bearer TOKEN")
    return None


def has_authorization(headers: Headers) -> bool:
    """Return whether there is an `Authorization` header."""
    return headers.get(AUTHORIZATION) is not None


def find_bearer_token(headers: Headers | None) -> str | None:
    """Return the bearer token of well-formed headers, if there is one."""
    value = headers.get(AUTHORIZATION) if headers is not None else None
    if value is None or not _is_bearer(value):
        return None
    return value.partition(" ")[2].lstrip(" ")


def _is_bearer(value: str) -> bool:
    return value.partition(" ")[0].lower() == "bearer"


def _malformed(name: str, how: str) -> Rejection:
    return Rejection(reason=f"The header {name.title()} {how}", error="invalid_request", status=400)
