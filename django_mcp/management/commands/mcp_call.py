"""`manage.py mcp_call`: call a tool at the shell."""

from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import CommandError, CommandParser

from django_mcp.management.base import ServerCommand, parse_json, wrong_use
from django_mcp.management.terminal import printable, to_text
from django_mcp.pages.asking import NEEDS_USER
from django_mcp.registry.entries import TOOLS
from django_mcp.servers import MCPServer


class Command(ServerCommand):
    """Call a tool as a client does: with the same checks, and its questions at the terminal."""

    help = (
        "Calls a tool and prints its result; ends with 1 if the tool fails. Questions of the "
        "tool appear on standard error."
    )

    kinds = (TOOLS,)

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="the tool")
        parser.add_argument(
            "arguments",
            nargs="?",
            default="{}",
            metavar="JSON",
            help="its arguments as one object; - reads them from standard input",
        )
        self.add_options_of_call(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        text = options["arguments"]
        if text == "-":
            text = (options.get("stdin") or sys.stdin).read()
            options["no_input"] = options["answers"] is None
        arguments = parse_json(text, "What is given as arguments")
        if not isinstance(arguments, dict):
            raise wrong_use('The tool\'s arguments must be one object, such as \'{"query": "x"}\'.')
        result = self.attempt(MCPServer.call_tool, options, options["name"], arguments)
        if options["json"]:
            self.print_json(result.raw)
        text = "\n".join(map(to_text, result.content))
        if result.is_error:
            needs_user = options["user"] is None and text == str(NEEDS_USER)
            hint = " Name one with --user." if needs_user else ""
            raise CommandError((printable(text) or "The tool failed.") + hint)
        if not options["json"]:
            self.stdout.write(printable(text))
