"""What of a server there is for one principal: the one place that decides what they can see.

Lists, calls, reads, completions and notices all ask the offer of their exchange. It is found out
before a method runs, where that may take a query; asking it afterwards is a look into a set.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, TypeAlias

from django_mcp.registry.access import Access, Rule, read_access, to_rules
from django_mcp.registry.arguments import Handler
from django_mcp.registry.entries import Entry, ToolEntry
from django_mcp.registry.registry import Registry

if TYPE_CHECKING:
    from django_mcp.server.options import Options

__all__ = ["NOTHING", "WHOLE", "Offer", "Requirements"]

Guarded: TypeAlias = Entry | Handler
"""What has an `Access`: an entry, or the handler of a completion."""


class Requirements:
    """What a server asks of those who use its entries, in one state of its registry and options.

    Attributes:
        rules: what has to hold for an entry to be there; entries without rules are not in it.
        scopes: what a token has to be good for to use an entry; likewise.
        all_rules: every rule of every entry.
        are_none: nothing is asked of anybody.
    """

    __slots__ = ("all_rules", "are_none", "rules", "scopes")

    def __init__(self, registry: Registry, options: Options) -> None:
        default = read_access(
            f"MCPServer {options.name}", permission=options.permission, scopes=options.scopes
        )
        self.rules: dict[Guarded, frozenset[Rule]] = {}
        self.scopes: dict[Guarded, tuple[str, ...]] = {}
        for entry in registry.entries():
            self._add(entry, entry.access, default)
        for handler in registry.completion_handlers():
            # The prompt or template it is for has the default already.
            self._add(handler, handler.access, _OPEN)
        self.all_rules: frozenset[Rule] = frozenset().union(*self.rules.values())
        self.are_none = not self.rules and not self.scopes

    def guards(self, guarded: Guarded) -> bool:
        """Return whether anything is asked of those who use an entry."""
        return guarded in self.rules or guarded in self.scopes

    def _add(self, guarded: Guarded, access: Access, default: Access) -> None:
        rules = to_rules(access.permission if access.permission is not None else default.permission)
        scopes = access.scopes if access.scopes is not None else default.scopes
        if rules:
            self.rules[guarded] = rules
        if scopes:
            self.scopes[guarded] = scopes


_OPEN = Access()


class Offer:
    """What of a server there is for one principal.

    Args:
        requirements: of the server.
        granted: those of the rules that hold for the principal.
        tools: names of the only tools that they may use; None: all.
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
        """Equal for equal offers; None: everybody has the same."""
        if self._rules or tools is not None:
            self.variant = (granted, tools)

    def includes(self, guarded: Guarded) -> bool:
        """Return whether an entry is there for the principal; else it is unknown to them."""
        rules = self._rules.get(guarded)
        if rules is not None and not rules <= self.granted:
            return False
        return self.tools is None or type(guarded) is not ToolEntry or guarded.name in self.tools

    def scopes_of(self, guarded: Guarded) -> tuple[str, ...]:
        """Return the scopes that a token needs all of to use an entry."""
        return self._requirements.scopes.get(guarded, ())

    def is_of(self, requirements: Requirements) -> bool:
        """Return whether it was made for these requirements, and not for those before a change."""
        return self._requirements is requirements

    def under(self, requirements: Requirements) -> Offer:
        """Return what the same rights come to under these requirements."""
        if self.is_of(requirements):
            return self
        return Offer(requirements, self.granted, self.tools)


class _Whole(Offer):
    """Everything, for servers that ask nothing of anybody."""

    __slots__ = ()

    def __init__(self) -> None:
        self.granted = frozenset()
        self.tools = None
        self.variant = None

    def includes(self, guarded: Guarded) -> bool:
        return True

    def scopes_of(self, guarded: Guarded) -> tuple[str, ...]:
        return ()

    def is_of(self, requirements: Requirements) -> bool:
        return requirements.are_none


class _Nothing(_Whole):
    """Nothing, until the principal is known: what was not checked is not shown."""

    __slots__ = ()

    def includes(self, guarded: Guarded) -> bool:
        return False

    def is_of(self, requirements: Requirements) -> bool:
        return False


WHOLE: Offer = _Whole()
NOTHING: Offer = _Nothing()
