"""Whether what was authenticated a while ago still holds: asked for streams that stay open."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from django_mcp.auth.authenticators.base import Authenticator
from django_mcp.auth.principal import Principal

__all__ = ["recheck"]


async def recheck(principals: Iterable[Any]) -> set[Principal]:
    """Return those principals whose credentials no longer hold.

    A user was deactivated, a token or key expired or was revoked, a session of the site ended. It
    costs one query per kind of credentials, however many principals there are.
    """
    ended: set[Principal] = set()
    by_source: dict[Authenticator, list[Principal]] = {}
    now = time.time()
    for principal in principals:
        if not isinstance(principal, Principal):
            # Nobody's credentials cannot end.
            continue
        expires_at = principal.auth.expires_at if principal.auth is not None else None
        if expires_at is not None and expires_at <= now:
            ended.add(principal)
        elif principal.source is not None:
            by_source.setdefault(principal.source, []).append(principal)
    for source, theirs in by_source.items():
        ended |= await source.find_ended(theirs)
    return ended
