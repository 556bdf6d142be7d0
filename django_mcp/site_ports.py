"""The ports of a site's server: Django, the database and the settings of `DJANGO_MCP`.

Importing this module loads no models.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from inspect import unwrap
from typing import Any

from django.apps import apps
from django.conf import settings as site_settings
from django.utils.translation import get_language

from django_mcp.auth.access import DjangoAccess
from django_mcp.auth.throttles import count_in_cache
from django_mcp.calls.recorder import record_call
from django_mcp.calls.traces import trace_error
from django_mcp.conf import settings
from django_mcp.context import Context
from django_mcp.execution.moments import find_today
from django_mcp.execution.states import SiteSigner, SiteStates
from django_mcp.execution.threads import ThreadScope
from django_mcp.execution.values import DJANGO_CONVERTER, DjangoExceptions, make_django_form
from django_mcp.push.clients import SignalObserver
from django_mcp.push.process_hub import process_hub
from django_mcp.registry.entries import Entry
from django_mcp.registry.problems import innermost
from django_mcp.registry.rules import TOOLSET
from django_mcp.server.exchange.call import Call
from django_mcp.server.handlers.watching import watch_steps
from django_mcp.server.ports import Observer, Ports
from django_mcp.server.server import BaseServer
from django_mcp.sessions.core.handshakes import SessionHandshakes
from django_mcp.sessions.core.memory import stores_in_memory
from django_mcp.signals import tool_called
from django_mcp.site_engine import AuthenticationSettings
from django_mcp.telemetry.setup import find_instrument

MAX_STEP_S = 0.1
"""As asyncio's debug mode has it for callbacks."""


def site_ports(server: BaseServer, authentication: AuthenticationSettings) -> Ports:
    """Return the ports of a server of this site, by the current settings."""
    hub, options = process_hub(), server.options
    instrument, observer = find_instrument(SignalObserver(server))
    record = partial(record_call, server)

    def find_observer() -> Observer | None:
        return record if settings.RECORD_CALLS or tool_called.receivers else None

    # Loads `django.db`, which importing a server must not.
    from django_mcp.serving import find_serving_app

    stores = stores_in_memory(hub, options, observer)
    # A site without the app has no tables.
    if find_serving_app() is not None and settings.SESSION_STORE != "memory":
        stores |= _session_stores(hub, options)
    return Ports(
        hub=hub,
        scope=_make_scope(),
        access=DjangoAccess(
            authenticators=lambda: authentication.authenticators,
            server_name=lambda: options.name,
        ),
        counter=count_in_cache,
        exceptions=DjangoExceptions(),
        signer=SiteSigner(),
        states=SiteStates(),
        handshakes=SessionHandshakes(),
        connection_observer=observer,
        find_observer=find_observer,
        find_language=get_language,
        find_toolset=find_toolset,
        find_today=find_today,
        converter=DJANGO_CONVERTER,
        make_form=make_django_form,
        make_context=Context,
        watch_async=_find_watch(),
        trace_error=trace_error,
        shows_faults=site_settings.DEBUG,
        instrument=instrument,
        **stores,
    )


def _make_scope() -> ThreadScope:
    if not settings.RECORD_QUERIES:
        return ThreadScope(notes_writes=site_settings.DEBUG)
    # Loads `django.db`, which importing a server must not.
    from django_mcp.execution.query_counts import CountingScope

    return CountingScope(notes_writes=site_settings.DEBUG)


def _find_watch() -> Callable[[Awaitable[Any], Call, str], Awaitable[Any]] | None:
    """Return what watches asynchronous handlers; None: nothing does, so that a call pays nothing."""
    if not settings.RECORD_QUERIES:
        return watch_async if site_settings.DEBUG else None
    # Loads `django.db`, which importing a server must not.
    from django_mcp.execution.query_counts import count_async

    if not site_settings.DEBUG:
        return lambda running, call, _what: count_async(running, call)
    # The watch of what is written takes the place of any other, so it begins first.
    return lambda running, call, what: watch_async(count_async(running, call), call, what)


def watch_async(running: Awaitable[Any], call: Call, what: str) -> Awaitable[Any]:
    """Log what an asynchronous handler should not do: block the event loop, and write what stays or is repeated."""
    # Loads `django.db`, which importing a server must not.
    from django_mcp.execution.noted_writes import noting_async_writes

    return watch_steps(noting_async_writes(running, call), MAX_STEP_S, what)


def find_toolset(entry: Entry) -> str | None:
    """Return the toolset that an entry was given, else the label of the app that its function is in."""
    if entry.toolset is not None:
        return entry.toolset
    label = find_app(entry)
    # A label may have letters that neither a path nor a header has.
    return label if TOOLSET.accepts(label) else None


def find_app(entry: Entry) -> str | None:
    """Return the label of the app that the function of an entry is in."""
    module = getattr(unwrap(innermost(entry.handler.origin)), "__module__", None)
    config = apps.get_containing_app_config(module) if module else None
    return None if config is None else config.label


def _session_stores(hub: Any, options: Any) -> dict[str, Any]:
    # These load models, which importing a server must not.
    from django_mcp.sessions.site.messages import DatabaseEvents, DatabasePendingResponses
    from django_mcp.sessions.site.store import DatabaseSessions

    return {
        "sessions": DatabaseSessions(hub, options),
        "pending_responses": DatabasePendingResponses(),
        "events": DatabaseEvents(),
    }
