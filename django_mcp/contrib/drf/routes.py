"""The URLs of an action: those of the site, or those that a router would make."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Any

from django.urls import URLResolver, get_resolver, path
from rest_framework.routers import SimpleRouter
from rest_framework.viewsets import ViewSetMixin

from django_mcp.contrib.drf.actions import ViewAction
from django_mcp.contrib.routes import (
    Route,
    ViewRoutes,
    find_decorators,
    find_routes,
    is_made_by_class,
    make_urlconf,
)


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


def _is_view(layer: Any) -> bool:
    return is_made_by_class(layer) and hasattr(layer, "cls")


def _layers_of(action: ViewAction, route: Route) -> list[Any]:
    """Return a view that the action belongs to, behind what is around it; empty: the route leads to none."""
    views = route.find_views(_is_view)
    return next((layers for layers in views if layers[-1].cls is action.source), [])


def _is_of(action: ViewAction, route: Route) -> bool:
    return bool(_layers_of(action, route))


def _leads_to(action: ViewAction, route: Route) -> bool:
    return _serves(action, route) and not find_decorators(_layers_of(action, route))


def _serves(action: ViewAction, route: Route) -> bool:
    layers = _layers_of(action, route)
    if not layers:
        return False
    actions = getattr(layers[-1], "actions", None)
    return actions is None or actions.get(action.method) == action.name


def find_decorators_of(action: ViewAction) -> list[str]:
    """Return the names of the decorators in the URLconf that keep an action from being a tool."""
    served = [route for route in find_routes(get_resolver()) if _serves(action, route)]
    return [name for route in served for name in find_decorators(_layers_of(action, route))]


def _make_own(action: ViewAction, nested: Collection[str]) -> list[URLResolver]:
    """Return URLconfs with the URLs of an action's view, as a router and `path()` make them."""
    names = [name for name in nested if name not in action.path]
    if not issubclass(action.source, ViewSetMixin):
        variables = "".join(f"<{name}>/" for name in (*names, *action.path))
        return [make_urlconf([path(f"view/{variables}", action.source.as_view())])]
    routes = []
    if _has_converters(action):
        prefix = "".join(f"<{name}>/" for name in names)
        routes.append(make_urlconf(_view_set_patterns(action, prefix, use_regex_path=False)))
    is_plain = "<" not in action.url_path
    if not routes or (is_plain and hasattr(action.source, "lookup_value_regex")):
        prefix = "".join(f"(?P<{name}>[^/.]+)/" for name in names)
        routes.append(make_urlconf(_view_set_patterns(action, prefix, use_regex_path=True)))
    return routes


def _has_converters(action: ViewAction) -> bool:
    """Return whether a router with path converters is meant, not one with regular expressions."""
    if "<" in action.url_path:
        return "(?P<" not in action.url_path
    return hasattr(action.source, "lookup_value_converter")


def _view_set_patterns(action: ViewAction, prefix: str, *, use_regex_path: bool) -> list[Any]:
    router = SimpleRouter(use_regex_path=use_regex_path)
    router.register(f"{prefix}objects", action.source, basename="own")
    patterns: list[Any] = router.urls
    return patterns
