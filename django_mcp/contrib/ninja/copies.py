"""Copies of operations, which run in process with all decorators of the originals."""

from __future__ import annotations

from typing import Any

from ninja.operation import Operation
from ninja.router import BoundRouter

from django_mcp.contrib.view_problems import ViewProblem

_CONTROLLERS = "ninja_extra.controllers.base"
"""The module of the routers of controllers, which have no decorators."""


def copy_operation(bound_router: Any, operation: Operation) -> Operation:
    """Return a copy of an operation, whose authentication can be replaced.

    Args:
        bound_router: the router as the API serves it, to which the operation belongs.

    Raises:
        ViewProblem: it is neither one of Django Ninja nor of django-ninja-extra, so it may have decorators that cannot be known.
    """
    is_of_controller = type(bound_router).__module__ == _CONTROLLERS
    if not (isinstance(bound_router, BoundRouter) or is_of_controller):
        raise ViewProblem(
            f"it belongs to {type(bound_router).__name__}, which is no router of Django Ninja",
            "Add it to a router of Django Ninja, or leave the operation out with exclude=.",
        )
    copied = operation.clone()
    copied.api = operation.api
    if is_of_controller:
        return copied
    # `clone` keeps the decorators of the operation itself, and drops those of its routers and its API.
    decorators = [*bound_router.mount.inherited_decorators, *bound_router.template._decorators]
    for decorator, mode in decorators:
        if mode == "view":
            copied.run = decorator(copied.run)  # type: ignore[method-assign]
    return copied
