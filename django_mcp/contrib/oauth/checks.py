"""System checks of the settings of django-oauth-toolkit, for MCP clients and for security.

`docs/reference/checks.md` lists them. `site_checks` checks URLs and servers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.conf import settings as site_settings
from django.core.checks import CheckMessage, Error, Warning, register  # noqa: A004
from oauth2_provider.settings import DEFAULTS, oauth2_settings

from django_mcp.conf import find_problems
from django_mcp.contrib.oauth import site_checks
from django_mcp.contrib.oauth.validator import MCPOAuth2Validator
from django_mcp.endpoints.mounts import has_urlconf
from django_mcp.registry.problems import did_you_mean

__all__: list[str] = []


@dataclass(frozen=True, kw_only=True, slots=True)
class _Rule:
    """A rule for the toolkit's settings, which `is_broken` checks."""

    id: str
    is_broken: Callable[[Any], bool]
    message: str
    key: str
    right: str
    is_error: bool = True

    def find(self) -> list[CheckMessage]:
        if not self.is_broken(oauth2_settings):
            return []
        kind = Error if self.is_error else Warning
        hint = (
            f"Set OAUTH2_PROVIDER[{self.key!r}] to {self.right}, as "
            "django_mcp.contrib.oauth.oauth2_provider_settings() does."
        )
        return [kind(self.message, hint=hint, id=self.id)]


_ASK_ANYBODY = "oauth2_provider.dcr.AllowAllDCRPermission"


def _asks_for_login(settings: Any) -> bool:
    if not settings.DCR_ENABLED:
        return False
    names = {cls.__name__ for cls in settings.DCR_REGISTRATION_PERMISSION_CLASSES or ()}
    return not names or "IsAuthenticatedDCRPermission" in names


_RULES = (
    _Rule(
        id="django_mcp.O001",
        is_broken=lambda settings: not settings.PKCE_REQUIRED,
        message="PKCE is not required, so a stolen authorization code is enough for a token.",
        key="PKCE_REQUIRED",
        right="True",
    ),
    _Rule(
        id="django_mcp.O002",
        is_broken=lambda settings: not settings.COMPLIANT_BCP_RFC9700_PKCE_METHOD,
        message="PKCE's method 'plain' is accepted; the protocol wants S256.",
        key="COMPLIANT_BCP_RFC9700_PKCE_METHOD",
        right="True",
    ),
    _Rule(
        id="django_mcp.O003",
        is_broken=lambda settings: (
            "authorization_code" not in settings.OAUTH2_GRANT_TYPES_SUPPORTED
            or "code" not in settings.OAUTH2_RESPONSE_TYPES_SUPPORTED
        ),
        message="The metadata does not offer the authorization code grant, the only one that clients use.",
        key="OAUTH2_GRANT_TYPES_SUPPORTED",
        right="['authorization_code', 'refresh_token'], OAUTH2_RESPONSE_TYPES_SUPPORTED to ['code']",
    ),
    _Rule(
        id="django_mcp.O004",
        is_broken=lambda settings: "refresh_token" not in settings.OAUTH2_GRANT_TYPES_SUPPORTED,
        message="The metadata does not offer refresh tokens: people sign in again whenever a token expires.",
        key="OAUTH2_GRANT_TYPES_SUPPORTED",
        right="['authorization_code', 'refresh_token']",
        is_error=False,
    ),
    _Rule(
        id="django_mcp.O005",
        is_broken=lambda settings: (
            not settings.ROTATE_REFRESH_TOKEN or not settings.REFRESH_TOKEN_REUSE_PROTECTION
        ),
        message="A stolen refresh token keeps working: it is not exchanged at each use, or its second use "
        "ends nothing.",
        key="ROTATE_REFRESH_TOKEN",
        right="True, and REFRESH_TOKEN_REUSE_PROTECTION as well",
    ),
    _Rule(
        id="django_mcp.O006",
        is_broken=lambda settings: (
            "none" not in settings.OAUTH2_TOKEN_ENDPOINT_AUTH_METHODS_SUPPORTED
        ),
        message="The metadata does not offer clients without a secret, and most MCP clients have none.",
        key="OAUTH2_TOKEN_ENDPOINT_AUTH_METHODS_SUPPORTED",
        right="a list with 'none'",
    ),
    _Rule(
        id="django_mcp.O007",
        is_broken=lambda settings: not settings.CIMD_ENABLED and not settings.DCR_ENABLED,
        message="Neither client-id metadata documents nor dynamic registration are on: each client has to "
        "be registered by hand.",
        key="CIMD_ENABLED",
        right="True",
        is_error=False,
    ),
    _Rule(
        id="django_mcp.O008",
        is_broken=_asks_for_login,
        message="Dynamic registration asks for a login, which a program that registers itself has not.",
        key="DCR_REGISTRATION_PERMISSION_CLASSES",
        right=f"[{_ASK_ANYBODY!r}], or DCR_ENABLED to False",
    ),
    _Rule(
        id="django_mcp.O009",
        is_broken=lambda settings: "https" not in settings.ALLOWED_REDIRECT_URI_SCHEMES,
        message="No redirect over https is allowed, so no client on the web can be given an answer.",
        key="ALLOWED_REDIRECT_URI_SCHEMES",
        right="['https', 'http'] and the schemes of OAUTH_APP_REDIRECTS",
    ),
    _Rule(
        id="django_mcp.O010",
        is_broken=lambda settings: (
            "http" not in settings.ALLOWED_REDIRECT_URI_SCHEMES
            or not settings.ALLOW_LOCALHOST_LOOPBACK
        ),
        message="Programs on people's own machines cannot be given an answer: they listen on an "
        "ephemeral port on 127.0.0.1 or localhost.",
        key="ALLOWED_REDIRECT_URI_SCHEMES",
        right="['https', 'http'] and the schemes of OAUTH_APP_REDIRECTS, and ALLOW_LOCALHOST_LOOPBACK to True",
        is_error=False,
    ),
    _Rule(
        id="django_mcp.O011",
        is_broken=lambda settings: settings.ALLOW_URI_WILDCARDS,
        message="Redirects are compared by wildcard, so a code may go to a host that nobody registered.",
        key="ALLOW_URI_WILDCARDS",
        right="False",
    ),
    _Rule(
        id="django_mcp.O012",
        is_broken=lambda settings: not settings.COMPLIANT_BCP_RFC9700_AUTHZ_RESPONSE_ISS,
        message="Authorization responses do not name their issuer (RFC 9207), so clients of several "
        "servers can be mixed up.",
        key="COMPLIANT_BCP_RFC9700_AUTHZ_RESPONSE_ISS",
        right="True",
        is_error=False,
    ),
    _Rule(
        id="django_mcp.O013",
        is_broken=lambda settings: not settings.COMPLIANT_BCP_RFC9700_TOKEN_STORAGE,
        message="Tokens lie in the database as they are used.",
        key="COMPLIANT_BCP_RFC9700_TOKEN_STORAGE",
        right="True",
        is_error=False,
    ),
    _Rule(
        id="django_mcp.O014",
        is_broken=lambda settings: (
            not issubclass(settings.OAUTH2_VALIDATOR_CLASS, MCPOAuth2Validator)
        ),
        message="The validator allows redirects over http to other machines, and a code that is used "
        "twice ends nothing.",
        key="OAUTH2_VALIDATOR_CLASS",
        right="'django_mcp.contrib.oauth.validator.MCPOAuth2Validator' or a subclass of it",
    ),
)


@register("django_mcp")
def check_toolkit(**_kwargs: Any) -> list[CheckMessage]:
    """O001 to O014, O025: settings of django-oauth-toolkit."""
    return [message for rule in _RULES for message in rule.find()] + _find_unknown()


def _find_unknown() -> list[CheckMessage]:
    """O025: `OAUTH2_PROVIDER` has a key that is no setting of django-oauth-toolkit."""
    return [
        Warning(
            f"OAUTH2_PROVIDER has a key {key!r}, which is no setting of django-oauth-toolkit.",
            hint=did_you_mean(key, DEFAULTS).strip() or "Correct it, or leave it out.",
            id="django_mcp.O025",
        )
        for key in getattr(site_settings, "OAUTH2_PROVIDER", {})
        if key not in DEFAULTS
    ]


@register("django_mcp")
def check_site(**_kwargs: Any) -> list[CheckMessage]:
    """O015 to O021: settings of the site."""
    if any(find_problems(getattr(site_settings, "DJANGO_MCP", {}))):
        # E001 and E002 report it; until then the settings cannot be read.
        return []
    return [
        *site_checks.find_scope_problems(),
        *(site_checks.find_url_problems() if has_urlconf() else ()),
        *(site_checks.find_login_problems() if has_urlconf() else ()),
        *site_checks.find_address_problems(),
    ]
