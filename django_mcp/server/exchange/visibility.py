"""Visibility: the only place that decides which entries of a server a principal can see.

Lists, calls, reads, completions and notifications look into the `VisibleEntries` of their exchange.
They are found before a method runs, since that may take a query.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TypeAlias

from django_mcp.registry.access import Access, Rule, read_access
from django_mcp.registry.arguments import Handler
from django_mcp.registry.entries import Entry, ToolEntry
from django_mcp.registry.registry import Registry
from django_mcp.server.options import Options

Guarded: TypeAlias = Entry | Handler
"""What has an `Access`: an entry, or the handler of a completion."""


class Requirements:
    """The rules and scopes for a server's entries, in one state of its registry and options.

    Attributes:
        rules: the rules that must hold for an entry to be visible; entries without rules are left out.
        scopes: the scopes that a token needs for an entry; likewise.
        all_rules: every rule of every entry.
        are_none: no entry has rules or scopes.
    """

    __slots__ = ("all_rules", "are_none", "rules", "scopes")

    def __init__(
        self,
        rules: Mapping[Guarded, frozenset[Rule]],
        scopes: Mapping[Guarded, tuple[str, ...]],
    ) -> None:
        self.rules = rules
        self.scopes = scopes
        self.all_rules: frozenset[Rule] = frozenset().union(*rules.values())
        self.are_none = not rules and not scopes

    def guards(self, guarded: Guarded) -> bool:
        """Return whether an entry has rules or scopes."""
        return guarded in self.rules or guarded in self.scopes


def find_requirements(registry: Registry, options: Options) -> Requirements:
    """Return the requirements of all entries; the server's apply where an entry has none."""
    default = read_access(
        f"MCPServer {options.name}", permission=options.permission, scopes=options.scopes
    )
    # The server's apply to the prompt or template of a completion handler already.
    guarded: list[tuple[Guarded, Access]] = [(each, default) for each in registry.entries()]
    guarded += [(each, Access()) for each in registry.completion_handlers()]
    rules, scopes = {}, {}
    for each, fallback in guarded:
        access = each.access
        if found := access.rules(fallback):
            rules[each] = found
        if wanted := fallback.scopes if access.scopes is None else access.scopes:
            scopes[each] = wanted
    return Requirements(rules, scopes)


class VisibleEntries:
    """The entries of a server that one principal can see.

    Args:
        granted: those of the rules that hold for the principal.
        tools: names of the only tools that the principal may use; None: all.
    """

    __slots__ = ("_requirements", "_rules", "granted", "tools", "variant")

    def __init__(
        self,
        requirements: Requirements,
        granted: frozenset[Rule] = frozenset(),
        tools: frozenset[str] | None = None,
    ) -> None:
        self._requirements = requirements
        self._rules = requirements.rules
        self.granted = granted
        self.tools = tools
        self.variant: Hashable | None = None
        """Equal for principals who see the same; None: everybody does."""
        if self._rules or tools is not None:
            self.variant = (granted, tools)

    def includes(self, guarded: Guarded) -> bool:
        """Return whether the principal can see an entry; otherwise it is unknown to them."""
        rules = self._rules.get(guarded)
        if rules is not None and not rules <= self.granted:
            return False
        return self.tools is None or type(guarded) is not ToolEntry or guarded.name in self.tools

    def scopes_of(self, guarded: Guarded) -> tuple[str, ...]:
        """Return the scopes that a token needs, all of them, to use an entry."""
        return self._requirements.scopes.get(guarded, ())

    def is_of(self, requirements: Requirements) -> bool:
        """Return whether it was made for these requirements, not for those before a change."""
        return self._requirements is requirements

    def under(self, requirements: Requirements) -> VisibleEntries:
        """Return what the same rights make visible under other requirements."""
        return VisibleEntries(requirements, self.granted, self.tools)


class _NoneVisible(VisibleEntries):
    __slots__ = ()

    def includes(self, guarded: Guarded) -> bool:
        return False


ALL_VISIBLE = VisibleEntries(Requirements({}, {}))
"""Every entry, on servers without requirements."""

NONE_VISIBLE: VisibleEntries = _NoneVisible(Requirements({}, {}))
"""No entry, until the principal's rights are known."""
