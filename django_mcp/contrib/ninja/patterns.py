"""Find the arguments of an operation that would be regular expressions of a client."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, get_args

from ninja import FilterSchema
from pydantic import BaseModel

from django_mcp.contrib.http_calls import BODY
from django_mcp.contrib.ninja.found import FoundOperation
from django_mcp.contrib.view_decorators import find_views
from django_mcp.forms.values import takes_pattern
from django_mcp.registry.adapters import UnsupportedType, make_adapter

_SEARCHING = "ninja_extra.searching.operations"


@dataclass
class Patterns:
    """The regular expressions that an operation takes.

    Attributes:
        arguments: place and name of those that are arguments of their own.
        inside: the names of the arguments that have some inside.
        words: place and name of the arguments whose words a search looks for.
    """

    arguments: list[tuple[str, str]] = field(default_factory=list)
    inside: list[str] = field(default_factory=list)
    words: set[tuple[str, str]] = field(default_factory=set)


def find_patterns(found: FoundOperation) -> Patterns:
    """Return the regular expressions that an operation takes.

    They are fields of filter schemas that look for one, and searches of django-ninja-extra.
    """
    patterns = Patterns()
    for model in found.operation.models:
        if _has_patterns(model, if_unknown=False):  # then it has no schema either
            _add_filters(patterns, model)
    for searching in _searches_of(found.written):
        _add_search(patterns, found.operation.models, searching)
    return patterns


def _add_filters(patterns: Patterns, model: Any) -> None:
    place = _place_of(model)
    for name, owner, each in _arguments_of(model):
        if issubclass(owner, FilterSchema) and _takes_pattern(owner, each):
            patterns.arguments.append((place, name))
        elif _has_patterns(owner.model_fields[each].annotation, if_unknown=True):
            patterns.inside.append(name)


def _add_search(patterns: Patterns, models: Any, searching: Any) -> None:
    made = getattr(searching, "construct_search", str)
    lookups = [made(str(name)) for name in getattr(searching, "search_fields", None) or ()]
    for model in models:
        for name, owner, _field in _arguments_of(model):
            if owner is searching.Input:
                argument = (_place_of(model), name)
                patterns.words.add(argument)
                if any(map(takes_pattern, lookups)):
                    patterns.arguments.append(argument)


def _searches_of(function: Any) -> list[Any]:
    operations = sys.modules.get(_SEARCHING)
    if operations is None:
        return []
    cls = operations.SearcheratorOperation
    return [
        layers[-1].searcherator
        for layers in find_views(function, lambda layer: isinstance(layer, cls))
    ]


def _place_of(model: Any) -> str:
    source = str(model.__ninja_param_source__)
    return BODY if source == "form" else source


def _arguments_of(model: Any) -> Iterator[tuple[str, Any, str]]:
    """Yield the name of each argument that a model of Django Ninja reads, the class that has it, and its field there."""
    paths = getattr(model, "__ninja_flatten_map__", None)
    if paths is not None:
        for name, path in paths.items():
            for owner, each in _follow(model, path):
                yield name, owner, each
        return
    single = getattr(model, "__read_from_single_attr__", None)
    inner = None if single is None else model.model_fields[single].annotation
    owner = inner if isinstance(inner, type) and issubclass(inner, BaseModel) else model
    for each, info in owner.model_fields.items():
        yield info.alias or each, owner, each


def _follow(owner: Any, path: tuple[str, ...]) -> Iterator[tuple[Any, str]]:
    """Yield each class that has the field at the end of a path of names, and the field's name there."""
    for each, info in owner.model_fields.items():
        if path[0] not in (each, info.alias):
            continue
        if len(path) == 1:
            yield owner, each
        for part in (info.annotation, *get_args(info.annotation)):
            if len(path) > 1 and isinstance(part, type) and issubclass(part, BaseModel):
                yield from _follow(part, path[1:])


def _has_patterns(data_type: Any, *, if_unknown: bool) -> bool:
    """Return whether data of a type may have regular expressions, or `if_unknown` where pydantic cannot tell."""
    try:
        return any(map(_looks_for_patterns, _models_in(data_type)))
    except UnsupportedType:
        return if_unknown


def _models_in(data_type: Any) -> Iterator[Any]:
    """Yield the models that data of a type may consist of."""
    waiting: list[Any] = [make_adapter(data_type).core_schema]
    seen: set[int] = set()
    while waiting:
        each = waiting.pop()
        if not isinstance(each, dict | list | tuple) or id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, dict):
            if each.get("type") == "model":
                yield each["cls"]
            waiting.extend(each.values())
        else:
            waiting.extend(each)


def _looks_for_patterns(model: Any) -> bool:
    return issubclass(model, FilterSchema) and any(
        _takes_pattern(model, name) for name in model.model_fields
    )


def _takes_pattern(model: Any, name: str) -> bool:
    """Return whether a field of a filter schema looks for a regular expression.

    Its lookups are those of a `FilterLookup`, or of the option `q`, or its name.
    """
    info = model.model_fields[name]
    given = [getattr(part, "q", None) for part in info.metadata]
    if isinstance(info.json_schema_extra, dict):
        given.append(info.json_schema_extra.get("q"))
    lookups: list[str] = []
    for lookup in given:
        lookups += [lookup] if isinstance(lookup, str) else lookup or ()
    return any(map(takes_pattern, lookups or [name]))
