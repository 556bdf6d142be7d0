"""`manage.py mcp_skill`: draft a skill from the tools of a server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser, no_translations

from django_mcp.extension_packages import load_parts
from django_mcp.management.base import SiteCommand, add_server, get_server, wrong_use
from django_mcp.management.terminal import printable
from django_mcp.registry.problems import suggest


class Command(SiteCommand):
    """Draft a skill, for a person to edit."""

    help = "Drafts the SKILL.md of a skill from tools of a server, for you to edit."

    def add_arguments(self, parser: CommandParser) -> None:
        vars(parser)["parse_args"] = parser.parse_intermixed_args
        parser.add_argument(
            "path", help="of the skill, such as refund-order or orders/refund-order"
        )
        add_server(parser)
        parser.add_argument(
            "--tool", metavar="NAME", action="append", help="a tool that it uses; by default all"
        )
        parser.add_argument(
            "--write",
            metavar="FOLDER",
            help="write it below this folder of skills, such as shop/skills, and not to the output",
        )

    @no_translations
    def handle(self, *args: Any, **options: Any) -> None:
        parts = load_parts("site.drafting")
        if not parts:
            raise CommandError("This installation lacks the extension with skills.")
        server = get_server(options["server"])
        tools = server.registry.tools
        for name in options["tool"] or ():
            if name not in tools:
                raise wrong_use(f"There is no tool {printable(name)}. {suggest(name, tools)}")
        chosen = dict.fromkeys(options["tool"] or tools)
        try:
            path, text = parts[0].draft(
                options["path"], server.name, [tools[name] for name in chosen]
            )
        except ValueError as error:
            raise wrong_use(f"This is no path of a skill: {error}.") from None
        if options["write"] is None:
            self.stdout.write(text, ending="")
            return
        file = Path(options["write"], path)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("x", encoding="utf-8", newline="\n") as opened:
                opened.write(text)
        except FileExistsError:
            raise CommandError(f"There is a {file} already.") from None
        except OSError as error:
            raise CommandError(f"{file} cannot be written: {error}") from error
        self.stderr.write(f"Wrote {file}. Edit it.", lambda line: line)
