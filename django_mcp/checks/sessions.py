"""System checks of sessions."""

from __future__ import annotations

from typing import Any

from django.conf import settings as site_settings
from django.core.checks import CheckMessage, Error, register
from django.core.exceptions import ImproperlyConfigured

from django_mcp.conf import settings

__all__: list[str] = []


@register("django_mcp")
def check_session_data(**_kwargs: Any) -> list[CheckMessage]:
    """E008: data of sessions would be in cookies, which MCP clients do not have."""
    try:
        data = settings.SESSION_DATA
    except ImproperlyConfigured:
        return []
    if data != "session_engine" or not site_settings.SESSION_ENGINE.endswith(".signed_cookies"):
        return []
    return [
        Error(
            "DJANGO_MCP['SESSION_DATA'] is 'session_engine', and SESSION_ENGINE keeps sessions in "
            "cookies: ctx.session would forget everything.",
            hint="Take a SESSION_ENGINE that keeps them on the server, or SESSION_DATA 'model'.",
            id="django_mcp.E008",
        )
    ]
