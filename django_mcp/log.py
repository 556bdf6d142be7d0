"""The logger of this package: a site configures all of it by the name `django_mcp`.

What a client has sent may be part of a record: an argument of the message, or the text of an exception
of the site. Such text is cut, and its line breaks and invisible characters are written as escapes, so that
no client can write a line of the log, or fill it.
"""

from __future__ import annotations

import logging
import threading
import time
import traceback
from collections.abc import Callable, Hashable, Iterator
from types import TracebackType
from typing import Any, Final

from django_mcp.protocol.sanitize import mark_invisible

PERIOD_S: Final = 60.0

MOST_ALIKE: Final = 100
"""Records of a kind that are logged in a period, so that no client or outage fills the log.

It is above the limit of refused requests, which is shared fairly among clients.
"""

MAX_KINDS: Final = 1000
"""Kinds that are counted at a time."""


class RepetitionLimit(logging.Filter):
    """Drops warnings and errors of a kind above the limit, and says in the log how many it dropped.

    Records are of one kind if the same statement logs them, with an exception from the same line if
    there is one.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._lock = threading.Lock()
        self._counts: dict[Hashable, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is logged. The last one before a gap, and the first one after it, say so."""
        if record.levelno < logging.WARNING:
            return True
        now, kind, dropped = self._clock(), _kind_of(record), 0
        with self._lock:
            began_s, count = self._counts.get(kind, (now, 0))
            if now - began_s >= PERIOD_S:
                dropped, began_s, count = max(count - MOST_ALIKE, 0), now, 0
            if len(self._counts) >= MAX_KINDS and kind not in self._counts:
                self._counts.clear()
            self._counts[kind] = began_s, count + 1
        if dropped:
            _add(record, f"{dropped} more like this were not logged before")
        if count + 1 == MOST_ALIKE:
            _add(record, f"more like this are not logged for up to {PERIOD_S:.0f} s")
        return count < MOST_ALIKE

    def reset(self) -> None:
        """Forget what was logged, as between two tests."""
        with self._lock:
            self._counts.clear()


def _kind_of(record: logging.LogRecord) -> Hashable:
    error = record.exc_info[1] if record.exc_info else None
    trace = error.__traceback__ if error is not None else None
    where = None
    while trace is not None:
        where = trace.tb_frame.f_code.co_filename, trace.tb_lineno
        trace = trace.tb_next
    return record.pathname, record.lineno, type(error), where


def _add(record: logging.LogRecord, text: str) -> None:
    record.msg = f"{record.msg} ({text})"  # the text has no `%`


class LoggedKinds:
    """The kinds of mistakes that this process has logged, of which one record is enough.

    Args:
        limit: how many kinds are logged, since what a client sends may be part of a kind.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._kinds: set[Hashable] = set()

    def add(self, kind: Hashable) -> bool:
        """Note a kind, and return whether it is to be logged: it is new, and the limit is not reached."""
        if kind in self._kinds or len(self._kinds) >= self.limit:
            return False
        self._kinds.add(kind)
        return True

    def reset(self) -> None:
        """Forget what was logged, as between two tests."""
        self._kinds.clear()


MAX_TEXT_CHARS = 2_000
"""Of one text in a record."""

MAX_FRAMES = 50
"""Of one exception in a record: the innermost."""

MAX_EXCEPTIONS = 10
"""That a record tells of: an exception, its causes, and the members of groups."""


def clean(text: str) -> str:
    """Return a text as the log has it: in one line, cut, and with escapes for invisible characters."""
    rest = len(text) - MAX_TEXT_CHARS
    if rest > 0:
        text = f"{text[:MAX_TEXT_CHARS]}… (+{rest})"
    return mark_invisible(text, lambda char: char.encode("unicode_escape").decode())


class _Cleaned:
    """An argument of a message that is no text, written as the log has it."""

    def __init__(self, value: object) -> None:
        self._value = value

    def __str__(self) -> str:
        return clean(str(self._value))

    def __repr__(self) -> str:
        return clean(repr(self._value))


def _clean(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    # `%r` of a text escapes line breaks itself, so it gets no escapes twice.
    return _Cleaned(value)


def format_exception(error: BaseException | None) -> str:
    """Return the traceback of an exception as the log has it, with those of its causes."""
    return "\n".join(_format_all(error))


def _format_all(error: BaseException | None) -> Iterator[str]:
    chain: list[tuple[BaseException, str]] = []
    relation = ""
    while error is not None and len(chain) < MAX_EXCEPTIONS:
        chain.append((error, relation))
        if error.__cause__ is not None:
            error, relation = error.__cause__, "This was the cause of the next exception:"
        elif error.__context__ is not None and not error.__suppress_context__:
            error, relation = (
                error.__context__,
                "While it was handled, the next exception happened:",
            )
        else:
            error = None
    for each, relation in reversed(chain):
        yield from _format_one(each)
        if isinstance(each, BaseExceptionGroup):
            for member in each.exceptions[:MAX_EXCEPTIONS]:
                yield "In this group:"
                yield from _format_one(member)
        if relation:
            yield f"\n{relation}\n"


def _format_one(error: BaseException) -> Iterator[str]:
    yield "Traceback (most recent call last):"
    yield from _format_frames(error.__traceback__)
    kind = type(error)
    name = kind.__qualname__
    if kind.__module__ not in ("__main__", "builtins"):
        name = f"{kind.__module__}.{name}"
    try:
        text = clean(str(error))
    except Exception as fault:  # noqa: BLE001 - the method of a site may fail
        text = f"<its text cannot be read: {type(fault).__name__}>"
    yield f"{name}: {text}" if text else name
    yield from (clean(str(note)) for note in getattr(error, "__notes__", ()))


def _format_frames(tb: TracebackType | None) -> Iterator[str]:
    yield from (line.rstrip("\n") for line in traceback.format_tb(tb, limit=-MAX_FRAMES))


class CleanRecords(logging.Filter):
    """Cleans what records hold of clients, for every handler and formatter of a site."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Clean a record; none is left out."""
        given = record.args
        if isinstance(given, dict):
            record.args = {name: _clean(value) for name, value in given.items()}
        elif given:
            record.args = tuple(map(_clean, given))
        if record.exc_info and not record.exc_text:
            # Formatters take it as it is.
            record.exc_text = format_exception(record.exc_info[1])
        return True


logger = logging.getLogger("django_mcp")

repetitions: Final = RepetitionLimit()
logger.addFilter(repetitions)
logger.addFilter(CleanRecords())
