"""Where the arguments of a call are wrong, without what the client wrote."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django_mcp.protocol.sanitize import clean
from django_mcp.registry.entries import ToolEntry
from django_mcp.server.exchange.call import Call

MAX_PLACES = 10
"""Places of one call that are recorded."""

MAX_CHARS = 200
"""Characters of all of them; a place that does not fit is left out."""

MAX_DEPTH = 8
"""Steps of a place that are recorded."""

UNKNOWN = "?"
"""In place of a name that the schema does not have: a client's own can be as sensitive as a value."""


def find_places(call: Call) -> str:
    """Return the places of the arguments that were refused, such as `seats/*/row`; `?` is a name that is unknown."""
    entry, failure = call.entry, call.failure
    if not isinstance(entry, ToolEntry) or failure is None:
        return ""
    text, places, properties = "", set[str](), entry.input_schema.get("properties")
    for problem in failure.problems:
        steps = problem.pointer.split("/")[1:]
        # Most places are an argument as a whole, which takes 2 us so, and 6 us by the schema.
        if len(steps) != 1 or not isinstance(properties, dict) or steps[0] not in properties:
            steps = list(_known_steps(entry.input_schema, steps))
        place = clean("/".join(steps), MAX_CHARS)
        longer = f"{text}, {place}" if text else place
        if place and place not in places and len(longer) <= MAX_CHARS:
            places.add(place)
            text = longer
        if len(places) == MAX_PLACES:
            break
    return text


def _known_steps(schema: Any, steps: list[str]) -> Iterator[str]:
    """Yield the steps of a place as the schema knows them."""
    options = [schema]
    for step in steps[:MAX_DEPTH]:
        name = step.replace("~1", "/").replace("~0", "~")
        options = list(_open(options, schema))
        inner = [
            option["properties"][name]
            for option in options
            if isinstance(option.get("properties"), dict) and name in option["properties"]
        ]
        if inner:
            yield step
        elif name.isdecimal() and any(
            "items" in option or "prefixItems" in option for option in options
        ):
            yield "*"
            inner = [option["items"] for option in options if "items" in option]
        else:
            yield UNKNOWN
            inner = [
                option["additionalProperties"]
                for option in options
                if isinstance(option.get("additionalProperties"), dict)
            ]
        options = inner


def _open(schemas: list[Any], root: Any) -> Iterator[dict[str, Any]]:
    """Yield schemas with what they refer to and are made of; each once."""
    left, seen = list(schemas), 0
    while left and seen < 100:
        schema, seen = left.pop(), seen + 1
        if not isinstance(schema, dict):
            continue
        yield schema
        target = schema.get("$ref")
        if isinstance(target, str) and target.startswith("#/$defs/"):
            left.append(root.get("$defs", {}).get(target.removeprefix("#/$defs/")))
        for key in ("anyOf", "oneOf", "allOf"):
            if isinstance(schema.get(key), list):
                left.extend(schema[key])
