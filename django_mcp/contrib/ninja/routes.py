"""The URLs of an operation: those of the site, or those of its API alone."""

from __future__ import annotations

from collections.abc import Container
from functools import partial
from typing import Any

from ninja.operation import Operation, PathView

from django_mcp.contrib.routes import ViewRoutes, find_decorators, make_urlconf


def find_routes_of(api: Any, operation: Operation, path_view: PathView) -> ViewRoutes:
    """Return the URLs of an operation, which is one of those at a path."""
    routers = api._get_bound_routers()
    path_views = [each for router in routers for each in router.path_operations.values()]
    return ViewRoutes(
        partial(_leads_to, operation, path_view),
        partial(_is_of, path_views),
        lambda: [make_urlconf(api._get_urls())],
    )


def _leads_to(operation: Operation, path_view: PathView, callback: Any) -> bool:
    if _find_path_view(callback) is not path_view or find_decorators(callback):
        return False
    method = operation.methods[0]
    return next(each for each in path_view.operations if method in each.methods) is operation


def _is_of(path_views: Container[PathView], callback: Any) -> bool:
    return _find_path_view(callback) in path_views


def _find_path_view(callback: Any) -> PathView | None:
    """Return what a view of Django Ninja hands its requests to."""
    while hasattr(callback, "__wrapped__"):
        callback = callback.__wrapped__
    for cell in getattr(callback, "__closure__", None) or ():
        if isinstance(cell.cell_contents, PathView):
            return cell.cell_contents
    return None
