"""The paths of the servers, read from the URLconf.

The ASGI wrapper finds the server of a path here, and the log messages at start come from here.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeGuard
from weakref import WeakSet

from django.core.signals import setting_changed
from django.urls import Resolver404, URLResolver, get_resolver
from django.urls.resolvers import RoutePattern

from django_mcp.endpoints.health import HealthView, serve_health
from django_mcp.transports.http.asgi import ASGIApp
from django_mcp.transports.http.view import MCPView
from django_mcp.transports.legacy_sse.views import LegacyView

if TYPE_CHECKING:
    from django_mcp.server.server import MCPServer

__all__ = [
    "Match",
    "Mount",
    "announce",
    "announce_server",
    "consumer_of",
    "find_decorated",
    "find_match",
    "find_mounts",
    "is_ours",
]

logger = logging.getLogger("django_mcp")

MAX_KNOWN = 512
"""Cached paths; one with captured values, such as a tenant's name, has any number of them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Mount:
    """One place in the URLconf with a view of this package.

    Attributes:
        path: from the root, with a slash in front; captures as the URLconf writes them.
        is_fixed: it has no captures and does not depend on the language.
        view: an endpoint's, or its health's.
    """

    path: str
    is_fixed: bool
    view: MCPView | HealthView | LegacyView


def find_mounts() -> list[Mount]:
    """Return all places in the URLconf with a view of this package, in their order."""
    return [
        Mount(path=path, is_fixed=is_fixed, view=view)
        for path, is_fixed, view in _walk(get_resolver().url_patterns, "/", is_fixed=True)
        if is_ours(view)
    ]


def is_ours(view: object) -> TypeGuard[MCPView | HealthView | LegacyView]:
    """Return whether a view is of a server: its endpoint, its health, or HTTP+SSE."""
    return isinstance(view, MCPView | HealthView | LegacyView)


def find_decorated() -> list[str]:
    """Return the paths that lead to an endpoint's view inside of a decorator."""
    return [
        path
        for path, _is_fixed, view in _walk(get_resolver().url_patterns, "/", is_fixed=True)
        if not isinstance(view, MCPView) and isinstance(inspect.unwrap(view), MCPView)
    ]


def _walk(patterns: Any, prefix: str, *, is_fixed: bool) -> Iterator[tuple[str, bool, Any]]:
    for each in patterns:
        pattern = each.pattern
        here = prefix + str(pattern).removeprefix("^").removesuffix("$")
        is_still_fixed = is_fixed and isinstance(pattern, RoutePattern) and not pattern.converters
        if isinstance(each, URLResolver):
            yield from _walk(each.url_patterns, here, is_fixed=is_still_fixed)
        else:
            yield here, is_still_fixed, each.callback


# -- the server of a path


@dataclass(frozen=True, kw_only=True, slots=True)
class Match:
    """The ASGI application in place of a view, and the captured values of the path."""

    application: ASGIApp
    kwargs: Mapping[str, Any]


def find_match(path_info: str) -> Match | None:
    """Return the match of a path; None: it belongs to the site."""
    found = _known.get(path_info)
    if found is not None:
        return found
    candidates = _candidates if _candidates is not None else _find_candidates()
    if path_info not in candidates.fixed and not candidates.has_others:
        return None
    found = _resolve(path_info)
    if found is not None:
        if len(_known) >= MAX_KNOWN:
            _known.clear()
        _known[path_info] = found
    return found


def _resolve(path_info: str) -> Match | None:
    # Another pattern may come first, so the URLconf decides.
    try:
        match = get_resolver().resolve(path_info)
    except Resolver404:
        return None
    # A view inside of a decorator is left to Django: the decorator is there for a reason.
    if isinstance(match.func, MCPView):
        return Match(application=consumer_of(match.func.server), kwargs=match.kwargs)
    if isinstance(match.func, LegacyView):
        view = match.func
        application = legacy_consumer_of(view.server, takes_messages=view.takes_messages)
        return Match(application=application, kwargs=match.kwargs)
    if isinstance(match.func, HealthView):
        return Match(application=serve_health, kwargs=match.kwargs)
    return None


def consumer_of(server: MCPServer) -> ASGIApp:
    """Return the ASGI application that serves a server's endpoint."""
    # Channels is loaded only when used: a site under WSGI does not use it.
    from django_mcp.transports.http.consumer import MCPConsumer

    def application(scope: Any, receive: Any, send: Any) -> Awaitable[None]:
        # As `as_asgi` does, without a coroutine for each request.
        return MCPConsumer(server=server)(scope, receive, send)

    return application


def legacy_consumer_of(server: MCPServer, *, takes_messages: bool) -> ASGIApp:
    """Return the ASGI application of HTTP+SSE that receives messages, or that opens streams."""
    from django_mcp.transports.legacy_sse.consumers import (
        LegacyMessageConsumer,
        LegacyStreamConsumer,
    )

    consumer = LegacyMessageConsumer if takes_messages else LegacyStreamConsumer
    application: ASGIApp = consumer.as_asgi(server=server)
    return application


@dataclass(frozen=True, kw_only=True, slots=True)
class _Candidates:
    """Paths worth resolving, so that other requests to the site are not resolved twice."""

    fixed: frozenset[str]
    has_others: bool


_known: dict[str, Match] = {}
_candidates: _Candidates | None = None


def _find_candidates() -> _Candidates:
    global _candidates
    mounts = find_mounts()
    _candidates = _Candidates(
        fixed=frozenset(mount.path for mount in mounts if mount.is_fixed),
        has_others=any(not mount.is_fixed for mount in mounts),
    )
    return _candidates


def _forget(*, setting: str, **_kwargs: Any) -> None:
    global _candidates
    if setting == "ROOT_URLCONF":
        _candidates = None
        _known.clear()


setting_changed.connect(_forget, dispatch_uid="django_mcp.endpoints.mounts")


# -- log messages at start


_announced: WeakSet[MCPServer] = WeakSet()


def announce() -> None:
    """Log where each server of the URLconf is and what it offers, once in a process."""
    for mount in find_mounts():
        if isinstance(mount.view, MCPView):
            announce_server(mount.view.server, mount.path)


def announce_server(server: MCPServer, endpoint: str) -> None:
    """Log where a server is and what it offers, once in a process."""
    if server in _announced:
        return
    _announced.add(server)
    registry = server.registry
    logger.info(
        "MCP server %r at %s: tools %d, resources %d, resource templates %d, prompts %d",
        server.options.name,
        endpoint,
        len(registry.tools),
        len(registry.resources),
        len(registry.templates),
        len(registry.prompts),
    )
