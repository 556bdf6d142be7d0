"""What takes the place of the authentication of operations when they are called in process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from ninja.operation import Operation
from ninja.security import SessionAuth
from ninja.security.apikey import APIKeyBase
from ninja.security.base import AuthBase
from ninja.security.http import HttpAuthBase
from ninja.security.session import SessionAuthSuperUser

from django_mcp.contrib.http_calls import settle
from django_mcp.contrib.ninja.found import find_names
from django_mcp.contrib.view_problems import ViewProblem
from django_mcp.log import logger

Authentication: TypeAlias = Callable[[Any], Any] | Mapping[Any, Callable[[Any], Any]]
"""A function of the request, or one for each authentication."""


class Replaced:
    """What the site says of authentication that reads credentials.

    Args:
        auth: the option of `operation_tools`.
        operations: that become tools.
    """

    def __init__(self, auth: Authentication | None, operations: Sequence[Operation]) -> None:
        self._auth = auth
        self._kinds: list[Any] = []
        for operation in operations:
            for callback in operation.auth_callbacks:
                is_known = any(_are_equal(callback, kind) for kind in self._kinds)
                if _reads_credentials(callback) and not is_known:
                    self._kinds.append(callback)

    def replace_all(self, callbacks: Sequence[Any]) -> list[Callable[[Any], Any]]:
        """Return what says, in place of the authentication of an operation, who makes a request.

        Of several, those that read credentials are left out: a call has none, so they let nobody in.

        Raises:
            ViewProblem: all of them read credentials, and the site did not say what to do.
        """
        replaced: list[Callable[[Any], Any]] = []
        problems = []
        for callback in callbacks:
            try:
                replaced.append(self._replace(callback))
            except ViewProblem as problem:
                problems.append(problem)
        if problems and not replaced:
            raise problems[0]
        return replaced

    def _replace(self, callback: Any) -> Callable[[Any], Any]:
        """Return what says, in place of a callback, who makes a request.

        Raises:
            ViewProblem: the callback reads credentials, and the site did not say what to do.
        """
        if _is_session(callback):
            # Without the CSRF check, which is for cookies.
            return partial(_ask_session, callback)
        if isinstance(self._auth, Mapping):
            replacement = _find(self._auth, callback)
            if replacement is not None:
                return partial(_ask_site, replacement)
        # What is decided without credentials stays as it is, unless the site names it.
        elif self._auth is not None and _reads_credentials(callback):
            if len(self._kinds) > 1:
                raise ViewProblem(
                    f"the operations have different authentication ({_join(self._kinds)}), for which "
                    "one function cannot stand",
                    f"Give a function for each: auth={{{_name(callback)}: ...}}.",
                )
            return partial(_ask_site, self._auth)
        if not _reads_credentials(callback):
            return partial(_ask_itself, callback)
        raise ViewProblem(
            f"its authentication {_name(callback)} reads credentials, which the server has read "
            "already",
            "Say whom it lets in: auth=lambda request: request.user.is_authenticated and request.user.",
        )


def find_asked(replaced: Sequence[Callable[[Any], Any]]) -> list[Any]:
    """Return the site's own callbacks and functions that are behind what `replace_all` has returned."""
    return [each.args[0] for each in replaced if isinstance(each, partial)]


def _is_session(callback: Any) -> bool:
    """Return whether a callback asks about the user alone, and adds nothing before that."""
    if not isinstance(callback, SessionAuth | SessionAuthSuperUser):
        return False
    kind: Any = type(callback)
    return kind.__call__ is SessionAuth.__call__ and kind._get_key is SessionAuth._get_key


_CREDENTIALS = frozenset(("COOKIES", "GET", "headers"))
"""Attributes of a request that are read for credentials."""


def _reads_credentials(callback: Any) -> bool:
    """Return whether a callback looks for credentials, and not at the user or the address alone."""
    if _is_session(callback):
        return False
    if isinstance(callback, HttpAuthBase | APIKeyBase):
        return True
    function = callback if hasattr(callback, "__code__") else type(callback).__call__
    return not _CREDENTIALS.isdisjoint(find_names(function))


def _ask_itself(callback: Any, request: Any) -> Any:
    try:
        return settle(callback(request))
    except (AttributeError, LookupError):
        # It needs something that a request in process has not.
        logger.debug("The authentication %s failed", _name(callback), exc_info=True)
        return None


def _ask_session(callback: Any, request: Any) -> Any:
    return settle(callback.authenticate(request, None))


def _ask_site(function: Callable[[Any], Any], request: Any) -> Any:
    return settle(function(request))


def _are_equal(one: Any, other: Any) -> bool:
    """Return whether two callbacks are one, or two objects of a class with the same settings."""
    are_objects = isinstance(one, AuthBase) and type(one) is type(other)
    return one is other or (are_objects and vars(one) == vars(other))


def _find(auth: Mapping[Any, Callable[[Any], Any]], callback: Any) -> Callable[[Any], Any] | None:
    for key, function in auth.items():
        if key is callback or key is type(callback):
            return function
    return None


def _name(callback: Any) -> str:
    return str(getattr(callback, "__name__", type(callback).__name__))


def _join(callbacks: Sequence[Any]) -> str:
    return ", ".join(map(_name, callbacks))
