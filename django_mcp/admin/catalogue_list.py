"""The list of the catalogue: its filters, its order and its pages, all of which are in the URL."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, cast
from urllib.parse import urlencode

from django.core.paginator import Page, Paginator
from django.db import router
from django.http import QueryDict
from django.utils.translation import gettext_lazy as _
from msgspec import Struct
from msgspec.structs import asdict, replace

from django_mcp.admin.texts import escape_invisible
from django_mcp.calls.sizes import MAX_RESULT_TOKENS, find_largest
from django_mcp.extension_packages import load_parts
from django_mcp.models import CallRecord, DisabledEntry
from django_mcp.protocol.sanitize import clean
from django_mcp.registry.entries import Entry, ToolEntry
from django_mcp.servers import MCPServer
from django_mcp.site_ports import find_app

Kind = DisabledEntry.Kind

PAGE_ROWS = 50

NONE = "-"
"""The app or toolset of what is in none; no label and no name is written so."""

TITLES = {
    Kind.TOOL: _("Tools"),
    Kind.RESOURCE: _("Resources"),
    Kind.TEMPLATE: _("Resource templates"),
    Kind.PROMPT: _("Prompts"),
}

ENABLED, DISABLED, GONE, VISIBLE, HIDDEN = "enabled", "disabled", "gone", "visible", "hidden"
STATES = (
    (ENABLED, _("enabled")),
    (DISABLED, _("disabled")),
    (GONE, _("not registered any more")),
    (VISIBLE, _("visible")),
    (HIDDEN, _("not visible")),
)
"""The last two are for the user or key that the catalogue is viewed as."""

NAME = "name"
NUMBERS = ("calls", "errors", "p95")
"""What the list can be sorted by: the name, and for who may see calls, numbers. Without, it is in groups."""


class Selection(Struct, frozen=True, kw_only=True):
    """What is listed of a server's entries, in which order; the fields are parameters of the URL.

    Attributes:
        q: a part of a name, title, description, key or toolset, in any case.
        kind: the kind of entries; empty: all.
        state: one of `STATES`; empty: all.
        app, toolset: what entries are in, or `NONE`; empty: all.
        o: what they are sorted by, with a `-` for descending; empty: they are in groups.
        p: the page.
    """

    q: str = ""
    kind: str = ""
    state: str = ""
    app: str = ""
    toolset: str = ""
    o: str = ""
    p: str = ""

    @classmethod
    def read(cls, query: QueryDict, *, may_see_calls: bool = True) -> Selection:
        """Return what a query asks for, without values that nothing has."""
        orders = (NAME, *NUMBERS) if may_see_calls else (NAME,)
        given = {name: query.get(name, "")[:200] for name in cls.__struct_fields__}
        known: Mapping[str, Collection[str]] = {
            "kind": Kind.values,
            "state": dict(STATES),
            "o": [f"{sign}{order}" for order in orders for sign in ("", "-")],
        }
        return cls(
            **{
                name: value
                for name, value in given.items()
                if name not in known or value in known[name]
            }
        )

    @property
    def query(self) -> dict[str, str]:
        return {name: value for name, value in asdict(self).items() if value}

    def change(self, **changed: str) -> dict[str, str]:
        """Return the query of the first page with other values."""
        query = {**self.query, "p": "", **changed}
        return {name: value for name, value in query.items() if value}


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """An entry, or a disabled one that is not registered any more."""

    kind: DisabledEntry.Kind
    key: str
    entry: Entry | None
    disabled: DisabledEntry | None
    app: str = NONE
    toolset: str = NONE
    is_visible: bool = False

    @property
    def name(self) -> str:
        return self.key if self.entry is None else self.entry.name

    @property
    def group(self) -> tuple[bool, str, str]:
        """What is not registered any more comes last."""
        return self.entry is None, self.app, self.toolset

    def is_found(self, term: str) -> bool:
        entry = self.entry
        described = () if entry is None else (entry.title, entry.description)
        texts = (self.name, self.key, self.toolset, self.app, *described)
        return not term or any(term.casefold() in str(text or "").casefold() for text in texts)

    def is_in(self, state: str) -> bool:
        if not state:
            return True
        if self.entry is None or state == GONE:
            return self.entry is None and state == GONE
        if state in (VISIBLE, HIDDEN):
            return self.is_visible is (state == VISIBLE)
        return (self.disabled is not None) is (state == DISABLED)

    def is_selected(self, selection: Selection) -> bool:
        return (
            selection.app in ("", self.app)
            and selection.toolset in ("", self.toolset)
            and self.is_in(selection.state)
            and self.is_found(selection.q)
        )


def find_items(server: MCPServer, seen: Mapping[str, Collection[str]]) -> list[Item]:
    """Return all entries of a server, and the disabled ones that it has not any more.

    Args:
        server: has the entries.
        seen: the keys of those that the viewer sees, by kind.
    """
    disabled: dict[tuple[str, str], DisabledEntry] = {
        (row.kind, row.key): row
        for row in DisabledEntry.objects.filter(server=server.name).select_related("disabled_by")
    }
    find_toolset = server.engine.ports.find_toolset
    items = [
        Item(
            kind=kind,
            key=key,
            entry=entry,
            disabled=disabled.pop((kind.value, key), None),
            app=find_app(entry) or NONE,
            toolset=find_toolset(entry) or NONE,
            is_visible=key in seen.get(kind.value, ()),
        )
        for kind in Kind
        for key, entry in server.registry.registered[kind.value].items()
    ]
    items += [
        Item(kind=Kind(kind), key=key, entry=None, disabled=row)
        for (kind, key), row in disabled.items()
        if kind in Kind.values
    ]
    return items


@dataclass(kw_only=True, slots=True)
class Section:
    """The lines of one app and toolset; `count` has those of other pages too."""

    title: dict[str, Any] | None
    rows: list[dict[str, Any]]
    count: int = 0


@dataclass(kw_only=True, slots=True)
class Table:
    """The lines of one kind on a page; `count` has those of other pages too."""

    kind: DisabledEntry.Kind
    count: int
    sections: list[Section] = field(default_factory=list)

    @property
    def title(self) -> Any:
        return TITLES[self.kind]

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [row for section in self.sections for row in section.rows]


class Listing:
    """A page of the list.

    Attributes:
        page: the items of the page.
        tables: their lines by kind, also of kinds that have none.
        apps, toolsets: all that the server's entries are in.
        kinds: the kinds with their numbers of entries, whatever kind is selected.
    """

    def __init__(
        self,
        server: MCPServer,
        items: Sequence[Item],
        selection: Selection,
        *,
        may_see_calls: bool,
        entry_url: str,
        query: Mapping[str, str],
    ) -> None:
        self._server, self._entry_url = server, entry_url
        self._query = {"server": server.name, **query}
        self.apps, self.toolsets = (
            sorted({getattr(item, name) for item in items if item.entry})
            for name in ("app", "toolset")
        )
        self._has_groups = len({item.group for item in items}) > 1
        # Those of another server.
        for name, known in (("app", self.apps), ("toolset", self.toolsets)):
            if getattr(selection, name) not in known:
                selection = replace(selection, **{name: ""})
        self.selection = selection
        found = [item for item in items if item.is_selected(selection)]
        self.kinds = Counter(item.kind for item in found)
        found = [item for item in found if selection.kind in ("", item.kind.value)]
        self._sizes = Counter((item.kind, item.group) for item in found)
        numbers: dict[tuple[str, str], Any] = {}
        is_by_number = selection.o.removeprefix("-") in NUMBERS
        if is_by_number:
            # Loads what only pages with calls need.
            from django_mcp.admin.reports import calls_of_the_day

            numbers = calls_of_the_day(server.name)
        self.page: Page[Item] = Paginator(_sort(found, selection.o, numbers), PAGE_ROWS).get_page(
            selection.p or 1
        )
        self._numbers = numbers
        self._lines: dict[tuple[str, str], str] = {}
        self._largest: dict[tuple[str, str], int] = {}
        if may_see_calls:
            self._read_numbers(is_complete=is_by_number)
        self.tables = list(self._make_tables())

    def _read_numbers(self, *, is_complete: bool) -> None:
        from django_mcp.admin.reports import calls_of_the_day, lines_of_the_day

        names = {clean(item.name, 200) for item in self.page if item.entry}
        if not is_complete:
            self._numbers = calls_of_the_day(self._server.name, names)
        self._lines = lines_of_the_day(self._server.name, names)
        self._largest = find_largest(router.db_for_read(CallRecord))

    def _make_tables(self) -> Iterator[Table]:
        by_kind = {kind: list(items) for kind, items in groupby(self.page, lambda each: each.kind)}
        for kind in Kind:
            table = Table(kind=kind, count=self.kinds[kind])
            items = by_kind.get(kind, [])
            if self.selection.o or not self._has_groups:
                table.sections = [Section(title=None, rows=[self._row(item) for item in items])]
            else:
                table.sections = [
                    Section(
                        title=self._title(group),
                        rows=[self._row(item) for item in members],
                        count=self._sizes[kind, group],
                    )
                    for group, members in groupby(items, lambda each: each.group)
                ]
            yield table

    def _title(self, group: tuple[bool, str, str]) -> dict[str, Any]:
        is_gone, app, toolset = group
        only = {"state": GONE} if is_gone else {"app": app, "toolset": toolset}
        return {
            "is_gone": is_gone,
            "app": "" if app == NONE else app,
            "toolset": "" if toolset in (NONE, app) else toolset,
            "url": self.url(**only),
        }

    def url(self, **changed: str) -> str:
        """Return the address of the first page with other values."""
        return f"?{urlencode({**self._query, **self.selection.change(**changed)})}"

    @property
    def clear_url(self) -> str:
        """The address without filters; empty if there are none."""
        filters = ("q", "kind", "state", "app", "toolset")
        has_any = any(getattr(self.selection, name) for name in filters)
        return self.url(**dict.fromkeys(filters, "")) if has_any else ""

    @property
    def groups_url(self) -> str:
        return self.url(o="")

    @property
    def choices(self) -> list[dict[str, Any]]:
        """The filters by state, and by app and toolset if there are several."""
        none = {NONE: _("none")}
        choices: list[tuple[str, Any, Sequence[tuple[str, Any]]]] = [("state", _("State"), STATES)]
        for name, title, values in (
            ("app", _("App"), self.apps),
            ("toolset", _("Toolset"), self.toolsets),
        ):
            if len(values) > 1:
                choices.append((name, title, [(each, none.get(each, each)) for each in values]))
        return [
            {
                "name": name,
                "title": title,
                "options": options,
                "value": getattr(self.selection, name),
            }
            for name, title, options in choices
        ]

    def sort_url(self, order: str) -> str:
        """Return the address of the list in an order, or in the opposite one if it is in that."""
        first, other = (order, f"-{order}") if order == NAME else (f"-{order}", order)
        return self.url(o=other if self.selection.o == first else first)

    @property
    def heads(self) -> dict[str, dict[str, str]]:
        """The address and the direction of each column that the list can be sorted by."""
        now = self.selection.o
        directions = {f"-{now.removeprefix('-')}": "descending", now.removeprefix("-"): "ascending"}
        return {
            order: {
                "url": self.sort_url(order),
                "sort": directions[now] if now.removeprefix("-") == order else "",
            }
            for order in (NAME, *NUMBERS)
        }

    @property
    def kind_links(self) -> list[dict[str, Any]]:
        """The address, title and number of each kind, and of all."""
        total = sum(self.kinds.values())
        links = [{"url": self.url(kind=""), "title": _("All"), "count": total, "kind": ""}]
        links += [
            {"url": self.url(kind=kind.value), "title": TITLES[kind], "count": count, "kind": kind}
            for kind in Kind
            if (count := self.kinds[kind]) or self.selection.kind == kind.value
        ]
        return links

    @property
    def page_links(self) -> list[tuple[Any, str]]:
        """The number and the address of the pages around this one and at the ends; empty where some are left out."""
        paginator = self.page.paginator
        if paginator.num_pages == 1:
            return []
        return [
            (number, self.url(p=str(number)) if isinstance(number, int) else "")
            for number in paginator.get_elided_page_range(
                self.page.number, on_each_side=2, on_ends=1
            )
        ]

    def _row(self, item: Item) -> dict[str, Any]:
        entry = item.entry
        if entry is None:
            return {
                "key": item.key,
                "name": escape_invisible(item.key, 400),
                "is_gone": True,
                "is_visible": False,
                "disabled": item.disabled,
            }
        name = clean(entry.name, 200)
        query = {**self._query, "kind": item.kind.value, "key": item.key}
        tokens = None
        if item.kind is Kind.TOOL:
            tokens = self._largest.get((clean(self._server.name, 100), name))
        return {
            "key": item.key,
            "name": escape_invisible(entry.name, 200),
            "title": escape_invisible(str(entry.title or ""), 200),
            "address": "" if item.key == entry.name else escape_invisible(item.key, 400),
            "description": escape_invisible(str(entry.description or ""), 300),
            "is_visible": item.is_visible,
            "disabled": item.disabled,
            "toolset": "" if item.toolset == NONE else item.toolset,
            "badges": find_badges(entry),
            "calls": self._numbers.get((item.kind.value, name)),
            "line": self._lines.get((item.kind.value, name), ""),
            "tokens": tokens,
            "has_large": tokens is not None and tokens > MAX_RESULT_TOKENS,
            "url": f"{self._entry_url}?{urlencode(query)}",
        }


def _sort(items: list[Item], order: str, numbers: Mapping[tuple[str, str], Any]) -> list[Item]:
    """Return the items of each kind in order; what is equal, and without an order all in each group, by name."""
    kinds = list(Kind)
    items = sorted(items, key=lambda item: (item.name.casefold(), item.key))
    if not order:
        return sorted(items, key=lambda item: (kinds.index(item.kind), item.group))
    by = order.removeprefix("-")
    if by in NUMBERS:

        def find_number(item: Item) -> float:
            calls = numbers.get((item.kind.value, clean(item.name, 200)))
            return cast("float", -1 if calls is None else calls[by])

        items.sort(key=find_number, reverse=order.startswith("-"))
    elif order.startswith("-"):
        items.reverse()
    return sorted(items, key=lambda item: kinds.index(item.kind))


def is_destructive(entry: Entry) -> bool:
    """Return whether an entry says that it destroys something."""
    hints = entry.annotations if isinstance(entry, ToolEntry) else {}
    return bool(hints.get("destructiveHint", False)) and not hints.get("readOnlyHint", False)


def find_badges(entry: Entry) -> list[Any]:
    """Return what an entry says of itself: what it does to data, and how it runs and is shown."""
    hints = entry.annotations if isinstance(entry, ToolEntry) else {}
    badges = {
        _("read-only"): hints.get("readOnlyHint", False),
        _("destructive"): is_destructive(entry),
    }
    added = [badge for part in load_parts("admin") for badge in part.find_badges(entry)]
    return [*(badge for badge, is_so in badges.items() if is_so), *added]
