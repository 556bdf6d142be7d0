"""What the server offers and what a client declared, as capability objects."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.tasks import NEVER
from django_mcp.registry.registry import Registry


def offered_features(registry: Registry, *, can_stream: bool) -> frozenset[str]:
    """Return the features a client finds here, by what is registered and what can be sent.

    Log messages travel ahead of an answer, so they are offered only where answers can stream.
    """
    features = set()
    if registry.tools:
        features.add("tools")
        if any(tool.task != NEVER for tool in registry.tools.values()):
            features.add("tasks")
    if registry.resources or registry.templates:
        features.add("resources")
    if registry.prompts:
        features.add("prompts")
    if registry.has_completers:
        features.add("completions")
    if can_stream:
        features.add("logging")
    return frozenset(features)


def to_capabilities(features: Container[str], *, hears: bool) -> JSONObject:
    """Return the server's capability object, in the newest form.

    `hears` tells whether a client can receive changes on this transport.
    """
    names = ("tools", "resources", "prompts", "completions", "logging")
    found: JSONObject = {name: {} for name in names if name in features}
    if hears:
        for name in ("tools", "resources", "prompts"):
            if name in found:
                found[name]["listChanged"] = True
        if "resources" in found:
            found["resources"]["subscribe"] = True
    return found


def covers(declared: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Return whether a client that declared one capability object has all of another.

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
