"""What the log says, with DEBUG, of results with keys that look like secrets, and of those that tell a failure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core import serializers
from django.forms.models import model_to_dict
from django.test import override_settings

from django_mcp import MCPServer, Text, ToolError, ToolResult
from django_mcp.server.handlers import result_mistakes
from django_mcp.test import MCPClient


@pytest.fixture(autouse=True)
def debug() -> Iterator[None]:
    result_mistakes.logged.reset()
    with override_settings(DEBUG=True):
        yield
    result_mistakes.logged.reset()


def told_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each for each in caplog.messages if "looks like a secret" in each]


def call(value: Any, returns: Any = Any, revision: str = "2026-07-28", times: int = 1) -> None:
    server = MCPServer("secret-keys", public=True)

    def find_all() -> Any:
        """Find all."""
        return value() if callable(value) else value

    server.tool(read_only=True, returns=returns)(find_all)
    client = MCPClient(server, revision=revision)
    for _ in range(times):
        assert not client.call("find_all").is_error


def rows() -> Any:
    return list(User.objects.values())


SENDS: dict[str, tuple[Callable[[], Any], Any]] = {
    "values": (rows, list[dict[str, Any]]),
    "queryset": (lambda: User.objects.values("id", "password"), list[dict[str, Any]]),
    "unknown": (rows, Any),
    "nested": (lambda: {"count": 1, "users": rows()}, dict[str, Any]),
    "model_to_dict": (lambda: model_to_dict(User.objects.get()), dict[str, Any]),
    "vars": (
        lambda: {key: value for key, value in vars(User.objects.get()).items() if key[0] != "_"},
        dict[str, Any],
    ),
    "serialized": (lambda: serializers.serialize("json", User.objects.all()), str),
    "text": (lambda: json.dumps(rows(), default=str), str),
}


@pytest.mark.django_db
@pytest.mark.parametrize(("value", "returns"), SENDS.values(), ids=SENDS)
def test_all_columns_of_a_table_are_told(
    caplog: pytest.LogCaptureFixture, value: Callable[[], Any], returns: Any
):
    User.objects.create_user("ann", password="x")

    call(value, returns)

    (told,) = told_of(caplog)
    assert told.startswith("The result of find_all has the key 'password', which looks like a")
    assert "values('id', 'name')" in told


def test_each_key_of_a_tool_is_told_once(caplog: pytest.LogCaptureFixture):
    call({"licence_token": "a", "apiKey": "b", "name": "c"}, times=2)

    assert [each.split("'")[1] for each in told_of(caplog)] == ["licence_token", "apiKey"]


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-06-18"])
def test_clients_of_earlier_revisions_are_no_exception(
    caplog: pytest.LogCaptureFixture, revision: str
):
    call([{"licence_token": "a"}], list[dict[str, str]], revision=revision)

    assert len(told_of(caplog)) == 1


@dataclass
class MadeKey:
    """What the author of the tool means to return."""

    token: str


@pytest.mark.parametrize(
    ("value", "returns"),
    [
        (MadeKey("a"), MadeKey),
        ([MadeKey("a")], list[MadeKey]),
        ({"next_page_token": "a", "nextToken": "b", "cursor": "c"}, Any),
        ({"input_tokens": 5, "has_password": True, "token": None, "secret": ""}, Any),
        ({"token": "abc"}["token"], str),
        ("{not JSON, with a token", str),
        ('{"deep": ' + "[" * 5000, str),
        (ToolResult(["nothing"]), Any),
    ],
)
def test_what_is_declared_or_no_secret_is_not_told(
    caplog: pytest.LogCaptureFixture, value: Any, returns: Any
):
    call(value, returns)

    assert told_of(caplog) == []


def test_a_resource_is_told_too(caplog: pytest.LogCaptureFixture):
    server = MCPServer("secret-keys", public=True)

    @server.resource("customer://{number}")
    def customer(number: int) -> dict[str, Any]:
        """A customer."""
        return {"number": number, "licence_token": "a"}

    MCPClient(server).read("customer://5")

    (told,) = told_of(caplog)
    assert told.startswith("The result of customer has the key 'licence_token'")


@override_settings(DEBUG=False)
def test_nothing_is_looked_for_in_production(caplog: pytest.LogCaptureFixture):
    call({"licence_token": "a"})

    assert told_of(caplog) == []


# -- failures


def told_failures(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each for each in caplog.messages if "returns an error as its result" in each]


@pytest.mark.parametrize(
    ("value", "returns"),
    [
        ({"error": "There is no such order."}, dict[str, Any]),
        ({"error": "No.", "status": 404}, Any),
        (({"detail": "No."}, 404), Any),
        ("Error: Order matching query does not exist.", str),
        ('{"error": "No."}', str),
        ({"success": False, "message": "The card was refused."}, Any),
        ({"ok": False}, Any),
        ({"status": "error", "detail": "No."}, Any),
        ({"errors": {"number": ["Required."]}}, Any),
        ("Failed to pay.", str),
        ("ERROR", str),
    ],
)
def test_a_failure_that_is_returned_is_told_once(
    caplog: pytest.LogCaptureFixture, value: Any, returns: Any
):
    call(value, returns, times=2)

    (told,) = told_failures(caplog)
    assert told.startswith("The tool find_all returns an error as its result")
    assert "raise ToolError" in told


@dataclass
class Checked:
    """What the author of the tool means to return."""

    error: str


@pytest.mark.parametrize(
    ("value", "returns"),
    [
        ({"error": "", "message": "Done."}, Any),
        ({"error": "in line 3", "line": 3, "log": "..."}, Any),
        (Checked("in line 3"), Checked),
        ([{"number": "1"}, 404.5], Any),
        (["a", 404], Any),
        ("Errors: none", str),
        ("Failed logins: 3", str),
        ({"success": True, "message": "Done."}, Any),
        ({"status": "sent", "errors": []}, Any),
        ({"success": False, "paid": 3}, Any),
    ],
)
def test_other_results_tell_no_failure(caplog: pytest.LogCaptureFixture, value: Any, returns: Any):
    call(value, returns)

    assert told_failures(caplog) == []


def test_a_failure_that_is_raised_or_marked_is_right(caplog: pytest.LogCaptureFixture):
    server = MCPServer("failures", public=True)

    @server.tool(read_only=True)
    def fail() -> Any:
        """Fail."""
        raise ToolError("Error: No.")

    @server.tool(read_only=True)
    def fail_with_data() -> ToolResult:
        """Fail."""
        return ToolResult([Text("Error: No.")], is_error=True)

    client = MCPClient(server)

    assert client.call("fail").is_error
    assert client.call("fail_with_data").is_error
    assert told_failures(caplog) == []


NUMBER = {"type": "object", "properties": {"number": {"type": "string"}}}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (NUMBER, {"number": "1", "margin": 2, "cost": 3}),
        (
            {"type": "array", "items": NUMBER},
            [{"number": "1", "margin": 2, "cost": 3}],
        ),
    ],
)
def test_members_that_the_output_schema_does_not_name_are_told_once(
    caplog: pytest.LogCaptureFixture, schema: Any, value: Any
):
    call_with(schema, value)

    (told,) = [each for each in caplog.messages if "does not name" in each]
    assert told.startswith(
        "The result of the tool find_all has 'margin', 'cost', which its output "
    )


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (NUMBER, {"number": "1"}),
        ({**NUMBER, "additionalProperties": True}, {"number": "1", "margin": 2}),
        ({**NUMBER, "patternProperties": {"^m": {}}}, {"number": "1", "margin": 2}),
        ({"type": "object"}, {"margin": 2}),
        ({"anyOf": [NUMBER, {"type": "object"}]}, {"margin": 2}),
    ],
)
def test_members_that_a_schema_allows_are_not_told(
    caplog: pytest.LogCaptureFixture, schema: Any, value: Any
):
    call_with(schema, value)

    assert not [each for each in caplog.messages if "does not name" in each]


def call_with(schema: Any, value: Any) -> None:
    server = MCPServer("unnamed-keys", public=True)
    server.tool(read_only=True, output_schema=schema, name="find_all")(lambda: value)
    client = MCPClient(server)
    for _ in range(2):
        assert not client.call("find_all").is_error
