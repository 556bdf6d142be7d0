"""`resources/read`: find the resource or the template that matches, or the tool of a whole result, and read it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from django_mcp.protocol.byte_ranges import ByteRange, find_range
from django_mcp.protocol.content import TextContents
from django_mcp.protocol.errors import INTERNAL_ERROR, INVALID_PARAMS, Refusal, invalid_params
from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.results import ReadResult
from django_mcp.protocol.revisions import lower
from django_mcp.registry.entries import ToolEntry
from django_mcp.server.asking.by_argument import takes_answers
from django_mcp.server.delivery.notify import Readable, find_matches
from django_mcp.server.exchange.call import Failure, FailureKind
from django_mcp.server.handlers.call_checks import check_call
from django_mcp.server.handlers.dead_links import report_unmatched
from django_mcp.server.handlers.failures import short, within_limit
from django_mcp.server.handlers.run import HandlerRun, check_only
from django_mcp.server.handlers.whole_results import find_whole, is_whole, to_contents
from django_mcp.server.request_checks import check_scopes, note_hidden
from django_mcp.server.services import ServedCall


async def read(call: ServedCall) -> bytes | Refusal:
    """Answer `resources/read`. Source: all revisions, server/resources "Reading Resources"."""
    uri = call.params.get("uri")
    if type(uri) is not str:
        return invalid_params("uri must be a string")
    part = find_range(call.params, call.options.read_chunk_bytes)
    if isinstance(part, Refusal):
        return part
    whole_of = find_whole(call, uri) if is_whole(uri) else None
    if whole_of is None:
        reading = await _find_reading(call, uri)
    else:
        reading = await _find_whole(call, uri, *whole_of)
    if isinstance(reading, Refusal):
        extension = (
            call.derived.readers.get(uri.partition(":")[0]) if call.derived.readers else None
        )
        if extension is None:
            return reading
        read_there = await extension.read_resource(call, uri)
        if read_there is None or isinstance(read_there, Refusal):
            return read_there or reading
        return _encode(call, uri, read_there, part, call.server.hint_fields(call, read_there.cache))
    entry = reading.entry

    def finish(_call: ServedCall, value: Any) -> bytes | Refusal:
        result = reading.convert(value, uri)
        fields = call.server.read_cache_fields(call, entry, result.cache)
        return _encode(call, uri, result, part, fields)

    outcome = await HandlerRun(
        call,
        entry.handler,
        dict(reading.arguments),
        finish,
        reading.kind,
        entry.name,
        timeout_s=reading.timeout_s,
        may_ask=True,
        takes_answers=takes_answers(call),
    ).run()
    return _to_refusal(call, uri, outcome) if isinstance(outcome, Failure) else outcome


def _encode(
    call: ServedCall,
    uri: str,
    whole: ReadResult,
    part: ByteRange | None,
    cache_fields: Mapping[str, Any],
) -> bytes | Refusal:
    """Return what was read as it is sent, or a part of it."""
    result = whole if part is None else _cut(whole, part)
    if isinstance(result, Refusal):
        return result
    if not result.contents:
        # An empty list would mean an existing resource without contents.
        return missing(call, uri)
    wire = lower(call.method, result.to_wire(), call.rules)
    wire.update(cache_fields)
    encoded = call.server.encode_result(wire, call.rules)

    def refuse_large(_call: ServedCall, message: str) -> Refusal:
        return Refusal(code=INTERNAL_ERROR, message=message, data={"uri": uri})

    return within_limit(call, "resource", encoded, refuse_large)


class _Reading(NamedTuple):
    """What answers a read.

    Attributes:
        entry: a resource, a template, or the tool whose whole result is read.
        arguments: of its handler.
        convert: takes the value of the handler and the URI, and returns the contents.
        kind: what the log calls the entry.
        timeout_s: how long a round may take; None: as long as the server's options say.
    """

    entry: Readable | ToolEntry
    arguments: Mapping[str, Any]
    convert: Callable[[Any, str], ReadResult]
    kind: str = "resource"
    timeout_s: float | None = None


async def _find_reading(call: ServedCall, uri: str) -> _Reading | Refusal:
    readable = await _find_readable(call, uri)
    if isinstance(readable, Refusal):
        return readable
    entry, variables = readable
    return _Reading(entry, variables, entry.convert)


async def _find_whole(
    call: ServedCall, uri: str, entry: ToolEntry, arguments: JSONObject
) -> _Reading | Refusal:
    """Return what makes a call of a tool again, which has to be permitted as that call has."""
    call.entry = entry
    # What is recorded of the call, whatever the client sends beside the link.
    call.message.params = {**call.params, "arguments": arguments}
    checked = check_scopes(call, entry) or await check_call(call, entry, arguments)
    if isinstance(checked, Refusal):
        return checked
    if isinstance(checked, Failure):
        return _to_refusal(call, uri, checked)

    def convert(value: Any, uri: str) -> ReadResult:
        return to_contents(uri, entry.handler.convert(value))

    return _Reading(entry, checked, convert, "tool", entry.timeout_s)


async def authorize_read(call: ServedCall, uri: str) -> Refusal | None:
    """Return the refusal that `read` would give before it runs the handler, or None."""
    readable = await _find_readable(call, uri)
    if isinstance(readable, Refusal):
        return readable
    entry, variables = readable
    outcome = await HandlerRun(
        call, entry.handler, dict(variables), check_only, "resource", entry.name
    ).run()
    if isinstance(outcome, Failure):
        return _to_refusal(call, uri, outcome)
    return outcome if isinstance(outcome, Refusal) else None


_AS_IF_MISSING = (
    FailureKind.MISSING,
    # What a principal may not read looks like a missing resource.
    FailureKind.DENIED,
    # A variable that does not convert ("abc" for a number) matches no resource.
    FailureKind.ARGUMENTS,
)


def _to_refusal(call: ServedCall, uri: str, failure: Failure) -> Refusal:
    call.failure = failure
    if failure.kind in _AS_IF_MISSING:
        return missing(call, uri)
    code = INVALID_PARAMS if failure.kind is FailureKind.INVALID else INTERNAL_ERROR
    return Refusal(code=code, message=failure.message, data={"uri": uri})


async def _find_readable(
    call: ServedCall, uri: str
) -> tuple[Readable, Mapping[str, Any]] | Refusal:
    visible, exchange = call.exchange.caller.visible, call.exchange
    for entry, variables in find_matches(call.server.registry, uri):
        # Restricted credentials may also read what a tool linked to.
        if visible.includes(entry, uri) or (
            visible.permits(entry, uri) and await call.server.ports.access.was_given(exchange, uri)
        ):
            call.entry = entry
            return check_scopes(call, entry) or (entry, variables)
        note_hidden(call, entry, uri)
    if call.server.ports.shows_faults:
        report_unmatched(call, uri)
    return missing(call, uri)


def _cut(result: ReadResult, part: ByteRange) -> ReadResult | Refusal:
    contents = []
    for content in result.contents:
        if not isinstance(content, TextContents):
            return invalid_params("Only a text can be read in parts")
        contents.append(replace(content, text=part.cut(content.text)))
    return replace(result, contents=contents)


def missing(call: ServedCall, uri: str) -> Refusal:
    """Return the refusal of a URI that matches nothing that the principal may read."""
    return Refusal(
        code=call.rules.missing_resource_code,
        message=f"Resource not found: {short(uri)}",
        data={"uri": uri},
    )
