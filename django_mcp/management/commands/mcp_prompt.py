"""`manage.py mcp_prompt`: get a prompt at the shell."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from django_mcp.management.base import ServerCommand, wrong_use
from django_mcp.management.terminal import printable, to_text
from django_mcp.registry.entries import PROMPTS
from django_mcp.servers import MCPServer


class Command(ServerCommand):
    """Get a prompt as a client does."""

    help = "Fills a prompt in and prints its messages."

    kinds = (PROMPTS,)

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="the prompt")
        parser.add_argument("arguments", nargs="*", metavar="KEY=VALUE", help="its arguments")
        self.add_options_of_call(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        arguments = dict(map(_split, options["arguments"]))
        result = self.attempt(MCPServer.get_prompt, options, options["name"], arguments)
        if options["json"]:
            self.print_json(result.raw)
            return
        for message in result.messages:
            self.stdout.write(f"{message['role']}: {printable(to_text(message['content']))}")


def _split(argument: str) -> tuple[str, str]:
    key, is_pair, value = argument.partition("=")
    if not is_pair or not key:
        raise wrong_use(f"{argument!r} is not of the form KEY=VALUE.")
    return key, value
