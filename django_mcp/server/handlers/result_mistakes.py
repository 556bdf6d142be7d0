"""Tell developers of results with keys that look like secrets or that no schema names, and of those that tell a failure.

For sites with `DEBUG` alone.
"""

from __future__ import annotations

import re
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Any

from django_mcp.log import LoggedKinds, logger
from django_mcp.protocol.json import JSONObject, decode
from django_mcp.registry.entries import FUNCTION, ToolEntry
from django_mcp.registry.secret_names import find_sensitive, split_words
from django_mcp.server.exchange.connection import ConnectionState
from django_mcp.server.operations import Operations, Outcome
from django_mcp.server.services import ServedCall

MAX_ITEMS = 20
"""Of each list that are looked at, since rows have the same columns."""

MAX_DEPTH = 5
"""Of objects and lists inside of each other."""

MAX_CHARS = 1_000_000
"""Of a text that is read as JSON."""

logged = LoggedKinds(200)
"""Of servers and entries, with their keys."""

_CURSOR = re.compile(
    r"(^|_)(next|prev|previous|page|paging|cursor|continuation|continue|sync|resume)_(page_)?token$",
    re.IGNORECASE,
)
"""Keys of what a client sends to get the next page."""


FAILED_TEXT = re.compile(r"(error|failed|failure)(:|\s+to\b|[.!]?$)", re.IGNORECASE)
"""How texts begin that tell a failure."""

FAILED_STATUSES = frozenset(("error", "fail", "failed", "failure"))
"""What a key `status` has then."""

_OF_FAILURES = frozenset(
    (
        "code", "detail", "details", "error", "errors", "message", "msg", "ok", "reason", "status", "success",
    )
)  # fmt: skip
"""Keys of objects that tell nothing but a failure, if one of them says that it is one."""

_LEAK = (
    "The result of %s has the key %r, which looks like a secret, and clients pass results on to models. Name the columns "
    "to return, as in values('id', 'name'). A tool that is meant to return it declares it in its return type, with a "
    "dataclass, a TypedDict or a pydantic model"
)
_UNNAMED = (
    "The result of the tool %s has %s, which its output schema does not name, and clients get all the same. Return what it "
    "names, or name it; 'additionalProperties': False has the server refuse such a result where it checks them"
)
_FAILURE = (
    "The tool %s returns an error as its result, which clients and the record of calls take for a success, and what it "
    "wrote stays. Raise it: raise ToolError('...')"
)


def watch_results(plain: Operations) -> Operations:
    """Return operations that do the same, and log what is wrong with their results."""

    async def watch(call: ServedCall, work: Coroutine[Any, Any, Outcome]) -> Outcome:
        outcome = await work
        if type(outcome) is bytes and call.entry is not None:
            _report(call, outcome)
        return outcome

    def run(
        call: ServedCall, derived: Any, kept: ConnectionState | None
    ) -> Coroutine[Any, Any, Outcome]:
        return watch(call, plain.run(call, derived, kept))

    def run_task(
        call: ServedCall, carried: JSONObject | None, work: Coroutine[Any, Any, Outcome]
    ) -> Coroutine[Any, Any, Outcome]:
        return plain.run_task(call, carried, watch(call, work))

    return replace(plain, run=run, run_task=run_task)


def _report(call: ServedCall, outcome: bytes) -> None:
    entry: Any = call.entry
    is_tool = isinstance(entry, ToolEntry)
    wire = _decode(outcome)
    # What generates tools has checks of its own.
    if not isinstance(wire, dict) or (is_tool and entry.origin != FUNCTION):
        return
    declared = frozenset(_find_declared(entry.output_schema)) if is_tool else frozenset()
    for data in _find_data(wire):
        for key in _find_secrets(data, MAX_DEPTH):
            if key not in declared and logged.add((call.server.name, entry.name, key)):
                logger.warning(_LEAK, entry.name, key)
        if (
            is_tool
            and not wire.get("isError")
            and "error" not in declared
            and _tells_failure(data)
            and logged.add((call.server.name, entry.name, None))
        ):
            logger.warning(_FAILURE, entry.name)
    if is_tool and "structuredContent" in wire:
        unnamed = _find_unnamed(wire["structuredContent"], entry.output_schema)
        if unnamed and logged.add((call.server.name, entry.name, "")):
            logger.warning(_UNNAMED, entry.name, ", ".join(map(repr, unnamed[:MAX_ITEMS])))


def _find_unnamed(data: Any, schema: Any) -> list[str]:
    """Return the keys of an object, or of the objects in a list, that its schema neither names nor speaks of otherwise."""
    if isinstance(data, list) and data and isinstance(schema, dict):
        return _find_unnamed(data[0], schema.get("items"))
    if not isinstance(data, dict) or not isinstance(schema, dict):
        return []
    # What joins schemas, or refers to others, may name more.
    if "properties" not in schema or not schema.keys() <= _PLAIN:
        return []
    return [key for key in data if key not in schema["properties"]]


_PLAIN = frozenset(
    (
        "$schema",
        "$defs",
        "title",
        "description",
        "type",
        "properties",
        "required",
        "examples",
        "default",
    )
)
"""The keywords of a schema that says of an object nothing but what it names."""


def _find_data(wire: JSONObject) -> Iterator[Any]:
    """Yield the data of a result: structured content, else its texts, read as JSON if they are."""
    if "structuredContent" in wire:
        yield wire["structuredContent"]
        return
    blocks = [*wire.get("content", ()), *wire.get("contents", ())]
    for block in blocks[:MAX_ITEMS]:
        # Contents of a resource are in the block of a tool, and are blocks of a resource.
        text = block.get("resource", block).get("text")
        if isinstance(text, str):
            is_json = text.lstrip()[:1] in ("{", "[") and len(text) <= MAX_CHARS
            yield _decode(text) if is_json else text


def _decode(data: bytes | str) -> Any:
    """Return a JSON value; None, if there is none, or it is nested too deeply to be read."""
    with suppress(ValueError):
        return decode(data)
    return None


def _tells_failure(data: Any) -> bool:
    """Return whether data says nothing but that the call failed, as views and tools of other libraries do."""
    if isinstance(data, str):
        return FAILED_TEXT.match(data) is not None
    if isinstance(data, list) and len(data) == 2 and type(data[1]) is int:
        return isinstance(data[0], dict) and 400 <= data[1] < 600
    if not isinstance(data, dict) or not data.keys() <= _OF_FAILURES:
        return False
    status = data.get("status")
    return (
        bool(data.get("error") or data.get("errors"))
        or data.get("success", data.get("ok")) is False
        or (isinstance(status, str) and status.lower() in FAILED_STATUSES)
    )


def _find_secrets(data: Any, depth: int) -> Iterator[str]:
    """Yield the keys that look like secrets, and have a text or a list."""
    if depth == 0:
        return
    if isinstance(data, list):
        for each in islice(data, MAX_ITEMS):
            yield from _find_secrets(each, depth - 1)
    elif isinstance(data, dict):
        for key, value in data.items():
            # A number counts something, such as tokens, and a boolean says whether there is one.
            is_text = isinstance(value, str) and value != ""
            if is_text and not _CURSOR.search(split_words(key)) and find_sensitive(key, ()):
                yield key
            yield from _find_secrets(value, depth - 1)


def _find_declared(schema: Any) -> Iterator[str]:
    """Yield the names of all properties in a schema."""
    if isinstance(schema, list):
        for each in schema:
            yield from _find_declared(each)
    elif isinstance(schema, dict):
        for key, value in schema.items():
            if key == "properties" and isinstance(value, dict):
                yield from value
            yield from _find_declared(value)
