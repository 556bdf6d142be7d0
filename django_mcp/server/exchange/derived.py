"""Values derived from the registry and the options of a server: features, capabilities, and who can see what.

Only this module decides which entries a principal can see: lists, calls, reads, completions and
notifications look into the `VisibleEntries` of their exchange, which are found before a method runs.
"""

from __future__ import annotations

import itertools
from collections.abc import Container, Hashable, Mapping
from typing import Any, NamedTuple, TypeAlias

from msgspec import field

from django_mcp.protocol.json import JSONObject, is_lazy
from django_mcp.protocol.records import Record
from django_mcp.protocol.revisions import RevisionSet
from django_mcp.protocol.tasks import NEVER
from django_mcp.registry.access import Access, Rule, read_access, read_rates
from django_mcp.registry.arguments import Handler
from django_mcp.registry.entries import Entry, PromptEntry, ToolEntry
from django_mcp.registry.registry import Registry
from django_mcp.server.exchange.admission import if_streaming
from django_mcp.server.options import Options

Guarded: TypeAlias = Entry | Handler
"""What has an `Access`: an entry, or the handler of a completion."""


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


def find_requirements(registry: Registry, options: Options) -> Requirements:
    """Return the requirements of all entries; the server's apply where an entry has none."""
    default = read_access(
        f"MCPServer {options.name}", permission=options.permission, scopes=options.scopes
    )
    # The server's apply to the prompt or template of a completion handler already.
    guarded: list[tuple[Guarded, Access]] = [(each, default) for each in registry.entries()]
    guarded += [(each, Access()) for each in registry.completers.values()]
    rules, scopes = {}, {}
    for each, fallback in guarded:
        access = each.access
        if found := access.rules(fallback):
            rules[each] = found
        if wanted := fallback.scopes if access.scopes is None else access.scopes:
            scopes[each] = wanted
    return Requirements(rules, scopes, _find_pages(registry))


def _find_pages(registry: Registry) -> dict[str, tuple[ToolEntry, ...]]:
    """Return the tools that name a resource as their page, by its URI."""
    found: dict[str, tuple[ToolEntry, ...]] = {}
    for tool in registry.tools.values():
        about = (tool.meta or {}).get("ui")
        uri = about.get("resourceUri") if isinstance(about, Mapping) else None
        if isinstance(uri, str):
            found[uri] = (*found.get(uri, ()), tool)
    return found


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
        if isinstance(guarded, Handler):
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


class Derived:
    """Values derived from one state of the registry and the options."""

    def __init__(self, registry: Registry, options: Options) -> None:
        self.version = registry.version
        self.options = options
        self.revisions = RevisionSet(options.revisions, has_stateless=options.mode != "stateful")
        self.keeps_sessions = options.mode != "stateless" and bool(self.revisions.handshake)
        registered = {
            "tools": registry.tools,
            "tasks": any(tool.task != NEVER for tool in registry.tools.values()),
            "resources": registry.resources or registry.templates,
            "prompts": registry.prompts,
            "completions": registry.has_completers,
        }
        self.features = frozenset(name for name, found in registered.items() if found)
        self.offered = _by_transport(self.features, options)
        """The features on a transport, by whether it can stream, whether it buffers what is sent ahead
        of the response, and whether the exchange has no connection."""
        self.lists: dict[Hashable, bytes] = {}
        """Encoded responses to the list methods."""
        self.requirements = find_requirements(registry, options)
        self.rates = read_rates(options.throttle)
        self.failures = self.rates.pop("failures", None)
        self.has_lazy_identity = not all(
            text is None or isinstance(text, str) for text in (options.title, options.description)
        )
        self.has_lazy_texts = _has_lazy_texts(registry, options)
        self.result_fields: dict[tuple[str, str | None], ResultFields] = {}


class ResultFields(NamedTuple):
    """The fields that a stateless revision adds to every result."""

    parsed: Mapping[str, Any]
    meta: JSONObject
    encoded: bytes
    """All of them, with the closing brace of the result."""


def _has_lazy_texts(registry: Registry, options: Options) -> bool:
    """Return whether a text in the lists or in `server/discover` is translated for the caller."""
    texts = [options.title, options.description, options.instructions]
    for entry in registry.entries():
        texts += (entry.title, entry.description)
    for prompt in registry.prompts.values():
        for argument in prompt.arguments:
            texts += (argument.title, argument.description)
    has_lazy_tool = any(tool.has_lazy_texts for tool in registry.tools.values())
    return has_lazy_tool or any(map(is_lazy, texts))


def _by_transport(
    features: frozenset[str], options: Options
) -> dict[tuple[bool, bool, bool], frozenset[str]]:
    # Log messages are sent ahead of a response.
    streaming = features | {"logging"}
    listening = streaming | {"listen"}
    pushing = listening | {"resources.subscribe"}
    over_http = pushing if options.mode != "stateless" else listening
    found = {}
    for is_buffered, has_none in itertools.product((False, True), repeat=2):
        streamed = streaming if is_buffered else over_http if has_none else pushing
        missing = {if_streaming(name) for name in streamed - features}
        found[True, is_buffered, has_none] = streamed
        found[False, is_buffered, has_none] = features | missing
    return found


def to_capabilities(features: Container[str], *, can_push: bool) -> JSONObject:
    """Return the server's capability object, in the newest form.

    `can_push` means that clients can receive changes on this transport.
    """
    names = ("tools", "resources", "prompts", "completions", "logging")
    found: JSONObject = {name: {} for name in names if name in features}
    if can_push:
        for name in ("tools", "resources", "prompts"):
            if name in found:
                found[name]["listChanged"] = True
        if "resources" in found:
            found["resources"]["subscribe"] = True
    return found


def covers(declared: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Return whether a declared capability object has everything in another.

    `{"elicitation": {}}` stands for form mode (2025-11-25 client/elicitation "Capabilities").
    """
    for name, inner in wanted.items():
        if name not in declared or not isinstance(declared[name], Mapping):
            return False
        have = declared[name]
        if name == "elicitation" and not have:
            have = {"form": {}}
        if isinstance(inner, Mapping) and not covers(have, inner):
            return False
    return True
