"""Call a server in its own process, without a transport."""

from __future__ import annotations

from django_mcp.inprocess.call import Surroundings
from django_mcp.inprocess.errors import (
    MCPError,
    MissingCapability,
    Unanswered,
    UnknownPrompt,
    UnknownReference,
    UnknownResource,
    UnknownTool,
)
from django_mcp.inprocess.methods import InProcess
from django_mcp.inprocess.results import (
    CallResult,
    CompletionResult,
    FilledPrompt,
    ResourceResult,
)

__all__ = [
    "CallResult",
    "CompletionResult",
    "FilledPrompt",
    "InProcess",
    "MCPError",
    "MissingCapability",
    "ResourceResult",
    "Surroundings",
    "Unanswered",
    "UnknownPrompt",
    "UnknownReference",
    "UnknownResource",
    "UnknownTool",
]
