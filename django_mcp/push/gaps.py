"""Gaps: finds out that messages of other processes were lost.

A channel layer silently drops messages to a process that reads too slowly or reconnects. So each
process numbers the messages it sends.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

LATE_S = 2.0
"""How long after a message with a higher number one may come. Our own limit."""

MAX_SENDERS = 1000
"""Processes whose numbers are remembered, those that have sent last. Our own limit."""

MAX_AHEAD = 1000
"""Numbers of one process that are remembered beyond a gap. Our own limit."""


class Gaps:
    """The numbers of messages that came, by the process that sent them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._senders: OrderedDict[str, _Sender] = OrderedDict()

    def take(self, sender: Any, number: Any) -> None:
        """Record a message that came."""
        if type(sender) is not str or type(number) is not int:
            return
        found = self._senders.get(sender)
        if found is None:
            # Earlier messages concerned nothing here.
            self._senders[sender] = _Sender(number)
            if len(self._senders) > MAX_SENDERS:
                self._senders.popitem(last=False)
            return
        self._senders.move_to_end(sender)
        found.take(number, self._clock())

    def find_lost(self) -> bool:
        """Return whether messages have not come in time; they are not expected any more."""
        latest_s = self._clock() - LATE_S
        lost = [each for each in self._senders.values() if each.give_up(latest_s)]
        return bool(lost)


class _Sender:
    __slots__ = ("_ahead", "_gap_s", "_upto")

    def __init__(self, number: int) -> None:
        self._upto = number
        self._ahead: set[int] = set()
        self._gap_s = 0.0

    def take(self, number: int, now_s: float) -> None:
        if number <= self._upto:
            return
        if not self._ahead:
            self._gap_s = now_s
        self._ahead.add(number)
        while self._upto + 1 in self._ahead:
            self._upto += 1
            self._ahead.discard(self._upto)

    def give_up(self, latest_s: float) -> bool:
        if not self._ahead or (self._gap_s > latest_s and len(self._ahead) <= MAX_AHEAD):
            return False
        self._upto = max(self._ahead)
        self._ahead.clear()
        return True
