"""The operations of an API, with what is around each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from inspect import unwrap
from types import CodeType
from typing import Any

from ninja.operation import Operation, PathView

_WITHOUT_TOOLS = ("HEAD", "OPTIONS", "TRACE")


@dataclass(frozen=True, kw_only=True)
class FoundOperation:
    """An operation at one of its methods.

    Attributes:
        operation: of Django Ninja.
        method: in capitals.
        path_view: the operations at its path.
        router: as the API serves it.
    """

    operation: Operation
    method: str
    path_view: PathView
    router: Any

    @property
    def function(self) -> Any:
        """The site's function."""
        return self.operation.view_func

    @property
    def label(self) -> str:
        """Where the site has it."""
        owner = self.controller
        where = [self.function.__module__] if owner is None else [owner.__module__, owner.__name__]
        return ".".join([*where, self.function.__name__])

    @property
    def prefix(self) -> str:
        """What the paths of its router begin with."""
        return str(self.router.prefix or "")

    @property
    def route_function(self) -> Any:
        """What django-ninja-extra calls for a function of a controller; None: it belongs to none."""
        get = getattr(self.function, "get_route_function", None)
        return None if get is None else get()

    @property
    def written(self) -> Any:
        """The function as the site wrote it."""
        route_function = self.route_function
        return self.function if route_function is None else route_function.route.view_func

    @property
    def permissions(self) -> list[Any]:
        """The permissions of a controller, or of its function."""
        route_function = self.route_function
        if route_function is None:
            return []
        return list(
            route_function.route.permissions or route_function.api_controller.permission_classes
        )

    @property
    def controller(self) -> Any:
        """The class of its controller, if it has one."""
        route_function = self.route_function
        return None if route_function is None else route_function.api_controller.controller_class


def find_operations(api: Any) -> Iterator[FoundOperation]:
    """Yield the operations of an API, once for each method."""
    for router in api._get_bound_routers():
        for path_view in router.path_operations.values():
            for operation in path_view.operations:
                methods = list(dict.fromkeys(method.upper() for method in operation.methods))
                for method in methods:
                    if method not in _WITHOUT_TOOLS:
                        yield FoundOperation(
                            operation=operation, method=method, path_view=path_view, router=router
                        )


def find_names(function: Any) -> set[str]:
    """Return the names of globals and attributes in a function, and in those inside of it."""
    return set(_names(getattr(unwrap(function), "__code__", None)))


def _names(code: CodeType | None) -> Iterator[str]:
    if code is not None:
        yield from code.co_names
        for const in code.co_consts:
            if isinstance(const, CodeType):
                yield from _names(const)
