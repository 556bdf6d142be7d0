"""Builders for the functions that convert a result to an older form."""

from __future__ import annotations

from collections.abc import Callable

from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.revisions.record import Lowering


def without(*keys: str) -> Lowering:
    """Return a lowering that removes top-level `keys`."""

    def drop(value: JSONObject) -> JSONObject:
        for key in keys:
            if key in value:
                return {k: v for k, v in value.items() if k not in keys}
        return value

    return drop


def each(key: str, lower: Lowering) -> Lowering:
    """Return a lowering that applies `lower` to every object in the array under `key`."""

    def apply(value: JSONObject) -> JSONObject:
        return {**value, key: [lower(item) for item in value[key]]}

    return apply


def chain(*lowerings: Lowering) -> Lowering:
    """Return a lowering that applies `lowerings` one after the other."""

    def apply(value: JSONObject) -> JSONObject:
        for lower in lowerings:
            value = lower(value)
        return value

    return apply


def map_blocks(lower: Callable[[JSONObject], JSONObject]) -> Lowering:
    """Return a lowering for the content blocks of a tool's result."""
    return each("content", lower)


def map_prompt_blocks(lower: Callable[[JSONObject], JSONObject]) -> Lowering:
    """Return a lowering for the content block of each message of a prompt."""

    def lower_message(message: JSONObject) -> JSONObject:
        return {**message, "content": lower(message["content"])}

    return each("messages", lower_message)
