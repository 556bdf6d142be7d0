"""Call a server in its own process, without a transport."""

from __future__ import annotations

from django_mcp.inprocess.call import Environment
from django_mcp.inprocess.methods import InProcess
from django_mcp.inprocess.results import (
    CallResult,
    CompletionResult,
    FilledPrompt,
    ListedEntries,
    MCPError,
    MissingCapability,
    ResourceResult,
    Unanswered,
    UnknownPrompt,
    UnknownReference,
    UnknownResource,
    UnknownTool,
)

__all__ = [
    "CallResult",
    "CompletionResult",
    "FilledPrompt",
    "InProcess",
    "ListedEntries",
    "MCPError",
    "MissingCapability",
    "ResourceResult",
    "Environment",
    "Unanswered",
    "UnknownPrompt",
    "UnknownReference",
    "UnknownResource",
    "UnknownTool",
]
