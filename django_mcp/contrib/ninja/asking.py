"""Whether a user may call an operation, as far as its authentication and its permissions tell without a request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest

from django_mcp.contrib.http_calls import settle

_KNOWN = frozenset(("auser", "auth", "method", "user"))
"""What is known of each request to an operation by a user."""


class _Request(HttpRequest):
    """A request of which only the user and the method are known.

    Attributes:
        is_read: whether something asked for more.
    """

    def __init__(self, method: str, user: Any) -> None:
        super().__init__()
        self.method, self.user = method, user
        self.is_read = False

    async def auser(self) -> Any:
        """Return the user, as what Django's middleware adds does."""
        return self.user

    def __getattribute__(self, name: str) -> Any:
        if name not in _KNOWN and name != "is_read" and not name.startswith("_"):
            object.__setattr__(self, "is_read", True)
        return super().__getattribute__(name)


class _Controller:
    """A controller without a call."""

    def __init__(self, request: _Request) -> None:
        self._request = request

    def __getattr__(self, name: str) -> Any:
        self._request.is_read = True
        raise AttributeError(name)


def may_call(
    method: str, user: Any, callbacks: Sequence[Callable[[Any], Any]], permissions: Iterable[Any]
) -> bool:
    """Return whether a user may call an operation; also if only the request of a call can tell.

    Args:
        method: of the operation.
        user: who would call it.
        callbacks: the authentication, of which one has to let the user in.
        permissions: of a controller of django-ninja-extra, all of which have to.
    """
    if callbacks and not any(_may_pass(_Request(method, user), callback) for callback in callbacks):
        return False
    return all(_has_permission(method, user, permission) for permission in permissions)


def _has_permission(method: str, user: Any, permission: Any) -> bool:
    request = _Request(method, user)
    controller = _Controller(request)

    def ask(request: Any) -> Any:
        made: Any = permission
        if isinstance(permission, type):
            made = made.resolve()
        return settle(made.has_permission(request=request, controller=controller))

    return _may_pass(request, ask)


def _may_pass(request: _Request, ask: Callable[[Any], Any]) -> bool:
    try:
        return bool(ask(request)) or request.is_read
    except PermissionDenied:
        return request.is_read
    except Exception:
        if request.is_read:
            return True
        raise
