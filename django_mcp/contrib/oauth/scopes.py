"""The scopes of a site: from its settings, its tools, and `SCOPE_IMPLIES`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _
from oauth2_provider.scopes import BaseScopes
from oauth2_provider.settings import oauth2_settings

from django_mcp.auth.scopes import named_scopes
from django_mcp.conf import settings
from django_mcp.servers import all_servers


class ToolScopes(BaseScopes):
    """Scopes of `OAUTH2_PROVIDER["SCOPES"]`, of `scopes=` on every server, and of `SCOPE_IMPLIES`."""

    def get_all_scopes(self) -> Mapping[str, Any]:
        described: Mapping[str, Any] = oauth2_settings.SCOPES
        others = [*named_scopes(all_servers()), *(settings.SCOPE_IMPLIES or ())]
        return {**dict.fromkeys(others, _("No description is given.")), **described}

    def get_available_scopes(
        self, application: Any = None, request: Any = None, *args: Any, **kwargs: Any
    ) -> list[str]:
        return list(self.get_all_scopes())

    def get_default_scopes(
        self, application: Any = None, request: Any = None, *args: Any, **kwargs: Any
    ) -> list[str]:
        """Return the scopes of a client that requests none."""
        chosen = settings.OAUTH_BASE_SCOPES
        available = self.get_available_scopes()
        return available if chosen is None else [name for name in chosen if name in available]
