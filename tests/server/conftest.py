from __future__ import annotations

import functools
import inspect
import sys
from typing import Any

import pytest

from django_mcp.protocol.revisions import REVISIONS, Revision
from django_mcp.server.options import Mode
from django_mcp.server.server import MCPServer
from tests.wire import WireClient

ON_BOTH_TRANSPORTS = {
    "test_ask_together",
    "test_asking",
    "test_back_channel",
    "test_lifecycle",
    "test_lists",
    "test_resources_and_prompts",
    "test_tools",
}
"""Modules whose tests are run twice: as HTTP brings the messages, and as a pipe does."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    module = metafunc.module.__name__.rpartition(".")[2]
    is_http_only = metafunc.definition.get_closest_marker("http_only") is not None
    if (
        module in ON_BOTH_TRANSPORTS
        and inspect.iscoroutinefunction(metafunc.function)
        and not is_http_only
    ):
        metafunc.parametrize("transport", ["http", "stdio"], indirect=True)


@pytest.fixture(autouse=True)
def transport(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Have the clients that a test makes speak over that transport."""
    name: str = getattr(request, "param", "http")
    if name == "stdio":
        if request.node.get_closest_marker("http_only") is not None:
            pytest.skip("a pipe has no such message")
        from tests.transports.stdio.scripted import PipeClient, close_all

        for module in (request.module, sys.modules[__name__]):
            for client in ("WireClient", "StreamClient"):
                if hasattr(module, client):
                    monkeypatch.setattr(module, client, PipeClient)
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
        mode=Mode.STATELESS,
    )


@pytest.fixture(params=REVISIONS, ids=lambda revision: revision.name)
def client(server: MCPServer, request: pytest.FixtureRequest) -> WireClient:
    """A client of each revision in turn."""
    revision: Revision = request.param
    return WireClient(server, revision)


@pytest.fixture
def newest(server: MCPServer) -> WireClient:
    return WireClient(server, REVISIONS[-1])
