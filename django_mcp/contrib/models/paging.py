"""Pages of rows by the values of the last row, which travel in a signed cursor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from django.db.models import (
    BinaryField,
    CharField,
    F,
    Field,
    JSONField,
    Model,
    Q,
    QuerySet,
    TextField,
)
from django.db.models.expressions import OrderBy

from django_mcp.contrib.cursors import NOTE_SCHEMA, Position, cursor_schema, fingerprint, note_cut
from django_mcp.contrib.models.paths import Path, PathError, read_whole_path
from django_mcp.forms.values import value_field
from django_mcp.protocol.json import JSONObject
from django_mcp.registry.listed import Listed
from django_mcp.registry.object_schemas import object_schema, or_null

MAX_ORDER_CHARS = 500
"""Rows are not ordered by texts that may be longer: the cursor has them."""

USUAL_LIMIT = 20
"""Rows on a page if the caller does not say."""

_OF_PAGE = ("limit", "cursor", "count", "fields")
"""Arguments that may differ between the pages of one search."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Key:
    """One field that rows are ordered by; rows without a value come last.

    Attributes:
        path: the field, not through a to-many relation.
        is_descending: whether larger values come first.
    """

    path: Path
    is_descending: bool

    @property
    def lookup(self) -> str:
        """The path for conditions; that of the column, if it is a foreign key."""
        field = self.path.field
        is_key = field.is_relation and isinstance(field, Field)
        return (
            f"{self.path.lookup}_id" if is_key and len(self.path.fields) == 1 else self.path.lookup
        )

    def to_order(self) -> OrderBy | str:
        """Return the argument for `order_by`."""
        if not self.path.is_nullable:
            return f"-{self.lookup}" if self.is_descending else self.lookup
        expression = F(self.lookup)
        return (
            expression.desc(nulls_last=True)
            if self.is_descending
            else expression.asc(nulls_last=True)
        )

    def after(self, value: Any) -> Q | None:
        """Return the condition for rows after one with this value; None, if there are none."""
        if value is None:
            return None
        condition = Q((f"{self.lookup}__{'lt' if self.is_descending else 'gt'}", value))
        return (
            condition | Q((f"{self.lookup}__isnull", True)) if self.path.is_nullable else condition
        )

    def equal(self, value: Any) -> Q:
        """Return the condition for rows with the same value."""
        return Q((f"{self.lookup}__isnull", True)) if value is None else Q((self.lookup, value))

    def read(self, instance: Any) -> str | None:
        """Return the value of an instance as text."""
        for field in self.path.fields[:-1]:
            instance = getattr(instance, field.name, None)
            if instance is None:
                return None
        field = self.path.field
        value = getattr(instance, field.attname)
        own_field = value_field(field)
        if not hasattr(own_field, "attname"):  # the output field of a generated one has no name
            own_field = copy(own_field)
            own_field.set_attributes_from_name("value")
        stub: Any = SimpleNamespace(**{own_field.attname: value})
        return None if value is None else own_field.value_to_string(stub)

    def convert(self, text: str | None) -> Any:
        """Return the value of a text that `read` returned."""
        return None if text is None else value_field(self.path.field).to_python(text)

    def to_text(self) -> str:
        """Return the key as `read_key` takes it."""
        return f"-{self.path.lookup}" if self.is_descending else self.path.lookup


def read_key(model: type[Model], text: str) -> Key:
    """Return the key of a field, which `-` in front makes descending.

    Raises:
        PathError: rows cannot be ordered by it.
    """
    path = read_whole_path(model, text.removeprefix("-"))
    if path.is_to_many:
        raise PathError(f"{text!r} has several values for a row, so it is no order")
    if path.field.is_relation and not (isinstance(path.field, Field) and len(path.fields) == 1):
        raise PathError(f"{text!r} is a relation: name one of its fields")
    if may_be_long(path.field):
        raise PathError(
            f"{text!r} has no max_length of at most {MAX_ORDER_CHARS}, so it is no order"
        )
    return Key(path=path, is_descending=text.startswith("-"))


def may_be_long(field: Any) -> bool:
    """Return whether values of a field may be too long for a cursor."""
    own_field = value_field(field)
    if isinstance(own_field, CharField | TextField):
        return own_field.max_length is None or own_field.max_length > MAX_ORDER_CHARS
    return isinstance(own_field, BinaryField | JSONField)


def complete(model: type[Model], keys: Sequence[Key], last: str = "pk") -> tuple[Key, ...]:
    """Return keys that no two rows have in common.

    Args:
        model: of the rows.
        keys: the order so far.
        last: a unique field that is added where the order leaves rows equal.
    """
    for position, key in enumerate(keys):
        if len(key.path.fields) == 1 and key.path.field.unique and not key.path.is_nullable:
            return tuple(keys[: position + 1])
    is_descending = bool(keys) and keys[-1].is_descending
    return (*keys, Key(path=read_whole_path(model, last), is_descending=is_descending))


def begin_after(
    queryset: QuerySet[Any], keys: Sequence[Key], texts: Sequence[str | None]
) -> QuerySet[Any]:
    """Return the rows after the one with these values, in the order of the keys."""
    condition, equal = Q(), Q()
    found_any = False
    for key, text in zip(keys, texts, strict=True):
        value = key.convert(text)
        after = key.after(value)
        if after is not None:
            condition, found_any = condition | (equal & after), True
        equal &= key.equal(value)
    return queryset.filter(condition) if found_any else queryset.none()


MAX_READ_AGAIN = 1000
"""Rows that a page reads again because the user may not have seen them."""


class Pages:
    """The pages of a search: their arguments, their schema and their rows.

    Args:
        source: says which search it is; cursors of another are not taken.
        max_results: rows on a page at most.
        max_count: rows are counted up to this number; None: they are not counted.
    """

    def __init__(self, source: str, *, max_results: int, max_count: int | None) -> None:
        self._source = source
        self._max_results = max_results
        self._max_count = max_count

    def describe(self, keys: Sequence[Key]) -> JSONObject:
        """Return the schemas of the arguments that select a page.

        Args:
            keys: the order of the rows if the caller does not say.
        """
        largest = self._max_results
        schemas: JSONObject = {
            "limit": {
                "type": "integer",
                "minimum": 1,
                "maximum": largest,
                "default": min(USUAL_LIMIT, largest),
            },
            "cursor": cursor_schema(", ".join(key.to_text() for key in keys)),
        }
        if self._max_count is not None:
            schemas["count"] = {
                "type": "boolean",
                "default": False,
            }
        return schemas

    def schema(self, row: JSONObject) -> JSONObject:
        """Return the output schema of a search.

        Args:
            row: the schema of one result.
        """
        properties: JSONObject = {
            "results": {"type": "array", "items": row},
            "next_cursor": or_null(
                {"type": "string", "description": "The cursor of the next page; null: none."}
            ),
        }
        required = list(properties)
        if self._max_count is not None:
            properties["count"] = {
                "type": "integer",
                "description": "How many results there are in all.",
            }
            properties["is_count_capped"] = {
                "type": "boolean",
                "description": "Whether there are more results than count says.",
            }
        properties["note"] = NOTE_SCHEMA
        return object_schema(properties, required=required)

    def read(
        self,
        rows: QuerySet[Any],
        keys: Sequence[Key],
        *,
        user: Any,
        arguments: Mapping[str, Any],
        load: Callable[[QuerySet[Any]], QuerySet[Any]],
        show: Callable[[Sequence[Any]], list[Any]],
        explain: Callable[..., str],
        keep: Callable[[Sequence[Any]], Sequence[Any]] = lambda found: found,
    ) -> JSONObject:
        """Return a page.

        Args:
            rows: all that were found.
            keys: their order.
            user: the caller, for whom a cursor is good.
            arguments: of the search.
            load: adds to a queryset what is shown.
            show: returns the results for rows.
            explain: returns a note about the search; takes `is_empty`, whether nothing was found.
            keep: returns the rows that the user may see.

        Raises:
            ArgumentErrors: the cursor is not valid.
        """
        given = {name: value for name, value in arguments.items() if name not in _OF_PAGE}
        order = [key.to_text() for key in keys]
        search = fingerprint(user, [self._source, order, given])
        start = Position()
        page = rows
        if "cursor" in arguments:
            start = Position.read(arguments["cursor"], search)
        if start.values is not None:
            page = begin_after(rows, keys, start.values)
        limit = arguments.get("limit", min(USUAL_LIMIT, self._max_results))
        page = load(page.order_by(*(key.to_order() for key in keys)))
        # Rows that were not shown are read again, since others may be in their places now.
        passed = max(0, start.skipped - MAX_READ_AGAIN)
        most = start.skipped - passed + limit
        rows_read = list(page[passed : passed + most + 1])
        has_more = len(rows_read) > most
        visible = keep(rows_read[:most])
        seen = visible[:limit]
        if len(visible) > limit:
            has_more, rows_read = True, rows_read[: rows_read.index(seen[-1]) + 1]
        end = _end(start.values, keys, rows_read[:most], seen, passed)
        result: JSONObject = {
            "results": show(seen),
            "next_cursor": end.write(search) if has_more else None,
        }
        if self._max_count is not None and arguments.get("count"):
            count = rows.order_by()[: self._max_count + 1].count()
            result["count"] = min(count, self._max_count)
            result["is_count_capped"] = count > self._max_count
        note = explain(is_empty=not seen and start == Position() and not has_more)
        if note:
            result["note"] = note

        def keep_first(kept: int) -> JSONObject:
            after = Position(values=[key.read(seen[kept - 1]) for key in keys])
            cut: JSONObject = {
                "next_cursor": after.write(search),
                "note": note_cut(kept, len(seen), cursor="cursor"),
            }
            is_all = start == Position() and not has_more
            if is_all and self._max_count is not None:
                cut |= {"count": len(seen), "is_count_capped": False}
            return cut

        return Listed(result, "results", keep_first, told=note)


def _end(
    start: list[str | None] | None,
    keys: Sequence[Key],
    found: Sequence[Any],
    seen: Sequence[Any],
    passed: int,
) -> Position:
    """Return the position after a page: behind the last row that was shown, and the hidden ones after it."""
    if not seen:
        return Position(values=start, skipped=passed + len(found))
    last = seen[-1]
    hidden = 0 if found[-1] is last else len(found) - 1 - found.index(last)
    return Position(values=[key.read(last) for key in keys], skipped=hidden)
