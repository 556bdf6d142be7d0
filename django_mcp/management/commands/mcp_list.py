"""`manage.py mcp_list`: list what a user sees of a server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.core.management.base import CommandParser

from django_mcp.auth.authenticators.api_keys import (
    APIKeyAuthenticator,
    find_key,
    principal_of_key,
    why_refused,
)
from django_mcp.auth.principal import KEY_START, Principal
from django_mcp.endpoints.mounts import find_mounts
from django_mcp.endpoints.usable_entries import find_refused, usable_entries
from django_mcp.extension_packages import load_parts
from django_mcp.inprocess.results import MCPError
from django_mcp.management.base import (
    ServerCommand,
    add_narrowing,
    find_user,
    get_server,
    read_narrowing,
    where_to_register,
    wrong_use,
)
from django_mcp.management.terminal import printable
from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.revisions import REVISIONS
from django_mcp.protocol.tokens import estimate_tokens
from django_mcp.registry.entries import KINDS, Kind
from django_mcp.server.exchange.visibility import ALL_VISIBLE, Narrowing
from django_mcp.servers import MCPServer, all_servers


class Command(ServerCommand):
    """List what a user sees: tools, resources, resource templates and prompts."""

    help = "Lists what a user sees of a server, after its name and its path in the URLconf."

    def add_arguments(self, parser: CommandParser) -> None:
        self.add_options(parser)
        parser.add_argument(
            "--revision",
            choices=[revision.name for revision in REVISIONS],
            help="in the form of this protocol revision; else the newest",
        )
        parser.add_argument(
            "--key",
            metavar="PREFIX",
            help="as this API key sees it, by the part of it that the admin shows; not with --user",
        )
        add_narrowing(parser, "list only")
        parser.add_argument("--tokens", action="store_true", help="estimate how much a model reads")
        parser.add_argument("--skills", action="store_true", help="list the skills alone")

    def handle(self, *args: Any, **options: Any) -> None:
        server = get_server(options["server"])
        viewer: Any = find_user(options["user"])
        refused: dict[str, dict[str, set[str]]] = {}
        if options["key"] is not None:
            viewer, refused = _find_key(options["key"], options["user"], server)
        viewed: Any = {"user": viewer, "revision": options["revision"]}
        try:
            lists = {kind.key: getattr(server, kind.method)(**viewed) for kind in KINDS}
        except MCPError as error:
            raise wrong_use(error.message) from error
        if options["skills"]:
            self._print_skills(_find_skills(server, lists["resources"]), as_json=options["json"])
            return
        hidden = _count_hidden(server, lists, options)
        toolsets = _narrow(server, lists, read_narrowing(options))
        tokens = {key: sum(map(estimate_tokens, entries)) for key, entries in lists.items()}
        parts = _estimate_parts(server, lists["tools"])
        if options["json"]:
            listing: JSONObject = {"server": server.name, **lists, "toolsets": toolsets}
            if options["tokens"]:
                listing["tokens"] = {**tokens, "total": sum(tokens.values())}
                listing["tokens_of_tools"] = parts
            if options["key"] is not None:
                listing["refused"] = {
                    kind: {name: sorted(scopes) for name, scopes in named.items()}
                    for kind, named in refused.items()
                }
            self.print_json(listing)
            return
        self._print_servers(server)
        if not any(lists.values()):
            self.stdout.write(_explain_nothing(server, viewer, options))
        for kind in KINDS:
            self._print_list(kind, lists[kind.key], with_tokens=options["tokens"])
        self._print_toolsets(toolsets, hidden)
        self._print_refused(refused)
        if options["tokens"]:
            self._print_tokens(parts)
            self.stdout.write(f"About {sum(tokens.values())} tokens, as a rough estimate.")

    def _print_refused(self, refused: Mapping[str, Mapping[str, set[str]]]) -> None:
        for name, scopes in sorted(each for named in refused.values() for each in named.items()):
            text = f"The use of {name} is refused: the key lacks the scopes {', '.join(sorted(scopes))}."
            self.stdout.write(self.style.WARNING(printable(text)))

    def _print_skills(self, skills: Mapping[str, JSONObject], *, as_json: bool) -> None:
        """Print skills with the number and the size of their files."""
        if as_json:
            self.print_json({"skills": dict(skills)})
            return
        if not skills:
            self.stdout.write("There are no skills, or none that this user may see.")
        for uri, about in skills.items():
            size = "generated"
            if "size" in about:
                count = len(about["files"])
                size = f"{count} file{'s' if count > 1 else ''}, {about['size']} bytes"
            self.stdout.write(printable(f"{uri}  ({size})"))
            self.stdout.write(
                printable(f"  {' '.join(about['frontmatter']['description'].split())}")
            )

    def _print_servers(self, server: MCPServer) -> None:
        # Each is in the URLconf with and without a slash at its end.
        paths = dict.fromkeys(
            mount.path.rstrip("/") or "/" for mount in find_mounts() if mount.server is server
        )
        place = f"at {' and '.join(paths)}" if paths else "no URL leads to it"
        self.stdout.write(printable(f'Server "{server.name}", {place}'))
        # After the URLconf is loaded, which may create servers.
        others = [other_server.name for other_server in all_servers() if other_server is not server]
        if others:
            self.stdout.write(printable(f"Other servers: {', '.join(others)} (--server NAME)"))

    def _print_tokens(self, parts: Mapping[str, Mapping[str, int]]) -> None:
        """Print the tokens of tools by what these are made from, and by the parts of a tool."""
        if not parts:
            return
        rows = [("Made from", *(label for label, _ in PARTS.values()))]
        rows += [(origin, *map(str, sizes.values())) for origin, sizes in parts.items()]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        self.stdout.write(self.style.MIGRATE_HEADING("Tokens of tools"))
        for first, *others in rows:
            cells = (f"{cell:>{width}}" for cell, width in zip(others, widths[1:], strict=True))
            self.stdout.write(f"  {first:<{widths[0]}}  {'  '.join(cells)}")

    def _print_list(self, kind: Kind, entries: list[JSONObject], *, with_tokens: bool) -> None:
        if not entries:
            return
        heading, identity = f"{kind.word.capitalize()}s ({len(entries)})", kind.identity
        self.stdout.write(self.style.MIGRATE_HEADING(heading))
        width = max(len(entry[identity]) for entry in entries)
        for entry in entries:
            lines = str(entry.get("description") or entry.get("title") or "").splitlines() or [""]
            size = f"{estimate_tokens(entry):>6}  " if with_tokens else "  "
            line = f"{size}{entry[identity]:<{width}}  {lines[0]}"
            self.stdout.write(printable(line).rstrip())

    def _print_toolsets(self, toolsets: dict[str, list[str]], hidden: int) -> None:
        if hidden:
            told = "--user USERNAME lists what one of them sees"
            self.stdout.write(f"{hidden} more are for users with permissions: {told}.")
        if toolsets:
            counted = ", ".join(f"{name} ({len(toolsets[name])})" for name in sorted(toolsets))
            self.stdout.write(f"Toolsets: {counted}")


def _find_skills(server: MCPServer, resources: list[JSONObject]) -> dict[str, JSONObject]:
    """Return what there is to say of those of the listed resources that are skills, by URI."""
    entries = server.registry.resources
    listed = {wire["uri"] for wire in resources}
    describers = [
        part.make_describer(server, lambda entry: entry.key in listed)
        for part in load_parts("site.surface")
    ]
    described = {
        uri: about
        for uri in entries
        if uri in listed
        for each in describers
        if (about := each(entries[uri]))
    }
    return {uri: about["skill"] for uri, about in described.items() if "skill" in about}


def _narrow(
    server: MCPServer, lists: dict[str, list[JSONObject]], narrowing: Narrowing | None
) -> dict[str, list[str]]:
    """Take what is not wanted out of lists; return the entries that are left by their toolsets."""
    requirements = server.engine.derived.requirements
    wanted = ALL_VISIBLE.narrowed(requirements, narrowing)
    toolsets: dict[str, list[str]] = {}
    for kind in KINDS:
        entries = getattr(server.registry, kind.mapping)
        kept = [wire for wire in lists[kind.key] if wanted.includes(entries[wire[kind.identity]])]
        lists[kind.key] = kept
        for wire in kept:
            toolset = requirements.toolsets.get(entries[wire[kind.identity]])
            if toolset is not None:
                toolsets.setdefault(toolset, []).append(wire[kind.identity])
    return toolsets


def _count_hidden(
    server: MCPServer, lists: Mapping[str, list[JSONObject]], options: Mapping[str, Any]
) -> int:
    """Return how many entries that need a permission or a scope an anonymous user does not see."""
    if options["user"] or options["key"] or not any(lists.values()):
        return 0
    requirements = server.engine.derived.requirements
    return sum(
        entry in requirements.rules or entry in requirements.scopes
        for kind in KINDS
        for key, entry in getattr(server.registry, kind.mapping).items()
        if key not in {wire[kind.identity] for wire in lists[kind.key]}
    )


def _explain_nothing(server: MCPServer, viewer: Any, options: dict[str, Any]) -> str:
    if not any(getattr(server.registry, kind.mapping) for kind in KINDS):
        return f"Nothing is registered on the server {server.name!r}. {where_to_register()}"
    if read_narrowing(options) is not None:
        known = server.engine.derived.requirements.all_toolsets
        names = printable(", ".join(sorted(known))) or "none"
        return (
            f"Nothing of it is in the lists. The toolsets of the server {server.name!r}: {names}."
        )
    return f"Of the server {server.name!r} {_why_nothing(viewer, options['key'])}"


def _why_nothing(viewer: Any, key: str | None) -> str:
    """Return who sees nothing of a server, with the remedy."""
    if key is not None:
        name = viewer.user.get_username()
        return (
            f"this key sees nothing: its user {printable(name)!r} may use nothing of what it is for. "
            f"mcp_list --user {printable(name)} lists what this user may use."
        )
    if viewer is None:
        return "nobody sees anything without signing in: name a user with --user."
    return f"the user {printable(viewer.get_username())!r} sees nothing, for lack of permissions."


def _find_key(
    prefix: str, username: str | None, server: MCPServer
) -> tuple[Principal, dict[str, dict[str, set[str]]]]:
    """Return the principal of a valid API key by its prefix, which is not secret.

    Also return what it sees and cannot use for lack of scopes, with the scopes that are needed.
    """
    if username is not None:
        raise wrong_use("Give --user or --key: a key acts for its own user.")
    key = find_key(prefix)
    if key is None:
        start = prefix.strip().removeprefix(KEY_START)[:12]
        raise wrong_use(f"There is no API key {KEY_START}{printable(start)}.")
    reason = why_refused(key)
    if reason is not None:
        shown = f"Calls with the API key {KEY_START}{key.prefix} are refused: {printable(reason)}."
        raise wrong_use(shown)
    usable = usable_entries(key.user, [server], key.allowed)
    return principal_of_key(key, APIKeyAuthenticator()), find_refused(usable, key.scopes.split())


PARTS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "names": ("names, descriptions", ("name", "description")),
    "input": ("arguments", ("inputSchema",)),
    "output": ("results", ("outputSchema",)),
    "rest": ("the rest", ("title", "annotations", "icons", "_meta")),
}
"""The parts of a tool in wire form, with their headings. Most clients give models only the first two."""


def _estimate_parts(server: MCPServer, tools: list[JSONObject]) -> dict[str, dict[str, int]]:
    """Return the tokens of tools by origin and part."""
    found: dict[str, dict[str, int]] = {}
    for tool in tools:
        origin = server.registry.tools[tool["name"]].origin
        sizes = found.setdefault(origin, dict.fromkeys(PARTS, 0))
        for part, (_label, members) in PARTS.items():
            given = {name: tool[name] for name in members if name in tool}
            sizes[part] += estimate_tokens(given) if given else 0
    return found
