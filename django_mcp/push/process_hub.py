"""The hub of this process, which all of a site's servers share."""

from __future__ import annotations

import os

from django_mcp.auth.verdicts import knows_any
from django_mcp.push.bus import SiteBus
from django_mcp.push.shutdown import chain_signals
from django_mcp.server.services.services import ServerHub
from django_mcp.server.streams.hub import Hub
from django_mcp.server.streams.upkeep import watch

__all__ = ["process_hub"]


def _make() -> ServerHub:
    bus = SiteBus()
    hub: ServerHub = Hub(bus)
    watch(hub)
    # What is remembered of a key must not outlive it for long, though nothing is open.
    bus.is_wanted = lambda: hub.is_busy or knows_any("api-key")
    hub.on_start.append(chain_signals)
    return hub


_hub = _make()


def process_hub() -> ServerHub:
    """Return the hub of this process. It begins to live with the first stream or session call."""
    return _hub


if hasattr(os, "register_at_fork"):
    # Servers hold on to it, so it is the same object in the child, empty.
    os.register_at_fork(after_in_child=_hub.reset)
