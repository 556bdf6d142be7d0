"""Refuse fields that validate the data of clients with pydantic models or patterns that may take very long."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property, lru_cache, partial
from types import CodeType, FunctionType, GenericAlias, MethodType, ModuleType, NoneType, UnionType
from typing import Any, get_origin
from weakref import WeakValueDictionary

from django.apps.config import AppConfig
from django.apps.registry import Apps
from django.db import models
from django.db.models.options import Options
from django.db.models.query import QuerySet
from django.utils.functional import LazyObject

from django_mcp.forms.patterns import may_take_exponential_time
from django_mcp.registry.adapters import SlowPattern, UnsupportedType, check_adapter, make_adapter
from django_mcp.registry.hints import is_record
from django_mcp.registry.unions import AmbiguousUnion

MAX_OBJECTS = 5_000
"""Objects that are looked at for one tool; few fields have more than ten."""

_FRAMEWORKS = {
    "annotated_types", "django", "django_filters", "django_mcp", "ninja", "phonenumbers", "pydantic", "pydantic_core",
    "rest_framework", "typing_extensions",
}  # fmt: skip
"""Packages that check their own patterns and texts: phonenumbers matches no more than 250 characters."""

_LEAVES = (
    str, bytes, int, float, NoneType, models.Model, models.Manager, QuerySet,
    AppConfig, Apps, Options,
)  # fmt: skip
"""What is not looked into. The apps and options of a model lead to all others, which check none of its values."""

_SCALARS = frozenset({str, bytes, bool, int, float, NoneType})

_CONTAINERS = frozenset({dict, list, tuple, set, frozenset})
"""Their objects are no types."""

_SURROUNDINGS = {"_context", "admin_site", "parent"}
"""Attributes that lead to what a field or widget is in. An admin site has all admins."""


class SlowValidation(Exception):
    """Data of a client may take very long to check. The text says why, `hint` what to do."""

    def __init__(self, text: str, hint: str) -> None:
        super().__init__(text)
        self.hint = hint


def check_models(roots: Iterable[Any]) -> int:
    """Check the pydantic models and patterns that fields, forms, serializers and their validators use.

    Returns with how many forms one of them compares one part of a value at most.

    They are found in the attributes of these objects, in what the site's functions name, and in the
    validators of other models. What a function makes itself is not found.

    Raises:
        SlowValidation: one of them tries a value form by form, or matches a text with Python's `re`; see
            `registry.adapters.check_adapter`. Or a pattern may take exponential time.
    """
    has_pydantic = "pydantic" in sys.modules
    harmless = _harmless[has_pydantic]
    waiting, seen, widths = list(roots), dict[int, Any](), [1]
    while waiting and len(seen) < MAX_OBJECTS:
        each = waiting.pop()
        kind: Any = type(each)
        # Most of what fields hold are these, and asking costs more than all the rest.
        if kind in _SCALARS or id(each) in seen:
            continue
        if kind in _CONTAINERS:
            seen[id(each)] = each
            waiting.extend(each.values() if kind is dict else each)
            continue
        find = _find_finder(kind)
        if find is None or harmless.get(id(each)) is each:
            continue
        seen[id(each)] = each
        if kind is re.Pattern:
            _check_pattern(each)
        elif has_pydantic and _is_type_of_data(each):
            waiting.extend(_check(each, widths))
        else:
            waiting.extend(find(each))
    if not waiting and widths == [1]:
        # What they lead to has been looked at too, and forms of one site share most of it.
        shared = (each for each in seen.values() if isinstance(each, type | FunctionType))
        harmless.update((id(each), each) for each in shared)
    return max(widths)


_harmless: dict[bool, WeakValueDictionary[int, Any]] = {
    False: WeakValueDictionary(),
    True: WeakValueDictionary(),
}
"""Classes and functions that lead to no model, and to no pattern that may take long, by whether pydantic was imported."""


def _check_pattern(pattern: re.Pattern[Any]) -> None:
    if may_take_exponential_time(pattern):
        text = f"the pattern {pattern.pattern!r} may take very long for a text"
        hint = "Let what it repeats match a text in one way only, unlike `(a+)+`, `(a|a)*` and `(a?){30}`."
        raise SlowValidation(text, hint)


def _check(data_type: Any, widths: list[int]) -> list[Any]:
    """Check a model, a type or an adapter, and return the functions that validate its values."""
    from pydantic import TypeAdapter

    try:
        if not isinstance(data_type, TypeAdapter):
            data_type = make_adapter(data_type)
        widths.append(check_adapter(data_type))
    except AmbiguousUnion as problem:
        told = f"pydantic would try a value form by form: {problem}"
        raise SlowValidation(told, "Give the union a discriminator.") from problem
    except SlowPattern as problem:
        told = f"pydantic may take very long for a text: {problem}".removesuffix(".")
        raise SlowValidation(told, "Write the pattern as a string.") from problem
    except (UnsupportedType, TypeError):
        return []  # no type of data, such as an alias in an annotation
    problem_found, waiting, seen = [], [data_type.core_schema], set()
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict | list | tuple) and id(each) not in seen:
            seen.add(id(each))
            waiting.extend(each.values() if isinstance(each, dict) else each)
        elif callable(each):
            problem_found.append(each)
    return problem_found


def _is_type_of_data(value: Any) -> bool:
    from pydantic import TypeAdapter

    kind: Any = type(value)
    if not _may_be_types(kind) and "__value__" not in getattr(value, "__dict__", ()):
        return False  # as nearly everything that fields hold
    if isinstance(value, type) and issubclass(value, models.Model):
        return False
    # Asking the object itself would run its __getattr__, which may import a module.
    has_value = hasattr(type(value), "__value__") or "__value__" in getattr(value, "__dict__", ())
    is_alias = get_origin(value) is not None or has_value
    is_model = isinstance(value, type) and "__pydantic_validator__" in vars(value)
    return is_alias or is_model or isinstance(value, TypeAdapter) or is_record(value)


@lru_cache(maxsize=10_000)
def _may_be_types(cls: type[Any]) -> bool:
    """Return whether objects of a class may be types of data, as classes, aliases and adapters are."""
    from pydantic import TypeAdapter

    is_of_typing = cls.__module__ in ("typing", "typing_extensions")
    return (
        is_of_typing
        or issubclass(cls, type | GenericAlias | UnionType | TypeAdapter)
        or hasattr(cls, "__value__")
    )


@lru_cache(maxsize=10_000)
def _find_finder(cls: type[Any]) -> Callable[[Any], Iterable[Any]] | None:
    """Return what finds the parts of the objects of a class; None, if they are not looked into."""
    if issubclass(cls, _LEAVES):
        return None
    return next((find for kind, find in _PARTS if issubclass(cls, kind)), _attributes_and_class)


def _attributes_and_class(value: Any) -> list[Any]:
    return [*_attributes(value), type(value)]


def _attributes(value: Any) -> list[Any]:
    attributes = getattr(value, "__dict__", {})
    return [
        each
        for name, each in attributes.items()
        if name not in _SURROUNDINGS and type(each) not in _SCALARS
    ]


def _of_class(cls: type[Any]) -> Iterator[Any]:
    if issubclass(cls, models.Model):
        return
    for base_class in cls.__mro__:
        if not _is_of_framework(base_class):
            yield from vars(base_class).values()


def _of_function(function: FunctionType) -> Iterator[Any]:
    if _is_of_framework(function):
        return
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # it is still empty
            continue
    # In an order that is the same in each process, as no more than some objects are looked at.
    names = dict.fromkeys(_names(function.__code__))
    takes_aliases = _has_pydantic(function.__module__)
    for name in names:
        referred = function.__globals__.get(name)
        if isinstance(referred, ModuleType):
            yield from (getattr(referred, name) for name in names if name in vars(referred))
        elif takes_aliases or get_origin(referred) is None:
            yield referred


def _has_pydantic(name: str | None) -> bool:
    """Return whether a module uses pydantic. In another, an alias such as `Pattern[str]` is only an annotation."""
    return any(
        str(getattr(value, "__module__", "") or "").partition(".")[0] == "pydantic"
        # Not `isinstance`, which loads a lazy object.
        or (issubclass(type(value), ModuleType) and value.__name__.partition(".")[0] == "pydantic")
        for value in list(vars(sys.modules.get(name or "", object)).values())
    )


def _names(code: CodeType) -> Iterator[str]:
    """Yield the names of globals and attributes in a function, and in those inside of it."""
    yield from code.co_names
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from _names(const)


def _is_of_framework(value: Any) -> bool:
    top = (value.__module__ or "").partition(".")[0]
    return top in _FRAMEWORKS or top in sys.stdlib_module_names


def _of_lazy(value: Any) -> list[Any]:
    with suppress(Exception):  # of what it stands for, which fails for its users as well
        _ = value.__class__  # which has it made
    return _attributes_and_class(value)


_PARTS: list[tuple[Any, Callable[[Any], Iterable[Any]]]] = [
    (LazyObject, _of_lazy),
    (ModuleType, lambda _: ()),
    (type, _of_class),
    (FunctionType, _of_function),
    (MethodType, lambda each: (each.__func__, each.__self__)),
    (partial, lambda each: (each.func, *each.args, *each.keywords.values())),
    (property, lambda each: (each.fget,)),
    (cached_property, lambda each: (each.func,)),
    (classmethod | staticmethod, lambda each: (each.__func__,)),
    (Mapping, lambda each: each.values()),
    (list | tuple | set | frozenset, lambda each: each),
]
