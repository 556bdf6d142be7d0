"""Whether what was authenticated a while ago still holds: asked for what stays open or goes on."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from django_mcp.auth.principal import CredentialSource, Principal
from django_mcp.handlers.threads import lease_for_authentication

__all__ = ["find_withdrawn", "recheck"]


async def recheck(principals: Iterable[Any]) -> set[Principal]:
    """Return those principals whose credentials no longer hold.

    A user was deactivated, a token or key expired or was revoked, a session of the site ended. It
    costs one query per kind of credentials, however many principals there are.
    """
    ended: set[Principal] = set()
    left: list[Principal] = []
    now = time.time()
    for principal in principals:
        if not isinstance(principal, Principal):
            # Nobody's credentials cannot end.
            continue
        expires_at = principal.auth.expires_at if principal.auth is not None else None
        if expires_at is not None and expires_at <= now:
            ended.add(principal)
        else:
            left.append(principal)
    for source, theirs in _by_source(left):
        with lease_for_authentication():
            ended |= await source.find_ended(theirs)
    return ended


async def find_withdrawn(principals: Iterable[Any]) -> set[Principal]:
    """Return those principals who may act no longer, whatever credentials their client has by now.

    Asked for tasks: one goes on while its client refreshes its tokens. It costs what `recheck` does.
    """
    withdrawn: set[Principal] = set()
    for source, theirs in _by_source(each for each in principals if isinstance(each, Principal)):
        with lease_for_authentication():
            withdrawn |= await source.find_withdrawn(theirs)
    return withdrawn


def _by_source(
    principals: Iterable[Principal],
) -> Iterable[tuple[CredentialSource, list[Principal]]]:
    found: dict[CredentialSource, list[Principal]] = {}
    for principal in principals:
        if principal.source is not None:
            found.setdefault(principal.source, []).append(principal)
    return found.items()
