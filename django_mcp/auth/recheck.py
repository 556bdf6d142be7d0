"""Check whether principals that were authenticated earlier may still act: all at once, or one by one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator
from typing import Any, Final
from weakref import WeakKeyDictionary, WeakSet

from django_mcp.auth.principal import Principal, Rejection
from django_mcp.execution.outages import Warner
from django_mcp.execution.threads import loan_for_authentication

_trouble = Warner()
_UNCHECKED = "Could not check whether credentials still hold: %r"


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
            with loan_for_authentication():
                ended |= await source.find_ended(theirs, for_tasks=for_tasks)
        except Exception as error:  # noqa: BLE001 - logged or raised below
            # One that fails must not keep the others' principals connected.
            if failure is not None:
                _trouble.warn(_UNCHECKED, failure)
            failure = error
    if failure is not None:
        if not ended:
            raise failure
        _trouble.warn(_UNCHECKED, failure)
    return ended


RECHECK_S: Final = 1.0
"""Default seconds between two checks of the same credentials."""

AT_ONCE = 2
"""Checks that run at the same time, so that requests find a free thread."""

PAUSE = 9
"""The pause after a round, as a multiple of its duration. So checks take a tenth of the time at most,
even if there are many, or each has a password to hash."""

WAIT_S = 0.5
"""How long the caller waits for a round; later results count the next time."""

GIVE_UP_S = 30.0
"""After this time a check counts as not answered."""


class Revalidator:
    """Checks whether the credentials of principals with a `handle` are still valid.

    If they now belong to another principal, or to none, they have ended. If the check fails, they have
    not.

    Args:
        ask: returns for a handle what authentication would return now.
        every_s: seconds between two checks of the same credentials; None: never check.
    """

    def __init__(
        self,
        ask: Callable[[Any], Awaitable[Principal | Rejection | None]],
        every_s: float | None = RECHECK_S,
    ) -> None:
        self._ask = ask
        self._every_s = every_s
        self._asked: WeakKeyDictionary[Principal, float] = WeakKeyDictionary()
        self._ended: WeakSet[Principal] = WeakSet()
        self._rounds: dict[asyncio.AbstractEventLoop, asyncio.Task[None]] = {}
        self._rests_until = 0.0
        self._trouble = Warner()

    async def find_ended(self, principals: Collection[Principal]) -> set[Principal]:
        """Return the principals whose credentials have ended."""
        loop = asyncio.get_running_loop()
        if loop not in self._rounds:
            due = self._find_due(principals)
            if due:
                task = self._rounds[loop] = loop.create_task(self._ask_all(due))
                task.add_done_callback(lambda _: self._rounds.pop(loop))
        if loop in self._rounds:
            await asyncio.wait((self._rounds[loop],), timeout=WAIT_S)
        return {principal for principal in principals if principal in self._ended}

    def _find_due(self, principals: Collection[Principal]) -> dict[Any, list[Principal]]:
        """Return the handles to check with their principals, those checked longest ago first."""
        due: dict[Any, list[Principal]] = {}
        now = time.monotonic()
        if self._every_s is None or now < self._rests_until:
            return due
        latest = now - self._every_s
        for principal in sorted(principals, key=lambda each: self._asked.get(each, 0.0)):
            if principal.handle is not None and self._asked.get(principal, 0.0) <= latest:
                due.setdefault(principal.handle, []).append(principal)
        return due

    async def _ask_all(self, due: dict[Any, list[Principal]]) -> None:
        begun = time.monotonic()
        questions = iter(due.items())
        await asyncio.gather(*(self._ask_in_turn(questions) for _ in range(AT_ONCE)))
        ended = time.monotonic()
        self._rests_until = ended + PAUSE * (ended - begun)

    async def _ask_in_turn(self, questions: Iterator[tuple[Any, list[Principal]]]) -> None:
        for handle, principals in questions:
            try:
                async with asyncio.timeout(GIVE_UP_S):
                    outcome = await self._ask(handle)
            except Exception as error:  # noqa: BLE001 - it is the site's, and asked again
                self._trouble.warn("Could not ask whether credentials still hold: %r", error)
            else:
                self._ended.update(
                    principal for principal in principals if not _holds(principal, outcome)
                )
            self._asked.update(dict.fromkeys(principals, time.monotonic()))


def _holds(principal: Principal, found: Principal | Rejection | None) -> bool:
    if isinstance(found, Rejection):
        return found.status >= 500
    return found is not None and found.key == principal.key and found.is_usable
