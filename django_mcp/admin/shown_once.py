"""A text that one page shows once, after the redirect from the form that made it.

The text waits in the user's session, masked by random bytes that a cookie of this browser has: neither who reads
the sessions nor who reads the cookies learns it, and no URL has it.
"""

from __future__ import annotations

import secrets
from typing import Final

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.views.decorators.debug import sensitive_variables

NAME: Final = "django_mcp_shown_once"
"""Of the cookie, and of the value in the session."""

WAITS_S = 300


@sensitive_variables()
def keep(request: HttpRequest, response: HttpResponse, text: str, path: str) -> None:
    """Keep a text for the page at `path`, in place of another that waits."""
    shown = text.encode()
    mask = secrets.token_bytes(len(shown))
    request.session[NAME] = [path, _mix(shown, mask).hex()]
    response.set_cookie(
        NAME,
        mask.hex(),
        max_age=WAITS_S,
        path=path,
        secure=request.is_secure() or settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Strict",
    )


@sensitive_variables()
def take(request: HttpRequest) -> str | None:
    """Return the text that waits for the page of this request, and forget it; None: there is none."""
    path, masked = request.session.get(NAME, ("", ""))
    if path != request.path:
        return None
    del request.session[NAME]
    try:
        mask = bytes.fromhex(request.COOKIES.get(NAME, ""))
        return _mix(bytes.fromhex(masked), mask).decode()
    except ValueError:
        return None


def _mix(one: bytes, other: bytes) -> bytes:
    return bytes(left ^ right for left, right in zip(one, other, strict=True))
