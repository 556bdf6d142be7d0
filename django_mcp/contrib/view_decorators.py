"""The views that a callback of a URLconf leads to, and the decorators around them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from gc import get_referents, is_tracked
from inspect import getclosurevars, isfunction, ismethod
from types import ModuleType
from typing import Any

MAX_LAYERS = 10_000
"""Objects that are looked at to find the views in a callback."""

_CONTAINERS = (dict, list, tuple, set, frozenset)

_END: Any = object()


def find_views(callback: Any, is_view: Callable[[Any], bool]) -> list[list[Any]]:
    """Return the views that a callback of a URLconf leads to, each behind what is around it, from the callback on.

    A decorator may say nothing of what it wraps, or something wrong. Then that is found in its closure, its
    arguments, its attributes, and those of the object and of the class that it belongs to.
    """
    views: list[list[Any]] = []
    seen: set[int] = set()
    # What is left to look at, whether a callable is next to it, and the callables around it: the last one
    # and those around that.
    left: list[tuple[Iterator[Any], bool, Any]] = [(iter([callback]), True, None)]
    while left:
        inside, has_caller, around = left[-1]
        layer = next(inside, _END)
        if layer is _END:
            left.pop()
            continue
        # What the collector does not track, such as a text or a number, refers to nothing.
        if isinstance(layer, (type, ModuleType)) or not is_tracked(layer):
            continue
        if _is_ours(layer):
            continue
        is_called = callable(layer)
        is_container = isinstance(layer, _CONTAINERS)
        # The objects of a site refer to one another, so only those next to a callable count.
        if not (is_called or is_container or has_caller):
            continue
        if id(layer) in seen or len(seen) >= MAX_LAYERS:
            continue
        seen.add(id(layer))
        if is_view(layer):
            views.append(_list_layers(layer, around))
        else:
            has_caller = is_called or (is_container and has_caller)
            around = (layer, around) if is_called else around
            left.append((iter(_find_inside(layer)), has_caller, around))
    return views


def _is_ours(layer: Any) -> bool:
    """Return whether something is of this package: an endpoint refers to its server, and so to each view with tools."""
    owner = layer.__self__ if ismethod(layer) else layer
    module = owner.__module__ if isfunction(owner) else type(owner).__module__
    return str(module).startswith("django_mcp.")


def _list_layers(view: Any, around: Any) -> list[Any]:
    layers = [view]
    while around is not None:
        layer, around = around
        layers.append(layer)
    return layers[::-1]


def is_made_by_class(layer: Any) -> bool:
    """Return whether a function is what the `as_view()` of Django or of Django REST framework returns."""
    if not isfunction(layer) or not layer.__code__.co_qualname.endswith("as_view.<locals>.view"):
        return False
    module = str(layer.__globals__.get("__name__", ""))
    return module.startswith(("django.views.generic.", "rest_framework."))


def _find_inside(layer: Any) -> list[Any]:
    """Return what a decorator, or another object, may call. What it says it wraps is first."""
    told = [layer.__wrapped__] if callable(layer) and hasattr(layer, "__wrapped__") else []
    if not isfunction(layer):
        owner = layer.__self__ if ismethod(layer) else layer
        cls = owner if isinstance(owner, type) else type(owner)
        return [*told, *get_referents(layer), *_attributes_of(cls)]
    # What as_view() has returned makes an object of its class for each request.
    of_class = _attributes_of(layer.__dict__.get("view_class"))
    # All that it refers to would include its module.
    return [
        *told,
        *closure_of(layer),
        layer.__defaults__,
        layer.__kwdefaults__,
        layer.__dict__,
        *of_class,
    ]


_FRAMEWORKS = frozenset(("django", "ninja", "rest_framework", *sys.stdlib_module_names))


def _attributes_of(cls: Any) -> list[Any]:
    """Return the values of the attributes that a class of the site has, and those that it extends."""
    if not isinstance(cls, type):
        return []
    own = [each for each in cls.__mro__ if each.__module__.partition(".")[0] not in _FRAMEWORKS]
    return [value for each in own for value in vars(each).values()]


def closure_of(function: Any) -> list[Any]:
    """Return the values that a function has of the functions around it."""
    cells = []
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # it is empty yet
            cells.append(cell.cell_contents)
    return cells


def find_decorators(layers: Sequence[Any]) -> list[str]:
    """Return the names of the decorators around a view that may refuse requests; see `Route.find_views`."""
    decorators = []
    for layer in layers[:-1]:
        if not isfunction(layer):
            decorators.append(getattr(layer, "__qualname__", type(layer).__qualname__))
        elif not _is_harmless(layer):
            decorators.append(layer.__code__.co_qualname.partition(".<locals>")[0])
    return decorators


HARMLESS = frozenset(
    [
        "cache_control",
        "condition",
        "csrf_exempt",
        "never_cache",
        "no_append_slash",
        "sensitive_post_parameters",
        "sensitive_variables",
        "vary_on_headers",
        "xframe_options_deny",
        "xframe_options_exempt",
        "xframe_options_sameorigin",
        "_make_csp_decorator",
    ]
)
"""The functions of `django.views.decorators` that refuse nobody. `require_safe` and its like are not here."""


def _is_harmless(wrapper: Any) -> bool:
    """Return whether a decorator is one of Django's that let in whom the view lets in."""
    module = str(wrapper.__globals__.get("__name__", ""))
    if module == "django.utils.decorators":  # made from a middleware, which its parts have
        parts = getclosurevars(wrapper).nonlocals.values()
        variables = [getclosurevars(part).nonlocals for part in parts if isfunction(part)]
        made = [
            type(closed_over["middleware"]).__module__
            for closed_over in variables
            if "middleware" in closed_over
        ]
        return bool(made) and made[0].startswith(("django.views.decorators.", "django.middleware."))
    name = wrapper.__code__.co_qualname.partition(".<locals>")[0]
    return module.startswith("django.views.decorators.") and name in HARMLESS
