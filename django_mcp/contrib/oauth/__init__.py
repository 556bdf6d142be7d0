"""OAuth for MCP clients: django-oauth-toolkit, configured for the protocol.

Importing it loads no models, so that settings can use its `oauth2_provider_settings`.
"""

from __future__ import annotations

from django_mcp.contrib.oauth.authenticator import OAuthAuthenticator
from django_mcp.contrib.oauth.preset import oauth2_provider_settings

__all__ = ["OAuthAuthenticator", "oauth2_provider_settings"]
