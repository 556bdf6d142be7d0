"""Relations that a text or a method of a site reads from an object: they are loaded for all rows at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import suppress
from typing import Any, TypeVar

from django.db.models import Model, prefetch_related_objects

Result = TypeVar("Result")

MAX_DEPTH = 3
"""Relations after each other that are seen."""


def read_each(
    objects: Sequence[Any],
    read: Callable[[Any], Result],
    follow: Callable[[Any], Any] = lambda instance: instance,
) -> list[Result]:
    """Return what a function reads from each of some objects.

    What such a function reads is not known before. Once it has read a relation from one object, that
    relation is loaded for all that follow.

    Args:
        objects: of one model.
        read: the function.
        follow: returns from what an object the function reads: itself, or one that it leads to; may be None.
    """
    known: set[str] = set()
    results = []
    for index, instance in enumerate(objects):
        source = follow(instance)
        before = _NONE if source is None else _find_loaded(source)
        results.append(read(instance))
        # It costs a query, which a single row does not repay.
        if source is None or len(objects) - index <= 2 or not source._state.fields_cache:
            continue
        new = _find_loaded(source) - before - known
        if new:
            known |= new
            rest = [follow(each) for each in objects[index + 1 :]]
            same = [each for each in rest if type(each) is type(source)]
            # Objects of one relation may be of several models, with relations of their own.
            with suppress(AttributeError, ValueError):
                prefetch_related_objects(same, *sorted(new))
    return results


_NONE: frozenset[str] = frozenset()


def _find_loaded(instance: Model) -> Set[str]:
    """Return the paths of the relations to one object each that an object has loaded."""
    return set(_walk(instance)) if instance._state.fields_cache else _NONE


def _walk(instance: Model, prefix: str = "", depth: int = 1) -> Iterator[str]:
    for name, other in instance._state.fields_cache.items():
        if not isinstance(other, Model):
            continue
        path = f"{prefix}{name}"
        yield path
        if depth < MAX_DEPTH:
            yield from _walk(other, f"{path}__", depth + 1)
