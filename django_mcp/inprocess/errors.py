"""What a call in process, or of the test client, raises when the server refuses it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django_mcp.protocol.errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    MISSING_CLIENT_CAPABILITY,
    RESOURCE_NOT_FOUND,
)
from django_mcp.protocol.json import JSONObject

__all__ = [
    "MCPError",
    "MissingCapability",
    "Unanswered",
    "UnknownPrompt",
    "UnknownReference",
    "UnknownResource",
    "UnknownTool",
    "to_error",
]


class MCPError(Exception):
    """The server answered with a JSON-RPC error.

    Attributes:
        message: what it says of the reason.
        code: the error's code on the wire.
        data: whatever else it holds; None when it holds nothing.
        status: the HTTP status it came with, from the test client; else None.
    """

    def __init__(
        self,
        message: str,
        *,
        code: int = INTERNAL_ERROR,
        data: Any = None,
        status: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.data = data
        self.status = status


class UnknownTool(MCPError, LookupError):
    """There is no such tool for this user: not registered, or hidden from them."""


class UnknownPrompt(MCPError, LookupError):
    """There is no such prompt for this user."""


class UnknownResource(MCPError, LookupError):
    """There is nothing at this URI for this user."""


class UnknownReference(MCPError, LookupError):
    """There is no prompt or template to complete an argument of."""


class MissingCapability(MCPError):
    """The tool asks the client for something, and nobody here would answer: give `answers`."""


class Unanswered(MCPError):
    """A question was asked that no given answer is for, or fits.

    Attributes:
        questions: those that were asked, by key, as the protocol has them.
    """

    def __init__(self, message: str, questions: Mapping[str, JSONObject]) -> None:
        super().__init__(message)
        self.questions = dict(questions)


_UNKNOWN: dict[str, tuple[str, type[MCPError]]] = {
    "tools/call": ("Unknown tool: ", UnknownTool),
    "prompts/get": ("Unknown prompt: ", UnknownPrompt),
    "resources/read": ("Resource not found: ", UnknownResource),
    "completion/complete": ("Unknown reference: ", UnknownReference),
}


def to_error(method: str, error: JSONObject, status: int | None = None) -> MCPError:
    """Return the exception that stands for a JSON-RPC error object.

    What is unknown shares its code with other wrong params, so the text tells them apart.
    """
    code, message = error["code"], error["message"]
    kind: type[MCPError] = MCPError
    if code == MISSING_CLIENT_CAPABILITY:
        kind = MissingCapability
    elif method in _UNKNOWN:
        start, unknown = _UNKNOWN[method]
        # Where nothing of its kind is registered, the method itself is unknown.
        is_wrong = code in (INVALID_PARAMS, RESOURCE_NOT_FOUND) and message.startswith(start)
        if is_wrong or code == METHOD_NOT_FOUND:
            kind = unknown
    return kind(message, code=code, data=error.get("data"), status=status)
