"""Authentication: authenticators, the principals that they find, and challenges for other callers.

Importing it loads no models, so settings can name what is in it. Names are imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from django_mcp.auth.authenticator import Authenticator
    from django_mcp.auth.authenticators.api_keys import APIKeyAuthenticator
    from django_mcp.auth.authenticators.bearer import BearerAuthenticator
    from django_mcp.auth.authenticators.callables import CallableAuthenticator
    from django_mcp.auth.authenticators.introspection import IntrospectionAuthenticator
    from django_mcp.auth.authenticators.sessions import SessionAuthenticator
    from django_mcp.auth.principal import AuthInfo, Principal, Rejection

__all__ = [
    "APIKeyAuthenticator",
    "AuthInfo",
    "Authenticator",
    "BearerAuthenticator",
    "CallableAuthenticator",
    "IntrospectionAuthenticator",
    "Principal",
    "Rejection",
    "SessionAuthenticator",
]

_HOMES = {
    "APIKeyAuthenticator": "authenticators.api_keys",
    "AuthInfo": "principal",
    "Authenticator": "authenticator",
    "BearerAuthenticator": "authenticators.bearer",
    "CallableAuthenticator": "authenticators.callables",
    "IntrospectionAuthenticator": "authenticators.introspection",
    "Principal": "principal",
    "Rejection": "principal",
    "SessionAuthenticator": "authenticators.sessions",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
