"""OAuth for MCP clients: django-oauth-toolkit, configured for the protocol.

Importing it loads no models, so that settings can use its `oauth2_provider_settings`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django_mcp.contrib.oauth.preset import oauth2_provider_settings

if TYPE_CHECKING:
    from django_mcp.contrib.oauth.authenticator import OAuthAuthenticator

__all__ = ["OAuthAuthenticator", "oauth2_provider_settings"]


def __getattr__(name: str) -> Any:
    if name != "OAuthAuthenticator":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # It reads settings, which are still being made when the other name is imported.
    from django_mcp.contrib.oauth.authenticator import OAuthAuthenticator

    return OAuthAuthenticator
