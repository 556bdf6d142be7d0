"""The test cases of the test kit."""

from __future__ import annotations

import unittest
import warnings
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import SimpleTestCase, override_settings
from django.utils import timezone

from django_mcp import Context, MCPServer
from django_mcp.models import Session
from django_mcp.sessions.site.writer import flush_sessions, session_writer
from django_mcp.test import MCPClient, UnnoticedError
from django_mcp.test.cases import WithClients


@pytest.mark.django_db
@override_settings(DJANGO_MCP={"PUBLIC": True, "SYNC_THREADS": 0})
def test_changes_of_sessions_that_wait_after_a_test_are_not_written_in_the_next():
    now = timezone.now()
    row = Session.objects.create(
        digest="x", last_seen_at=now - timedelta(hours=1), expires_at=now + timedelta(hours=1)
    )

    class Tests(WithClients, SimpleTestCase):
        def test_it(self) -> None:
            session_writer.get().note_seen(row.id.hex, now.timestamp())

    result = unittest.TestResult()
    Tests("test_it").run(result)
    flush_sessions()

    assert result.wasSuccessful()
    row.refresh_from_db()
    assert row.last_seen_at < now - timedelta(minutes=30)


FORM = {"type": "object", "properties": {"sure": {"type": "boolean"}}}


def make_server() -> MCPServer:
    server = MCPServer("noticed", public=True)

    @server.tool(atomic=False)
    def book(sku: str) -> str:
        """Book."""
        return sku

    @server.tool(atomic=False)
    def ask(ctx: Context) -> str:
        """Ask once."""
        return ctx.elicit("Sure?", FORM).action

    return server


SERVER = make_server()


def run_test(body: Callable[[Any], object]) -> list[str]:
    """Return what the kit tells of a test, and fail if the test itself does."""

    class Tests(WithClients, SimpleTestCase):
        mcp_server = SERVER

        def test_it(self) -> None:
            body(self)

    result = unittest.TestResult()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        Tests("test_it").run(result)
    assert result.wasSuccessful(), result.errors or result.failures
    return [str(each.message) for each in told if each.category is UnnoticedError]


@override_settings(DJANGO_MCP={"SYNC_THREADS": 0})
def test_a_failed_call_at_which_a_test_never_looks_is_told_at_its_end():
    (told,) = run_test(lambda test: test.mcp.call("book", skuu="N"))

    assert "The call of 'book' failed, and the test did not look at its result" in told
    assert "sku" in told.rpartition("The error is: ")[2]


@override_settings(DJANGO_MCP={"SYNC_THREADS": 0})
@pytest.mark.parametrize(
    "look",
    [
        lambda result: result.is_error,
        bool,
        lambda result: result.text,
        lambda result: result.content,
        lambda result: result.raw,
        lambda result: result.meta,
        repr,
    ],
)
def test_a_failed_call_of_which_a_test_reads_anything_is_not_told(look: Callable[[Any], object]):
    assert run_test(lambda test: look(test.mcp.call("book", skuu="N"))) == []
    assert run_test(lambda test: test.mcp.call("book", sku="N")) == []


@override_settings(DJANGO_MCP={"SYNC_THREADS": 0})
def test_answers_that_nothing_asked_for_are_told_at_the_end_of_a_test():
    def body(test: Any) -> None:
        test.mcp.answer({"sure": True}, {"other": True})
        assert test.mcp.call("ask").text == "accept"

    (told,) = run_test(body)
    assert told.startswith(
        "Nothing asked for the last 1 of the answers that the test gave: {'other': True}."
    )


@override_settings(DJANGO_MCP={"SYNC_THREADS": 0})
def test_answers_that_nothing_asked_for_are_told_when_the_next_are_given():
    client = MCPClient(SERVER)
    client.answer(True, False)
    assert client.call("ask").text == "accept"

    with pytest.warns(UnnoticedError, match="Nothing asked for the last 1 of the answers"):
        client.answer(None)
    assert client.call("ask").text == "cancel"


@override_settings(DJANGO_MCP={"SYNC_THREADS": 0})
def test_answers_that_are_used_up_or_given_by_key_are_not_told():
    def body(test: Any) -> None:
        test.mcp.answer(True)
        test.mcp.answer(False)
        assert [test.mcp.call("ask").text for _ in range(2)] == ["accept", "decline"]
        test.mcp.answer(other=True)
        test.mcp.answer(lambda key, question: True)
        assert test.mcp.call("ask").text == "accept"

    assert run_test(body) == []


def test_a_test_that_failed_tells_only_that():
    class Tests(WithClients, SimpleTestCase):
        mcp_server = SERVER

        def test_it(self) -> None:
            self.mcp.answer(True)
            raise AssertionError("No.")

    result = unittest.TestResult()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Tests("test_it").run(result)

    assert (len(result.failures), result.errors) == (1, [])


def test_in_a_suite_that_turns_warnings_into_errors_the_test_fails():
    class Tests(WithClients, SimpleTestCase):
        mcp_server = SERVER

        def test_it(self) -> None:
            self.mcp.answer(True)

    result = unittest.TestResult()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Tests("test_it").run(result)

    assert "UnnoticedError" in result.errors[0][1]
