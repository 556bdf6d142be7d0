"""Exceptions of a call in process, or of the test client, for errors of the server."""

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


class MCPError(Exception):
    """The server returned a JSON-RPC error.

    Attributes:
        message: its text.
        code: the error's code on the wire.
        data: its data; None if it has none.
        status: the HTTP status of the response, in the test client; else None.
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
    """The tool sends a request to the client, but the call has no `answers`."""


class Unanswered(MCPError):
    """A question has no answer, or the answer does not fit.

    Attributes:
        questions: the questions by key, in the protocol's form.
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
    """Return the exception for a JSON-RPC error object.

    An unknown entry has the same code as other wrong params, so the text distinguishes them.
    """
    code, message = error["code"], error["message"]
    kind: type[MCPError] = MCPError
    if code == MISSING_CLIENT_CAPABILITY:
        kind = MissingCapability
    elif method in _UNKNOWN:
        start, unknown = _UNKNOWN[method]
        # If nothing of its kind is registered, the method itself is unknown.
        is_wrong = code in (INVALID_PARAMS, RESOURCE_NOT_FOUND) and message.startswith(start)
        if is_wrong or code == METHOD_NOT_FOUND:
            kind = unknown
    return kind(message, code=code, data=error.get("data"), status=status)
