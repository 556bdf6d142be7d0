"""Values derived from the registry and the options, computed once."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from django_mcp.protocol.json import JSONObject, encode
from django_mcp.protocol.revisions import RevisionSet
from django_mcp.registry import hints
from django_mcp.registry.access import read_rates
from django_mcp.registry.entries import Entry
from django_mcp.registry.registry import Registry
from django_mcp.server.exchange.cache import BoundedCache
from django_mcp.server.exchange.capabilities import offered_features
from django_mcp.server.exchange.visibility import Requirements
from django_mcp.server.options import Options


class Derived:
    """What follows from one state of the registry and the options."""

    __slots__ = (
        "failures",
        "features",
        "has_lazy_identity",
        "has_lazy_texts",
        "keeps_sessions",
        "lists",
        "offered",
        "options",
        "rates",
        "requirements",
        "result_fields",
        "revisions",
        "version",
    )

    def __init__(self, registry: Registry, options: Options) -> None:
        self.version = registry.version
        self.options = options
        self.revisions = RevisionSet(options.revisions, has_stateless=options.mode != "stateful")
        self.keeps_sessions = options.mode != "stateless" and bool(self.revisions.handshake)
        self.features = offered_features(registry, can_stream=False)
        self.offered = _find_offered(self.features, registry, options)
        """What is offered on the way that an exchange came, by whether it can stream, whether what
        is sent ahead of the response is buffered, and whether it has no connection."""
        self.lists = BoundedCache(256)
        self.requirements = Requirements(registry, options)
        self.rates = read_rates(options.throttle)
        self.failures = self.rates.pop("failures", None)
        self.has_lazy_identity = not all(
            text is None or isinstance(text, str) for text in (options.title, options.description)
        )
        self.has_lazy_texts = _has_lazy_texts(registry, options)
        self.result_fields: dict[tuple[str, str | None], ResultFields] = {}


class ResultFields:
    """What a stateless revision adds to every result, in the forms it is needed in."""

    __slots__ = ("encoded", "meta", "parsed")

    def __init__(self, parsed: Mapping[str, Any], meta: JSONObject) -> None:
        self.parsed = parsed
        self.meta = meta
        whole = encode({**parsed, "_meta": meta} if meta else dict(parsed))
        self.encoded = whole[1:]
        """All of them with the closing brace of the result they are put at the end of."""


def _has_lazy_texts(registry: Registry, options: Options) -> bool:
    """Return whether anything that is listed or discovered is translated for the caller."""
    texts = [options.title, options.description, options.instructions]
    for entry in _entries(registry):
        texts += (entry.title, entry.description)
    for tool in registry.tools.values():
        if tool.has_lazy_texts:
            return True
    for prompt in registry.prompts.values():
        for argument in prompt.arguments:
            texts += (argument.title, argument.description)
    return any(map(hints.is_lazy, texts))


def _entries(registry: Registry) -> list[Entry]:
    return [
        *registry.tools.values(),
        *registry.resources.values(),
        *registry.templates.values(),
        *registry.prompts.values(),
    ]


def _find_offered(
    features: frozenset[str], registry: Registry, options: Options
) -> dict[tuple[bool, bool, bool], frozenset[str]]:
    streaming = offered_features(registry, can_stream=True)
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
