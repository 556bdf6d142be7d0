"""Challenges: responses 401 and 403 that name the credentials a client needs.

Sources: RFC 6750 section 3, RFC 9728 section 5.1, 2025-11-25 and 2026-07-28 basic/authorization.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from django.core.exceptions import DisallowedHost

from django_mcp.auth.scopes import NOT_OF_RESOURCES
from django_mcp.conf import settings
from django_mcp.protocol.errors import INVALID_REQUEST, Refusal
from django_mcp.protocol.json import present
from django_mcp.server.exchange.exchange import Exchange, Reply, refusal_reply

_UNQUOTED = re.compile(r"[^ !#-\[\]-~]")
"""What RFC 6750 does not take in a parameter: all but printable ASCII, quotes and backslashes."""


def unauthorized(
    exchange: Exchange,
    reason: str = "Authentication is needed",
    *,
    error: str | None = None,
    status: int = 401,
) -> Reply:
    """Return the refusal of an unauthenticated request.

    Args:
        reason: one sentence, without anything of the credentials.
        error: the code of RFC 6750 section 3.1; None when no credentials were presented.
        status: 401; another one if no credentials would help, and then there is no challenge.
    """
    headers: tuple[tuple[bytes, bytes], ...]
    if status not in (400, 401) and error is None:
        headers = ((b"retry-after", b"2"),) if status == 503 else ()
    else:
        headers = tuple(
            (b"www-authenticate", text.encode("latin-1", "replace"))
            for text in _challenges(exchange, error, reason if error else None)
        )
    return refusal_reply(Refusal(code=INVALID_REQUEST, message=reason, headers=headers), status)


def insufficient_scope(exchange: Exchange, scopes: Iterable[str]) -> Refusal:
    """Return the refusal of an operation whose scopes the token lacks.

    A client that is not authenticated gets status 401.

    Args:
        scopes: all scopes of the operation, also those that the token has.
    """
    wanted = _requestable(scopes)
    names = " ".join(wanted)
    is_known = bool(exchange.caller.principal.is_authenticated)
    error = "insufficient_scope" if is_known else None
    reason = f"This needs a token with the scopes: {names}"
    bearer = _bearer(exchange, error, reason if error else None, wanted)
    return Refusal(
        code=INVALID_REQUEST,
        message=reason,
        data={"scopes": list(wanted)},
        status=403 if is_known else 401,
        headers=((b"www-authenticate", bearer.encode("latin-1", "replace")),),
    )


def _challenges(exchange: Exchange, error: str | None, description: str | None) -> list[str]:
    authentication = exchange.caller.authentication
    asked = (
        []
        if authentication is None
        else [authenticator.challenge(exchange) for authenticator in authentication.authenticators]
    )
    # Each once. A 401 must have one (RFC 9110 section 15.5.2).
    challenges = list(dict.fromkeys(text for text in asked if text)) or ["Bearer"]
    if "Bearer" in challenges:
        required = () if authentication is None else authentication.required_scopes
        # Without an authorization server a client cannot request them.
        base = settings.OAUTH_BASE_SCOPES if _metadata_url_of(exchange) else None
        wanted = _requestable((*required, *(base or ())))
        bearer = _bearer(exchange, error, description, wanted)
        challenges = [bearer if text == "Bearer" else text for text in challenges]
    return challenges


def _bearer(
    exchange: Exchange, error: str | None, description: str | None, scopes: Iterable[str]
) -> str:
    authentication = exchange.caller.authentication
    challenge = present(
        realm="mcp" if authentication is None else authentication.server.options.name,
        error=error,
        error_description=description,
        scope=" ".join(scopes) or None,
        resource_metadata=_metadata_url_of(exchange),
    )
    return "Bearer " + ", ".join(
        f'{name}="{_UNQUOTED.sub("?", value)}"' for name, value in challenge.items()
    )


def _metadata_url_of(exchange: Exchange) -> str | None:
    """Return the URL of the resource metadata; None if the server accepts no OAuth tokens."""
    authentication = exchange.caller.authentication
    if authentication is None or exchange.caller.build_request is None:
        return None
    # Loads Django's URLs, which importing a server must not.
    from django_mcp.auth.addresses import metadata_url_of

    request = exchange.caller.build_request()
    try:
        # Built from settings or from an allowed host, never from an unchecked header.
        takes_tokens = any(
            authenticator.find_authorization_servers(request)
            for authenticator in authentication.authenticators
        )
        return metadata_url_of(request) if takes_tokens else None
    except DisallowedHost:
        return None


def _requestable(scopes: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(scope for scope in scopes if scope not in NOT_OF_RESOURCES))
