"""The tables of a site's MCP servers, one module per subject."""

from __future__ import annotations

from django_mcp.extension_packages import load_parts
from django_mcp.models.calls import CallRecord, CallTally, KeptState, LastCall, PageVisit, UsedState
from django_mcp.models.catalogue import DisabledEntry
from django_mcp.models.errors import ErrorGroup, ErrorTally
from django_mcp.models.health import HealthAlert
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
    "ErrorGroup",
    "ErrorTally",
    "GivenLink",
    "HealthAlert",
    "KeptState",
    "LastCall",
    "PageVisit",
    "PendingAnswer",
    "Session",
    "SessionItem",
    "Stream",
    "StreamEvent",
    "Subscription",
    "UsedState",
    "Worker",
]

# Django finds the models of an app when this module is imported.
load_parts("site.models")
