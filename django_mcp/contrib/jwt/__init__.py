"""JSON Web Tokens of external issuers. Needs the extra `jwt`; settings can import it."""

from __future__ import annotations

from django_mcp.contrib.jwt.authenticator import JWTAuthenticator

__all__ = ["JWTAuthenticator"]
