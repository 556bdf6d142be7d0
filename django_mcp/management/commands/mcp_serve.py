"""`manage.py mcp_serve`: run one server alone, on a port of its own."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from django_mcp.alone import site_of
from django_mcp.asgi import ASGIApp, standalone_application
from django_mcp.management.shell.base import find_server


class Command(BaseCommand):
    """Serve one MCP server at /mcp, and what its clients need to get in, without the rest of the site."""

    help = "Runs one MCP server alone: its endpoint at /mcp, its health at /mcp/health."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add which server, and where it listens."""
        parser.add_argument("--server", metavar="NAME", help="its name; else the default server")
        parser.add_argument(
            "--host", default="127.0.0.1", help="address to listen on (%(default)s)"
        )
        parser.add_argument(
            "--port", default=8000, type=int, help="port to listen on (%(default)s)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Serve until stopped."""
        server = find_server(options["server"])
        application = standalone_application(server, site_of(server))
        host, port = options["host"], options["port"]
        self.stdout.write(f"MCP server {server.public_name!r} at http://{host}:{port}/mcp")
        self.stdout.flush()
        if find_spec("uvicorn") is not None:
            serve_with_uvicorn(application, host, port)
        elif find_spec("daphne") is not None:
            serve_with_daphne(application, host, port)
        else:
            raise CommandError(
                "There is no ASGI server to run it with. Install one: "
                "pip install 'django-mcp-endpoints[speed]'"
            )


def serve_with_uvicorn(application: ASGIApp, host: str, port: int) -> None:
    """Serve with uvicorn, which ends open streams after a moment when it is told to stop."""
    import uvicorn

    uvicorn.run(
        application,
        host=host,
        port=port,
        lifespan="off",
        log_level="warning",
        timeout_graceful_shutdown=5,
    )


def serve_with_daphne(application: ASGIApp, host: str, port: int) -> None:
    """Serve with daphne."""
    from daphne.endpoints import build_endpoint_description_strings
    from daphne.server import Server

    endpoints = build_endpoint_description_strings(host=host, port=port)
    Server(application, endpoints=endpoints, signal_handlers=True).run()
