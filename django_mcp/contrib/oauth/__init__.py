"""OAuth for MCP clients: django-oauth-toolkit, set up as the protocol wants it.

Importing it loads no models, so that settings can take `oauth2_provider_settings` from it.
"""

from __future__ import annotations

from django_mcp.contrib.oauth.preset import oauth2_provider_settings

__all__ = ["oauth2_provider_settings"]
