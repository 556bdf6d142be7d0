from __future__ import annotations

import pytest

from django_mcp.protocol.revisions import REVISIONS, Revision
from django_mcp.server.options import Mode
from django_mcp.server.server import MCPServer
from tests.wire import WireClient


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
