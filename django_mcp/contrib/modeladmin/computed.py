"""Values that functions of a site's admin compute for its columns: the objects in them, and their form in JSON.

Also the paths of the objects that such a function tells of, by the expression that it is ordered by.
"""

from __future__ import annotations

import html
import math
from collections.abc import Collection, Iterator, Mapping, Sequence, Set, ValuesView
from datetime import date, datetime, time
from itertools import chain, islice
from typing import Any

from django.db.models import F, Model, Q, QuerySet
from django.db.models.sql import Query
from django.utils.html import strip_tags

from django_mcp.contrib.generated import MAX_KEYS
from django_mcp.execution.moments import localize
from django_mcp.registry.big_integers import write_integer


def find_paths(expression: Any) -> Iterator[str]:
    """Yield the paths that an expression refers to, also in its conditions and from its subqueries."""
    if isinstance(expression, F):  # an OuterRef too
        reference: Any = expression
        yield reference.name
    elif isinstance(expression, Q):
        for child in expression.children:
            if isinstance(child, tuple):
                yield child[0]
            yield from find_paths(child[1] if isinstance(child, tuple) else child)
    elif isinstance(expression, Query):
        for part in (expression.where, *expression.annotations.values()):
            yield from find_paths(part)
    elif hasattr(expression, "get_source_expressions"):
        for part in expression.get_source_expressions():
            yield from find_paths(part)


def _is_list(value: Any) -> bool:
    """Return whether a value is shown as a list. A queryset is, too, once it is cut."""
    return isinstance(value, Sequence | Set | ValuesView) and not isinstance(
        value, str | bytes | bytearray | memoryview
    )


def find_objects(value: Any) -> Iterator[Model]:
    """Yield the objects in a computed value, also those in keys."""
    if isinstance(value, Model):
        yield value
    elif isinstance(value, Mapping):
        yield from chain.from_iterable(map(find_objects, chain(value, value.values())))
    elif isinstance(value, QuerySet):
        yield from find_objects(_cut(value))
    elif _is_list(value):
        yield from chain.from_iterable(map(find_objects, islice(value, MAX_KEYS)))


def without_objects(value: Any, hidden: Collection[Model]) -> Any:
    """Return a computed value without the objects that are hidden."""
    if not hidden:
        return value
    if isinstance(value, Model):
        return None if _is_hidden(value, hidden) else value
    if isinstance(value, Mapping):
        return {
            key: without_objects(each, hidden)
            for key, each in value.items()
            if not any(_is_hidden(instance, hidden) for instance in find_objects(key))
        }
    if _is_list(value):
        kept = islice(value, MAX_KEYS)
        return [
            without_objects(part, hidden)
            for part in kept
            if not (isinstance(part, Model) and _is_hidden(part, hidden))
        ]
    return value


def _is_hidden(instance: Model, hidden: Collection[Model]) -> bool:
    # One that is not saved has no hash.
    return instance.pk is not None and instance in hidden


def _cut(rows: QuerySet[Any]) -> list[Any]:
    if not rows.query.is_sliced:
        rows = rows[:MAX_KEYS]  # in its query, unless it was evaluated
    return list(islice(rows, MAX_KEYS))


def cut_querysets(value: Any) -> Any:
    """Return a computed value with its querysets, at any depth, as lists of their first rows."""
    if hasattr(value, "__html__"):
        return value
    if isinstance(value, QuerySet):
        return _cut(value)
    if isinstance(value, Mapping):
        return {key: cut_querysets(each) for key, each in value.items()}
    if _is_list(value):
        return [cut_querysets(each) for each in islice(value, MAX_KEYS)]
    return value


def to_plain(value: Any) -> Any:
    """Return a computed value as JSON has it; what has no form there, and HTML, as text."""
    if value is None or type(value) is bool:
        return value
    if type(value) is int:
        return write_integer(value)
    if type(value) is float:
        return value if math.isfinite(value) else str(value)
    if hasattr(value, "__html__"):
        return html.unescape(strip_tags(value.__html__()))
    if isinstance(value, datetime):
        return localize(value).isoformat()
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(key): to_plain(each) for key, each in value.items()}
    if isinstance(value, QuerySet):
        value = _cut(value)
    if _is_list(value):
        return [to_plain(part) for part in islice(value, MAX_KEYS)]
    return str(value)
