"""What is recorded of an exception: its class and its place, and as much more as `RECORD_ERRORS` says.

It is taken on the event loop when a handler has failed, so it is bounded, reads no source file, and runs no code of
the site but the `__str__` of the exception. `format_trace` makes a text of it in the thread that writes.
"""

from __future__ import annotations

import linecache
import os
import sysconfig
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import lru_cache
from itertools import islice
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, NamedTuple
from uuid import UUID

from django_mcp.conf import ERROR_DETAILS, settings
from django_mcp.protocol.sanitize import clean, mark_invisible
from django_mcp.server.exchange.call import Call

MAX_FRAMES = 30
"""Of an exception and its causes together: the innermost of each."""

MAX_CAUSES = 3

MAX_MESSAGE_CHARS = 2000
MAX_TRACEBACK_BYTES = 16 * 1024
"""The end of a longer traceback is kept."""

MAX_SOURCE_CHARS = 200

WITH_VARIABLES = 5
"""The innermost functions of the site whose local variables are recorded."""

MAX_VARIABLES = 20
MAX_VALUE_CHARS = 200
MAX_ITEMS = 5
MAX_DEPTH = 2


class Frame(NamedTuple):
    """A line of a traceback, with local variables as texts."""

    path: str
    line: int
    function: str
    variables: tuple[tuple[str, str], ...] = ()


class Part(NamedTuple):
    """An exception of a chain; `relation` says how it led to the one before it in `Trace.parts`."""

    error: str
    message: str
    frames: tuple[Frame, ...]
    relation: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Trace:
    """What is known of an exception.

    Attributes:
        error: its qualified class.
        place: the innermost function of the site that it passed.
        message: its text; empty if that is not recorded.
        parts: the exception and its causes; empty if tracebacks are not recorded.
    """

    error: str
    place: str
    message: str = ""
    parts: tuple[Part, ...] = ()


def trace_error(call: Call, error: BaseException) -> Trace | None:
    """Return what is recorded of the exception that a handler ended with; see `Ports.trace_error`."""
    if not settings.RECORD_CALLS:
        return None
    level = ERROR_DETAILS.index(settings.RECORD_ERRORS)
    has_messages, entry = level >= ERROR_DETAILS.index("message"), call.entry
    steps, place = _walk(error.__traceback__)
    name = _name_class(type(error))
    message = _read_message(error) if has_messages else ""
    if level < ERROR_DETAILS.index("traceback"):
        return Trace(error=name, place=place)
    find_variables = None
    # They hold the arguments of the call, which are kept only where a tool says so.
    if settings.RECORD_ERRORS == "variables" and getattr(entry, "record_arguments", False):
        find_variables = _VariableFinder().find
    parts = [Part(name, message, _to_frames(steps, MAX_FRAMES, find_variables), "")]
    room = MAX_FRAMES - len(parts[0].frames)
    for cause, relation in islice(_find_causes(error), MAX_CAUSES):
        frames = _to_frames(_walk(cause.__traceback__)[0], room, None)
        room -= len(frames)
        text = _read_message(cause) if has_messages else ""
        parts.append(Part(_name_class(type(cause)), text, frames, relation))
    return Trace(error=name, place=place, message=message, parts=tuple(parts))


def format_trace(trace: Trace) -> str:
    """Return a traceback as Python writes it, without what is not recorded."""
    text = _clean("\n".join(_format(trace)))
    encoded = text.encode()
    if len(encoded) <= MAX_TRACEBACK_BYTES:
        return text
    return "…" + encoded[len(encoded) - MAX_TRACEBACK_BYTES :].decode(errors="ignore")


def format_message(trace: Trace) -> str:
    """Return the text of an exception as it is stored."""
    return _clean(trace.message)


def _format(trace: Trace) -> Iterator[str]:
    for part in reversed(trace.parts):
        yield "Traceback (most recent call last):"
        for frame in part.frames:
            yield f'  File "{frame.path}", line {frame.line}, in {frame.function}'
            source = linecache.getline(frame.path, frame.line).strip()
            if source:
                yield f"    {source[:MAX_SOURCE_CHARS]}"
            for name, value in frame.variables:
                yield f"      {name} = {value}"
        yield f"{part.error}: {part.message}" if part.message else part.error
        if part.relation:
            yield f"\n{part.relation}\n"


def _clean(text: str) -> str:
    return mark_invisible(text, lambda char: char if char in "\n\t" else "\ufffd")


def _name_class(kind: type[Any]) -> str:
    name, module = kind.__qualname__, kind.__module__
    return clean(name if module in ("__main__", "builtins") else f"{module}.{name}", 200)


def _read_message(error: BaseException) -> str:
    try:
        return str(error)[:MAX_MESSAGE_CHARS]
    except Exception as fault:  # noqa: BLE001 - the method of a site may fail
        return f"<its text cannot be read: {type(fault).__name__}>"


def _find_causes(error: BaseException) -> Iterator[tuple[BaseException, str]]:
    """Yield the exceptions that led to one, with how they did."""
    while True:
        if error.__cause__ is not None:
            error = error.__cause__
            yield error, "This was the cause of the next exception:"
        elif error.__context__ is not None and not error.__suppress_context__:
            error = error.__context__
            yield error, "While it was handled, the next exception happened:"
        else:
            return


# -- frames

_OWN = str(Path(__file__).parent.parent) + os.sep
_STANDARD = tuple(
    {str(sysconfig.get_path(name)) + os.sep for name in ("stdlib", "platstdlib")} | {"<frozen "}
)
_INSTALLED = tuple(f"{os.sep}{name}{os.sep}" for name in ("site-packages", "dist-packages"))


@lru_cache(maxsize=4096)
def _find_origin(path: str) -> str:
    """Return whose code a file is: "own", the package's; "library", of others; or "site"."""
    if path.startswith(_OWN):
        return "own"
    is_library = path.startswith(_STANDARD) or any(part in path for part in _INSTALLED)
    return "library" if is_library else "site"


class _Step(NamedTuple):
    frame: FrameType
    line: int
    origin: str


def _walk(tb: TracebackType | None) -> tuple[list[_Step], str]:
    """Return the innermost steps of a traceback, from the first one of the site on, and the place of the exception.

    If the site's code is installed as a library, the place is the first function that the package called.
    """
    steps: deque[_Step] = deque(maxlen=MAX_FRAMES)
    in_site: FrameType | None = None
    called: FrameType | None = None
    was_own = True
    while tb is not None:
        frame = tb.tb_frame
        origin = _find_origin(frame.f_code.co_filename)
        steps.append(_Step(frame, tb.tb_lineno, origin))
        if origin == "site":
            in_site = frame
        elif origin == "own" or was_own:
            called = frame
        was_own = origin == "own"
        tb = tb.tb_next
    found = list(steps)
    first = next((at for at, step in enumerate(found) if step.origin == "site"), 0)
    place = in_site or called
    return found[first:], "" if place is None else _name_place(place)


def _name_place(frame: FrameType) -> str:
    module = frame.f_globals.get("__name__", "?")
    return clean(f"{module}.{frame.f_code.co_qualname}", 300)


def _to_frames(
    steps: list[_Step],
    most: int,
    find_variables: Callable[[FrameType], tuple[tuple[str, str], ...]] | None,
) -> tuple[Frame, ...]:
    chosen = steps[max(len(steps) - most, 0) :]
    of_site = [step.frame for step in chosen if step.origin == "site"][-WITH_VARIABLES:]
    return tuple(
        Frame(
            step.frame.f_code.co_filename,
            step.line,
            step.frame.f_code.co_qualname,
            find_variables(step.frame)
            if find_variables is not None and any(frame is step.frame for frame in of_site)
            else (),
        )
        for step in chosen
    )


# -- variables


_SIMPLE = frozenset({bool, float, Decimal, UUID, date, datetime, time, timedelta})


class _VariableFinder:
    """Finds the local variables of functions as short texts, without those that Django's filter hides.

    Names that look like secrets, which Django hides among settings, are hidden too. Of an object of
    another class than Python's own, only its class is shown: its `__repr__` could query the database.
    """

    def __init__(self) -> None:
        # Loads views and templates, which a server needs for nothing else.
        from django.views.debug import SafeExceptionReporterFilter, get_exception_reporter_filter

        self._filter: Any = get_exception_reporter_filter(None)
        hides = self._filter if hasattr(self._filter, "cleanse_setting") else None
        self._hides = hides or SafeExceptionReporterFilter()

    def find(self, frame: FrameType) -> tuple[tuple[str, str], ...]:
        found = self._filter.get_traceback_frame_variables(None, frame)
        return tuple(
            (name, self._hide(name) or self._show(value, MAX_DEPTH))
            for name, value in list(found)[:MAX_VARIABLES]
        )

    def _hide(self, name: Any) -> str:
        """Return what is shown in place of a value with this name; "": the value."""
        return str(self._hides.cleanse_setting(name, "")) if isinstance(name, str) else ""

    def _show(self, value: Any, depth: int) -> str:
        return self._show_whole(value, depth)[:MAX_VALUE_CHARS]

    def _show_whole(self, value: Any, depth: int) -> str:
        kind = type(value)
        if kind is str or kind is bytes:
            return repr(value[:MAX_VALUE_CHARS])
        if kind is int:
            return repr(value) if value.bit_length() < MAX_VALUE_CHARS else "<int>"
        if value is None or kind in _SIMPLE:
            return repr(value)
        if kind in (list, tuple, set, frozenset):
            return f"<{kind.__name__} of {len(value)}: {self._show_items(value, depth)}>"
        if kind is dict:
            return f"<dict of {len(value)}: {self._show_pairs(value, depth)}>"
        return f"<{_name_class(kind)}>"

    def _show_items(self, values: Any, depth: int) -> str:
        if not depth:
            return "…"
        return ", ".join(self._show(each, depth - 1) for each in islice(values, MAX_ITEMS))

    def _show_pairs(self, values: dict[Any, Any], depth: int) -> str:
        if not depth:
            return "…"
        return ", ".join(
            f"{self._show(key, 0)}: {self._hide(key) or self._show(value, depth - 1)}"
            for key, value in islice(values.items(), MAX_ITEMS)
        )
