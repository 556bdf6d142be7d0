"""`initialize`, `ping` and `server/discover`: who is there, and what can be done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django_mcp.protocol.errors import Refusal
from django_mcp.protocol.json import JSONObject
from django_mcp.server.services.caching import list_cache_fields

if TYPE_CHECKING:
    from django_mcp.server.handlers.context import Context


async def initialize(ctx: Context[Any]) -> bytes | Refusal:
    """Shake hands: answer with the revision that admission negotiated.

    Source: 2025-11-25 basic/lifecycle "Initialization".
    """
    server, revision = ctx.server, ctx.rules
    result: JSONObject = {
        "protocolVersion": revision.name,
        "capabilities": server.capabilities_for(revision, ctx.exchange),
        "serverInfo": server.implementation(revision),
    }
    if server.options.instructions is not None:
        result["instructions"] = str(server.options.instructions)
    return server.encode_result(result, revision)


async def ping(ctx: Context[Any]) -> bytes | Refusal:
    """Answer that we are there."""
    return ctx.server.encode_result({}, ctx.rules)


async def discover(ctx: Context[Any]) -> bytes | Refusal:
    """Tell what a handshake would have told. Source: 2026-07-28 server/discover."""
    server, revision = ctx.server, ctx.rules
    result: JSONObject = {
        "supportedVersions": server.revisions.stateless_names,
        "capabilities": server.capabilities_for(revision, ctx.exchange),
    }
    if server.options.instructions is not None:
        result["instructions"] = str(server.options.instructions)
    result.update(list_cache_fields(ctx.server, ctx, ctx.method))
    return server.encode_result(result, revision)
