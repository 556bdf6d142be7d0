"""Problems of a registration or a value: the exceptions, and short texts that quote only a part of a value."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from django_mcp.protocol.json import encode, to_pointer

if TYPE_CHECKING:
    from pydantic import ValidationError as ConversionError


MAX_PROBLEMS = 50
"""Problems reported at once; the rest are counted."""

MAX_CONVERSION_ERRORS = 1000
"""Errors of pydantic that are described, since more would take long."""

MAX_SHOWN_CHARS = 80
_MAX_MESSAGE_CHARS = 300


class RegistrationError(Exception):
    """A tool, resource, prompt or completer cannot be registered as written.

    The text names the function, with its file and line, and what to write instead.
    """


class Problem(Struct, frozen=True):
    """One problem with a value.

    Attributes:
        pointer: its place, as a JSON Pointer (RFC 6901); `""` is the whole value. A missing or an
            unknown member is given by the name it has or should have.
        message: what would be right; short, and at most quoting a part of the value.
    """

    pointer: str
    message: str


class ArgumentErrors(Exception):
    """The arguments of a call do not fit its handler.

    Of the problems, which a client can cause and name, `problems` has the first `MAX_PROBLEMS` and the number of the
    others.
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        # The last one may say how many there are beyond.
        remaining = iter(problems)
        self.problems = [_shorten(problem) for problem in islice(remaining, MAX_PROBLEMS + 1)]
        if left := sum(1 for _ in remaining):
            self.problems[-1] = Problem("", f"and {left + 1} further problems")
        super().__init__("; ".join(f"{each.pointer}: {each.message}" for each in self.problems))


def in_order(problems: Iterable[Problem], *, has_more: bool = False) -> list[Problem]:
    """Return up to `MAX_PROBLEMS` problems, ordered by pointer and without duplicates.

    `has_more` says that the search ended before all were found.
    """
    ordered = sorted(set(problems), key=lambda each: (each.pointer, each.message))
    left = len(ordered) - MAX_PROBLEMS
    shown = [_shorten(problem) for problem in ordered[:MAX_PROBLEMS]]
    if left <= 0 and not has_more:
        return shown
    count = f"{left} or more" if has_more and left > 0 else "perhaps" if has_more else str(left)
    return [*shown, Problem("", f"and {count} further problems")]


def _shorten(problem: Problem) -> Problem:
    """Return a problem whose pointer, which may have names from a client, is cut to a length that one reads."""
    is_short = len(problem.pointer) <= _MAX_MESSAGE_CHARS
    return problem if is_short else Problem(clip(problem.pointer), problem.message)


def show(value: Any) -> str:
    """Return a value for a message, as short JSON on one line."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "an array"
    if isinstance(value, str):
        cut = value[:MAX_SHOWN_CHARS].encode("utf-8", "replace").decode()
        text = encode(cut).decode()
        return text if len(value) <= MAX_SHOWN_CHARS else f'{text[:-1]}…"'
    if isinstance(value, int) and abs(value) >= 10**MAX_SHOWN_CHARS:
        return "a very large number"
    return encode(value).decode()


def clip(text: str) -> str:
    """Return a message cut to a length that a client will read."""
    return text if len(text) <= _MAX_MESSAGE_CHARS else text[: _MAX_MESSAGE_CHARS - 1] + "…"


# -- errors of pydantic


def conversion_error() -> type[ConversionError]:
    """Return the class of pydantic's error, for `except`: by then a conversion has loaded pydantic."""
    from pydantic import ValidationError

    return ValidationError


def describe_conversion(error: ConversionError, value: Any) -> list[Problem]:
    """Return the problems of an error of pydantic for the value it was given."""
    count = error.error_count()
    if count > MAX_CONVERSION_ERRORS:  # pydantic writes out all of them or none
        return [Problem("", f"has {count} values that cannot be read; send less at once")]
    problems = []
    for detail in error.errors(include_url=False, include_context=False, include_input=False):
        text = detail["msg"].removeprefix("Value error, ").replace("Input should", "should", 1)
        words = _WORDS.get(detail["type"], text)
        problems.append(Problem(to_pointer(_path(detail, value)), clip(words)))
    return in_order(problems)


_WORDS = {"missing": "is required", "extra_forbidden": "is unknown"}


def _path(error: Any, value: Any) -> Iterator[str | int]:
    """Yield the steps of a location that exist in the value; the others name alternatives."""
    location = error["loc"]
    absent = len(location) - 1 if error["type"] == "missing" else None
    for index, step in enumerate(location):
        path = _step(value, step)
        if path is not _NOTHING or index == absent:
            yield step
            value = path


_NOTHING: Any = object()


def _step(value: Any, step: str | int) -> Any:
    if isinstance(value, dict):
        return value.get(step, _NOTHING)
    if isinstance(value, list):
        return value[step] if isinstance(step, int) and 0 <= step < len(value) else _NOTHING
    # A handler may have returned an object, whose attributes are read.
    return getattr(value, step, _NOTHING) if isinstance(step, str) else _NOTHING


# -- errors of a registration


def innermost(function: Callable[..., Any]) -> Any:
    """Unwrap nested partials; another function is returned as it is."""
    target: Any = function
    while isinstance(target, functools.partial):
        target = target.func
    return target


def describe_source(function: Callable[..., Any]) -> str:
    """Return where a function is defined: `shop.mcp.find_orders (/srv/shop/mcp.py:12)`."""
    target = innermost(function)
    if not hasattr(target, "__qualname__"):
        target = type(target)
    name = f"{getattr(target, '__module__', 'builtins')}.{target.__qualname__}"
    asks = getattr(target, _ASKS, None)
    place = _find_place_of_class(asks) if isinstance(asks, type) else _find_place(asks or target)
    return f"{name} ({place})" if place is not None else name


def name_as(rule: Any, owner: Any, name: str, asks: Any = None) -> None:
    """Have messages name a rule of the package as what it asks, which a developer knows.

    Args:
        rule: a function.
        owner: a class or function of the site.
        name: of a method or attribute of the owner.
        asks: whose place in a file is told; by default the method, if the site wrote it, or the owner.
    """
    rule.__module__, rule.__qualname__ = owner.__module__, f"{owner.__qualname__}.{name}"
    if asks is None:
        method = inspect.unwrap(getattr(owner, name, owner))
        is_own = inspect.isfunction(method) and not is_of_framework(method)
        asks = method if is_own else owner
    setattr(rule, _ASKS, asks)


_ASKS = "_asks"
_FRAMEWORKS = (
    "builtins", "abc", "typing", "django", "django_mcp", "ninja", "ninja_extra", "rest_framework",
)  # fmt: skip


def is_of_framework(value: Any) -> bool:
    """Return whether a function or class is of Python or of a framework, and not of the site."""
    return str(getattr(value, "__module__", "")).partition(".")[0] in _FRAMEWORKS


def _find_place(function: Any) -> str | None:
    inner = inspect.unwrap(function)
    code = getattr(getattr(inner, "__func__", inner), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else None


def _find_place_of_class(cls: type) -> str | None:
    try:
        return f"{inspect.getsourcefile(cls)}:{inspect.getsourcelines(cls)[1]}"
    except (OSError, TypeError):
        return None


def check_names(
    given: Iterable[str], known: Iterable[str], owner: str, error: type[Exception] = TypeError
) -> None:
    """Raise an error unless an owner such as `MCPServer()` has the options with these names."""
    names = list(known)
    for name in given:
        if name not in names:
            raise error(f"{owner} has no option {name!r}. {suggest(name, names)}")


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Return a sentence with the nearest known name, after a space; "" if none is near."""
    near = find_near(str(name), known)
    return f" Did you mean {near[0]!r}?" if near else ""


def suggest(name: object, known: Iterable[str]) -> str:
    """Return a sentence with the nearest known name, or with all of them."""
    names = list(known)
    near = find_near(str(name), names)
    return f"Did you mean {near[0]!r}?" if near else f"Use one of {', '.join(names)}."


def find_near(name: str, known: Iterable[str], *, most: int = 1, cutoff: float = 0.6) -> list[str]:
    """Return up to `most` of the known names that are like a name, whatever their case, the nearest first.

    `cutoff` says how like, from 0 to 1.
    """
    import difflib

    by_lower = {name.lower(): name for name in known}
    close_matches = difflib.get_close_matches(name.lower(), by_lower, n=most, cutoff=cutoff)
    return [by_lower[match] for match in close_matches]


MAX_NAME_CHARS = 128
"""The length up to which a name that a client sent is compared with others: that of the longest name of a tool."""

MAX_COMPARED = 100
"""Names that such a name is compared with, one by one."""

LIKENESS = 0.8
"""How like a name has to be to be suggested: `find_order` for `find_orders`, but not `get_order` for `delete_order`."""


def find_near_to_sent(name: str, known: Sequence[str]) -> str | None:
    """Return the known name that is most like one that a client sent, if one is, in a bounded time."""
    if len(name) > MAX_NAME_CHARS:
        return None
    if len(known) > MAX_COMPARED:
        # To compare each of them would take long.
        words = _split(name)
        known = [each for each in known if words & _split(each)][:MAX_COMPARED]
    return next(iter(find_near(name, known, cutoff=LIKENESS)), None)


def _split(name: str) -> set[str]:
    return set(re.split(r"[_.-]+", name.lower())) - {""}
