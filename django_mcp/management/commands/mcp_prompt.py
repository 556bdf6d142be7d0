"""`manage.py mcp_prompt`: get a prompt at the shell."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser

from django_mcp.management.shell.base import WRONG_USE, ServerCommand, find_server, printable
from django_mcp.management.shell.blocks import to_text
from django_mcp.servers import MCPServer


class Command(ServerCommand):
    """Get a prompt as a client does."""

    help = "Fills a prompt in and prints its messages."

    things = "prompts"

    def add_arguments(self, parser: CommandParser) -> None:
        """Add options for the prompt and its arguments."""
        parser.add_argument("name", help="the prompt")
        parser.add_argument("arguments", nargs="*", metavar="KEY=VALUE", help="its arguments")
        self.add_server(parser)
        self.add_asking(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        """Get the prompt, and print its messages."""
        server = find_server(options["server"])
        arguments = dict(map(_split, options["arguments"]))
        result = self.attempt(
            server.get_prompt, options["name"], arguments, options=options, **self.how(options)
        )
        if options["json"]:
            self.print_json(result.raw)
            return
        for message in result.messages:
            self.stdout.write(f"{message['role']}: {printable(to_text(message['content']))}")

    def has_any(self, server: MCPServer) -> bool:
        """Return whether prompts are registered."""
        return bool(server.registry.prompts)

    def known_names(self, server: MCPServer, user: Any) -> list[str]:
        """Return the prompts that the user sees."""
        return [prompt["name"] for prompt in server.list_prompts(user=user)]


def _split(argument: str) -> tuple[str, str]:
    key, is_pair, value = argument.partition("=")
    if not is_pair or not key:
        raise CommandError(f"{argument!r} is not of the form KEY=VALUE.", returncode=WRONG_USE)
    return key, value
