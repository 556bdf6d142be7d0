from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_mcp.protocol.errors import INVALID_REQUEST, PARSE_ERROR, Refusal
from django_mcp.protocol.json import decode, encode
from django_mcp.protocol.messages import (
    Batch,
    Malformed,
    Notification,
    Request,
    Response,
    decode_message,
    encode_error,
    encode_notification,
    encode_result,
    to_message,
)
from django_mcp.server.options import Options
from tests.unit.protocol.test_json import json_values


@given(json_values)
def test_any_json_value_parses_to_a_message_or_error(value: Any) -> None:
    assert isinstance(to_message(value), Request | Notification | Response | Malformed | Batch)


@given(st.binary(max_size=80))
def test_any_bytes_parse_to_a_message_or_error(data: bytes) -> None:
    assert isinstance(
        decode_message(data, 100), Request | Notification | Response | Malformed | Batch
    )


@pytest.mark.parametrize("id_", [0, 7, -1, 2**60, 10**30, "", "a", 1.0])
def test_a_request_keeps_the_type_of_its_id(id_: Any) -> None:
    message = to_message({"jsonrpc": "2.0", "id": id_, "method": "ping"})

    assert isinstance(message, Request)
    assert message.id == id_
    assert type(message.id) is type(id_)
    assert decode(encode_result(message.id, b"{}"))["id"] == id_


@pytest.mark.parametrize("id_", [None, True, False, 1.5, [], {}])
def test_an_invalid_id_is_rejected_without_an_id(id_: Any) -> None:
    message = to_message({"jsonrpc": "2.0", "id": id_, "method": "ping"})

    assert isinstance(message, Malformed)
    assert message.refusal.code == INVALID_REQUEST
    assert message.id is None
    assert "id" not in decode(encode_error(message.id, message.refusal))


def test_a_message_without_an_id_is_a_notification() -> None:
    message = to_message({"jsonrpc": "2.0", "method": "notifications/x", "params": {"a": 1}})

    assert isinstance(message, Notification)
    assert message.params == {"a": 1}


@pytest.mark.parametrize(
    "value",
    [
        {"id": 3, "method": "ping"},
        {"jsonrpc": "1.0", "id": 3, "method": "ping"},
        {"jsonrpc": "2.0", "id": 3, "method": 5},
        {"jsonrpc": "2.0", "id": 3, "method": "ping", "params": []},
        {"jsonrpc": "2.0", "id": 3, "method": "ping", "params": False},
    ],
)
def test_a_malformed_request_is_refused_with_its_id(value: Any) -> None:
    message = to_message(value)

    assert isinstance(message, Malformed)
    assert message.refusal.code == INVALID_REQUEST
    assert message.id == 3


@pytest.mark.parametrize(
    "value",
    [
        1,
        "x",
        None,
        {},
        [],
        {"jsonrpc": "2.0", "id": 1},
        {"jsonrpc": "2.0", "id": 1, "result": 1, "error": {}},
        {"jsonrpc": "2.0", "result": 1},
        {"jsonrpc": "2.0", "id": 1, "error": "x"},
    ],
)
def test_an_invalid_message_is_rejected(value: Any) -> None:
    message = to_message(value)

    assert isinstance(message, Malformed)
    assert message.refusal.code == INVALID_REQUEST


@pytest.mark.parametrize(
    "id_", ["x" * 1025, "x" * 100_000, 10**4000], ids=["text", "large text", "number"]
)
@pytest.mark.parametrize("rest", [{"method": "ping"}, {"result": {}}])
def test_an_overlong_id_is_rejected_and_not_repeated(id_: Any, rest: Any) -> None:
    """This holds for short messages and for those long enough to be decoded in the general way."""
    data = encode({"jsonrpc": "2.0", "id": id_, **rest, "x": "y" * 200})
    message = decode_message(data, 1000)

    assert isinstance(message, Malformed)
    assert message.refusal.code == INVALID_REQUEST
    assert "at most 1024 characters" in str(message.refusal.message)
    assert message.id is None


def test_invalid_json_is_a_parse_error() -> None:
    message = decode_message(b"{", 100)

    assert isinstance(message, Malformed)
    assert message.refusal.code == PARSE_ERROR


def test_responses_are_distinguished_from_requests() -> None:
    result = to_message({"jsonrpc": "2.0", "id": "s1", "result": {"a": 1}})
    error = to_message({"jsonrpc": "2.0", "id": None, "error": {"code": -1, "message": "no"}})

    assert isinstance(result, Response)
    assert result.result == {"a": 1}
    assert isinstance(error, Response)
    assert error.error == {"code": -1, "message": "no"}


def test_a_batch_keeps_its_order_and_invalid_members() -> None:
    batch = decode_message(b'[{"jsonrpc":"2.0","id":1,"method":"ping"},7]', 100)

    assert isinstance(batch, Batch)
    assert [type(member) for member in batch.messages] == [Request, Malformed]


def test_an_error_without_data_omits_the_field() -> None:
    plain = decode(encode_error(1, Refusal(code=-5, message="m")))
    rich = decode(encode_error("1", Refusal(code=-5, message="m", data={"a": 1})))

    assert plain == {"jsonrpc": "2.0", "id": 1, "error": {"code": -5, "message": "m"}}
    assert rich["error"]["data"] == {"a": 1}
    assert rich["id"] == "1"


def test_a_notification_is_one_line() -> None:
    text = encode_notification("notifications/message", {"data": "a\nb"})

    assert b"\n" not in text
    assert decode(text)["params"] == {"data": "a\nb"}
    assert "params" not in decode(encode_notification("notifications/x"))
    assert encode(None) == b"null"


def call_with(argument: bytes) -> bytes:
    return (
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"arguments":{"a":%b}}}' % argument
    )


@pytest.mark.parametrize(
    "argument",
    [
        b"[" + b"1," * 100_000 + b"1]",
        b"[" + b"{}," * 20_000 + b"{}]",
        b"[" + b"[]," * 60_000 + b"[]]",
        b"{" + b",".join(b'"k%d":1' % number for number in range(100_000)) + b"}",
        b"[" * 2_000_000,
        b'{"a":' * 500_000,
        b'["' + b'","' * 200_000 + b'"]',
    ],
    ids=["numbers", "objects", "lists", "members", "deep lists", "deep objects", "strings"],
)
def test_a_message_with_too_many_values_is_rejected_before_decoding(argument: bytes) -> None:
    message = decode_message(call_with(argument), 100_000)

    assert isinstance(message, Malformed)
    assert message.refusal.status == 413
    assert "100000 values" in message.refusal.message


def test_legitimate_large_messages_are_decoded() -> None:
    row = b'{"id":12345,"name":"Jane, Doe","mail":"jane@example.com","age":42,"is_active":true},'
    rows = b"[" + row * 9_999 + row[:-1] + b"]"
    table = encode("1,2,3\n" * 500_000)
    for argument in (rows, table, b'"' + b"QUJD" * 750_000 + b'"'):
        message = decode_message(call_with(argument), Options(name="a").max_body_values)

        assert isinstance(message, Request)
        assert encode(message.params["arguments"]["a"]) == argument


def test_large_and_small_messages_are_decoded_alike() -> None:
    padding = b" " * 5000
    for text in (b"{", b"[]", b'{"jsonrpc":"2.0","id":1}', b'{"jsonrpc":"2.0","method":"a"}'):
        small, large = decode_message(text, 1000), decode_message(text + padding, 1000)

        assert type(small) is type(large)
