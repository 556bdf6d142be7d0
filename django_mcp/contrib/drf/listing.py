"""What the permission classes of a view say of a user without a call, which decides who is shown its tools."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from django.contrib.auth.models import AnonymousUser
from rest_framework.permissions import AND, NOT, OR

from django_mcp.contrib.drf.actions import ViewAction
from django_mcp.contrib.drf.reading import REFUSALS
from django_mcp.contrib.routes import ViewRoutes
from django_mcp.log import logger


class NeedsCall(Exception):
    """A view asks for a variable of its URL, which only a call has."""


class _Variables(dict[str, Any]):
    """The variables of a URL: the constant ones, and the names of those that a client chooses."""

    def __init__(self, known: Mapping[str, Any], names: Collection[str]) -> None:
        super().__init__(known)
        self._unknown = frozenset(names) - known.keys()

    def _find(self, name: Any) -> None:
        if name in self._unknown:
            raise NeedsCall(f"only a call has the variable {name!r} of the URL")

    def __getitem__(self, name: str) -> Any:
        self._find(name)
        return super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        self._find(name)
        return super().__contains__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self._find(name)
        return super().get(name, default)


class _BeforeCall:
    """A permission that lets everybody pass whom only a call can refuse."""

    def __init__(self, permission: Any) -> None:
        self._permission = permission

    def __getattr__(self, name: str) -> Any:
        return getattr(self._permission, name)

    def has_permission(self, request: Any, view: Any) -> bool:
        try:
            return bool(self._permission.has_permission(request, view))
        except NeedsCall:
            return True


def _before_call(permission: Any) -> Any:
    if type(permission) in (AND, OR):
        return type(permission)(_before_call(permission.op1), _before_call(permission.op2))
    return _BeforeCall(permission)


def check_permissions(
    action: ViewAction, user: Any, callback: Any, variables: Collection[str]
) -> Any:
    """Return a view whose permission classes let a user pass, as far as they can tell without a call.

    Raises whatever the view does if they refuse the user.

    Args:
        action: of the view.
        user: the caller.
        callback: what `as_view()` returned for a URL of the action.
        variables: the names of those in the URL. A permission class that asks for one of them is not asked
            before a call.
    """
    view = action.bind_without_call(user, callback)
    # The request has the same ones.
    view.kwargs = view.request.parser_context["kwargs"] = _Variables(view.kwargs, variables)
    get_permissions = view.get_permissions
    view.get_permissions = lambda: [_before_call(each) for each in get_permissions()]
    view.perform_authentication(view.request)
    view.check_permissions(view.request)
    return view


def may_be_listed(action: ViewAction, user: Any, callback: Any, variables: Collection[str]) -> bool:
    """Return whether the permission classes let a user in, before any object is looked at; see `check_permissions`."""
    try:
        check_permissions(action, user, callback, variables)
    except REFUSALS:
        return False
    except Exception as error:
        error.add_note(
            f"The permission classes of {action.source.__qualname__} need more than a user and a "
            f"method to say who sees the tool of {action.name!r}. "
            "Give viewset_tools() a listed_if=."
        )
        raise
    return True


def find_rules(action: ViewAction, routes: ViewRoutes) -> Iterator[Callable[..., Any]]:
    """Yield the methods of the permission classes of a view, each with the classes that it is joined from."""
    for permission in _find_permissions(action, routes):
        for name in ("has_permission", "has_object_permission"):
            if hasattr(permission, name):
                yield getattr(permission, name)


def find_code(action: ViewAction, routes: ViewRoutes) -> Iterator[Any]:
    """Yield the class of a view, its serializer and permission classes, and what takes the place of its authentication."""
    yield action.source
    serializer = getattr(action.source, "serializer_class", None)
    if serializer is not None:
        yield serializer
    yield from map(type, _find_permissions(action, routes))
    if action.auth is not None:
        yield action.auth


def _find_permissions(action: ViewAction, routes: ViewRoutes) -> Iterator[Any]:
    for callback in routes.callbacks or (None,):
        try:
            view = action.bind_without_call(AnonymousUser(), callback)
            waiting = list(view.get_permissions())
        except Exception:
            # Only a call has what it needs.
            logger.debug("No permissions of %s", action.source, exc_info=True)
            continue
        while waiting:
            permission = waiting.pop()
            if isinstance(permission, AND | OR):
                waiting += [permission.op1, permission.op2]
            elif isinstance(permission, NOT):
                waiting.append(permission.op1)
            else:
                yield permission
