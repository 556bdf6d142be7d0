"""The ports of a server without a site: everything is in this process, and there is no framework."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from django_mcp.extension_packages import load_parts
from django_mcp.registry.forms import make_form
from django_mcp.server.extension import Extension
from django_mcp.server.handlers.context import Context
from django_mcp.server.memory import (
    NoKnownExceptions,
    NoObserver,
    OpenAccess,
    PlainConverter,
    PoolScope,
    ProcessCounter,
    ProcessSigner,
    ProcessStates,
    find_today,
)
from django_mcp.server.options import Options
from django_mcp.server.ports import Ports
from django_mcp.server.streams.hub import Hub
from django_mcp.server.streams.messenger import LocalBus
from django_mcp.server.streams.upkeep import maintain_streams
from django_mcp.sessions.core.handshakes import SessionHandshakes
from django_mcp.sessions.core.memory import stores_in_memory


def ports_in_memory(options: Options, **given: Any) -> Ports:
    """Return ports in memory, with a hub of their own; `given` are used in place of some."""
    hub = given.get("hub") or _make_hub()
    clock = given.get("clock", time.time)
    observer = given.get("connection_observer") or NoObserver()
    ports: dict[str, Any] = {
        "hub": hub,
        "scope": PoolScope(),
        "access": OpenAccess(),
        "counter": ProcessCounter().add,
        "exceptions": NoKnownExceptions(),
        "signer": ProcessSigner(),
        "states": ProcessStates(),
        "handshakes": SessionHandshakes(),
        "connection_observer": observer,
        "find_observer": lambda: None,
        "find_language": lambda: None,
        "find_today": find_today,
        "converter": PlainConverter(),
        "make_form": make_form,
        "make_context": Context,
        "clock": clock,
        **stores_in_memory(hub, options, observer),
    }
    return Ports(**{**ports, **given})


def extensions_in_memory(clock: Callable[[], float] = time.time) -> list[Extension]:
    """Return the extensions of this package for a server that keeps everything in this process."""
    return [part.in_memory(clock) for part in load_parts("core.extension")]


def _make_hub() -> Hub[Any]:
    hub: Hub[Any] = Hub(LocalBus())
    maintain_streams(hub)
    return hub
