"""The tables of a site's MCP servers, one module per subject."""

from __future__ import annotations

from django_mcp.models.bus import BusMessage
from django_mcp.models.calls import CallRecord, CallTally
from django_mcp.models.catalogue import DisabledEntry
from django_mcp.models.keys import APIKey
from django_mcp.models.page_visits import PageVisit
from django_mcp.models.sessions import (
    PendingAnswer,
    Session,
    SessionItem,
    Stream,
    StreamEvent,
    Subscription,
    Worker,
)
from django_mcp.models.states import KeptState, UsedState
from django_mcp.models.tasks import Task

__all__ = [
    "APIKey",
    "BusMessage",
    "CallRecord",
    "CallTally",
    "DisabledEntry",
    "KeptState",
    "PageVisit",
    "PendingAnswer",
    "Session",
    "SessionItem",
    "Stream",
    "StreamEvent",
    "Subscription",
    "Task",
    "UsedState",
    "Worker",
]
