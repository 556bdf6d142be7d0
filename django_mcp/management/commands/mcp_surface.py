"""`manage.py mcp_surface`: a snapshot of everything a server offers, for review."""

from __future__ import annotations

from difflib import unified_diff
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser, no_translations

from django_mcp.extension_packages import load_parts
from django_mcp.management.base import SiteCommand, add_server, get_server, wrong_use
from django_mcp.protocol.json import (
    JSONDecodeError,
    JSONObject,
    decode,
    encode_pretty,
    encode_sorted,
    present,
)
from django_mcp.registry.entries import KINDS
from django_mcp.servers import MCPServer


class Command(SiteCommand):
    """Compare all entries of a server with a snapshot under version control."""

    help = (
        "Prints a snapshot of everything that is registered on a server, hidden entries included; "
        "--write stores it in a file, --check ends with 1 if it differs from the file."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        add_server(parser)
        what = parser.add_mutually_exclusive_group()
        what.add_argument("--check", metavar="FILE", help="compare with this file")
        what.add_argument("--write", metavar="FILE", help="write it to this file")

    @no_translations
    def handle(self, *args: Any, **options: Any) -> None:
        surface = surface_of(get_server(options["server"]))
        if options["write"] is not None:
            file = Path(options["write"])
            try:
                file.write_text(encode_pretty(surface) + "\n", encoding="utf-8")
            except OSError as error:
                raise CommandError(f"{file} cannot be written: {error}") from error
            self.stderr.write(f"Wrote {file}", lambda line: line)
        elif options["check"] is not None:
            self._check(Path(options["check"]), surface)
        else:
            self.print_json(surface)

    def _check(self, file: Path, surface: JSONObject) -> None:
        try:
            kept = decode(file.read_bytes())
        except FileNotFoundError:
            raise wrong_use(
                f"There is no {file}: make it with mcp_surface --write {file}."
            ) from None
        except OSError as error:
            raise wrong_use(f"{file} cannot be read: {error}") from error
        except JSONDecodeError as error:
            raise wrong_use(f"{file} is not JSON: {error}") from None
        if not isinstance(kept, dict):
            raise wrong_use(f"{file} is not a snapshot of mcp_surface.")
        if kept == surface:
            self.stdout.write(f"{file} is up to date.")
            return
        lines = unified_diff(
            encode_pretty(kept).splitlines(),
            encode_pretty(surface).splitlines(),
            str(file),
            "registered",
            lineterm="",
        )
        self.stdout.write("\n".join(lines))
        raise CommandError(
            f"{file} differs: {'; '.join(describe_changes(kept, surface))}. "
            "If the changes are intended, review them and run mcp_surface --write."
        )


def surface_of(server: MCPServer) -> JSONObject:
    """Return everything registered on a server, in a fixed order, with its access rules."""
    surface: JSONObject = {"server": server.name}
    describers = [part.make_describer(server) for part in load_parts("site.surface")]
    for kind in KINDS:
        entries = surface[kind.key] = {}
        for entry in getattr(server.registry, kind.mapping).values():
            wire, permission = entry.to_wire(), entry.access.permission or None
            access = present(
                permission=[*permission] if isinstance(permission, tuple) else _name(permission),
                scopes=list(entry.access.scopes or ()) or None,
                check=_name(entry.access.check),
                listed_if=_name(entry.access.listed_if),
                toolset=server.engine.ports.find_toolset(entry),
            )
            for describe in describers:
                wire |= describe(entry)
            entries[wire.pop(kind.identity)] = {**wire, **({"access": access} if access else {})}
    # Encoded and decoded, so that it equals what is read from a file.
    in_order: JSONObject = decode(encode_sorted(surface))
    return in_order


def _name(function: Any) -> str | None:
    if function is None:
        return None
    return str(getattr(function, "__qualname__", type(function).__qualname__))


def describe_changes(kept: JSONObject, surface: JSONObject) -> list[str]:
    """Return short descriptions of what is added, removed and changed."""
    changes = []
    for kind in KINDS:
        word, before, now = kind.word, kept.get(kind.key), surface[kind.key]
        if not isinstance(before, dict):
            before = {}
        changes += [f"added {word} {name}" for name in now if name not in before]
        changes += [f"removed {word} {name}" for name in before if name not in now]
        changes += [
            f"changed {word} {name}" for name in now if name in before and before[name] != now[name]
        ]
    return changes or ["another server, or another form of file"]
