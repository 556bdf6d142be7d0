"""What a page of the admin says on the start page and of what runs: figures, what is wrong now, and rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from django.utils.formats import number_format
from django.utils.translation import gettext_lazy as _

from django_mcp.admin.texts import escape_invisible
from django_mcp.models import Worker


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """A number with its title, and a link to where it comes from.

    Attributes:
        note: what belongs to the number, such as the part that failed.
    """

    title: Any
    value: str
    url: str = ""
    note: Any = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Trouble:
    """Something that is wrong now, or will soon be."""

    text: Any
    url: str = ""
    is_severe: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Picture:
    """The calls and errors of the last minutes, as the points of two SVG polylines."""

    calls: str
    errors: str
    width: int
    height: int
    text: Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """What one page says on the start page.

    Attributes:
        is_used: whether there is anything that a client has left; None: it does not tell.
    """

    figures: Sequence[Figure] = ()
    troubles: Sequence[Trouble] = ()
    picture: Picture | None = None
    is_used: bool | None = None


def show_number(number: float, digits: int = 0) -> str:
    """Return a number as people of the active language write it."""
    # Django cuts digits off.
    return number_format(round(number, digits), digits, force_grouping=True)


def draw_line(points: Sequence[int], height: int, most: int) -> str:
    """Return the points of an SVG polyline, which are 1 apart; `most` reaches the top."""
    scale = (height - 2) / max(most, 1)
    heights = (height - 1 - round(scale * count) for count in points)
    return " ".join(f"{at},{y}" for at, y in enumerate(heights))


MAX_SHOWN = 200
"""Calls and tasks of the page of what runs, the longest of each."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunningRow:
    """A call or a task of the page; texts of others are escaped when it is made.

    Attributes:
        url: the page of what is called.
        seconds: for how long it runs.
        note: how far it is.
        has_thread: whether it holds a thread; None: it is not known.
        cancel: the address and the fields of the form that cancels it; None: it cannot be cancelled.
    """

    name: str
    url: str = ""
    server: str
    client: str
    user: str
    worker: str
    seconds: int
    state: Any
    note: str = ""
    has_thread: bool | None = None
    cancel: tuple[str, dict[str, str]] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class RunningTable:
    """The rows of a kind, the longest first, and how many there are in all."""

    title: Any
    rows: Sequence[RunningRow]
    count: int
    empty: Any = field(default=_("None now."))


Reported = tuple[Worker, dict[str, Any]]
"""A call as its worker reports it; see `report_calls`."""


def show_text(text: Any, max_length: int = 80) -> str:
    """Return a text of others, short and without hidden characters."""
    return escape_invisible(str(text), max_length)
