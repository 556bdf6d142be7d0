"""`manage.py mcp_read`: read a resource at the shell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from django_mcp.management.base import ServerCommand, wrong_use
from django_mcp.management.terminal import printable
from django_mcp.registry.entries import RESOURCES, TEMPLATES
from django_mcp.servers import MCPServer


class Command(ServerCommand):
    """Read a resource as a client does."""

    help = "Reads the resource at a URI and prints its text, or writes its bytes to a file."

    kinds = (RESOURCES, TEMPLATES)

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("uri", help="such as order://2026-0001")
        parser.add_argument("--output", metavar="FILE", help="write the contents to a new file")
        self.add_options_of_call(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        result = self.attempt(MCPServer.read_resource, options, options["uri"])
        if options["json"]:
            self.print_json(result.raw)
        elif options["output"] is not None:
            file = Path(options["output"])
            try:
                with file.open("xb") as out:
                    out.write(result.data)
            except FileExistsError:
                raise wrong_use(f"{file} already exists.") from None
            except OSError as error:
                raise CommandError(f"{file} cannot be written: {error}") from error
            self.stderr.write(f"{len(result.data)} bytes in {file}", lambda line: line)
        elif any("blob" in content for content in result.contents):
            kind = result.mime_type or "unknown type"
            raise CommandError(f"It is binary ({kind}): use --output FILE, or --json.")
        else:
            self.stdout.write(printable(result.text))
