"""Tests that look for a text in vain in the error of a call whose failure nobody has noticed."""

from __future__ import annotations

import unittest
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from django_mcp import MCPServer, ToolError
from django_mcp.inprocess.results import CallResult
from django_mcp.protocol.revisions import REVISIONS
from django_mcp.test import AsyncMCPClient, MCPClient, UnnoticedError
from tests.support.kit import make_server

SERVER = make_server()
NAMES = [revision.name for revision in REVISIONS]


@pytest.fixture
def client() -> MCPClient:
    return MCPClient(SERVER)


@pytest.fixture
def no_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.parametrize("revision", NAMES)
def test_a_text_that_is_missing_in_an_error_is_reported(revision: str):
    client = MCPClient(SERVER, revision=revision)

    with pytest.warns(UnnoticedError, match=r"call of 'add' failed.*is_error") as told:
        assert "secret" not in client.call("add", x=1).text

    assert told[0].filename == __file__


def test_a_failure_of_the_tool_itself_is_reported():
    server = MCPServer("fails", public=True)

    @server.tool(atomic=False)
    def fail() -> str:
        """Fail."""
        raise ToolError("No.")

    with pytest.warns(UnnoticedError, match=r"'fail' failed.*No\."):
        assert "secret" not in MCPClient(server).call("fail").text


async def test_an_asynchronous_client_reports_it_too():
    called = await AsyncMCPClient(SERVER).call("add", x=1)

    with pytest.warns(UnnoticedError):
        assert "secret" not in called.text


LOOKS: dict[str, Callable[[str], Any]] = {
    "assertNotIn": lambda text: unittest.TestCase().assertNotIn("secret", text),  # noqa: PT009
    "lower": lambda text: "secret" not in text.lower(),
    "casefold": lambda text: "secret" not in text.casefold(),
    "upper": lambda text: "SECRET" not in text.upper(),
    "find": lambda text: text.find("secret") == -1,
    "count": lambda text: text.count("secret") == 0,
}


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
def test_other_ways_to_look_are_reported(client: MCPClient, look: Callable[[str], Any]):
    with pytest.warns(UnnoticedError):
        look(client.call("add", x=1).text)


WEAK_LOOKS: dict[str, Callable[[CallResult], Any]] = {
    "assertTrue": lambda called: unittest.TestCase().assertTrue(called.text),  # noqa: PT009
    "bool": lambda called: not called.text,
    "len": lambda called: len(called.text) > 1,
    "strip": lambda called: bool(called.text.strip()),
    "unequal": lambda called: called.text != "",
    "equal": lambda called: called.text == "42",
    "startswith": lambda called: called.text.startswith("42"),
    "endswith": lambda called: called.text.endswith("42"),
    "content": lambda called: bool(called.content),
    "length of content": lambda called: len(called.content) == 1,
}


@pytest.mark.parametrize("look", WEAK_LOOKS.values(), ids=WEAK_LOOKS)
def test_a_look_that_any_error_passes_is_reported(
    client: MCPClient, look: Callable[[CallResult], Any]
):
    with pytest.warns(UnnoticedError, match=r"call of 'add' failed.*is_error"):
        look(client.call("add", x=1))


NOTICES: dict[str, Callable[[CallResult], Any]] = {
    "is_error": lambda called: called.is_error,
    "bool": bool,
    "text": lambda called: "unknown" in called.text,
    "equal": lambda called: called.text == str(called.text),
    "startswith": lambda called: called.text.startswith(str(called.text)[:5]),
    "endswith": lambda called: called.text.endswith(str(called.text)[-5:]),
}


@pytest.mark.parametrize("notice", NOTICES.values(), ids=NOTICES)
@pytest.mark.usefixtures("no_warnings")
def test_an_error_that_was_noticed_is_not_reported(
    client: MCPClient, notice: Callable[[CallResult], Any]
):
    called = client.call("add", x=1)
    text = called.text

    assert notice(called) is not None

    assert "secret" not in called.text
    assert "secret" not in text
    assert called.text
    assert called.content


@pytest.mark.usefixtures("no_warnings")
def test_a_raised_error_counts_as_noticed(client: MCPClient):
    called = client.call("add", x=1)

    with pytest.raises(ToolError):
        _ = called.structured

    assert "secret" not in called.text


@pytest.mark.usefixtures("no_warnings")
def test_results_that_are_no_errors_are_not_reported(client: MCPClient):
    assert "secret" not in client.call("add", a=1).text


def test_to_look_for_nothing_notices_nothing(client: MCPClient):
    called = client.call("add", x=1)

    assert "" in called.text

    with pytest.warns(UnnoticedError):
        assert "secret" not in called.text


def test_a_text_is_a_text_as_any_other(client: MCPClient):
    text = client.call("add", x=1).text

    assert isinstance(text, str)
    assert text == str(text)
    assert {text: 1}[str(text)] == 1
