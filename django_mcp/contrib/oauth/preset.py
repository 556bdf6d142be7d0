"""Settings of django-oauth-toolkit for MCP clients.

Settings modules import it, so it imports nothing that needs settings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.utils.translation import gettext_lazy as _

BASE_SCOPE = "mcp"
"""The scope of a site whose tools name none: a client has to request one."""

HOUR_S = 3600
DAY_S = 24 * HOUR_S

_PARTS = "django_mcp.contrib.oauth"

# Claude uses its document only where "none" is offered.
_METHODS = ("none", "client_secret_post", "client_secret_basic", "private_key_jwt")


class RedirectSchemes:
    """The schemes of redirects: https, http, and those of `DJANGO_MCP["OAUTH_APP_REDIRECTS"]`.

    They are read when they are used, since this is a part of the settings itself.
    """

    def __iter__(self) -> Iterator[str]:
        yield from ("https", "http")
        from django_mcp.conf import settings

        yield from dict.fromkeys(entry.partition(":")[0] for entry in settings.OAUTH_APP_REDIRECTS)

    def __repr__(self) -> str:
        return "RedirectSchemes()"


def oauth2_provider_settings(
    scopes: Mapping[str, Any] | None = None, **overrides: Any
) -> dict[str, Any]:
    """Return a value for `OAUTH2_PROVIDER`.

    Args:
        scopes: descriptions of the scopes for the consent page; texts may be lazy. Scopes of tools
            are added if they are missing here.
        overrides: other settings of django-oauth-toolkit. `DCR_ENABLED=False` disables dynamic
            registration, `CIMD_ENABLED=False` client-id metadata documents.

    Raises:
        ImproperlyConfigured: django-oauth-toolkit is not installed, or the scopes have no descriptions.
    """
    if scopes is not None and not isinstance(scopes, Mapping):
        raise ImproperlyConfigured(
            "oauth2_provider_settings() takes a dict from scopes to their descriptions, such as "
            "{'orders:read': 'See your orders'}."
        )
    if find_spec("oauth2_provider") is None:
        raise ImproperlyConfigured(
            "django_mcp.contrib.oauth needs django-oauth-toolkit: "
            "pip install 'django-mcp-endpoints[oauth]'"
        )
    settings: dict[str, Any] = {
        "SCOPES": dict(scopes) if scopes else {BASE_SCOPE: _("Use this site's tools in your name")},
        "SCOPES_BACKEND_CLASS": f"{_PARTS}.scopes.ToolScopes",
        "OAUTH2_BACKEND_CLASS": f"{_PARTS}.backend.Backend",
        "OAUTH2_VALIDATOR_CLASS": f"{_PARTS}.validator.MCPOAuth2Validator",
        # Codes and tokens
        "AUTHORIZATION_CODE_EXPIRE_SECONDS": 60,
        "ACCESS_TOKEN_EXPIRE_SECONDS": HOUR_S,
        "REFRESH_TOKEN_EXPIRE_SECONDS": 30 * DAY_S,
        "ROTATE_REFRESH_TOKEN": True,
        "REFRESH_TOKEN_REUSE_PROTECTION": True,
        "PKCE_REQUIRED": True,
        # Programs on users' machines listen on a temporary port (RFC 8252 section 7.3).
        "ALLOWED_REDIRECT_URI_SCHEMES": RedirectSchemes(),
        "ALLOW_LOCALHOST_LOOPBACK": True,
        "ALLOW_URI_WILDCARDS": False,
        # Registration of clients
        "CLIENT_SECRET_GENERATOR_CLASS": f"{_PARTS}.client_secrets.ClientSecretGenerator",
        "CIMD_ENABLED": True,
        "CIMD_METADATA_FETCHER": f"{_PARTS}.fetcher.BoundedMetadataFetcher",
        "CIMD_MAX_DOCUMENT_SIZE": 10 * 1024,
        "CIMD_FETCH_TIMEOUT_SECONDS": 5,
        "DCR_ENABLED": True,
        "DCR_REGISTRATION_PERMISSION_CLASSES": ["oauth2_provider.dcr.AllowAllDCRPermission"],
        # Metadata
        "OAUTH2_RESPONSE_TYPES_SUPPORTED": ["code"],
        "OAUTH2_GRANT_TYPES_SUPPORTED": ["authorization_code", "refresh_token"],
        "OAUTH2_TOKEN_ENDPOINT_AUTH_METHODS_SUPPORTED": [*_METHODS],
        "OIDC_RESPONSE_TYPES_SUPPORTED": ["code"],
        "OIDC_TOKEN_ENDPOINT_AUTH_METHODS_SUPPORTED": [*_METHODS],
        **{f"COMPLIANT_BCP_RFC9700_{gate}": True for gate in _GATES},
    }
    settings.update(overrides)
    return settings


_GATES = (
    "IMPLICIT_GRANT",
    "PASSWORD_GRANT",
    "PKCE_METHOD",
    "ACCESS_TOKEN_TRANSPORT",
    "AUTHZ_RESPONSE_ISS",
    "TOKEN_STORAGE",
    "REFRESH_TOKEN",
    "REDIRECT_URI_MATCHING",
    "PKCE_REQUIRED",
)
"""The rules of RFC 9700; redirects over http are only allowed to loopback addresses."""
