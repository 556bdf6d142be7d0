"""Lists that the site's own views return: the arguments that select rows, and the rows that a call gets."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from django.db.models import QuerySet

from django_mcp.contrib.cursors import (
    NOTE_SCHEMA,
    Position,
    cursor_schema,
    fingerprint,
    note_cut,
)
from django_mcp.contrib.http_calls import cut_rows
from django_mcp.protocol.json import JSONObject
from django_mcp.registry.listed import Listed

MEMBERS: dict[str, JSONObject] = {
    "total": {
        "type": "integer",
        "description": "How many rows there are in all, if some are missing.",
    },
    "next_cursor": {
        "type": "string",
        "description": "The cursor of the next rows; without it: none.",
    },
    "note": NOTE_SCHEMA,
}
"""What a list has beside its rows."""

MEMBERS_OF_PAGE = {name: MEMBERS[name] for name in ("next_cursor", "note")}
"""What a page of the view has if rows of it were left out."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ListArguments:
    """The arguments that select rows of a list.

    Attributes:
        source: says which list it is; cursors of another are not taken.
        cursor: the name of the argument for the cursor.
        limit: that for the number of rows; None: the view has pages of its own.
        max_results: rows at most.
    """

    source: str
    cursor: str
    limit: str | None
    max_results: int

    @classmethod
    def choose(
        cls, source: str, taken: Collection[str], *, has_pages: bool, max_results: int
    ) -> ListArguments:
        """Return arguments whose names no other argument has.

        Args:
            source: see `ListArguments`.
            taken: the names of the other arguments.
            has_pages: whether the view has pages of its own, of which a part may be left out.
            max_results: rows at most.
        """
        return cls(
            source=source,
            cursor=find_free("cursor", taken),
            limit=None if has_pages else find_free("limit", taken),
            max_results=max_results,
        )

    def schemas(self, order: str) -> JSONObject:
        """Return their schemas by name; `order` says how the rows are ordered."""
        schemas: JSONObject = {}
        if self.limit is not None:
            schemas[self.limit] = {
                "type": "integer",
                "minimum": 1,
                "maximum": self.max_results,
                "default": self.max_results,
            }
        schemas[self.cursor] = cursor_schema(order)
        return schemas


def find_free(name: str, taken: Collection[str]) -> str:
    """Return a name that is not taken: `row_limit` in place of `limit`."""
    while name in taken:
        name = f"row_{name}"
    return name


class Window:
    """The rows of a list that one call gets.

    Args:
        arguments: that select rows; None: the tool has none, so the first rows are all.
        user: the caller, for whom a cursor is good.
        given: the arguments of the call.
        max_results: rows at most.

    Attributes:
        rest: the arguments for the view.
        limit: how many rows to return.
        skipped: how many rows come before.
        has_more: whether there are more rows; None: the rows are those of the whole list.

    Raises:
        ArgumentErrors: the cursor is not valid.
    """

    def __init__(
        self,
        arguments: ListArguments | None,
        user: Any,
        given: Mapping[str, Any],
        max_results: int,
    ) -> None:
        self._arguments, self._user = arguments, user
        self.rest: Mapping[str, Any] = given
        self._max_results = max_results
        self.limit, self.skipped = max_results, 0
        self.has_more: bool | None = None
        if arguments is None:
            return
        own = (arguments.cursor, arguments.limit)
        if any(name in given for name in own):
            self.rest = {name: value for name, value in given.items() if name not in own}
            self.limit = given.get(arguments.limit or "", max_results)
            cursor = given.get(arguments.cursor)
            if cursor is not None:
                position = Position.read(cursor, self._search, arguments.cursor)
                self.skipped = position.skipped

    @property
    def _search(self) -> str:
        source = None if self._arguments is None else self._arguments.source
        return fingerprint(self._user, [source, dict(self.rest)])

    def take(self, queryset: Any) -> list[Any]:
        """Return the rows of a queryset or another sequence, and note whether there are more."""
        start, end = self.skipped, self.skipped + self.limit
        if isinstance(queryset, QuerySet):
            queryset = order_wholly(queryset)
        # What is no queryset may have no slices.
        has_slices = hasattr(queryset, "query")
        rows = list(queryset[start : end + 1] if has_slices else islice(queryset, start, end + 1))
        self.has_more = len(rows) > self.limit
        return rows[: self.limit]

    def show_any(self, data: Any, explain_empty: Callable[[], str] = str) -> JSONObject:
        """Return the result for the data of a response, which is an object in every revision.

        Args:
            data: that the view returned.
            explain_empty: returns a note for a list without rows.
        """
        if isinstance(data, list):
            return self._show_list(data, "" if data else explain_empty())
        if isinstance(data, dict):
            name = None if self._arguments is None else _find_rows(data)
            return (
                cut_rows(data, self._max_results)
                if name is None
                else self._show_page(data, name, explain_empty)
            )
        return {"result": cut_rows(data, self._max_results)}

    def _show_list(self, rows: Sequence[Any], note: str) -> Listed:
        total, has_more = None, self.has_more
        if has_more is None:
            total = len(rows)
            rows = rows[self.skipped : self.skipped + self.limit]
            has_more = total > self.skipped + len(rows)
        elif not has_more:
            total = self.skipped + len(rows)
        if self._arguments is not None and self._arguments.limit is None:
            total = None  # those of a page
        result: JSONObject = {"results": cut_rows(list(rows), self._max_results)}
        count = len(rows)
        if total is not None and (has_more or self.skipped):
            result["total"] = total
        if has_more and self._arguments is not None:
            result["next_cursor"] = self._write(count)
        told = note
        if has_more and self._arguments is None:
            known = "" if total is None else f" of {total}"
            note = f"The first {count}{known} rows. Narrow the arguments to get the others. {note}"
        if note:
            result["note"] = note.strip()

        def keep(kept: int) -> JSONObject:
            # Without a cursor, the note is about all rows.
            whole = count if self._arguments is not None or total is None else total
            changed = self._cut(kept, whole)
            return changed if total is None else {**changed, "total": total}

        return Listed(result, "results", keep, told=told)

    def _show_page(
        self, data: Mapping[str, Any], name: str, explain_empty: Callable[[], str]
    ) -> Listed:
        """Return a page of the view, of which the first rows may have been shown before."""
        # What `take` has chosen are the rows of this call already.
        is_chosen = self.has_more is not None
        rows = data[name] if is_chosen else data[name][self.skipped :]
        shown = rows[: self.limit]
        page = cut_rows({**data, name: []}, self._max_results)
        next_cursor, note = find_free("next_cursor", page), find_free("note", page)

        def keep(kept: int) -> JSONObject:
            changed = self._cut(kept, len(rows), next_cursor)
            return {next_cursor: changed["next_cursor"], note: changed["note"]}

        result = {**page, name: cut_rows(shown, self._max_results)}
        told = "" if data[name] else explain_empty()
        if told:
            result[note] = told
        if len(rows) > len(shown):
            result |= keep(len(shown))
        elif self.has_more:
            result[next_cursor] = self._write(len(shown))
        return Listed(result, name, keep, note=note, told=told)

    def _cut(self, kept: int, count: int, member: str = "next_cursor") -> JSONObject:
        if self._arguments is None:
            return {"note": note_cut(kept, count, cursor=None)}
        told = note_cut(kept, count, cursor=self._arguments.cursor, member=member)
        return {"next_cursor": self._write(kept), "note": told}

    def _write(self, count: int) -> str:
        return Position(skipped=self.skipped + count).write(self._search)


def _find_rows(page: Mapping[str, Any]) -> str | None:
    """Return the member of a page that has its rows; None: there is none."""
    for name in ("results", "items"):
        if isinstance(page.get(name), list):
            return name
    lists = [
        name
        for name, each in page.items()
        if isinstance(each, list) and each and isinstance(each[0], dict)
    ]
    return max(lists, key=lambda name: len(page[name]), default=None)


def order_wholly(queryset: QuerySet[Any]) -> QuerySet[Any]:
    """Return a queryset in which rows that its order leaves equal are ordered by their primary key.

    One whose query is more than the rows of a model stays as it is.
    """
    query = queryset.query
    is_plain = not (
        query.is_sliced
        or query.combinator
        or query.group_by
        or query.distinct
        or query.extra_order_by
        or query.values_select
    )
    if not (is_plain and query.standard_ordering):
        return queryset
    order = query.order_by or (query.default_ordering and query.get_meta().ordering) or ()
    return (
        queryset
        if "?" in order or "pk" in order or "-pk" in order
        else queryset.order_by(*order, "pk")
    )


def describe_order(queryset: Any, given: Any = None) -> str:
    """Return the fields that rows are ordered by, as text; "" if they cannot be named.

    Args:
        queryset: the rows.
        given: an order that replaces that of the rows.
    """
    order = given or ()
    if not order and isinstance(queryset, QuerySet):
        query = queryset.query
        order = query.order_by or (query.default_ordering and query.get_meta().ordering) or ()
    order = [order] if isinstance(order, str) else list(order)
    return ", ".join(order) if all(isinstance(each, str) for each in order) else ""
