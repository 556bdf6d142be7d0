"""Give a server other ports than its own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django_mcp.server.server import BaseServer


def use_ports(server: BaseServer, **ports: Any) -> None:
    """Have a server use other ports, until settings change."""
    server.engine.ports = replace(server.engine.ports, **ports)


def use_task_ports(server: BaseServer, **ports: Any) -> None:
    """Have a server use another store or runner of tasks, until settings change."""
    extension: Any = server.engine.extensions["io.modelcontextprotocol/tasks"]
    extension.ports = replace(extension.ports, **ports)
