"""The parts of a request of a handler or a view that tell the developer when it asks for what was left out."""

from __future__ import annotations

import sys
from collections.abc import Collection
from typing import Any, Final

from django.http import QueryDict
from django.http.request import HttpHeaders

from django_mcp.auth.set_by_middleware import find_set_attributes
from django_mcp.log import LoggedKinds, logger

logged: Final = LoggedKinds(100)
"""Of names and what they name; a handler may take names from its arguments."""

_NEVER: Final = frozenset(["HTTP_AUTHORIZATION", "HTTP_COOKIE", "HTTP_PROXY_AUTHORIZATION"])

_PASSING_ON: Final = (
    *(f"{__name__}.", "collections.abc.", "django.forms.", "django.http.", "django.template."),
    *("django.utils.datastructures.", "rest_framework.authentication.", "rest_framework.request."),
)
"""Modules that ask on behalf of their callers."""

_FRAMEWORKS: Final = (
    *("django.", "django_filters.", "django_mcp.", "ninja.", "ninja_extra.", "rest_framework."),
)
"""Packages that ask for what any request may have, such as a language, and can do without it."""


_HIDDEN: Final = "which this request has and handlers and views do not see"


class Attributes:
    """A request that says why it has not an attribute which the requests of the site have."""

    def __getattr__(self, name: str) -> Any:
        text = f"{type(self).__name__!r} object has no attribute {name!r}"
        if name == "session":
            text += ": handlers have no session of a browser. ctx.session keeps values from call to call"
            _tell(
                "attribute",
                name,
                "the session of a browser, which calls do not have",
                "Read request.user, or take an argument. ctx.session keeps values from call to call.",
            )
        elif not name.startswith("_") and (path := find_set_attributes().get(name)):
            text += f", which {path} sets on the requests of the site"
            _tell(
                "attribute",
                name,
                f"which {path} sets on requests of the site, and those of calls do not have",
                "Keep it from a function of DJANGO_MCP['MIDDLEWARE'], in a ContextVar.",
            )
        raise AttributeError(text, name=name, obj=self)


class _Telling(dict[str, Any]):
    """A mapping of a request, with the names of what the client's request has besides."""

    left_out: Collection[str] = ()

    def __missing__(self, name: str) -> Any:
        self._tell(name)
        raise KeyError(name)

    def __contains__(self, name: object) -> bool:
        if super().__contains__(name):
            return True
        self._tell(name)
        return False

    def get(self, name: str, default: Any = None) -> Any:
        """Return a value, or the default."""
        try:
            return self[name]
        except KeyError:
            return default

    def _tell(self, name: Any) -> None:
        raise NotImplementedError


class Meta(_Telling):
    """The `META` of a request."""

    def _tell(self, name: Any) -> None:
        if name in self.left_out:
            _tell_header(name)


class Cookies(_Telling):
    """The cookies of a request: none."""

    def _tell(self, name: Any) -> None:
        if name in self.left_out:
            _tell(
                "cookie", name, _HIDDEN, "Let a middleware add what the cookie says to the request."
            )


class Headers(HttpHeaders):
    """The headers of a request."""

    def __init__(self, meta: Meta) -> None:
        super().__init__(meta)
        self._left_out = meta.left_out

    def __getitem__(self, name: str) -> str:
        try:
            return super().__getitem__(name)
        except KeyError:
            variable = self.to_wsgi_name(name)
            if variable in self._left_out:
                _tell_header(variable)
            raise


class Query(QueryDict):
    """The parameters of a handler's request."""

    left_out: Collection[str] = ()
    advice = "Add it to HANDLER_QUERY if it holds no credentials."

    def __contains__(self, name: object) -> bool:
        self._tell(name)
        return super().__contains__(name)

    def __getitem__(self, name: str) -> Any:
        self._tell(name)
        return super().__getitem__(name)

    def getlist(self, key: str, default: Any = None) -> Any:
        """Return the values of a parameter, or the default."""
        self._tell(key)
        return super().getlist(key, default)

    def _tell(self, name: Any) -> None:
        if name in self.left_out:
            _tell("parameter of the query", name, _HIDDEN, self.advice)


class ViewQuery(Query):
    """The parameters of the request of a view: some arguments of a tool."""

    advice = "The query of a view has only arguments of the tool."


def _tell_header(variable: str) -> None:
    name = HttpHeaders.parse_header_name(variable) or variable
    if variable in _NEVER:
        advice = "Read request.user, or ctx.user and ctx.auth."
    else:
        advice = "Add it to HANDLER_HEADERS if it holds no credentials."
    _tell("header", name, _HIDDEN, advice)


def _tell(what: str, name: str, why: str, advice: str) -> None:
    """Log, once for each name, which code asked for what is not there, unless a framework did so itself."""
    frame: Any = sys._getframe(1)
    while frame is not None and _module_of(frame).startswith(_PASSING_ON):
        frame = frame.f_back
    if frame is None or _module_of(frame).startswith(_FRAMEWORKS) or not logged.add((what, name)):
        return
    logger.warning(
        "%s (line %d) asked for the %s %r, %s. %s",
        frame.f_globals.get("__name__"),
        frame.f_lineno,
        what,
        name,
        why,
        advice,
    )


def _module_of(frame: Any) -> str:
    """Return the name of the module, with a dot."""
    return f"{frame.f_globals.get('__name__')}."
