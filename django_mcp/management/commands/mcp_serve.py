"""`manage.py mcp_serve`: run one server without the rest of the site, on its own port."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from importlib.util import find_spec
from itertools import combinations
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from django_mcp.asgi import django_mcp_application
from django_mcp.endpoints.urlconf import site_of
from django_mcp.management.base import add_server, get_server
from django_mcp.transports.http.replies import ASGIApp


class Command(BaseCommand):
    """Serve one MCP server at /mcp, with its authentication, without the rest of the site."""

    help = (
        "Runs one MCP server alone: its endpoint at /mcp, its health at /mcp/health, and HTTP+SSE at "
        "/sse and /messages where LEGACY_SSE is on."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        add_server(parser)
        parser.add_argument(
            "--host",
            action="append",
            dest="hosts",
            metavar="HOST",
            help="address to listen on, may be repeated (127.0.0.1)",
        )
        parser.add_argument("--port", default=8000, type=int, help="the port (%(default)s)")

    def handle(self, *args: Any, **options: Any) -> None:
        server = get_server(options["server"])
        application = django_mcp_application(site_of(server))
        hosts, port = list(dict.fromkeys(options["hosts"] or ["127.0.0.1"])), options["port"]
        if find_spec("uvicorn") is None and find_spec("daphne") is None:
            raise CommandError(
                "There is no ASGI server to run it with. Install one: "
                "pip install 'django-mcp-endpoints[speed]'"
            )
        _check_overlap(hosts)
        with ExitStack() as listening:
            sockets = [listening.enter_context(_listen(host, port)) for host in hosts]
            urls = ", ".join(f"http://{_in_url(host)}:{port}/mcp" for host in hosts)
            self.stdout.write(f"MCP server {server.name!r} at {urls}")
            self.stdout.flush()
            if find_spec("uvicorn") is not None:
                serve_with_uvicorn(application, sockets)
                return
        serve_with_daphne(application, hosts, port)  # which opens its own sockets


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _check_overlap(hosts: Sequence[str]) -> None:
    for one, other in combinations(hosts, 2):
        both = {_address(one), _address(other)}
        is_one_family = len({":" in address for address in both}) == 1
        if len(both) == 1 or (is_one_family and both & {"0.0.0.0", "::"}):  # noqa: S104
            raise CommandError(f"--host {one} and --host {other} overlap: leave one of them out.")


def _address(host: str) -> str:
    with suppress(OSError):  # listening reports it
        return host if ":" in host else socket.gethostbyname(host)
    return host


def serve_with_uvicorn(application: ASGIApp, sockets: list[socket.socket]) -> None:
    """Serve with uvicorn, which ends open streams shortly after it is told to stop."""
    import uvicorn

    config = uvicorn.Config(
        application, lifespan="on", log_level="warning", timeout_graceful_shutdown=5
    )
    uvicorn.Server(config).run(sockets=sockets)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise CommandError(f"Cannot listen on {_in_url(host)}:{port}: {error.strerror}") from error


def serve_with_daphne(application: ASGIApp, hosts: Sequence[str], port: int) -> None:
    """Serve with daphne."""
    from daphne.endpoints import build_endpoint_description_strings
    from daphne.server import Server

    endpoints = [
        endpoint
        for host in hosts
        for endpoint in build_endpoint_description_strings(host=host, port=port)
    ]
    Server(application, endpoints=endpoints, signal_handlers=True).run()
