"""Find the methods of a `ModelTools` class that nothing calls, such as `validate_number` of a serializer."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from types import CodeType, FunctionType
from typing import Any

_FORM = "A `ModelForm` that `form` names validates what is written."
_ROWS = "`get_queryset(self, user)` says which objects a user may see and change."
_SAVING = "`save_model(self, user, instance, form, change)` saves."
_ROLES = "`has_permission(self, user, action)` says who may do what."
_SHOWN = "A method computes a value that is shown if `fields` names it."

_INSTEAD = (
    (("clean", "validat"), _FORM),
    (("queryset", "object", "rows", "visible"), _ROWS),
    (("permi", "allow", "can_", "may_", "is_", "test_func"), _ROLES),
    (("save", "create", "update", "delete", "change", "write"), _SAVING),
    (("",), _SHOWN),
)
"""What a hook is for, by parts of the names that sites give to methods for it. The first that fits is told."""


_METHODS = (FunctionType, classmethod, staticmethod)


def find_uncalled(given: type, base: type) -> Iterator[tuple[str, str]]:
    """Yield the methods that no code beside them names, with what does that instead.

    A name that begins with an underscore is the site's own.

    Args:
        given: a class of the site.
        base: the class that it extends, which knows its hooks.
    """
    own = [cls for cls in given.__mro__ if issubclass(cls, base) and cls is not base]
    methods = {
        name
        for cls in own
        for name, value in vars(cls).items()
        if not name.startswith("_") and not hasattr(base, name) and isinstance(value, _METHODS)
    }
    named = set(given.fields)  # type: ignore[attr-defined]
    for cls in given.__mro__:
        if cls in own or cls not in base.__mro__:
            named |= _find_named(vars(cls).values())
            # A function beside the class may call it, or another class.
            module = sys.modules.get(cls.__module__)
            beside = [] if module is None else list(vars(module).values())
            named |= _find_named(beside)
            for other in beside:
                if issubclass(type(other), type) and other.__module__ == cls.__module__:
                    named |= _find_named(vars(other).values())
    for name in sorted(methods - named):
        yield name, next(text for parts, text in _INSTEAD if any(part in name for part in parts))


def _find_named(values: Iterable[Any]) -> set[str]:
    """Return the names that functions use, and the texts in them."""
    found: set[str] = set()
    for value in list(values):
        # Not `isinstance`, which loads a lazy object.
        kind = type(value)
        if issubclass(kind, property):
            functions = [value.fget, value.fset]
        elif issubclass(kind, classmethod | staticmethod):
            functions = [value.__func__]
        else:
            functions = [value]
        for function in functions:
            if issubclass(type(function), FunctionType):
                found.update(_walk(function.__code__))
    return found


def _walk(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _walk(each)
        elif isinstance(each, str):
            yield each
