"""Results of calls in process and of the test client, and the exceptions that they raise for errors of the server."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django_mcp.protocol.errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    MISSING_CLIENT_CAPABILITY,
    RESOURCE_NOT_FOUND,
    ToolError,
)
from django_mcp.protocol.json import JSONObject, decode
from django_mcp.protocol.uri_template import UriTemplate


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


@dataclass(frozen=True, kw_only=True)
class Result:
    """A result of a server.

    Attributes:
        raw: the whole result in the protocol's form.
    """

    raw: JSONObject


class CallResult(Result):
    """The result of a tool; true unless it is an error."""

    def __bool__(self) -> bool:
        return not self.is_error

    @property
    def is_error(self) -> bool:
        """Whether it is an error for the model, described by `text`.

        That includes wrong arguments, which the model can correct.
        """
        return bool(self.raw.get("isError", False))

    @property
    def structured(self) -> Any:
        """The structured content: any JSON value; None if there is none.

        Raises:
            ToolError: the tool failed and has no structured content. The message is its `text`.
        """
        if self.is_error and "structuredContent" not in self.raw:
            raise ToolError(self.text)
        return self.raw.get("structuredContent")

    @property
    def content(self) -> list[JSONObject]:
        """The content blocks, each with its `type`."""
        return list(self.raw.get("content", ()))

    @property
    def text(self) -> str:
        """The text blocks, a line each."""
        return _joined(self.content)

    @property
    def meta(self) -> JSONObject:
        """The result's `_meta`."""
        return dict(self.raw.get("_meta", {}))


class ResourceResult(Result):
    """The contents of a resource."""

    @property
    def contents(self) -> list[JSONObject]:
        """The contents, each with its `uri`, and `text` or `blob` (Base64)."""
        return list(self.raw["contents"])

    @property
    def text(self) -> str:
        """The texts, a line each."""
        return "\n".join(content["text"] for content in self.contents if "text" in content)

    @property
    def data(self) -> bytes:
        """The bytes of the first contents."""
        first = self.contents[0]
        return base64.b64decode(first["blob"]) if "blob" in first else first["text"].encode()

    @property
    def parsed(self) -> Any:
        """The text parsed as JSON."""
        return decode(self.text)

    @property
    def mime_type(self) -> str | None:
        """The type of the first contents, if it has one."""
        return self.contents[0].get("mimeType")


class ListedEntries(list[Any]):
    """The entries of a list, in the protocol's form: `"find_orders" in client.list_tools()`.

    A text is in it if an entry has this name or URI, or if a template matches it.
    """

    def __contains__(self, wanted: object) -> bool:
        if not isinstance(wanted, str):
            return super().__contains__(wanted)
        return any(_is_called(entry, wanted) for entry in self)


def _is_called(entry: JSONObject, wanted: str) -> bool:
    if wanted in (entry["name"], entry.get("uri"), entry.get("uriTemplate")):
        return True
    return "uriTemplate" in entry and UriTemplate(entry["uriTemplate"]).match(wanted) is not None


class FilledPrompt(Result):
    """The result of a prompt."""

    @property
    def messages(self) -> list[JSONObject]:
        """The messages, each with its `role` and `content`, one block."""
        return list(self.raw["messages"])

    @property
    def text(self) -> str:
        """The texts of the messages, a line each."""
        return _joined(message["content"] for message in self.messages)

    @property
    def description(self) -> str | None:
        """The prompt's description, if it has one."""
        return self.raw.get("description")


class CompletionResult(Result):
    """The proposed values for an argument."""

    @property
    def values(self) -> list[str]:
        """The values, best first; a hundred at most."""
        return list(self.raw["completion"]["values"])

    @property
    def total(self) -> int | None:
        """The number of all values, if it is known."""
        count: int | None = self.raw["completion"].get("total")
        return count

    @property
    def has_more(self) -> bool:
        """Whether there are more than these."""
        return bool(self.raw["completion"].get("hasMore", False))


def _joined(blocks: Iterable[Mapping[str, Any]]) -> str:
    return "\n".join(block["text"] for block in blocks if block.get("type") == "text")
