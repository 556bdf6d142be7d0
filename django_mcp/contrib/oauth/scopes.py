"""The scopes of a site, from its settings, its tools, and `SCOPE_IMPLIES`, and those that a request means."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.utils.translation import gettext as _
from oauth2_provider.scopes import BaseScopes
from oauth2_provider.settings import oauth2_settings

from django_mcp.auth.scopes import NOT_OF_RESOURCES, named_scopes
from django_mcp.conf import settings
from django_mcp.servers import all_servers

OF_IDENTITY = frozenset({"openid", "email", "profile"})
"""Scopes of OpenID Connect, which some clients request from every server."""


class ToolScopes(BaseScopes):
    """Scopes of `OAUTH2_PROVIDER["SCOPES"]`, of `scopes=` on every server, and of `SCOPE_IMPLIES`.

    `offline_access` is among them where clients get refresh tokens. It allows nothing else.
    """

    def get_all_scopes(self) -> Mapping[str, Any]:
        described: Mapping[str, Any] = oauth2_settings.SCOPES
        others = [*named_scopes(all_servers()), *(settings.SCOPE_IMPLIES or ())]
        scopes = {**dict.fromkeys(others, _("No description is given.")), **described}
        if "refresh_token" in oauth2_settings.OAUTH2_GRANT_TYPES_SUPPORTED:
            for name in NOT_OF_RESOURCES:
                scopes.setdefault(name, _("Stay signed in, without asking you again"))
        return scopes

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
        if chosen is None:
            return [name for name in available if name not in NOT_OF_RESOURCES]
        return [name for name in chosen if name in available]


def find_requested(scopes: Iterable[str], available: Iterable[str]) -> list[str]:
    """Return which scopes a request means, each once; none if it requests none that the site can give.

    Those of OpenID Connect and `offline_access` are left out on a site that does not have them. An empty
    parameter counts as absent (RFC 6749 section 3.1). An unknown scope stays, so that it is refused.
    """
    ignored = {"", *(OF_IDENTITY | NOT_OF_RESOURCES).difference(available)}
    return [name for name in dict.fromkeys(scopes) if name not in ignored]
