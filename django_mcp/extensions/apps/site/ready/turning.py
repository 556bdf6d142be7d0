"""The pages of a list: which arguments select the next one, and the one before."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from django_mcp.protocol.json import JSONObject

PLACES = ("cursor", "row_cursor", "page", "offset")
"""The arguments that say where a page of rows begins."""


class Pages(NamedTuple):
    """The arguments of the next page, and of the one before or the first one; None: there is none."""

    after: JSONObject | None = None
    before: JSONObject | None = None


def find_pages(result: Any, arguments: Mapping[str, Any], inputs: JSONObject, count: int) -> Pages:
    """Return the pages beside the one that a result has.

    Args:
        result: the structured result.
        arguments: of the call.
        inputs: the schemas of the arguments by name.
        count: rows in the result.
    """
    if not isinstance(result, Mapping):
        return Pages()
    for find in _WAYS:
        pages = find(result, arguments, inputs, count)
        if pages is not None:
            return pages
    return Pages(before=_first(arguments))


def find_total(result: Any) -> int | None:
    """Return how many rows there are in all, if a result says so."""
    for name in ("count", "total"):
        total = result.get(name) if isinstance(result, Mapping) else None
        if isinstance(total, int) and not isinstance(total, bool):
            return total
    return None


def without_place(arguments: Mapping[str, Any]) -> JSONObject:
    """Return the arguments of a first page."""
    return {name: each for name, each in arguments.items() if name not in PLACES}


def _first(arguments: Mapping[str, Any]) -> JSONObject | None:
    first = without_place(arguments)
    return None if first == arguments else first


def _by_cursor(
    result: Mapping[str, Any], arguments: Mapping[str, Any], inputs: JSONObject, _count: int
) -> Pages | None:
    for name in ("cursor", "row_cursor"):
        cursor = result.get(f"next_{name}") or result.get("next_cursor")
        if name in inputs and isinstance(cursor, str) and cursor:
            return Pages({**arguments, name: cursor}, _first(arguments))
    return None


def _by_links(
    result: Mapping[str, Any], arguments: Mapping[str, Any], _inputs: JSONObject, _count: int
) -> Pages | None:
    """Find the arguments that select a page, as the generated tools of views tell them."""
    links = result.get("next"), result.get("previous")
    if not any(isinstance(link, Mapping) for link in links):
        return None
    first = without_place(arguments)
    after, before = ({**first, **link} if isinstance(link, Mapping) else None for link in links)
    return Pages(after, before)


def _by_number(
    result: Mapping[str, Any], arguments: Mapping[str, Any], inputs: JSONObject, count: int
) -> Pages | None:
    page = arguments.get("page", 1)
    if "page" not in inputs or not isinstance(page, int):
        return None
    has_more, total = result.get("has_more"), find_total(result)
    if has_more is None and total is not None and count:
        described = inputs.get("page_size")
        usual = described.get("default") if isinstance(described, Mapping) else None
        size = arguments.get("page_size", usual)
        # Without a size, the pages before are taken to be as long as this one.
        has_more = total > page * (size if isinstance(size, int) else count)
    first = without_place(arguments)
    return Pages(
        {**first, "page": page + 1} if has_more else None,
        {**first, "page": page - 1} if page > 1 else None,
    )


def _by_offset(
    result: Mapping[str, Any], arguments: Mapping[str, Any], inputs: JSONObject, count: int
) -> Pages | None:
    offset = arguments.get("offset", 0)
    if "offset" not in inputs or not isinstance(offset, int):
        return None
    total, limit = find_total(result), arguments.get("limit")
    first = without_place(arguments)
    has_more = total is not None and count and total > offset + count
    before = _first(arguments) if offset else None
    if isinstance(limit, int) and offset > limit:
        before = {**first, "offset": offset - limit}
    return Pages({**first, "offset": offset + count} if has_more else None, before)


_WAYS: tuple[
    Callable[[Mapping[str, Any], Mapping[str, Any], JSONObject, int], Pages | None], ...
] = (_by_cursor, _by_links, _by_number, _by_offset)
