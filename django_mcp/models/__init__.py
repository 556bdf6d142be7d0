"""The tables of a site's MCP servers, one module per subject."""

from __future__ import annotations

from django_mcp.models.calls import CallRecord, CallTally, KeptState, PageVisit, Task, UsedState
from django_mcp.models.catalogue import DisabledEntry
from django_mcp.models.keys import APIKey, GivenLink
from django_mcp.models.sessions import (
    BusMessage,
    PendingAnswer,
    Session,
    SessionItem,
    Stream,
    StreamEvent,
    Subscription,
    Worker,
)

__all__ = [
    "APIKey",
    "BusMessage",
    "CallRecord",
    "CallTally",
    "DisabledEntry",
    "GivenLink",
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
