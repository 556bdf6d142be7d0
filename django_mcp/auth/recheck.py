"""Check whether principals that were authenticated earlier may still act."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from django_mcp.auth.principal import Principal
from django_mcp.execution.threads import lease_for_authentication


async def recheck(principals: Iterable[Any], *, for_tasks: bool = False) -> set[Principal]:
    """Return those principals whose credentials no longer hold.

    A user was deactivated, a token or key expired or was revoked, a session of the site ended. It
    costs one query per kind of credentials, however many principals there are.

    Args:
        for_tasks: return only those that may not act any more with any credentials. A task goes on
            while its client refreshes its tokens.
    """
    ended: set[Principal] = set()
    by_source: dict[Any, list[Principal]] = {}
    now_s = time.time()
    for principal in principals:
        if not isinstance(principal, Principal):
            # Anonymous callers have no credentials.
            continue
        expires_at = None if principal.auth is None else principal.auth.expires_at
        if expires_at is not None and expires_at <= now_s and not for_tasks:
            ended.add(principal)
        elif principal.source is not None:
            by_source.setdefault(principal.source, []).append(principal)
    failure: Exception | None = None
    for source, theirs in by_source.items():
        try:
            with lease_for_authentication():
                ended |= await source.find_ended(theirs, for_tasks=for_tasks)
        except Exception as error:  # noqa: BLE001 - raised below
            # One that fails must not keep the others' principals connected.
            failure = error
    if failure is not None and not ended:
        raise failure
    return ended
