"""What a page of the admin says on the start page: figures, a picture, and what is wrong now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.formats import number_format


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
    """Return the points of an SVG polyline, which are 1 apart; `most` reaches the top.

    The time of the last one goes on, so it is left out while it is lower than the one before.
    """
    if len(points) > 1 and points[-1] < points[-2]:
        points = points[:-1]
    scale = (height - 2) / max(most, 1)
    heights = (height - 1 - round(scale * count) for count in points)
    return " ".join(f"{at},{y}" for at, y in enumerate(heights))
