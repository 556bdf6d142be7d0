"""An authenticator that awaits the ORM."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import Group

from django_mcp.auth.authenticators import Authenticator
from django_mcp.auth.principal import Principal, Rejection


class Counted(Authenticator):
    """Accepts `Bearer NAME` for a group of that name in the database."""

    kind = "counted"

    async def authenticate(self, exchange: Any) -> Principal | Rejection | None:
        scheme, _, name = (exchange.headers.get("authorization") or "").partition(" ")
        if scheme != "Bearer":
            return None
        group = await Group.objects.filter(name=name).afirst()
        return Rejection(reason="unknown") if group is None else Principal(key=f"counted:{name}")
