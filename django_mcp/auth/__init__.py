"""Who is asking: principals, the authenticators that find them, and the challenges to the others.

Importing it loads no models, so that settings and servers can name what is in it.
"""

from __future__ import annotations

from django_mcp.auth.authenticators.base import Authenticator, Rejection
from django_mcp.auth.principal import AuthInfo, Principal

__all__ = ["AuthInfo", "Authenticator", "Principal", "Rejection"]
