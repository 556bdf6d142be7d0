"""`manage.py mcp_serve`: invalid options."""

from __future__ import annotations

import socket
from importlib import util
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from django_mcp.management.base import get_server
from django_mcp.management.commands import mcp_serve
from django_mcp.servers import MCPServer, default_server


@pytest.fixture(autouse=True)
def own_urlconf(settings: Any) -> None:
    """The command sets the URLconf of its process; set it back."""
    settings.ROOT_URLCONF = settings.ROOT_URLCONF


def test_an_address_in_use_is_reported(capsys: pytest.CaptureFixture[str]):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(CommandError, match=f"Cannot listen on 127.0.0.1:{port}"):
            call_command("mcp_serve", port=port)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "hosts", [("127.0.0.1", "0.0.0.0"), ("localhost", "127.0.0.1"), ("::", "::1")]
)
def test_hosts_that_overlap_are_refused_by_name(hosts: tuple[str, str]):
    one, other = hosts
    with pytest.raises(CommandError, match=f"--host {one} and --host {other} overlap: leave one"):
        call_command("mcp_serve", hosts=list(hosts), port=1)


def test_the_default_server_needs_no_name():
    assert get_server(None) is default_server
    assert get_server(default_server.name) is default_server


def test_an_unknown_name_lists_the_known_ones():
    server = MCPServer("served")

    with pytest.raises(CommandError, match="No MCP server is called 'nothing'") as raised:
        call_command("mcp_serve", server="nothing")
    assert server.name in str(raised.value)


def test_a_missing_asgi_server_is_explained(monkeypatch: pytest.MonkeyPatch):
    found = util.find_spec

    def find_spec(name: str, *rest: Any) -> Any:
        return None if name in ("uvicorn", "daphne") else found(name, *rest)

    monkeypatch.setattr(mcp_serve, "find_spec", find_spec)

    with pytest.raises(CommandError, match=r"pip install 'django-mcp-endpoints\[speed\]'"):
        call_command("mcp_serve")
