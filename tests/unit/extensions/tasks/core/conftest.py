"""What the tests of tasks share: a server with tools that become tasks, their gate, and a client.

They are run over both transports, as those of the server.
"""

from __future__ import annotations

import pytest

from tests.support.server.plain import MCPServer
from tests.support.server.tasks import Gate, Modern, make_server
from tests.unit.server.conftest import pytest_generate_tests, transport

__all__ = ["pytest_generate_tests", "transport"]


@pytest.fixture
async def made() -> tuple[MCPServer, Gate]:
    """The server and its gate; a file with other tools has its own."""
    return make_server()


@pytest.fixture
def server(made: tuple[MCPServer, Gate]) -> MCPServer:
    return made[0]


@pytest.fixture
def gate(made: tuple[MCPServer, Gate]) -> Gate:
    return made[1]


@pytest.fixture
def client(server: MCPServer) -> Modern:
    return Modern(server)
