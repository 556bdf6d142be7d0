"""Who can see what: the requirements of a server's entries, and the entries that a principal can see.

Only this module decides which of the entries that staff did not disable a principal can see: lists, calls, reads, completions and
notifications look into the `VisibleEntries` of their exchange, which are found before a method runs.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple, Protocol, TypeAlias

from msgspec import field

from django_mcp.protocol.records import Record
from django_mcp.registry.access import Access, Rule, has_returned_none, read_access
from django_mcp.registry.arguments import Handler
from django_mcp.registry.entries import Entry, PromptEntry, ToolEntry
from django_mcp.registry.problems import describe_source
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
        toolsets: names of toolsets, whose entries they name all.
        names_all: they name every entry, so that only `read_only` restricts them.
        read_only: of the tools, only those that do not write are meant.
    """

    tools: frozenset[str] = frozenset()
    resources: frozenset[str] = frozenset()
    prompts: frozenset[str] = frozenset()
    toolsets: frozenset[str] = frozenset()
    names_all: bool = False
    read_only: bool = False

    def covers(self, other: Allowed) -> bool:
        """Return whether these credentials have all the rights of others."""
        if self.read_only and not other.read_only:
            return False
        if self.names_all or other.names_all:
            return self.names_all
        return all(mine >= theirs for mine, theirs in zip(self[:4], other[:4], strict=True))


class Narrowing(NamedTuple):
    """The only entries that a client wants to see, by its path, its headers or the options of a command.

    It grants nothing: what the principal cannot see is unknown whatever is named here.

    Attributes:
        toolsets: names of toolsets; None: all, and entries of none.
        read_only: of the tools, only those that do not write.
    """

    toolsets: frozenset[str] | None = None
    read_only: bool = False

    def among(self, known: frozenset[str]) -> Narrowing:
        """Return it without toolsets that the server does not have, which make no difference."""
        return self if self.toolsets is None else self._replace(toolsets=self.toolsets & known)


class Requirements(Record):
    """The rules and scopes for a server's entries, in one state of its registry and options.

    Attributes:
        rules: the rules that must hold for an entry to be visible; entries without rules are left out.
        pages: the tools whose page, a resource of MCP Apps, is at a URI.
        toolsets: the toolset of each entry; entries of none are left out.
        led_to: the tools that the calls of a tool can stand for, if it has none of its own.
        callers: the names of the tools whose calls can become calls of a tool.
        used_with: the tool without which another is unknown; tools that stand alone are left out.
        writing_tools: the names of the tools that write.
        all_rules: every rule of every entry.
        all_toolsets: every toolset of every entry.
    """

    rules: Mapping[Guarded, frozenset[Rule]]
    scopes: Mapping[Guarded, tuple[str, ...]]
    pages: Mapping[str, tuple[ToolEntry, ...]] = field(default_factory=dict)
    toolsets: Mapping[Entry, str] = field(default_factory=dict)
    led_to: Mapping[Guarded, Sequence[ToolEntry]] = field(default_factory=dict)
    callers: Mapping[Guarded, frozenset[str]] = field(default_factory=dict)
    used_with: Mapping[Guarded, ToolEntry] = field(default_factory=dict)
    writing_tools: frozenset[str] = frozenset()
    all_rules: frozenset[Rule] = frozenset()
    all_toolsets: frozenset[str] = frozenset()
    are_none: bool = False

    def __post_init__(self) -> None:
        self.all_rules = frozenset().union(*self.rules.values())
        self.all_toolsets = frozenset(self.toolsets.values())
        self.are_none = not self.rules and not self.scopes


def find_requirements(
    registry: Registry,
    options: Options,
    others: Iterable[WithAccess] = (),
    find_toolset: Callable[[Entry], str | None] = attrgetter("toolset"),
) -> Requirements:
    """Return the requirements of all entries and others; the server's apply where one has none.

    Args:
        registry: has the entries.
        options: of the server.
        others: what else has access rules.
        find_toolset: returns the toolset of an entry, by default the one that it was given.
    """
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
    led_to: dict[Guarded, Sequence[ToolEntry]] = {
        tool: [registry.tools[name] for name in tool.leads_to() if name in registry.tools]
        for tool in registry.tools.values()
        if tool.leads_to is not None
    }
    toolsets = {
        entry: toolset
        for entry in registry.entries()
        if entry not in led_to and (toolset := find_toolset(entry)) is not None
    }
    writing = frozenset(tool.name for tool in registry.tools.values() if not only_reads(tool))
    callers = _find_callers(led_to)
    used_with: dict[Guarded, ToolEntry] = {
        tool: other
        for tool in registry.tools.values()
        if (other := registry.tools.get(tool.used_with or "")) is not None
    }
    pages = _find_pages(registry)
    return Requirements(rules, scopes, pages, toolsets, led_to, callers, used_with, writing)


def _find_callers(led_to: Mapping[Any, Sequence[ToolEntry]]) -> dict[Guarded, frozenset[str]]:
    """Return the names of the tools whose calls become calls of a tool, by that tool."""
    callers: dict[Guarded, frozenset[str]] = {}
    for caller, tools in led_to.items():
        # One that only tells of the others opens none of them.
        for tool in tools if caller.redirect is not None else ():
            callers[tool] = callers.get(tool, frozenset()) | {caller.name}
    return callers


def _find_pages(registry: Registry) -> dict[str, tuple[ToolEntry, ...]]:
    """Return the tools that name a resource as their page, by its URI."""
    pages: dict[str, tuple[ToolEntry, ...]] = {}
    for tool in registry.tools.values():
        about = (tool.meta or {}).get("ui")
        uri = about.get("resourceUri") if isinstance(about, Mapping) else None
        if isinstance(uri, str):
            pages[uri] = (*pages.get(uri, ()), tool)
    return pages


def _describe_rule(rule: Callable[..., Any]) -> str:
    silent = ", which returned None, not True or False" if has_returned_none(rule) else ""
    return f"{describe_source(rule)}{silent}"


class VisibleEntries:
    """The entries of a server that one principal can see.

    These are those whose rules are all granted. If the principal's credentials are restricted, they
    must name an entry besides, or a tool whose calls become calls of it, or whose page it is. A client that has narrowed the
    server sees no others than it wants.
    """

    __slots__ = ("_rules", "allowed", "granted", "narrowing", "requirements", "variant")

    def __init__(
        self,
        requirements: Requirements,
        granted: frozenset[Rule] = frozenset(),
        allowed: Allowed | None = None,
        narrowing: Narrowing | None = None,
    ) -> None:
        self.requirements = requirements
        self._rules = requirements.rules
        self.granted = granted
        self.allowed = allowed
        """What restricted credentials name; None: they are not restricted."""
        self.narrowing = narrowing
        """What the client wants to see; None: everything."""
        self.variant: Hashable | None = None
        """Equal for principals who see the same; None: everybody does."""
        if self._rules or allowed is not None or narrowing is not None:
            self.variant = (granted, allowed, narrowing)

    def includes(self, guarded: Guarded, uri: str | None = None) -> bool:
        """Return whether the principal can see an entry; otherwise it is unknown to them.

        Args:
            uri: what is read, for a resource or a template that matches it.
        """
        led_to = self.requirements.led_to
        if led_to and guarded in led_to:
            return any(map(self.includes, led_to[guarded]))
        used_with = self.requirements.used_with
        if used_with and guarded in used_with and not self.includes(used_with[guarded]):
            return False
        rules = self._rules.get(guarded)
        if rules is not None and not rules <= self.granted:
            return False
        if self.narrowing is not None and not self._is_wanted(self.narrowing, guarded, uri):
            return False
        return self.allowed is None or self._is_named(self.allowed, guarded, uri)

    def explain_hidden(self, entry: Entry, uri: str | None = None) -> str | None:
        """Return why the principal cannot see an entry; None: they can.

        It is for the developers of the site. A client is told that the entry is unknown.
        """
        if self.includes(entry, uri):
            return None
        if entry in self.requirements.led_to:
            return "none of the tools that it leads to is visible"
        other = self.requirements.used_with.get(entry)
        if other is not None and not self.includes(other):
            return f"it is used with the tool {other.name}, which is not visible"
        if missing := self.find_missing_rules(entry):
            return f"it needs {', '.join(missing)}"
        if self.narrowing is not None and not self._is_wanted(self.narrowing, entry, uri):
            return "the path or the headers of the request are for other toolsets, or for tools that only read"
        return "the credentials are for other entries"

    def find_missing_rules(self, entry: Entry) -> list[str]:
        """Return the permissions of an entry that the principal does not have, as texts for developers."""
        missing = self.requirements.rules.get(entry, frozenset()) - self.granted
        return sorted(rule if isinstance(rule, str) else _describe_rule(rule) for rule in missing)

    def permits(self, guarded: Guarded, uri: str | None = None) -> bool:
        """Return whether the rules of an entry are granted and the client wants it, whatever the credentials name."""
        rules = self._rules.get(guarded)
        if rules is not None and not rules <= self.granted:
            return False
        return self.narrowing is None or self._is_wanted(self.narrowing, guarded, uri)

    def names_tool(self, name: str) -> bool:
        """Return whether the credentials are for a tool of this name that the server does not have, among others."""
        is_named = self.allowed is None or name in self.allowed.tools
        return is_named and self.narrowing is None

    def named_tools(self) -> frozenset[str]:
        """Return the tools that restricted credentials name, by themselves, by their toolsets or by what calls them."""
        allowed = self.allowed or Allowed()
        of_toolsets = (
            entry.name
            for entry, toolset in self.requirements.toolsets.items()
            if toolset in allowed.toolsets and isinstance(entry, ToolEntry)
        )
        called = (
            entry.name
            for entry, callers in self.requirements.callers.items()
            if isinstance(entry, ToolEntry) and callers & allowed.tools
        )
        named = allowed.tools.union(of_toolsets, called)
        return named - self.requirements.writing_tools if allowed.read_only else named

    def _is_wanted(self, narrowing: Narrowing, guarded: Guarded, uri: str | None) -> bool:
        if not isinstance(guarded, Entry):
            # An extension, or of a completion, whose prompt or template was looked up before.
            return True
        if narrowing.read_only and not only_reads(guarded):
            return False
        toolsets = narrowing.toolsets
        return (
            toolsets is None
            or self.requirements.toolsets.get(guarded) in toolsets
            or any(map(self.includes, self._find_tools_of_page(guarded, uri)))
        )

    def _is_named(self, allowed: Allowed, guarded: Guarded, uri: str | None) -> bool:
        if not isinstance(guarded, Entry):
            return True
        if allowed.read_only and not only_reads(guarded):
            return False
        if allowed.names_all or self.requirements.toolsets.get(guarded) in allowed.toolsets:
            return True
        if isinstance(guarded, ToolEntry):
            callers = self.requirements.callers.get(guarded)
            is_called = callers is not None and not callers.isdisjoint(allowed.tools)
            return is_called or guarded.name in allowed.tools
        if isinstance(guarded, PromptEntry):
            return guarded.name in allowed.prompts
        if guarded.key in allowed.resources or uri in allowed.resources:
            return True
        return any(map(self.includes, self._find_tools_of_page(guarded, uri)))

    def _find_tools_of_page(self, entry: Entry, uri: str | None) -> tuple[ToolEntry, ...]:
        """Return the tools whose page a resource is."""
        pages = self.requirements.pages
        if not pages or isinstance(entry, ToolEntry | PromptEntry):
            return ()
        return (*pages.get(entry.key, ()), *(pages.get(uri, ()) if uri is not None else ()))

    def scopes_of(self, guarded: Guarded) -> tuple[str, ...]:
        """Return the scopes that a token needs, all of them, to use an entry."""
        return self.requirements.scopes.get(guarded, ())

    def under(self, requirements: Requirements) -> VisibleEntries:
        """Return what the same rights make visible under other requirements."""
        return VisibleEntries(requirements, self.granted, self.allowed, self.narrowing)

    def narrowed(self, requirements: Requirements, narrowing: Narrowing | None) -> VisibleEntries:
        """Return the part of the entries that a client wants to see; None: all of them.

        Args:
            requirements: those of the server, which `ALL_VISIBLE` does not have.
            narrowing: what the client wants.
        """
        granted = requirements.all_rules if self is ALL_VISIBLE else self.granted
        wanted = None if narrowing is None else narrowing.among(requirements.all_toolsets)
        return VisibleEntries(requirements, granted, self.allowed, wanted)

    def find_toolsets(self, requirements: Requirements) -> list[str]:
        """Return the toolsets in which the principal can see something, whatever the client wants, sorted."""
        whole = self.narrowed(requirements, None)
        return sorted(
            {name for entry, name in requirements.toolsets.items() if whole.includes(entry)}
        )


def only_reads(entry: Entry) -> bool:
    """Return whether an entry does not write: by their nature only tools do."""
    return not isinstance(entry, ToolEntry) or entry.annotations["readOnlyHint"]


class _NoneVisible(VisibleEntries):
    __slots__ = ()

    def includes(self, guarded: Guarded, uri: str | None = None) -> bool:
        return False

    def permits(self, guarded: Guarded, uri: str | None = None) -> bool:
        return False


NO_REQUIREMENTS = Requirements({}, {})
"""The requirements of entries that everybody may see."""

ALL_VISIBLE = VisibleEntries(NO_REQUIREMENTS)
"""Every entry, on servers without requirements."""

NONE_VISIBLE: VisibleEntries = _NoneVisible(NO_REQUIREMENTS, allowed=Allowed())
"""No entry, until the principal's rights are known."""
