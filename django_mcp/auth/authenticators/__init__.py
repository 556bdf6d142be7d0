"""The authenticators that a site can name, and their base classes.

Importing them loads no models, so that settings can do it.
"""

from __future__ import annotations

from django_mcp.auth.authenticator import Authenticator, BearerAuthenticator
from django_mcp.auth.authenticators.api_keys import APIKeyAuthenticator
from django_mcp.auth.authenticators.callables import CallableAuthenticator
from django_mcp.auth.authenticators.sessions import SessionAuthenticator

__all__ = [
    "APIKeyAuthenticator",
    "Authenticator",
    "BearerAuthenticator",
    "CallableAuthenticator",
    "SessionAuthenticator",
]
