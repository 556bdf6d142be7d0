"""The URLs of an operation: those of the site, or those of its API alone."""

from __future__ import annotations

from collections.abc import Container
from functools import partial
from inspect import isfunction
from typing import Any

from ninja.operation import PathView

from django_mcp.contrib.ninja.found import FoundOperation
from django_mcp.contrib.routes import Route, ViewRoutes, make_urlconf
from django_mcp.contrib.view_decorators import closure_of, find_decorators


def find_routes_of(api: Any, found: FoundOperation) -> ViewRoutes:
    """Return the URLs of an operation, which is one of those at a path."""
    routers = api._get_bound_routers()
    path_views = [path_view for router in routers for path_view in router.path_operations.values()]
    return ViewRoutes(
        partial(_leads_to, found),
        partial(_is_of, path_views),
        lambda: [make_urlconf(api._get_urls())],
    )


def _is_view(layer: Any) -> bool:
    return _path_view_of(layer) is not None


def _leads_to(found: FoundOperation, route: Route) -> bool:
    path_view = found.path_view
    views = route.find_views(_is_view)
    layers = next((layers for layers in views if _path_view_of(layers[-1]) is path_view), [])
    if not layers or find_decorators(layers):
        return False
    first = next(each for each in path_view.operations if found.method in each.methods)
    return first is found.operation


def _is_of(path_views: Container[PathView], route: Route) -> bool:
    return any(_path_view_of(layers[-1]) in path_views for layers in route.find_views(_is_view))


def _path_view_of(layer: Any) -> PathView | None:
    """Return what a view of Django Ninja hands its requests to; None: it is another function."""
    if not isfunction(layer) or layer.__globals__.get("__name__") != PathView.__module__:
        return None
    return next(
        (captured for captured in closure_of(layer) if isinstance(captured, PathView)), None
    )
