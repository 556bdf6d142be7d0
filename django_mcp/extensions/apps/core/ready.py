"""Ready-made apps: pages that show any result as a table, a card or a chart.

They are data here; the site makes the parts of their pages from each result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django_mcp.extensions.apps.core.app import App, ArgumentsForm

PAGE = "django_mcp/apps/result.html"
"""The page of all ready-made apps but charts. It opens the objects of a table in itself."""

KINDS = ("line", "bar")
"""The kinds of charts."""


def _check_names(app: Any, *options: str) -> None:
    for option in options:
        names = getattr(app, option)
        if names is None:
            continue
        if isinstance(names, str) or not isinstance(names, Sequence):
            raise TypeError(f"{option} is {names!r:.60}: write a list of names")
        if not all(isinstance(name, str) and name for name in names):
            raise TypeError(f"{option} is {names!r:.60}: write a list of names")
        object.__setattr__(app, option, tuple(names))


def _check_texts(app: Any, *options: str) -> None:
    for option in options:
        value = getattr(app, option)
        if value is not None and (not isinstance(value, str) or not value):
            raise TypeError(f"{option} is {value!r:.60}: write the name of a member of the result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Table(App):
    """A page that shows the rows of a result as a table, which can be sorted, searched and turned over.

    Each of these is there as far as the tool has arguments for it: `ordering` with a list of values, `search` (or
    `query`, `q`), and `cursor`, `page` or `offset`. At most 500 rows are shown.

    Args:
        rows: the member of the result that has the rows, such as `"rows"` or `"page.rows"`; by default `results`,
            `items`, `rows`, `groups` or `result`, or else the first list of objects.
        columns: the members of a row that are shown, such as `"number"` or `"customer.name"`; by default those of the
            output schema.
        key: the member of a row that says which object it is, and the argument for it of `actions`.
        actions: the names of tools that each row has a button for, if the user may call them. The tools of models, of
            the admin and of APIs know theirs.
        title: the heading; by default the title of the tool. May be lazy.
        template, fragment, context, csp, permissions, prefers_border, domain: see `App`.
    """

    template: str | None = PAGE
    fragment: str | None = "django_mcp/apps/table.html"
    rows: str | None = None
    columns: Sequence[str] | None = None
    key: str | None = None
    actions: Sequence[str] | None = None
    title: Any = None

    def __post_init__(self) -> None:
        App.__post_init__(self)
        _check_texts(self, "rows", "key")
        _check_names(self, "columns", "actions")


@dataclass(frozen=True, slots=True, kw_only=True)
class Card(App):
    """A page that shows a result, an object, as a list of its members.

    Args:
        fields: the members that are shown; by default those of the output schema.
        key, actions, title, template, fragment, context, csp, permissions, prefers_border, domain: see `Table`.
    """

    template: str | None = PAGE
    fragment: str | None = "django_mcp/apps/card.html"
    fields: Sequence[str] | None = None
    key: str | None = None
    actions: Sequence[str] | None = None
    title: Any = None

    def __post_init__(self) -> None:
        App.__post_init__(self)
        _check_texts(self, "key")
        _check_names(self, "fields", "actions")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart(App):
    """A page that shows the rows of a result as a chart, with the same numbers as a table.

    Args:
        x: the member of a row with a date, a time or a category; by default the first that has one.
        y: the member with a number, or several; by default those that have one.
        by: the member whose values become lines or bars of their own; None: there is none.
        kind: `"line"` or `"bar"`; by default lines for dates and times, and bars for categories.
        rows, title, template, fragment, context, csp, permissions, prefers_border, domain: see `Table`.
    """

    template: str | None = "django_mcp/apps/chart_page.html"
    fragment: str | None = "django_mcp/apps/chart.html"
    rows: str | None = None
    x: str | None = None
    y: str | Sequence[str] | None = None
    by: str | None = None
    kind: str | None = None
    title: Any = None

    def __post_init__(self) -> None:
        App.__post_init__(self)
        _check_texts(self, "rows", "x", "by")
        if isinstance(self.y, str):
            object.__setattr__(self, "y", (self.y,))
        _check_names(self, "y")
        if self.kind is not None and self.kind not in KINDS:
            raise ValueError(f"kind is {self.kind!r:.60}: write {' or '.join(map(repr, KINDS))}")


READY: Mapping[str, type[App]] = {
    "table": Table,
    "card": Card,
    "chart": Chart,
}
"""What generated tools name in place of an `App`."""


def read_ready(value: Any) -> Any:
    """Return the options of a tool with the ready-made app that `app=` names, if it names one.

    It is the name of one of `READY`, or `{"form": {...}}` with the values of an `ArgumentsForm`.
    """
    app = value.get("app") if isinstance(value, Mapping) else None
    if isinstance(app, str) and app in READY:
        return {**value, "app": READY[app]()}
    if isinstance(app, Mapping) and app.keys() == {"form"}:
        return {**value, "app": App(form=ArgumentsForm(**app["form"]))}
    return value
