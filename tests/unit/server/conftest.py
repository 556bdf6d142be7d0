from __future__ import annotations

import functools
import inspect
import sys
from typing import Any

import pytest

from django_mcp.protocol.revisions import REVISIONS, Revision
from tests.support.server.plain import MCPServer
from tests.support.wire import WireClient

WITHOUT_A_TRANSPORT = {
    "test_admission": "climbs the ladder itself, with headers and, as on a pipe, without",
    "test_any_input": "hands texts to `handle_raw`; tests/live/transports/stdio has bad input of its own",
    "test_any_output": "hundreds of results, whose form is the revision's and no transport's",
    "test_shield": "hands messages to `handle_raw`, on a connection as a pipe has it",
}
"""Modules whose tests are run once, and why. All others are run as HTTP brings the messages and as
a pipe does; single tests of them that a pipe has no place for say why by the mark `http_only`."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    module = metafunc.module.__name__.rpartition(".")[2]
    if (
        module not in WITHOUT_A_TRANSPORT
        and inspect.iscoroutinefunction(metafunc.function)
        and why_http_only(metafunc.definition) is None
    ):
        metafunc.parametrize("transport", ["http", "stdio"], indirect=True)


def why_http_only(test: pytest.Item) -> str | None:
    """Return why a test means nothing on a pipe; None when it does."""
    mark = test.get_closest_marker("http_only")
    if mark is None:
        return None
    (reason,) = mark.args
    return str(reason)


@pytest.fixture(autouse=True)
def transport(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Have the clients that a test makes speak over that transport."""
    name: str = getattr(request, "param", "http")
    if name == "stdio":
        reason = why_http_only(request.node)
        if reason is not None:
            pytest.skip(reason)
        from tests.support.stdio.scripted import close_all, piped

        # Fixtures of any folder above the test make clients too.
        parts = request.module.__name__.split(".")
        folders = (".".join(parts[:count]) for count in range(1, len(parts)))
        conftests = (sys.modules.get(f"{folder}.conftest") for folder in folders)
        for module in (request.module, sys.modules[__name__], *filter(None, conftests)):
            for name, found in vars(module).items():
                if isinstance(found, type) and issubclass(found, WireClient):
                    monkeypatch.setattr(module, name, piped(found))
        test = request.node.obj

        @functools.wraps(test)
        async def run(*args: Any, **kwargs: Any) -> None:
            try:
                await test(*args, **kwargs)
            finally:
                await close_all()

        request.node.obj = run
    return name


@pytest.fixture
def server() -> MCPServer:
    return MCPServer(
        "tests",
        version="1.2.3",
        title="Tests",
        description="d",
        instructions="Be kind.",
        mode="stateless",
    )


@pytest.fixture(params=REVISIONS)
def client(server: MCPServer, request: pytest.FixtureRequest) -> WireClient:
    """A client of each revision in turn."""
    revision: Revision = request.param
    return WireClient(server, revision)


@pytest.fixture
def newest(server: MCPServer) -> WireClient:
    return WireClient(server, REVISIONS[-1])
