"""`manage.py mcp_read`: read a resource at the shell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from django_mcp.management.shell.base import WRONG_USE, ServerCommand, find_server, printable
from django_mcp.servers import MCPServer


class Command(ServerCommand):
    """Read a resource as a client does."""

    help = "Reads the resource at a URI and prints its text, or writes its bytes to a file."

    things = "resources"

    def add_arguments(self, parser: CommandParser) -> None:
        """Add options for the resource and the output."""
        parser.add_argument("uri", help="such as order://2026-0001")
        parser.add_argument("--output", metavar="FILE", help="write the contents to a new file")
        self.add_server(parser)
        self.add_asking(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        """Read the resource, and print its contents."""
        server = find_server(options["server"])
        result = self.attempt(
            server.read_resource, options["uri"], options=options, **self.how(options)
        )
        if options["json"]:
            self.print_json(result.raw)
        elif options["output"] is not None:
            self._write(Path(options["output"]), result.data)
        elif any("blob" in each for each in result.contents):
            kind = result.mime_type or "unknown type"
            raise CommandError(f"It is binary ({kind}): use --output FILE, or --json.")
        else:
            self.stdout.write(printable(result.text))

    def _write(self, file: Path, data: bytes) -> None:
        try:
            with file.open("xb") as out:
                out.write(data)
        except FileExistsError:
            raise CommandError(f"{file} is there already.", returncode=WRONG_USE) from None
        except OSError as error:
            raise CommandError(f"{file} cannot be written: {error}") from error
        self.stderr.write(f"{len(data)} bytes in {file}", lambda line: line)

    def has_any(self, server: MCPServer) -> bool:
        """Return whether resources are registered."""
        return bool(server.registry.resources or server.registry.templates)

    def known_names(self, server: MCPServer, user: Any) -> list[str]:
        """Return the resources and templates that the user sees."""
        resources = [found["uri"] for found in server.list_resources(user=user)]
        templates = server.list_resource_templates(user=user)
        return [*resources, *(found["uriTemplate"] for found in templates)]
