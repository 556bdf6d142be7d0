import socket
from typing import Any

from django.conf import settings
from django.core.management import BaseCommand, CommandError, CommandParser, call_command
from django.test import override_settings

from example_project.shop import sample

ADDRESS = "127.0.0.1:8000"


class Command(BaseCommand):
    help = "Migrate, add the sample data that is missing, and serve the shop."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "address",
            nargs="?",
            default=ADDRESS,
            help=f"address and port to serve at, such as 127.0.0.1:8137; by default {ADDRESS}",
        )
        parser.add_argument("--prepare", action="store_true", help="do all that but serve")

    def handle(self, *, address: str, prepare: bool, **options: Any) -> None:
        if ":" not in address:
            address = f"127.0.0.1:{address}"
        if not prepare:
            require_free(address)
        call_command("migrate", verbosity=0)
        sample.load()
        if prepare:
            return
        self.stdout.write(f"The example shop answers at http://{address}/mcp")
        self.stdout.write(f"The admin is at http://{address}/admin/ (sam, password: shop)")
        known = settings.DJANGO_MCP["PUBLIC_URL"] if address == ADDRESS else None
        # Elsewhere than it is known to be, each request tells where the shop is.
        changes = {"DJANGO_MCP": {**settings.DJANGO_MCP, "PUBLIC_URL": known}}
        # runserver prints the name of the settings, which overridden ones do not have.
        with override_settings(**changes, SETTINGS_MODULE=settings.SETTINGS_MODULE):
            call_command("runserver", address, use_reloader=False)


def require_free(address: str) -> None:
    """Raise CommandError if no server can listen there: runserver would say so after the greeting."""
    host, _, port = address.rpartition(":")
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            host.strip("[]"), port, type=socket.SOCK_STREAM
        )[0]
        with socket.socket(family, kind, protocol) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(place)
    except OSError as error:
        raise CommandError(
            f"Nothing can be served at {address}: {error.strerror}. Name another address and port: "
            "manage.py demo 127.0.0.1:8137"
        ) from error
