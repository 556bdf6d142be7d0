"""System checks of authorization servers. `docs/reference/checks.md` lists them."""

from __future__ import annotations

from typing import Any

from django.core.checks import CheckMessage, Error, Warning, register  # noqa: A004
from django.core.exceptions import ImproperlyConfigured

from django_mcp.auth.addresses import METADATA_PATH
from django_mcp.endpoints.well_known import (
    NAMING_REMEDY,
    REMEDY,
    find_undescribed,
    find_unnamed,
    find_unreachable,
)

__all__: list[str] = []


@register("django_mcp")
def check_authorization_servers(**_kwargs: Any) -> list[CheckMessage]:
    """E010, O022, W012: clients cannot find out where to get tokens."""
    try:
        unnamed, unreachable, undescribed = find_unnamed(), find_unreachable(), find_undescribed()
    except ImproperlyConfigured:
        # Another check reports a wrong setting or authenticator.
        return []
    return (
        [
            Error(
                f"The MCP server {server.public_name!r} takes bearer tokens, and "
                f"{type(authenticator).__name__} names no authorization server, so clients cannot get one.",
                hint=NAMING_REMEDY,
                id="django_mcp.E010",
            )
            for server, authenticator in unnamed
        ]
        + [
            Error(
                f"The MCP server {server.public_name!r} takes tokens of this site's authorization "
                "server, and there is none.",
                hint=REMEDY,
                id="django_mcp.O022",
            )
            for server in unreachable
        ]
        + [
            Warning(
                f"The MCP server {server.public_name!r} takes tokens of another issuer, and nothing at "
                f"{METADATA_PATH} tells clients of which.",
                hint='Write path("", include("django_mcp.urls")) into the root URLconf.',
                id="django_mcp.W012",
            )
            for server in undescribed
        ]
    )
