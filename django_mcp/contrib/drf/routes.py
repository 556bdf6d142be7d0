"""The URLs of an action: those of the site, or those that a router would make."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from django.conf import settings
from django.urls import URLResolver, get_resolver, path
from django.urls.converters import IntConverter, UUIDConverter
from rest_framework.routers import SimpleRouter
from rest_framework.viewsets import ViewSetMixin

from django_mcp.contrib.drf.actions import ViewAction, is_view
from django_mcp.contrib.routes import (
    Route,
    ViewRoutes,
    find_routes,
    make_urlconf,
)
from django_mcp.contrib.view_decorators import find_decorators
from django_mcp.protocol.json import JSONObject


def find_routes_of(action: ViewAction, nested: Collection[str], *, is_named: bool) -> ViewRoutes:
    """Return the URLs of an action.

    Args:
        action: of a view.
        nested: further variables of its URLs.
        is_named: the site named it, so that it needs no URL of its own.
    """
    leads_here = partial(_leads_to, action)
    is_of_view = partial(_serves if is_named else _is_of, action)
    return ViewRoutes(leads_here, is_of_view, partial(_make_own, action, nested))


def _layers_of(action: ViewAction, route: Route) -> list[Any]:
    """Return a view that the action belongs to, behind what is around it; empty: the route leads to none."""
    views = route.find_views(is_view)
    return next((layers for layers in views if layers[-1].cls is action.source), [])


def _is_of(action: ViewAction, route: Route) -> bool:
    return bool(_layers_of(action, route))


def _leads_to(action: ViewAction, route: Route) -> bool:
    return _serves(action, route) and not find_decorators(_layers_of(action, route))


def _serves(action: ViewAction, route: Route) -> bool:
    layers = _layers_of(action, route)
    return bool(layers) and _binds(action, layers)


def _binds(action: ViewAction, layers: list[Any]) -> bool:
    view = layers[-1]
    actions = getattr(view, "actions", None)
    is_bound = actions is None or actions.get(action.method) == action.name
    return bool(is_bound and action.options.items() <= view.initkwargs.items())


class RoutesOfView:
    """The URLs of the site that lead to a view.

    Args:
        source: the class of the view.
    """

    def __init__(self, source: type[Any]) -> None:
        site = get_resolver() if getattr(settings, "ROOT_URLCONF", None) else None
        self._routes = [] if site is None else _routes_by_view(site).get(source, [])

    @property
    def variables(self) -> set[str] | None:
        """The variables of all of them, with those that the URLconf adds; None: there are no such URLs."""
        if not self._routes:
            return None
        names = {name for route, _ in self._routes for form in route.ordered_names for name in form}
        return names.union(*(route.defaults for route, _layers in self._routes))

    def find_bound(self) -> Iterator[tuple[str, str, Any]]:
        """Yield the methods and functions that `as_view()` was given, with its result."""
        for _route, layers in self._routes:
            for method, name in (getattr(layers[-1], "actions", None) or {}).items():
                yield method, name, layers[-1]

    def with_variables(
        self, action: ViewAction, path: Mapping[str, JSONObject]
    ) -> ViewAction | None:
        """Return an action with the variables of its URLs; None if those are the ones that it has.

        Args:
            action: of the view.
            path: the variables that the site has named.
        """
        routes = [route for route, layers in self._routes if _binds(action, layers)]
        forms = [
            [name for name in names if name not in action.kwargs]
            for route in routes
            for names in route.ordered_names
        ]
        # Routers have a second URL for each, with the format at its end.
        plain = [names for names in forms if "format" not in names] or forms
        # What the site has named is in the URL of each call.
        plain = [names for names in plain if path.keys() <= set(names)]
        wanted = {*action.path, *path}
        if not plain or all(set(names) == wanted for names in plain):
            return None
        names = list(dict.fromkeys(name for each in plain for name in each))
        required = set(names).intersection(*plain)
        converters = {
            name: converter for route in routes for name, converter in route.converters.items()
        }
        schemas = {name: _schema_of(converters.get(name)) for name in names}
        return replace(
            action,
            path=tuple(names),
            optional=frozenset(names) - required,
            variables=schemas,
        )


_by_view: WeakKeyDictionary[URLResolver, dict[type[Any], list[tuple[Route, list[Any]]]]] = (
    WeakKeyDictionary()
)


def _routes_by_view(resolver: URLResolver) -> dict[type[Any], list[tuple[Route, list[Any]]]]:
    """Return the URLs of each view, with the view behind what is around it."""
    if resolver not in _by_view:
        routes: dict[type[Any], list[tuple[Route, list[Any]]]] = {}
        for route in find_routes(resolver):
            of_route: dict[type[Any], list[Any]] = {}
            for layers in route.find_views(is_view):
                of_route.setdefault(layers[-1].cls, layers)
            for cls, layers in of_route.items():
                routes.setdefault(cls, []).append((route, layers))
        _by_view[resolver] = routes
    return _by_view[resolver]


def _schema_of(converter: Any) -> JSONObject:
    if isinstance(converter, IntConverter):
        return {"type": "integer", "minimum": 0}
    if isinstance(converter, UUIDConverter):
        return {"type": "string", "format": "uuid"}
    return {"type": ["string", "integer"]}


def find_decorators_of(action: ViewAction) -> list[str]:
    """Return the names of the decorators in the URLconf that keep an action from being a tool."""
    served = [route for route in find_routes(get_resolver()) if _serves(action, route)]
    return [name for route in served for name in find_decorators(_layers_of(action, route))]


def _make_own(action: ViewAction, nested: Collection[str]) -> list[URLResolver]:
    """Return URLconfs with the URLs of an action's view, as a router and `path()` make them."""
    names = [name for name in nested if name not in action.path]
    if not issubclass(action.source, ViewSetMixin):
        return [_make_plain(action, names, action.source.as_view(**action.options))]
    if action.is_bound:
        made = action.source.as_view(dict(action.action_map or {}), **action.options)
        return [_make_plain(action, names, made)]
    routes = []
    if _has_converters(action):
        prefix = "".join(f"<{name}>/" for name in names)
        routes.append(make_urlconf(_view_set_patterns(action, prefix, use_regex_path=False)))
    is_plain = "<" not in action.url_path
    if not routes or (is_plain and hasattr(action.source, "lookup_value_regex")):
        prefix = "".join(f"(?P<{name}>[^/.]+)/" for name in names)
        routes.append(make_urlconf(_view_set_patterns(action, prefix, use_regex_path=True)))
    return routes


def _make_plain(action: ViewAction, names: list[str], view: Any) -> URLResolver:
    variables = "".join(f"<{name}>/" for name in (*names, *action.path))
    return make_urlconf([path(f"view/{variables}", view)])


def _has_converters(action: ViewAction) -> bool:
    """Return whether a router with path converters is meant, not one with regular expressions."""
    if "<" in action.url_path:
        return "(?P<" not in action.url_path
    return hasattr(action.source, "lookup_value_converter")


def _view_set_patterns(action: ViewAction, prefix: str, *, use_regex_path: bool) -> list[Any]:
    class WithOptions(action.source):  # type: ignore[misc,name-defined]
        @classmethod
        def as_view(cls, actions: Any, **initkwargs: Any) -> Any:
            return action.source.as_view(actions, **{**initkwargs, **action.options})

    router = SimpleRouter(use_regex_path=use_regex_path)
    router.register(f"{prefix}objects", WithOptions, basename="own")
    patterns: list[Any] = router.urls
    return patterns
