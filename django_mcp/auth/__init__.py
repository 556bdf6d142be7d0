"""Who is asking: principals, the authenticators that find them, and the challenges to the others.

Names are loaded when first used, and importing it loads no models: settings can name what is in it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from django_mcp.auth.authenticator import Authenticator as Authenticator
    from django_mcp.auth.authenticator import Rejection as Rejection
    from django_mcp.auth.authenticators.api_keys import APIKeyAuthenticator as APIKeyAuthenticator
    from django_mcp.auth.authenticators.bearer import BearerAuthenticator as BearerAuthenticator
    from django_mcp.auth.authenticators.callables import (
        CallableAuthenticator as CallableAuthenticator,
    )
    from django_mcp.auth.authenticators.drf import DRFAuthenticator as DRFAuthenticator
    from django_mcp.auth.authenticators.introspection import (
        IntrospectionAuthenticator as IntrospectionAuthenticator,
    )
    from django_mcp.auth.authenticators.jwt import JWTAuthenticator as JWTAuthenticator
    from django_mcp.auth.authenticators.sessions import SessionAuthenticator as SessionAuthenticator
    from django_mcp.auth.principal import AuthInfo as AuthInfo
    from django_mcp.auth.principal import Principal as Principal

_AUTHENTICATORS = "django_mcp.auth.authenticators"
_HOMES = {
    "APIKeyAuthenticator": f"{_AUTHENTICATORS}.api_keys",
    "AuthInfo": "django_mcp.auth.principal",
    "Authenticator": "django_mcp.auth.authenticator",
    "BearerAuthenticator": f"{_AUTHENTICATORS}.bearer",
    "CallableAuthenticator": f"{_AUTHENTICATORS}.callables",
    "DRFAuthenticator": f"{_AUTHENTICATORS}.drf",
    "IntrospectionAuthenticator": f"{_AUTHENTICATORS}.introspection",
    "JWTAuthenticator": f"{_AUTHENTICATORS}.jwt",
    "Principal": "django_mcp.auth.principal",
    "Rejection": "django_mcp.auth.authenticator",
    "SessionAuthenticator": f"{_AUTHENTICATORS}.sessions",
}

__all__ = [
    "APIKeyAuthenticator",
    "AuthInfo",
    "Authenticator",
    "BearerAuthenticator",
    "CallableAuthenticator",
    "DRFAuthenticator",
    "IntrospectionAuthenticator",
    "JWTAuthenticator",
    "Principal",
    "Rejection",
    "SessionAuthenticator",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value
