"""JSON-RPC messages: one decode from bytes to a request, notification, response or batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from django_mcp.protocol.errors import INVALID_REQUEST, PARSE_ERROR, Refusal
from django_mcp.protocol.json import (
    MAX_DEPTH,
    JSONDecodeError,
    JSONObject,
    JSONValue,
    decode,
    encode,
    has_more_values,
)
from django_mcp.protocol.records import Record

RequestId: TypeAlias = str | int | float
"""A string or a whole number, kept in the type it came in: `1`, `"1"` and `1.0` differ."""


class Request(Record, forbid_unknown_fields=True):
    """A message that wants an answer. `params` is `{}` where the message had none."""

    id: RequestId
    method: str
    params: JSONObject = msgspec.field(default_factory=dict)
    jsonrpc: Literal["2.0"] | None = None
    """What the message said; None for a request that was never on a wire."""


class Notification:
    """A message that is never answered, not even when it makes no sense."""

    __slots__ = ("method", "params")

    def __init__(self, method: str, params: JSONObject) -> None:
        self.method = method
        self.params = params


class Response:
    """A client's answer to a request of ours: exactly one of `result` and `error` is set."""

    __slots__ = ("error", "id", "result")

    def __init__(
        self, id: RequestId | None, result: JSONValue = None, error: JSONObject | None = None
    ) -> None:
        self.id = id
        self.result = result
        self.error = error


class Malformed:
    """What could be parsed but is no message; `id` is echoed where it could be read."""

    __slots__ = ("id", "refusal")

    def __init__(self, refusal: Refusal, id: RequestId | None = None) -> None:
        self.refusal = refusal
        self.id = id


Message: TypeAlias = Request | Notification | Response | Malformed


class Batch:
    """An array of messages, as 2025-03-26 allows; each member stands alone."""

    __slots__ = ("messages",)

    def __init__(self, messages: Sequence[Message]) -> None:
        self.messages = messages


_decode_request = msgspec.json.Decoder(Request).decode


def decode_message(data: bytes, max_values: int) -> Message | Batch:
    """Return what a body or a line says, as far as it can be understood.

    Total over any input: what is no JSON comes back as `Malformed` with `PARSE_ERROR`, what is
    JSON but no message with `INVALID_REQUEST`.

    Args:
        data: the body or the line.
        max_values: how many values it may hold; more is refused before it is decoded, since decoding
            holds up everything else.
    """
    if len(data) > _LARGE_BYTES:
        return _decode_large(data, max_values)
    try:
        # Nearly every message is a request, and well-formed.
        request = _decode_request(data)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return _decode_any(data)
    if (
        request.jsonrpc is None
        or type(request.id) is float
        or (
            # Only then can it be too deep.
            data.count(b"[") + data.count(b"{") > MAX_DEPTH
        )
    ):
        return _decode_any(data)
    return request


_LARGE_BYTES = 4096
"""Longer messages are decoded once, in the way that suits every message. Ours."""


def _decode_large(data: bytes, max_values: int) -> Message | Batch:
    if has_more_values(data, max_values):
        return Malformed(
            Refusal(
                code=INVALID_REQUEST,
                message=f"The message holds more than {max_values} values. Send less at once",
                status=413,
            )
        )
    return _decode_any(data)


def _decode_any(data: bytes) -> Message | Batch:
    try:
        value = decode(data)
    except JSONDecodeError as error:
        return Malformed(Refusal(code=PARSE_ERROR, message=f"Not valid JSON: {error}"))
    return to_message(value)


def to_message(value: JSONValue) -> Message | Batch:
    """Return the message, or batch, that a parsed JSON value is."""
    if type(value) is dict:
        return _to_single(value)
    if type(value) is list:
        if not value:
            return _malformed("A batch must not be empty")
        return Batch([_to_member(member) for member in value])
    return _malformed("A message must be a JSON object")


def _to_member(value: JSONValue) -> Message:
    if type(value) is dict:
        return _to_single(value)
    return _malformed("A message must be a JSON object")


def _to_single(value: JSONObject) -> Message:
    if "method" not in value:
        return _to_response(value)
    method = value["method"]
    is_request = "id" in value
    id_ = value.get("id")
    if is_request and not is_request_id(id_):
        return _malformed("The id of a request must be a string or a whole number")
    if value.get("jsonrpc") != "2.0":
        return _malformed('A message must have "jsonrpc": "2.0"', id_)
    if type(method) is not str:
        return _malformed("The method must be a string", id_)
    params = value.get("params")
    if params is None and "params" not in value:
        params = {}
    elif type(params) is not dict:
        return _malformed("The params must be an object", id_)
    if is_request and id_ is not None:
        return Request(id_, method, params)
    return Notification(method, params)


def _to_response(value: JSONObject) -> Message:
    has_result, has_error = "result" in value, "error" in value
    if has_result == has_error or value.get("jsonrpc") != "2.0":
        return _malformed("Neither a request, a notification nor a response")
    id_ = value.get("id")
    if has_error:
        error = value["error"]
        if (id_ is not None and not is_request_id(id_)) or type(error) is not dict:
            return _malformed("A malformed response")
        return Response(id_, error=error)
    if not is_request_id(id_):
        return _malformed("The id of a response must be a string or a whole number")
    return Response(id_, result=value["result"])


def is_request_id(value: Any) -> bool:
    """Return whether JSON-RPC, as MCP narrows it, takes `value` as the id of a request.

    Null, booleans and fractions are none (all revisions, basic "Requests").
    """
    kind = type(value)
    return kind is str or kind is int or (kind is float and value.is_integer())


def _malformed(message: str, id_: Any = None) -> Malformed:
    return Malformed(
        Refusal(code=INVALID_REQUEST, message=message), id_ if is_request_id(id_) else None
    )


def encode_result(id_: RequestId, result: bytes) -> bytes:
    """Return the response to request `id_`; `result` is JSON already."""
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (encode(id_), result)


def encode_error(id_: RequestId | None, refusal: Refusal) -> bytes:
    """Return an error response; without `id` where the request's could not be read.

    Source: 2025-11-25 and later make the id of an error optional; it is never null.
    """
    error: JSONObject = {"code": refusal.code, "message": refusal.message}
    if refusal.data is not None:
        error["data"] = refusal.data
    if id_ is None:
        return b'{"jsonrpc":"2.0","error":%b}' % encode(error)
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (encode(id_), encode(error))


def encode_request(id_: RequestId, method: str, params: JSONObject | None = None) -> bytes:
    """Return a request of ours as JSON on one line."""
    head = b'{"jsonrpc":"2.0","id":%b,"method":%b' % (encode(id_), encode(method))
    return head + (b"}" if params is None else b',"params":%b}' % encode(params))


def encode_notification(method: str, params: JSONObject | None = None) -> bytes:
    """Return a notification as JSON on one line."""
    if params is None:
        return b'{"jsonrpc":"2.0","method":%b}' % encode(method)
    return b'{"jsonrpc":"2.0","method":%b,"params":%b}' % (encode(method), encode(params))


def encode_notification_head(method: str, params: JSONObject | None) -> bytes:
    """Return a notification up to where the last member of its params belongs.

    `b'"name":value}}'` completes it, so that what differs in one member is written once.
    """
    inner = encode(params)[:-1] + b"," if params else b"{"
    return b'{"jsonrpc":"2.0","method":%b,"params":%b' % (encode(method), inner)
