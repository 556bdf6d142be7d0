"""Error codes of JSON-RPC and MCP, and the classes of errors that are sent to clients."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
SESSION_NOT_FOUND = -32001
"""Answers a request of a session that has ended, with HTTP status 404. Only revisions with a handshake
have sessions; they leave the code to implementations. Not from the specification, but what official
SDKs send, and what clients look for before they open another session."""
RESOURCE_NOT_FOUND = -32002
"""Sent before 2026-07-28 only; from then on a missing resource is `INVALID_PARAMS`."""
URL_ELICITATION_REQUIRED = -32042
"""Sent at 2025-11-25 only."""
HEADER_MISMATCH = -32020
MISSING_CLIENT_CAPABILITY = -32021
UNSUPPORTED_PROTOCOL_VERSION = -32022
REQUEST_CANCELLED = -32800
"""Answers a cancelled request if the transport must send a response (JSON mode before
2026-07-28). Outside the reserved range; not from the specification, but common practice."""
TOO_MANY_REQUESTS = 429
"""Answers a request over a rate limit. Outside the reserved range; after the HTTP status."""


class Refusal(Struct, frozen=True, kw_only=True):
    """A rejected message, with the contents of its JSON-RPC error object.

    `status` is the HTTP status if the rule prescribes one; None leaves it to the revision's table.
    `headers` are sent with the HTTP response (an authorization challenge, for example).
    """

    code: int
    message: str
    data: Any = None
    status: int | None = None
    headers: tuple[tuple[bytes, bytes], ...] = ()

    def to_error(self) -> dict[str, Any]:
        """Return the JSON-RPC error object."""
        error: dict[str, Any] = {"code": self.code, "message": str(self.message)}
        return error if self.data is None else {**error, "data": self.data}


def invalid_params(message: str, status: int | None = None) -> Refusal:
    """Return the refusal of params that the method does not accept."""
    return Refusal(code=INVALID_PARAMS, message=message, status=status)


def invalid_request(message: str, status: int | None = None) -> Refusal:
    """Return the refusal of what is no request here and now."""
    return Refusal(code=INVALID_REQUEST, message=message, status=status)


def try_later(
    message: str,
    after_s: int = 10,
    *,
    code: int = INTERNAL_ERROR,
    status: int = 503,
    data: Any = None,
) -> Refusal:
    """Return the refusal of a request that may be sent again after some seconds."""
    headers = ((b"retry-after", b"%d" % after_s),)
    return Refusal(code=code, message=message, status=status, headers=headers, data=data)


FAULT = Refusal(code=INTERNAL_ERROR, message="Internal error")
"""The response to an internal error, whose details are only logged."""


class ProtocolError(Exception):
    """Raise from a handler to send a JSON-RPC error of your own.

    Args:
        message: one sentence for the client's developer, without internals.
        code: any integer outside the range -32768..-32000, which the protocol reserves
            (2026-07-28, basic "Error codes"); `INVALID_PARAMS` and `INTERNAL_ERROR` are allowed.
        data: any JSON value.
    """

    def __init__(self, message: str, *, code: int = INTERNAL_ERROR, data: Any = None) -> None:
        if -32768 <= code <= -32000 and code not in (INVALID_PARAMS, INTERNAL_ERROR):
            raise ValueError(
                f"Code {code} is reserved by the protocol: use one outside -32768..-32000."
            )
        super().__init__(message)
        self.message = message
        self.code = code
        self.data = data

    def to_refusal(self) -> Refusal:
        """Return the same error as a value."""
        return Refusal(code=self.code, message=self.message, data=self.data)


class Refused(ProtocolError):
    """Leave a handler with a refusal of its call.

    Args:
        refusal: what the client gets.
    """

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal

    def to_refusal(self) -> Refusal:
        """Return the refusal."""
        return self.refusal


class ToolError(Exception):
    """Raise from a tool to tell the model what went wrong, in words it can act on.

    The model gets the text as a result with `isError: true`; the transaction of a synchronous tool
    is rolled back.
    """

    def __init__(self, message: object, *args: object) -> None:
        # An error without a text would tell the model nothing, and nobody else would learn of it.
        super().__init__(message, *args)
