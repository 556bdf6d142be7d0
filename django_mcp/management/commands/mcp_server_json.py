"""`manage.py mcp_server_json`: write or check the file that the MCP registry takes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser, no_translations

from django_mcp.directories.addresses import public_url_of
from django_mcp.directories.server_json import (
    RegistryFault,
    describe,
    find_differences,
    find_faults,
    merge,
)
from django_mcp.management.base import SiteCommand, add_server, get_server, wrong_use
from django_mcp.management.terminal import printable
from django_mcp.protocol.json import JSONDecodeError, JSONObject, decode, encode_pretty
from django_mcp.server.options import Options

_SOME_URL = "https://shop.example.com/mcp"
"""Stands for the endpoint, as long as its URL is not known."""


class Command(SiteCommand):
    """Make `server.json` from the settings of a server, so that both say the same."""

    help = (
        "Writes the server.json with which a server is published in the MCP registry; --check ends "
        "with 1 if the registry would refuse the file, or if it differs from the settings."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", nargs="?", default="server.json", help="(%(default)s)")
        add_server(parser)
        parser.add_argument(
            "--url", help="the endpoint on the internet; by default its path at PUBLIC_URL"
        )
        parser.add_argument(
            "--name",
            help="the name in the registry, such as com.example/shop; by default that of the file, "
            "then one made from the host and the server",
        )
        parser.add_argument("--check", action="store_true", help="write nothing")

    @no_translations
    def handle(self, *args: Any, **options: Any) -> None:
        server = get_server(options["server"])
        url = options["url"] or public_url_of(server)
        if url is None:
            # What else is missing is told at once, and not after each attempt.
            self._tell(find_faults(describe(server, _SOME_URL)))
            raise wrong_use(
                f"Name the endpoint of the server {server.name!r} with --url: there is no PUBLIC_URL, "
                "or no path without captured values."
            )
        file, is_check = Path(options["file"]), options["check"]
        kept = _read(file, must_exist=is_check)
        name = options["name"] or kept.get("name")
        if name is None and server.name == Options().name:
            self.stderr.write(
                f"Note: the name in the registry ends with {server.name!r}, the default of "
                "DJANGO_MCP['NAME']. Set NAME, or give another one with --name.",
                lambda line: line,
            )
        described = describe(server, url, name if isinstance(name, str) else None)
        if is_check:
            faults = list(find_faults(kept))
            for key in find_differences(kept, described):
                fix = f"Run manage.py mcp_server_json, which writes {described[key]!r}."
                faults.append(RegistryFault(f"{file}: {key} differs from the settings", fix))
            self._refuse(faults, f"{file} cannot be published as it is")
            self.stdout.write(f"{file} is up to date.")
            return
        document = merge(kept, described)
        self._refuse(find_faults(document), "Nothing was written")
        try:
            file.write_text(encode_pretty(document) + "\n", encoding="utf-8")
        except OSError as error:
            raise CommandError(f"{file} cannot be written: {error}") from error
        self.stderr.write(f"Wrote {file}", lambda line: line)

    def _refuse(self, faults: Iterable[RegistryFault], outcome: str) -> None:
        count = self._tell(faults)
        if count:
            raise CommandError(f"{outcome}: {count} {'fault' if count == 1 else 'faults'}.")

    def _tell(self, faults: Iterable[RegistryFault]) -> int:
        """Print faults, and return how many they are."""
        count = 0
        for count, fault in enumerate(faults, 1):  # noqa: B007 - it is read behind the loop
            self.stdout.write(self.style.ERROR("fault ") + printable(fault.text))
            self.stdout.write(f"      {printable(fault.fix)}")
        return count


def _read(file: Path, *, must_exist: bool) -> JSONObject:
    try:
        document = decode(file.read_bytes())
    except FileNotFoundError:
        if must_exist:
            raise wrong_use(f"There is no {file}: make it with mcp_server_json.") from None
        return {}
    except OSError as error:
        raise wrong_use(f"{file} cannot be read: {error}") from error
    except JSONDecodeError as error:
        raise wrong_use(f"{file} is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise wrong_use(f"{file} is not a server.json.")
    return document
