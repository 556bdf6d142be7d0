"""The paths of the servers, read from the URLconf.

The ASGI wrapper finds the server of a path here, and the log messages at start come from here.
"""

from __future__ import annotations

import inspect
import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias
from weakref import WeakSet

from django.conf import settings as site_settings
from django.core.exceptions import ImproperlyConfigured
from django.urls import Resolver404, ResolverMatch, URLResolver, get_resolver, register_converter
from django.urls.converters import StringConverter
from django.urls.resolvers import LocalePrefixPattern, RoutePattern
from django.utils.translation import get_supported_language_variant

from django_mcp.log import logger
from django_mcp.process import reset_on
from django_mcp.protocol.names import SEGMENT
from django_mcp.server.server import BaseServer
from django_mcp.transports.http.narrowing import NAMES_PATTERN, TOOLSETS_VARIABLE
from django_mcp.transports.http.replies import ASGIApp
from django_mcp.transports.http.view import EndpointView, MCPView


class _Names(StringConverter):
    regex = NAMES_PATTERN


register_converter(_Names, "mcp_toolsets")

NARROWED_ROUTE = f"{SEGMENT}<mcp_toolsets:{TOOLSETS_VARIABLE}>"
"""What follows the path of an endpoint for the toolsets that it names."""

MAX_KNOWN_CHARS = 256
"""Longer paths are resolved each time: anybody can send any path with captured values."""

MAX_KNOWN = 512
"""Cached paths; one with captured values, such as a tenant's name, has any number of them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Mount:
    """One place in the URLconf with the endpoint of a server."""

    path: str
    """From the root, with a slash in front; captures as the URLconf writes them."""
    is_fixed: bool
    """It has no captures and does not depend on the language."""
    server: BaseServer


wrapped: WeakSet[Any] = WeakSet()
"""The ASGI applications that `django_mcp_application` returned, as long as something keeps them."""


def find_mounts() -> list[Mount]:
    """Return all endpoints in the URLconf, in their order, without those for some toolsets only."""
    return [
        Mount(path=path, is_fixed=is_fixed, server=view.server)
        for path, is_fixed, view in _find_views()
        if isinstance(view, MCPView) and not view.is_narrowed
    ]


def find_localized() -> list[Mount]:
    """Return the endpoints inside of `i18n_patterns`, at their paths in the active language."""
    patterns = get_resolver().url_patterns if has_urlconf() else ()
    localized = [each for each in patterns if isinstance(each.pattern, LocalePrefixPattern)]
    return [
        Mount(path=path, is_fixed=False, server=view.server)
        for path, _is_fixed, view in _walk(localized, "/", is_fixed=False)
        if isinstance(view, MCPView) and not view.is_narrowed
    ]


def find_path(server: BaseServer) -> str | None:
    """Return the first path of a server's endpoint that has no captures; None: there is none."""
    paths = (mount.path for mount in find_mounts() if mount.is_fixed and mount.server is server)
    return next(paths, None)


def has_urlconf() -> bool:
    """Return whether the site has a URLconf; one for stdio only may have none."""
    return bool(getattr(site_settings, "ROOT_URLCONF", None))


def _find_views() -> Iterator[tuple[str, bool, Any]]:
    """Yield the path of each view in the URLconf, whether it is fixed, and the view."""
    if has_urlconf():
        yield from _walk(get_resolver().url_patterns, "/", is_fixed=True)


def resolve(path_info: str) -> ResolverMatch | None:
    """Return what the URLconf has at a path; None: nothing."""
    if not has_urlconf():
        return None
    try:
        return get_resolver().resolve(path_info)
    except Resolver404:
        return None


def find_decorated() -> list[str]:
    """Return the paths that lead to an endpoint's view inside of a decorator."""
    return [
        path
        for path, _is_fixed, view in _find_views()
        if not isinstance(view, MCPView) and isinstance(inspect.unwrap(view), MCPView)
    ]


_OURS = ("django_mcp.endpoints", "django_mcp.transports", "django_mcp.contrib.oauth")
"""The packages of the views that clients use."""


def find_shadowed() -> Iterator[tuple[str, ResolverMatch]]:
    """Yield the fixed paths of this package's views that an earlier pattern answers, with the match of that one."""
    for path, is_fixed, view in _find_views():
        if not is_fixed or not _is_ours(view):
            continue
        match = resolve(path)
        if match is not None and match.func is not view and not _is_as_good(match.func, view):
            yield path, match


def _is_ours(view: Any) -> bool:
    named = type(view) if isinstance(view, EndpointView) else getattr(view, "view_class", view)
    return str(getattr(named, "__module__", "")).startswith(_OURS)


def _is_as_good(other: Any, view: Any) -> bool:
    """Return whether a view is the same one of this package, which is in the URLconf twice or inside of a decorator."""
    other = inspect.unwrap(other)
    if isinstance(view, MCPView):
        return isinstance(other, MCPView) and other.server is view.server
    return _is_ours(other)


def _walk(patterns: Any, prefix: str, *, is_fixed: bool) -> Iterator[tuple[str, bool, Any]]:
    for entry in patterns:
        pattern = entry.pattern
        here = prefix + _text_of(pattern)
        is_still_fixed = is_fixed and isinstance(pattern, RoutePattern) and not pattern.converters
        if isinstance(entry, URLResolver):
            yield from _walk(entry.url_patterns, here, is_fixed=is_still_fixed)
        else:
            yield here, is_still_fixed, entry.callback


def _text_of(pattern: Any) -> str:
    """Return a pattern as the URLconf writes it, and as a language the one that the site redirects to."""
    text = str(pattern).removeprefix("^").removesuffix("$")
    is_redirected = "django.middleware.locale.LocaleMiddleware" in site_settings.MIDDLEWARE
    if text and is_redirected and isinstance(pattern, LocalePrefixPattern):
        # A LANGUAGE_CODE such as en-us is a variant of en in LANGUAGES, and /en-us/ is then not found by Django.
        with suppress(LookupError):
            return f"{get_supported_language_variant(text.removesuffix('/'))}/"
    return text


Match: TypeAlias = tuple[ASGIApp, Mapping[str, Any]]
"""The ASGI application in place of a view, and the captured values of the path."""

_known: dict[str, Match] = {}
_known_narrowed: dict[str, Match] = {}
"""Apart, since every site has such paths, and anybody can name other toolsets in each request."""


def find_match(path_info: str) -> Match | None:
    """Return the match of a path; None: it belongs to the site."""
    resolved = _known.get(path_info) or _known_narrowed.get(path_info)
    if resolved is not None:
        return resolved
    fixed, starts, has_others = _find_candidates()
    if not (path_info in fixed or has_others or path_info.startswith(starts)):
        return None
    # Another pattern may come first, so the URLconf decides. A view inside of a decorator is left to
    # Django: the decorator is there for a reason.
    match = resolve(path_info)
    if match is None or not isinstance(match.func, EndpointView):
        return None
    resolved = match.func.serve, match.kwargs
    if len(path_info) <= MAX_KNOWN_CHARS:
        known = _known_narrowed if TOOLSETS_VARIABLE in match.kwargs else _known
        if len(known) >= MAX_KNOWN:
            known.clear()
        known[path_info] = resolved
    return resolved


@cache
def _find_candidates() -> tuple[frozenset[str], tuple[str, ...], bool]:
    """Return the fixed paths worth resolving, what those with toolsets start with, and whether there are others.

    With them, other requests to the site are not resolved twice.
    """
    candidates = [
        (path, is_fixed) for path, is_fixed, view in _find_views() if isinstance(view, EndpointView)
    ]
    fixed = frozenset(path for path, is_fixed in candidates if is_fixed)
    # Where the path of the endpoint itself is not fixed, all paths are resolved anyway.
    narrowed = {path for path, _is_fixed in candidates if NARROWED_ROUTE in path}
    starts = {path.partition(NARROWED_ROUTE)[0] + SEGMENT for path in narrowed}
    has_others = any(not is_fixed and path not in narrowed for path, is_fixed in candidates)
    return fixed, tuple(starts), has_others


reset_on(_find_candidates.cache_clear, settings=("ROOT_URLCONF",))
reset_on(_known.clear, settings=("ROOT_URLCONF",))
reset_on(_known_narrowed.clear, settings=("ROOT_URLCONF",))


def is_runserver() -> bool:
    """Return whether this process runs `runserver`, by itself or for another command that calls it."""
    return "django.core.management.commands.runserver" in sys.modules


_announced: WeakSet[BaseServer] = WeakSet()


def announce() -> None:
    """Log where each server of the URLconf is and what it offers, once in a process.

    `runserver` prints it, unless the site's `LOGGING` shows it already.
    """
    is_printed = is_runserver() and not logger.isEnabledFor(logging.INFO)
    for mount in find_mounts():
        server, registry = mount.server, mount.server.registry
        if server in _announced:
            continue
        _announced.add(server)
        text = (
            f"MCP server {server.name!r} at {mount.path}: tools {len(registry.tools)}, "
            f"resources {len(registry.resources)}, resource templates {len(registry.templates)}, "
            f"prompts {len(registry.prompts)}{_tell_open(server)}"
        )
        if is_printed:
            print(text, file=sys.stderr, flush=True)  # noqa: T201 - as runserver prints its own address
        else:
            logger.info("%s", text)


def _tell_open(server: BaseServer) -> str:
    """Return what to add for a public server that also has authenticators, whose callers need not sign in."""
    from django_mcp.endpoints.usable_entries import find_unguarded

    with suppress(ImproperlyConfigured):  # each request and a check report it
        if server.engine.authenticate is not None and server.engine.is_public:
            count = len(find_unguarded(server))
            return f"; {count} of them need no permission, nor signing in" if count else ""
    return ""
