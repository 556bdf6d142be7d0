"""`manage.py mcp_key`: create, list and revoke API keys."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import CommandParser
from django.utils import timezone

from django_mcp.auth.principal import KEY_START
from django_mcp.checks.declared import list_some
from django_mcp.endpoints.usable_entries import (
    all_scopes_of,
    find_key_readers,
    find_open_writers,
    find_refused,
    usable_entries,
)
from django_mcp.known_servers import import_urlconf
from django_mcp.management.base import BY_FIELD, SiteCommand, find_user, get_server, wrong_use
from django_mcp.management.terminal import printable
from django_mcp.models import APIKey
from django_mcp.models.scopes import known_scopes
from django_mcp.protocol.json import JSONObject
from django_mcp.registry.problems import did_you_mean, find_near
from django_mcp.server.exchange.visibility import Allowed
from django_mcp.servers import MCPServer, all_servers

DAYS = 90
"""How long a key is valid unless the command says otherwise, as in the form of the admin."""

MAX_DAYS = 3650

REMEDY = (
    'add "django_mcp.auth.authenticators.APIKeyAuthenticator" to DJANGO_MCP["AUTHENTICATORS"], or to '
    "authenticators= of the server."
)


_KINDS = (("tool", "NAME"), ("resource", "URI"), ("prompt", "NAME"), ("toolset", "NAME"))
"""What a key can be restricted to, in the order of `Allowed`."""


class Command(SiteCommand):
    """Create, list and revoke API keys."""

    help = "Creates, lists and revokes API keys, with which a client acts for a user."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        create = actions.add_parser("create", help="create a key, and print it: it is shown once")
        create.add_argument(
            "user", metavar="USERNAME", help=f"the user for whom the key acts, {BY_FIELD}"
        )
        create.add_argument("name", metavar="NAME", help="what the key is for")
        create.add_argument(
            "--server", metavar="NAME", help="the server that it is for, to check it"
        )
        expiry = create.add_mutually_exclusive_group()
        expiry.add_argument(
            "--days", type=int, default=DAYS, help=f"how long it is valid; by default {DAYS} days"
        )
        expiry.add_argument("--never", action="store_true", help="it does not expire")
        for kind, metavar in _KINDS:
            create.add_argument(
                f"--{kind}",
                metavar=metavar,
                action="append",
                dest=f"{kind}s",
                help=f"restrict it to this {kind}, and the others that you name; may be repeated",
            )
        create.add_argument(
            "--read-only",
            action="store_true",
            help="of the tools, it sees only those that do not write",
        )
        create.add_argument(
            "--scope",
            action="append",
            dest="scopes",
            help="a scope that it grants; may be repeated. By default those that the entries need to which "
            "you restrict it, otherwise none",
        )
        create.add_argument("--json", action="store_true", help="print JSON for a program to read")
        listing = actions.add_parser("list", help="list keys, without their secrets")
        listing.add_argument("--user", metavar="USERNAME", help="only those of this user")
        listing.add_argument("--json", action="store_true", help="print JSON for a program to read")
        revoke = actions.add_parser("revoke", help="revoke keys permanently; they stay in the list")
        revoke.add_argument(
            "prefixes", metavar="PREFIX", nargs="+", help="the part of a key that lists show"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        {"create": self._create, "list": self._list, "revoke": self._revoke}[options["action"]](
            options
        )

    def _create(self, options: dict[str, Any]) -> None:
        user = find_user(options["user"])
        servers = _find_servers(options["server"])
        days = options["days"]
        if not 1 <= days <= MAX_DAYS:
            raise wrong_use(f"--days must be between 1 and {MAX_DAYS}.")
        names_given = (options[each] or () for each in ("tools", "toolsets", "scopes"))
        if any("," in text for texts in names_given for text in texts):
            raise wrong_use("Repeat --tool, --toolset and --scope for each name, without commas.")
        if not options["name"].strip() or len(options["name"]) > 100:
            raise wrong_use("The name must have between 1 and 100 characters.")
        named = {f"{kind}s": options[f"{kind}s"] for kind, _metavar in _KINDS}
        for kind in ("tools", "prompts"):
            known = {name for server in servers for name in getattr(server.registry, kind)}
            unknown = [name for name in named[kind] or () if name not in known]
            if unknown:
                names = printable(", ".join(map(repr, unknown)))
                near = did_you_mean(unknown[0], known)
                raise wrong_use(f"No MCP server that reads API keys has the {kind} {names}.{near}")
        is_restricted = any(names is not None for names in named.values())
        tools, resources, prompts, toolsets = (frozenset(names or ()) for names in named.values())
        allowed = Allowed(tools, resources, prompts, toolsets, read_only=options["read_only"])
        entries = usable_entries(None, servers, allowed) if is_restricted else None
        scopes = options["scopes"]
        if scopes is None:
            # Who names a tool means that the key can call it.
            scopes = [] if entries is None else all_scopes_of(entries)
        expires_at = None if options["never"] else timezone.now() + timedelta(days=days)
        try:
            key, text = APIKey.objects.issue(
                user=user,
                name=options["name"],
                scopes=scopes,
                expires_at=expires_at,
                read_only=options["read_only"],
                **named,
            )
        except (ValueError, ValidationError) as error:
            raise wrong_use(str(error)) from error
        for warning in _find_mistakes(key, servers):
            self.stderr.write(printable(f"Warning: {warning}"), self.style.WARNING)
        if options["json"]:
            self.print_json({"key": text, **_describe(key)})
            return
        until = "does not expire" if expires_at is None else f"is valid until {_moment(expires_at)}"
        grants = f" and has the scopes {', '.join(scopes)}" if scopes else ""
        self.stderr.write(
            printable(f"The key {KEY_START}{key.prefix} {until}{grants}. It is shown only now:"),
            lambda line: line,
        )
        self.stdout.write(text)

    def _list(self, options: dict[str, Any]) -> None:
        keys = APIKey.objects.select_related("user")
        if options["user"] is not None:
            keys = keys.filter(user=find_user(options["user"]))
        described = [_describe(key) for key in keys]
        if options["json"]:
            self.print_json({"keys": described})
            return
        if not described:
            self.stdout.write("There are no API keys.")
            return
        columns = ("prefix", "state", "user", "expires", "last_used", "name")
        lines = [
            [column.replace("_", " ") for column in columns],
            *([str(row[column] or "never") for column in columns] for row in described),
        ]
        widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
        for line in lines:
            cells = zip(line, widths, strict=True)
            self.stdout.write(
                printable("  ".join(cell.ljust(width) for cell, width in cells)).rstrip()
            )

    def _revoke(self, options: dict[str, Any]) -> None:
        prefixes = dict.fromkeys(map(_to_prefix, options["prefixes"]))
        keys = {key.prefix: key for key in APIKey.objects.filter(prefix__in=prefixes)}
        unknown = [prefix for prefix in prefixes if prefix not in keys]
        if unknown:
            names = ", ".join(f"{KEY_START}{printable(prefix)}" for prefix in unknown)
            raise wrong_use(f"There is no API key {names}. None was revoked.")
        for key in keys.values():
            was_revoked = key.revoked_at is not None
            key.revoke()
            state = "was revoked before" if was_revoked else "is revoked"
            self.stdout.write(printable(f"The key {KEY_START}{key.prefix} ({key.name}) {state}."))


def _find_servers(name: str | None) -> list[MCPServer]:
    """Return the servers that read keys, or the named one; raise CommandError if there is none."""
    named = None if name is None else get_server(name)
    import_urlconf()
    servers = [named] if named is not None else all_servers()
    reading = [server for server in servers if find_key_readers(server)]
    if not reading:
        which = (
            "No MCP server of this site reads" if named is None else f"{named.name!r} does not read"
        )
        raise wrong_use(f"{which} API keys: {REMEDY}")
    return reading


def _find_mistakes(key: APIKey, servers: list[MCPServer]) -> Iterator[str]:
    """Yield why a new key can do less than it was probably meant to, or more."""
    usable = usable_entries(key.user, servers, key.allowed)
    if key.is_restricted:
        named = usable_entries(None, servers, key.allowed)
        hidden = sorted({name for kind in named for name in named[kind].keys() - usable[kind]})
        if hidden:
            yield (
                f"the user {key.user.get_username()!r} may not use {', '.join(hidden)} now, so the key "
                "does not see it."
            )
    scopes = key.scopes.split()
    for scope in scopes:
        known = known_scopes(servers)
        if scope not in known:
            near = find_near(scope, known)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            yield f"nothing that the key could use needs the scope {scope!r}.{hint}"
    refused = {
        name: needed
        for kind in find_refused(usable, scopes).values()
        for name, needed in kind.items()
    }
    if refused:
        lacking = sorted(set().union(*refused.values()) - set(scopes))
        yield (
            f"calls of {', '.join(sorted(refused))} are refused, because the key lacks scopes. Add "
            f"{' '.join(f'--scope {scope}' for scope in lacking)} if it shall make them."
        )
    # Who names only scopes may think that they restrict the key.
    open_writers = find_open_writers(key.user, servers) if scopes and key.allowed is None else []
    if open_writers:
        count = len(open_writers)
        which = (
            "1 tool that writes and needs" if count == 1 else f"{count} tools that write and need"
        )
        yield (
            f"the key may also use {which} no scope: {list_some(open_writers)}. Restrict it with "
            "--read-only or --tool."
        )


def _to_prefix(text: str) -> str:
    """Return the prefix in what the admin shows of a key, or in its whole text."""
    return text.strip().removeprefix(KEY_START)[:12]


def _describe(key: APIKey) -> JSONObject:
    is_over = key.is_over(timezone.now())
    state = "revoked" if key.revoked_at is not None else "expired" if is_over else "valid"
    if state == "valid" and not key.user.is_active:
        state = "inactive"
    restricted: JSONObject = {}
    if key.allowed is not None and key.is_restricted:
        restricted["only"] = {
            f"{kind}s": sorted(getattr(key.allowed, f"{kind}s")) for kind, _metavar in _KINDS
        }
    if key.read_only:
        restricted["read_only"] = True
    return {
        "prefix": key.prefix,
        "state": state,
        "user": key.user.get_username(),
        "name": key.name,
        "expires": None if key.expires_at is None else _moment(key.expires_at),
        "last_used": None if key.last_used_at is None else _moment(key.last_used_at),
        "scopes": key.scopes.split(),
        **restricted,
    }


def _moment(value: Any) -> str:
    return str(timezone.localtime(value).isoformat(timespec="minutes"))
