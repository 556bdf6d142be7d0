"""Users named in `Authorization`, without a database."""

from __future__ import annotations

from django_mcp.auth.authenticators import Authenticator
from django_mcp.auth.principal import AuthInfo, Principal
from django_mcp.server.exchange.exchange import Exchange

KNOWN = ("Bearer ann", "Bearer bob")


class Named(Authenticator):
    kind = "named"

    async def authenticate(self, exchange: Exchange) -> Principal | None:
        told = exchange.headers.get("authorization") if exchange.headers is not None else None
        if told not in KNOWN:
            return None
        info = AuthInfo(subject=told, authenticator="named", has_all_scopes=True)
        return Principal(key=told, auth=info)

    def challenge(self, exchange: Exchange) -> str | None:
        return "Bearer"
