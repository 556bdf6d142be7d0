"""The rows of the page of what runs, which each list of the admin may add to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from django.utils.translation import gettext_lazy as _

from django_mcp.models import Worker

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
