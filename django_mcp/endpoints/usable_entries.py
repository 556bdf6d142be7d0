"""What a key of a user can name: the entries that the user may use, with the scopes that they need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any

from django_mcp.auth.permissions import find_granted, visible_to
from django_mcp.auth.scopes import are_covered, named_scopes
from django_mcp.conf import settings
from django_mcp.registry.entries import TEMPLATES, Entry, TemplateEntry, ToolEntry
from django_mcp.server.exchange.visibility import Allowed, VisibleEntries
from django_mcp.server.server import BaseServer
from django_mcp.servers import MCPServer

if TYPE_CHECKING:
    from django_mcp.auth.authenticators import APIKeyAuthenticator


def find_key_readers(server: MCPServer) -> list[APIKeyAuthenticator]:
    """Return those of a server's authenticators that read API keys."""
    # The admin imports this module when Django starts.
    from django_mcp.auth.authenticators import APIKeyAuthenticator

    authentication = server.engine.authentication
    return [
        authenticator
        for authenticator in (() if authentication is None else authentication.authenticators)
        if isinstance(authenticator, APIKeyAuthenticator)
    ]


def find_unguarded(server: BaseServer) -> list[Entry]:
    """Return the entries that need neither permissions nor scopes: all callers of a public server may use them."""
    needs = server.engine.derived.requirements
    return [
        entry
        for entry in server.registry.entries()
        if entry not in needs.rules and entry not in needs.scopes
    ]


def usable_entries(
    user: Any, servers: Iterable[MCPServer], allowed: Allowed | None = None
) -> dict[str, dict[str, set[str]]]:
    """Return the tools, resources and prompts that a user may use; others stay unknown to them.

    Each is a dict from the name, URI or URI template to the scopes that a key needs for it.

    Args:
        user: whose they are; None: whatever permissions they need.
        allowed: what the user's key is restricted to; None: it is not restricted.
    """
    entries: dict[str, dict[str, set[str]]] = {"tools": {}, "resources": {}, "prompts": {}}
    for server in servers:
        requirements = server.engine.derived.requirements
        rules = requirements.all_rules
        visible = VisibleEntries(
            requirements,
            rules if user is None else find_granted(user, rules, requirements),
            allowed,
        )
        always = {scope for reader in find_key_readers(server) for scope in reader.required_scopes}
        for entry in server.registry.entries():
            led_to = requirements.led_to.get(entry, ())
            if led_to and isinstance(entry, ToolEntry) and entry.redirect is None:
                # It only tells of the others, so who names it alone sees nothing.
                continue
            if _is_visible(entry, visible):
                mapping = "resources" if entry.kind is TEMPLATES else entry.kind.mapping
                scopes = entries[mapping].setdefault(entry.key, set())
                needing: list[Entry] = [each for each in led_to if visible.includes(each)] or [
                    entry
                ]
                scopes.update(always, *map(visible.scopes_of, needing))
    return entries


def find_open_writers(user: Any, servers: Iterable[MCPServer]) -> list[str]:
    """Return the tools of a user that write and need no scope, sorted: scopes do not keep a key from them."""
    only_reading = Allowed(names_all=True, read_only=True)
    names: set[str] = set()
    for server in servers:
        scopes_by_name = usable_entries(user, [server])["tools"]
        reading = usable_entries(user, [server], only_reading)["tools"]
        names.update(
            name for name, scopes in scopes_by_name.items() if not scopes and name not in reading
        )
    return sorted(names)


def usable_toolsets(user: Any, servers: Iterable[MCPServer]) -> list[str]:
    """Return the toolsets in which a user sees something, sorted."""
    names: set[str] = set()
    for server in servers:
        requirements = server.engine.derived.requirements
        names.update(visible_to(user, requirements).find_toolsets(requirements))
    return sorted(names)


def _is_visible(entry: Entry, visible: VisibleEntries) -> bool:
    if visible.includes(entry):
        return True
    # A key may name resources that match a template, and not the template.
    return isinstance(entry, TemplateEntry) and any(
        entry.template.match(uri) is not None and visible.includes(entry, uri)
        for uri in (visible.allowed or Allowed()).resources
    )


def grantable_scopes(servers: Iterable[MCPServer]) -> set[str]:
    """Return the scopes that are good for something at servers: what they require, and what implies others."""
    servers = list(servers)
    authentications = (server.engine.authentication for server in servers)
    required = chain.from_iterable(
        authentication.required_scopes
        for authentication in authentications
        if authentication is not None
    )
    return {*named_scopes(servers), *required, *(settings.SCOPE_IMPLIES or ())}


def all_scopes_of(entries: Mapping[str, Mapping[str, set[str]]]) -> list[str]:
    """Return the scopes of all `usable_entries`, sorted."""
    return sorted({scope for kind in entries.values() for each in kind.values() for scope in each})


def find_refused(
    entries: Mapping[str, Mapping[str, set[str]]], held: Iterable[str]
) -> dict[str, dict[str, set[str]]]:
    """Return those of `usable_entries` that a key with these scopes sees but cannot use."""
    scopes = frozenset(held)
    return {
        kind: {name: needed for name, needed in named.items() if not are_covered(needed, scopes)}
        for kind, named in entries.items()
    }
