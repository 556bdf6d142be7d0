"""Who can see what: the requirements of a server's entries, and the entries that a principal can see.

Only this module decides which of the entries that staff did not disable a principal can see: lists, calls, reads, completions and
notifications look into the `VisibleEntries` of their exchange, which are found before a method runs.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import NamedTuple, Protocol, TypeAlias

from msgspec import field

from django_mcp.protocol.records import Record
from django_mcp.registry.access import Access, Rule, read_access
from django_mcp.registry.arguments import Handler
from django_mcp.registry.entries import Entry, PromptEntry, ToolEntry
from django_mcp.registry.registry import Registry
from django_mcp.server.options import Options


class WithAccess(Protocol):
    """What has access rules, and is no entry: an extension."""

    @property
    def source(self) -> str:
        """What it is called in messages."""

    @property
    def access(self) -> Access:
        """The access rules."""


Guarded: TypeAlias = Entry | Handler | WithAccess
"""What has an `Access`: an entry, the handler of a completion, or an extension."""


class Allowed(NamedTuple):
    """The only entries that restricted credentials, such as an API key for some tools, name.

    Attributes:
        tools: their names.
        resources: URIs of resources, and URI templates.
        prompts: their names.
    """

    tools: frozenset[str] = frozenset()
    resources: frozenset[str] = frozenset()
    prompts: frozenset[str] = frozenset()


class Requirements(Record):
    """The rules and scopes for a server's entries, in one state of its registry and options.

    Attributes:
        rules: the rules that must hold for an entry to be visible; entries without rules are left out.
        pages: the tools whose page, a resource of MCP Apps, is at a URI.
        all_rules: every rule of every entry.
    """

    rules: Mapping[Guarded, frozenset[Rule]]
    scopes: Mapping[Guarded, tuple[str, ...]]
    pages: Mapping[str, tuple[ToolEntry, ...]] = field(default_factory=dict)
    all_rules: frozenset[Rule] = frozenset()
    are_none: bool = False

    def __post_init__(self) -> None:
        self.all_rules = frozenset().union(*self.rules.values())
        self.are_none = not self.rules and not self.scopes


def find_requirements(
    registry: Registry, options: Options, others: Iterable[WithAccess] = ()
) -> Requirements:
    """Return the requirements of all entries and others; the server's apply where one has none."""
    default = read_access(
        f"MCPServer {options.name}", permission=options.permission, scopes=options.scopes
    )
    # The server's apply to the prompt or template of a completion handler already.
    guarded: list[tuple[Guarded, Access]] = [(entry, default) for entry in registry.entries()]
    guarded += [(completer, Access()) for completer in registry.completers.values()]
    guarded += [(other, default) for other in others]
    rules, scopes = {}, {}
    for each, fallback in guarded:
        access = each.access
        if rules_found := access.rules(fallback):
            rules[each] = rules_found
        if wanted := fallback.scopes if access.scopes is None else access.scopes:
            scopes[each] = wanted
    return Requirements(rules, scopes, _find_pages(registry))


def _find_pages(registry: Registry) -> dict[str, tuple[ToolEntry, ...]]:
    """Return the tools that name a resource as their page, by its URI."""
    pages: dict[str, tuple[ToolEntry, ...]] = {}
    for tool in registry.tools.values():
        about = (tool.meta or {}).get("ui")
        uri = about.get("resourceUri") if isinstance(about, Mapping) else None
        if isinstance(uri, str):
            pages[uri] = (*pages.get(uri, ()), tool)
    return pages


class VisibleEntries:
    """The entries of a server that one principal can see.

    These are those whose rules are all granted. If the principal's credentials are restricted, they
    must name an entry besides, or a tool that they name must lead to it.
    """

    __slots__ = ("_rules", "allowed", "granted", "requirements", "variant")

    def __init__(
        self,
        requirements: Requirements,
        granted: frozenset[Rule] = frozenset(),
        allowed: Allowed | None = None,
    ) -> None:
        self.requirements = requirements
        self._rules = requirements.rules
        self.granted = granted
        self.allowed = allowed
        """What restricted credentials name; None: they are not restricted."""
        self.variant: Hashable | None = None
        """Equal for principals who see the same; None: everybody does."""
        if self._rules or allowed is not None:
            self.variant = (granted, allowed)

    def includes(self, guarded: Guarded, uri: str | None = None) -> bool:
        """Return whether the principal can see an entry; otherwise it is unknown to them.

        Args:
            uri: what is read, for a resource or a template that matches it.
        """
        rules = self._rules.get(guarded)
        if rules is not None and not rules <= self.granted:
            return False
        return self.allowed is None or self._is_named(self.allowed, guarded, uri)

    def permits(self, guarded: Guarded) -> bool:
        """Return whether the rules of an entry are granted, whatever the credentials name."""
        rules = self._rules.get(guarded)
        return rules is None or rules <= self.granted

    def names_tool(self, name: str) -> bool:
        """Return whether the credentials are for a tool of this name, among others."""
        return self.allowed is None or name in self.allowed.tools

    def _is_named(self, allowed: Allowed, guarded: Guarded, uri: str | None) -> bool:
        if not isinstance(guarded, Entry):
            # Of a completion, whose prompt or template was looked up before.
            return True
        if isinstance(guarded, ToolEntry):
            return guarded.name in allowed.tools
        if isinstance(guarded, PromptEntry):
            return guarded.name in allowed.prompts
        if guarded.key in allowed.resources or uri in allowed.resources:
            return True
        pages = self.requirements.pages
        tools = (*pages.get(guarded.key, ()), *(pages.get(uri, ()) if uri is not None else ()))
        return any(map(self.includes, tools))

    def scopes_of(self, guarded: Guarded) -> tuple[str, ...]:
        """Return the scopes that a token needs, all of them, to use an entry."""
        return self.requirements.scopes.get(guarded, ())

    def under(self, requirements: Requirements) -> VisibleEntries:
        """Return what the same rights make visible under other requirements."""
        return VisibleEntries(requirements, self.granted, self.allowed)


class _NoneVisible(VisibleEntries):
    __slots__ = ()

    def includes(self, guarded: Guarded, uri: str | None = None) -> bool:
        return False

    def permits(self, guarded: Guarded) -> bool:
        return False


NO_REQUIREMENTS = Requirements({}, {})
"""The requirements of entries that everybody may see."""

ALL_VISIBLE = VisibleEntries(NO_REQUIREMENTS)
"""Every entry, on servers without requirements."""

NONE_VISIBLE: VisibleEntries = _NoneVisible(NO_REQUIREMENTS, allowed=Allowed())
"""No entry, until the principal's rights are known."""
