"""What a server can do: its features and capabilities, derived from its registry, options and extensions."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Container, Hashable, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.revisions import MethodRule, RevisionSet
from django_mcp.registry.access import read_rates
from django_mcp.registry.entries import Entry
from django_mcp.registry.problems import did_you_mean
from django_mcp.registry.registry import Registry
from django_mcp.registry.schemas import resolve_texts
from django_mcp.server.exchange.admission import if_streaming, if_unbuffered
from django_mcp.server.exchange.call import Call
from django_mcp.server.exchange.visibility import find_requirements
from django_mcp.server.extension import Extension, ExtensionMethod, ask
from django_mcp.server.options import Options


class Derived:
    """Values derived from one state of the registry, from the options and from the extensions."""

    def __init__(
        self,
        registry: Registry,
        options: Options,
        extensions: Sequence[Extension] = (),
        find_toolset: Callable[[Entry], str | None] = attrgetter("toolset"),
    ) -> None:
        self.version = registry.version
        self.options = options
        self.revisions = RevisionSet(options.revisions, has_stateless=options.mode != "stateful")
        self.keeps_sessions = options.mode != "stateless" and bool(self.revisions.handshake)
        self.extensions = [
            extension for extension in extensions if ask(extension, "is_offered", False, registry)
        ]
        """The extensions that the server offers by what is registered."""
        self.readers = {
            scheme: extension for extension in self.extensions for scheme in extension.uri_schemes
        }
        """The extensions that answer `resources/read` for a scheme of URIs."""
        registered = {
            "tools": registry.tools,
            "resources": registry.resources
            or registry.templates
            or self.readers
            or any(tool.has_whole_results for tool in registry.tools.values()),
            "prompts": registry.prompts,
            "completions": registry.has_completers,
        }
        self.features = frozenset(
            (
                *(name for name, found in registered.items() if found),
                *(extension.identifier for extension in self.extensions),
            )
        )
        self.offered = _by_transport(self.features, options)
        """The features, by what the transport can: whether it streams, whether it buffers what is sent ahead
        of the response, and whether the exchange has no connection."""
        self.added_rules, self.added_methods = _find_methods(extensions, self.revisions)
        """The rules of the methods that extensions add, by revision and name, and the methods, with their
        extensions, by name."""
        self.wrapping = _find_wrapping(self.extensions, registry)
        """The extensions that wrap calls of tools; None: there are none."""
        self.listen_keys = {
            key: extension for extension in self.extensions for key in extension.listen_keys
        }
        """The extensions that understand a key of the filter of a listening stream."""
        self.describing = [extension for extension in self.extensions if extension.describes]
        """The extensions that add fields to listed entries."""
        self.instructing = [
            extension
            for extension in self.extensions
            if type(extension).find_instructions is not Extension.find_instructions
        ]
        """The extensions that add a text to the instructions."""
        self.tells_apart = any(
            type(extension).find_settings is not Extension.find_settings
            for extension in self.extensions
        )
        """Whether what clients are told of an extension may depend on the client."""
        self.lists: dict[Hashable, bytes] = {}
        """Encoded responses to the list methods."""
        self.narrowed_lists: tuple[dict[Hashable, bytes], dict[Hashable, bytes]] = {}, {}
        """Those of clients that narrow the server, who choose among many sets: of anonymous callers, and of the others."""
        self.toolsets: dict[Hashable, list[str]] = {}
        """The toolsets that principals see something of, by what is granted and what their credentials name."""
        self.requirements = find_requirements(registry, options, extensions, find_toolset)
        self.rates = read_rates(options.throttle)
        self.failures = self.rates.pop("failures", None)
        self.has_lazy_identity = not all(
            text is None or isinstance(text, str) for text in (options.title, options.description)
        )
        self.has_lazy_texts = _has_lazy_texts(registry, options, self.extensions)
        self.result_fields: dict[tuple[str, str | None], ResultFields] = {}


def _find_methods(
    extensions: Sequence[Extension], revisions: RevisionSet
) -> tuple[dict[tuple[str, str], MethodRule], dict[str, tuple[Extension, ExtensionMethod]]]:
    rules: dict[tuple[str, str], MethodRule] = {}
    methods = {
        name: (extension, method)
        for extension in extensions
        for name, method in extension.methods().items()
    }
    for revision in (*revisions.handshake, *revisions.stateless):
        for name, (extension, method) in methods.items():
            if method.exists_at(revision):
                rules[revision.name, name] = MethodRule(
                    feature=extension.identifier, mirrored_param=method.mirrored_param
                )
    return rules, methods


class Wrapping(NamedTuple):
    """The extensions that wrap calls of tools: by the name of the tool, and by a key in the params."""

    by_tool: Mapping[str, tuple[Extension, ...]]
    by_param: Mapping[str, Extension]

    def find(self, tool: str, call: Call) -> tuple[Extension, ...]:
        """Return the extensions that wrap a call, each once, the outermost first."""
        wrapping = self.by_tool.get(tool, ())
        named = self.by_param.keys() & call.message.params.keys()
        if not named:
            return wrapping
        active = (self.by_param[key] for key in sorted(named))
        return tuple(
            dict.fromkeys(
                (*wrapping, *(extension for extension in active if extension.is_active(call)))
            )
        )


def _find_wrapping(extensions: Sequence[Extension], registry: Registry) -> Wrapping | None:
    by_tool = {
        name: wrapping
        for name, tool in registry.tools.items()
        # One that fails may be there to refuse calls, so it gets them.
        if (
            wrapping := tuple(
                extension for extension in extensions if ask(extension, "wraps", True, tool)
            )
        )
    }
    by_param = {key: extension for extension in extensions for key in extension.call_params}
    return Wrapping(by_tool, by_param) if by_tool or by_param else None


class ResultFields(NamedTuple):
    """The fields that a stateless revision adds to every result."""

    parsed: Mapping[str, Any]
    meta: JSONObject
    encoded: bytes
    """All of them, with the closing brace of the result."""


def _has_lazy_texts(registry: Registry, options: Options, extensions: Sequence[Extension]) -> bool:
    """Return whether a text in the lists or in `server/discover` is translated for the caller."""
    told: list[Any] = [options.title, options.description, options.instructions]
    told += (registry.experimental, registry.advertised)
    told += (dict(extension.settings) for extension in extensions)
    for entry in registry.entries():
        told += (entry.title, entry.description, entry.meta)
    for prompt in registry.prompts.values():
        for argument in prompt.arguments:
            told += (argument.title, argument.description)
    lazy: list[Any] = []
    resolve_texts(told, lazy.append)
    return bool(lazy) or any(tool.has_lazy_texts for tool in registry.tools.values())


def _by_transport(
    features: frozenset[str], options: Options
) -> dict[tuple[bool, bool, bool], frozenset[str]]:
    # Log messages are sent ahead of a response.
    streaming = features | {"logging"}
    listening = streaming | {"listen"}
    pushing = listening | {"resources.subscribe"}
    over_http = pushing if options.mode != "stateless" else listening
    offers = {}
    for is_buffered, has_none in itertools.product((False, True), repeat=2):
        unbuffered = over_http if has_none else pushing
        streamed = streaming if is_buffered else unbuffered
        missing = {if_streaming(name) for name in streamed - features}
        left_out = {if_unbuffered(name) for name in unbuffered - streamed}
        offers[True, is_buffered, has_none] = streamed | left_out
        offers[False, is_buffered, has_none] = features | missing | left_out
    return offers


def to_capabilities(features: Container[str], *, can_push: bool) -> JSONObject:
    """Return the server's capability object, in the newest form.

    `can_push` means that clients can receive changes on this transport.
    """
    names = ("tools", "resources", "prompts", "completions", "logging")
    capabilities: JSONObject = {name: {} for name in names if name in features}
    if can_push:
        for name in ("tools", "resources", "prompts"):
            if name in capabilities:
                capabilities[name]["listChanged"] = True
        if "resources" in capabilities:
            capabilities["resources"]["subscribe"] = True
    return capabilities


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


_OF_CLIENTS: Mapping[str, frozenset[str]] = {
    "elicitation": frozenset({"form", "url"}),
    "experimental": frozenset(),
    "extensions": frozenset(),
    "roots": frozenset({"listChanged"}),
    "sampling": frozenset({"tools", "context"}),
    "tasks": frozenset({"list", "cancel", "requests"}),
}
"""What clients declare, with what is inside of it; empty: names of others."""


def refuse_unknown_capability(path: Sequence[str]) -> bool:
    """Return False; raises ValueError if no client can declare this capability."""
    name, inner = path[0], path[1] if len(path) > 1 else None
    known = _OF_CLIENTS.get(name)
    if known is not None and (inner is None or not known or inner in known):
        return False
    if known is not None:
        near = f"{did_you_mean(str(inner), known)} It has {', '.join(sorted(known))}."
    elif name.partition(".")[0] in _OF_CLIENTS:
        near = f" Write client_supports({', '.join(map(repr, name.split('.')))})."
    elif "/" in name:
        near = f" Write client_supports('extensions', {name!r})."
    else:
        near = f"{did_you_mean(name, _OF_CLIENTS)} There are {', '.join(_OF_CLIENTS)}."
    raise ValueError(f"No client declares the capability {'.'.join(path)!r}.{near}")
