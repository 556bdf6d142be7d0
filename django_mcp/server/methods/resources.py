"""`resources/read`: find the resource or the template that matches, and read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from django_mcp.protocol.content import TextContents
from django_mcp.protocol.errors import INTERNAL_ERROR, INVALID_PARAMS, Refusal
from django_mcp.protocol.ranges import ByteRange, find_range
from django_mcp.protocol.results import ReadResult
from django_mcp.protocol.revisions import lower
from django_mcp.registry.entries import ResourceEntry, TemplateEntry
from django_mcp.server.admitting import refuse_scopes
from django_mcp.server.caching import read_cache_fields
from django_mcp.server.interfaces import Failure, FailureKind
from django_mcp.server.running import run_handler, short

if TYPE_CHECKING:
    from django_mcp.server.context import Context


async def read(ctx: Context[Any]) -> bytes | Refusal:
    """Answer `resources/read`. Source: all revisions, server/resources "Reading Resources"."""
    uri = ctx.params.get("uri")
    if type(uri) is not str:
        return Refusal(code=INVALID_PARAMS, message="uri must be a string")
    part = find_range(ctx.params, ctx.options.read_chunk_bytes)
    if isinstance(part, Refusal):
        return part
    found = find_resource(ctx, uri)
    if found is None:
        return missing(ctx, uri)
    entry, variables = found
    ctx.entry = entry
    refusal = refuse_scopes(ctx, entry)
    if refusal is not None:
        return refusal

    def finish(value: Any) -> bytes | Refusal:
        whole = entry.convert(value, uri)
        result = whole if part is None else _cut(whole, part)
        return result if isinstance(result, Refusal) else _encode(ctx, entry, uri, result)

    outcome = await run_handler(
        ctx, entry.handler, dict(variables), finish, what=f"resource {entry.name}", may_ask=True
    )
    return _to_refusal(ctx, uri, outcome) if isinstance(outcome, Failure) else outcome


_AS_IF_MISSING = (
    FailureKind.MISSING,
    # What a principal may not read does not exist for them.
    FailureKind.DENIED,
    # A variable that does not convert ("abc" for a number) names nothing that exists.
    FailureKind.ARGUMENTS,
)


def _to_refusal(ctx: Context[Any], uri: str, failure: Failure) -> Refusal:
    if failure.kind in _AS_IF_MISSING:
        return missing(ctx, uri)
    code = INVALID_PARAMS if failure.kind is FailureKind.INVALID else INTERNAL_ERROR
    return Refusal(code=code, message=failure.message, data={"uri": uri})


def find_resource(
    ctx: Context[Any], uri: str
) -> tuple[ResourceEntry | TemplateEntry, Mapping[str, Any]] | None:
    """Return what a URI leads to for whoever asks, and the variables in it."""
    registry, offer = ctx.server.registry, ctx.exchange.offer
    resource = registry.resources.get(uri)
    if resource is not None and offer.includes(resource):
        return resource, {}
    for template in registry.templates.values():
        if not offer.includes(template):
            continue
        variables = template.match(uri)
        if variables is not None:
            return template, variables
    return None


def _encode(
    ctx: Context[Any], entry: ResourceEntry | TemplateEntry, uri: str, result: ReadResult
) -> bytes | Refusal:
    if not result.contents:
        # An empty list would read as a resource that exists and says nothing.
        return missing(ctx, uri)
    wire = lower(ctx.method, result.to_wire(), ctx.rules)
    wire.update(read_cache_fields(ctx, entry, result.cache, entry.cache))
    encoded = ctx.server.encode_result(wire, ctx.rules)
    limit = ctx.options.max_result_bytes
    if len(encoded) > limit:
        return Refusal(
            code=INTERNAL_ERROR,
            message=f"The resource is too large: {len(encoded)} bytes, at most {limit} are sent",
            data={"uri": uri},
        )
    return encoded


def _cut(result: ReadResult, part: ByteRange) -> ReadResult | Refusal:
    """Return a part of what was read, each text by itself."""
    contents = []
    for each in result.contents:
        if not isinstance(each, TextContents):
            return Refusal(code=INVALID_PARAMS, message="Only a text can be read in parts")
        contents.append(replace(each, text=part.cut(each.text)))
    return replace(result, contents=contents)


def missing(ctx: Context[Any], uri: str) -> Refusal:
    """Return the refusal of a URI that leads nowhere, or nowhere for whoever asks."""
    return Refusal(
        code=ctx.rules.missing_resource_code,
        message=f"Resource not found: {short(uri)}",
        data={"uri": uri},
    )
