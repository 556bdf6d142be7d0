"""`manage.py mcp_call`: call a tool at the shell."""

from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import CommandError, CommandParser

from django_mcp.inprocess.results import CallResult
from django_mcp.management.shell.base import (
    WRONG_USE,
    ServerCommand,
    find_server,
    parse_json,
    printable,
)
from django_mcp.management.shell.blocks import to_text
from django_mcp.servers import MCPServer


class Command(ServerCommand):
    """Call a tool as a client does: with the same checks, and its questions at the terminal."""

    help = (
        "Calls a tool and prints its result; ends with 1 when the tool fails. Its questions are "
        "asked here, on standard error."
    )

    things = "tools"

    def add_arguments(self, parser: CommandParser) -> None:
        """Add options for the tool and its arguments."""
        parser.add_argument("name", help="the tool")
        parser.add_argument(
            "arguments",
            nargs="?",
            default="{}",
            metavar="JSON",
            help="its arguments as one object; - reads them from standard input",
        )
        self.add_server(parser)
        self.add_asking(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        """Call the tool, and print its result."""
        server = find_server(options["server"])
        arguments = self._arguments(options)
        result = self.attempt(
            server.call_tool, options["name"], arguments, options=options, **self.how(options)
        )
        self._print(result, as_json=options["json"])

    def _arguments(self, options: dict[str, Any]) -> dict[str, Any]:
        text = options["arguments"]
        if text == "-":
            text = (options.get("stdin") or sys.stdin).read()
            options["no_input"] = options["answers"] is None
        found = parse_json(text, "What is given as arguments")
        if not isinstance(found, dict):
            raise CommandError(
                'The tool\'s arguments must be one object, such as \'{"query": "x"}\'.',
                returncode=WRONG_USE,
            )
        return found

    def _print(self, result: CallResult, *, as_json: bool) -> None:
        if as_json:
            self.print_json(result.raw)
        text = "\n".join(map(to_text, result.content))
        if result.is_error:
            raise CommandError(printable(text) or "The tool failed.")
        if not as_json:
            self.stdout.write(printable(text))

    def has_any(self, server: MCPServer) -> bool:
        """Return whether tools are registered."""
        return bool(server.registry.tools)

    def known_names(self, server: MCPServer, user: Any) -> list[str]:
        """Return the tools that the user sees."""
        return [tool["name"] for tool in server.list_tools(user=user)]
