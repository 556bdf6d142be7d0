"""Values derived from the registry and the options, such as features, and capability objects."""

from __future__ import annotations

import itertools
from collections.abc import Container, Hashable, Mapping
from typing import Any

from django_mcp.protocol.json import JSONObject, encode
from django_mcp.protocol.revisions import RevisionSet
from django_mcp.protocol.tasks import NEVER
from django_mcp.registry import hints
from django_mcp.registry.access import read_rates
from django_mcp.registry.registry import Registry
from django_mcp.server.exchange.visibility import find_requirements
from django_mcp.server.options import Options


class Derived:
    """Values derived from one state of the registry and the options."""

    def __init__(self, registry: Registry, options: Options) -> None:
        self.version = registry.version
        self.options = options
        self.revisions = RevisionSet(options.revisions, has_stateless=options.mode != "stateful")
        self.keeps_sessions = options.mode != "stateless" and bool(self.revisions.handshake)
        self.features = _registered_features(registry)
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


class ResultFields:
    """The fields that a stateless revision adds to every result."""

    __slots__ = ("encoded", "meta", "parsed")

    def __init__(self, parsed: Mapping[str, Any], meta: JSONObject) -> None:
        self.parsed = parsed
        self.meta = meta
        whole = encode({**parsed, "_meta": meta} if meta else dict(parsed))
        self.encoded = whole[1:]
        """All of them, with the closing brace of the result."""


def _has_lazy_texts(registry: Registry, options: Options) -> bool:
    """Return whether a text in the lists or in `server/discover` is translated for the caller."""
    texts = [options.title, options.description, options.instructions]
    for entry in registry.entries():
        texts += (entry.title, entry.description)
    for tool in registry.tools.values():
        if tool.has_lazy_texts:
            return True
    for prompt in registry.prompts.values():
        for argument in prompt.arguments:
            texts += (argument.title, argument.description)
    return any(map(hints.is_lazy, texts))


def _by_transport(
    features: frozenset[str], options: Options
) -> dict[tuple[bool, bool, bool], frozenset[str]]:
    """Return the features on each kind of transport; see `Derived.offered`."""
    # Log messages are sent ahead of a response.
    streaming = features | {"logging"}
    listening = streaming | {"listen"}
    pushing = listening | {"resources.subscribe"}
    over_http = pushing if options.mode != "stateless" else listening
    found = {}
    for is_buffered, is_alone in itertools.product((False, True), repeat=2):
        found[False, is_buffered, is_alone] = features
        found[True, is_buffered, is_alone] = over_http if is_alone else pushing
        if is_buffered:
            found[True, is_buffered, is_alone] = streaming
    return found


def _registered_features(registry: Registry) -> frozenset[str]:
    has_tasks = any(tool.task != NEVER for tool in registry.tools.values())
    features = {
        "tools": registry.tools,
        "tasks": has_tasks,
        "resources": registry.resources or registry.templates,
        "prompts": registry.prompts,
        "completions": registry.has_completers,
    }
    return frozenset(name for name, found in features.items() if found)


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
