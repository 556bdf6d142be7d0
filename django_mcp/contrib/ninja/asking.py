"""Whether a user may call an operation, as far as its authentication and its permissions tell without a request."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest
from django.http.request import HttpHeaders

from django_mcp.auth.handler_requests import list_visible_names
from django_mcp.contrib.http_calls import settle

_KNOWN = frozenset(("COOKIES", "GET", "META", "auser", "auth", "headers", "method", "user"))
"""What is known of each request to an operation by a user; of mappings, what they can have."""


class _Request(HttpRequest):
    """A request of which only the user, the method and what no call has are known.

    Attributes:
        is_read: whether something asked for more.
    """

    def __init__(self, method: str, user: Any, query: Collection[str]) -> None:
        super().__init__()
        self.method, self.user = method, user
        self.is_read = False
        names = list_visible_names()
        self.GET: Any = _Unknown(self, query.__contains__)
        self.META: Any = _Unknown(self, names.__contains__)
        self.headers: Any = _Unknown(self, lambda name: HttpHeaders.to_wsgi_name(name) in names)

    async def auser(self) -> Any:
        """Return the user, as what Django's middleware adds does."""
        return self.user

    def __getattribute__(self, name: str) -> Any:
        if name not in _KNOWN and name != "is_read" and not name.startswith("_"):
            object.__setattr__(self, "is_read", True)
        return super().__getattribute__(name)


class _Unknown(Mapping[str, Any]):
    """A mapping of a request, without values: credentials for example are in no call.

    Args:
        request: is read by whatever asks for a value that a call may have.
        may_have: returns whether a call may have a value of this name.
    """

    def __init__(self, request: _Request, may_have: Callable[[str], bool]) -> None:
        self._request = request
        self._may_have = may_have

    def __getitem__(self, name: str) -> Any:
        if self._may_have(name):
            self._request.is_read = True
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        self._request.is_read = True
        return iter(())

    def __len__(self) -> int:
        self._request.is_read = True
        return 0

    def getlist(self, name: str) -> list[str]:
        """Return no values, as a query does."""
        self.get(name)
        return []


class _Controller:
    """A controller without a call."""

    def __init__(self, request: _Request) -> None:
        self._request = request

    def __getattr__(self, name: str) -> Any:
        self._request.is_read = True
        raise AttributeError(name)


def may_call(
    method: str,
    user: Any,
    callbacks: Sequence[Callable[[Any], Any]],
    permissions: Iterable[Any],
    query: Collection[str],
) -> bool:
    """Return whether a user may call an operation; also if only the request of a call can tell.

    Args:
        method: of the operation.
        user: who would call it.
        callbacks: the authentication, of which one has to let the user in.
        permissions: of a controller of django-ninja-extra, all of which have to.
        query: the names of the parameters that its query can have.
    """
    if callbacks and not any(
        _may_pass(_Request(method, user, query), callback) for callback in callbacks
    ):
        return False
    return all(_has_permission(_Request(method, user, query), each) for each in permissions)


def _has_permission(request: _Request, permission: Any) -> bool:
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
