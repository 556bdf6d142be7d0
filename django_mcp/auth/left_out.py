"""The parts of a handler's request that tell the developer when a handler asks for what was left out."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from django.http import QueryDict
from django.http.request import HttpHeaders

from django_mcp.log import logger

MAX_TOLD: Final = 100
"""How many names a process tells, since a handler may take names from its arguments."""

_told: set[tuple[str, str]] = set()

_NEVER: Final = frozenset(["HTTP_AUTHORIZATION", "HTTP_COOKIE", "HTTP_PROXY_AUTHORIZATION"])


class Meta(dict[str, Any]):
    """The `META` of a handler's request, with the names of what the source has besides."""

    def __init__(self, shown: Mapping[str, Any], left_out: Collection[str]) -> None:
        super().__init__(shown)
        self.left_out = left_out

    def __missing__(self, name: str) -> Any:
        self._tell(name)
        raise KeyError(name)

    def get(self, name: str, default: Any = None) -> Any:
        """Return a variable, or the default."""
        if name not in self:
            self._tell(name)
        return super().get(name, default)

    def _tell(self, name: str) -> None:
        if name in self.left_out:
            tell_header(name)


class Headers(HttpHeaders):
    """The headers of a handler's request."""

    def __init__(self, meta: Meta) -> None:
        super().__init__(meta)
        self._left_out = meta.left_out

    def __getitem__(self, name: str) -> str:
        try:
            return super().__getitem__(name)
        except KeyError:
            variable = self.to_wsgi_name(name)
            if variable in self._left_out:
                tell_header(variable)
            raise


class Query(QueryDict):
    """The parameters of a handler's request."""

    left_out: Collection[str] = ()

    def __getitem__(self, name: str) -> Any:
        self._tell(name)
        return super().__getitem__(name)

    def getlist(self, key: str, default: Any = None) -> Any:
        """Return the values of a parameter, or the default."""
        self._tell(key)
        return super().getlist(key, default)

    def _tell(self, name: str) -> None:
        if name in self.left_out and _is_new("HANDLER_QUERY", name):
            logger.warning(
                "A handler asked for the parameter %r of the query, which this request has and handlers do "
                "not see. Add it to HANDLER_QUERY if it holds no credentials.",
                name,
            )


def tell_header(variable: str) -> None:
    """Log, once for each name, that a handler asked for a header that was left out."""
    if not _is_new("HANDLER_HEADERS", variable):
        return
    name = HttpHeaders.parse_header_name(variable) or variable
    if variable in _NEVER:
        logger.warning(
            "A handler asked for the header %r, which handlers never see. Read ctx.user and ctx.auth.",
            name,
        )
    else:
        logger.warning(
            "A handler asked for the header %r, which this request has and handlers do not see. Add it to "
            "HANDLER_HEADERS if it holds no credentials.",
            name,
        )


def _is_new(setting: str, name: str) -> bool:
    if (setting, name) in _told or len(_told) >= MAX_TOLD:
        return False
    _told.add((setting, name))
    return True
