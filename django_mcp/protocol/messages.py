"""JSON-RPC messages: decode bytes to a request, notification, response or batch, and encode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeAlias

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

MAX_ID_CHARS = 1024
"""Characters of a request id or progress token, which is repeated in messages to the client."""

RequestId: TypeAlias = Annotated[str, msgspec.Meta(max_length=MAX_ID_CHARS)] | int | float
"""A string or an integer, kept in its type: `1`, `"1"` and `1.0` differ."""


class Request(Record, forbid_unknown_fields=True):
    """A message that needs a response. `params` is `{}` if the message had none."""

    id: RequestId
    method: str
    params: JSONObject = msgspec.field(default_factory=dict)
    jsonrpc: Literal["2.0"] | None = None
    """The message's value; None for a request that was never on a wire."""


class Notification(Record):
    """A message that never gets a response, not even if it is invalid."""

    method: str
    params: JSONObject


class Response(Record):
    """A client's response to the server's request, with either `result` or `error`."""

    id: RequestId | None
    result: JSONValue = None
    error: JSONObject | None = None


class Malformed(Record):
    """JSON that is not a valid message; `id` is echoed if it could be read."""

    refusal: Refusal
    id: RequestId | None = None


Message: TypeAlias = Request | Notification | Response | Malformed


class Batch(Record):
    """An array of messages, as 2025-03-26 allows, which are independent of each other."""

    messages: Sequence[Message]


_decode_request = msgspec.json.Decoder(Request).decode


def decode_message(data: bytes, max_values: int) -> Message | Batch:
    """Return the message in a body or a line.

    It accepts any input: what is not JSON becomes `Malformed` with `PARSE_ERROR`, and JSON that is
    not a message with `INVALID_REQUEST`.

    Args:
        data: the body or the line.
        max_values: how many values it may hold; more is rejected before it is decoded, since
            decoding blocks the event loop.
    """
    if len(data) > _LARGE_BYTES:
        if has_more_values(data, max_values):
            return _malformed(
                f"The message holds more than {max_values} values. Send less at once", status=413
            )
        return _decode_any(data)
    try:
        # Nearly every message is a well-formed request.
        request = _decode_request(data)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return _decode_any(data)
    may_be_too_deep = data.count(b"[") + data.count(b"{") > MAX_DEPTH
    if may_be_too_deep or request.jsonrpc is None or type(request.id) is float:
        return _decode_any(data)
    return request


_ID = f"a whole number, or a string of at most {MAX_ID_CHARS} characters"

_LARGE_BYTES = 4096
"""Longer messages are decoded only once, in the general way."""


def _decode_any(data: bytes) -> Message | Batch:
    try:
        value = decode(data)
    except JSONDecodeError as error:
        return Malformed(Refusal(code=PARSE_ERROR, message=f"Not valid JSON: {error}"))
    return to_message(value)


def to_message(value: JSONValue) -> Message | Batch:
    """Return the message, or batch, of a parsed JSON value."""
    if type(value) is list:
        if not value:
            return _malformed("A batch must not be empty")
        return Batch([_to_single(member) for member in value])
    return _to_single(value)


def _to_single(value: JSONValue) -> Message:
    if type(value) is not dict:
        return _malformed("A message must be a JSON object")
    if "method" not in value:
        return _to_response(value)
    method = value["method"]
    is_request = "id" in value
    id_ = value.get("id")
    if is_request and not is_request_id(id_):
        return _malformed(f"The id of a request must be {_ID}")
    if value.get("jsonrpc") != "2.0":
        return _malformed('A message must have "jsonrpc": "2.0"', id_)
    if type(method) is not str:
        return _malformed("The method must be a string", id_)
    params = value.get("params")
    if params is None:
        # Some clients send null for what is absent.
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
        return _malformed(f"The id of a response must be {_ID}")
    return Response(id_, result=value["result"])


def is_request_id(value: Any) -> bool:
    """Return whether MCP allows `value` as the id of a request, and it is within `MAX_ID_CHARS`.

    Null, booleans and fractions are not allowed (all revisions, basic "Requests").
    """
    kind = type(value)
    if kind is str:
        return len(value) <= MAX_ID_CHARS
    if kind is int:
        return bool(value.bit_length() <= MAX_ID_CHARS * 8)
    return kind is float and value.is_integer()


def _malformed(message: str, id_: Any = None, status: int | None = None) -> Malformed:
    refusal = Refusal(code=INVALID_REQUEST, message=message, status=status)
    return Malformed(refusal, id_ if is_request_id(id_) else None)


def encode_result(id_: RequestId, result: bytes) -> bytes:
    """Return the response to request `id_`, whose `result` is encoded JSON."""
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (encode(id_), result)


def encode_error(id_: RequestId | None, refusal: Refusal) -> bytes:
    """Return an error response, without `id` if the request's could not be read.

    Source: 2025-11-25 and later make the id of an error optional; it is never null.
    """
    error = encode(refusal.to_error())
    if id_ is None:
        return b'{"jsonrpc":"2.0","error":%b}' % error
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (encode(id_), error)


class _WithId(msgspec.Struct):
    id: RequestId | None = None


def find_id(response: bytes) -> RequestId | None:
    """Return the id of an encoded response; None if it has none, or is that to a batch."""
    try:
        return msgspec.json.decode(response, type=_WithId).id
    except msgspec.ValidationError:
        return None


def encode_request(id_: RequestId, method: str, params: JSONObject | None = None) -> bytes:
    """Return a request to the client as JSON on one line."""
    head = b'{"jsonrpc":"2.0","id":%b,"method":%b' % (encode(id_), encode(method))
    return head + (b"}" if params is None else b',"params":%b}' % encode(params))


def encode_notification(method: str, params: JSONObject | None = None) -> bytes:
    """Return a notification as JSON on one line."""
    if params is None:
        return b'{"jsonrpc":"2.0","method":%b}' % encode(method)
    return b'{"jsonrpc":"2.0","method":%b,"params":%b}' % (encode(method), encode(params))


def encode_notification_head(method: str, params: JSONObject | None) -> bytes:
    """Return a notification up to where the last member of its params belongs.

    `b'"name":value}}'` completes it, so that notifications that differ in one member are encoded
    once.
    """
    inner = encode(params)[:-1] + b"," if params else b"{"
    return b'{"jsonrpc":"2.0","method":%b,"params":%b' % (encode(method), inner)


# -- ids of the server's requests


_ASK = "ask-"


def to_ask_id(method: str, number: str) -> str:
    """Return the id of a request of the server's, from which any process can read the method."""
    return f"{_ASK}{method}-{number}"


def method_of(ask_id: object) -> str:
    """Return the method in the id of a request of the server's; `""` if there is none."""
    text = ask_id if isinstance(ask_id, str) else ""
    return text.removeprefix(_ASK).rpartition("-")[0] if text.startswith(_ASK) else ""
