"""`prompts/get`: fill a prompt in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django_mcp.protocol.errors import INTERNAL_ERROR, INVALID_PARAMS, Refusal
from django_mcp.protocol.results import PromptResult
from django_mcp.protocol.revisions import lower
from django_mcp.server.exchange.call import Failure, FailureKind
from django_mcp.server.handlers.run import run_handler, short
from django_mcp.server.services.scopes_and_rates import refuse_scopes

if TYPE_CHECKING:
    from django_mcp.server.handlers.context import Context


async def get(ctx: Context[Any]) -> bytes | Refusal:
    """Answer `prompts/get`. Source: all revisions, server/prompts "Getting a Prompt"."""
    name = ctx.params.get("name")
    arguments = ctx.params.get("arguments", {})
    if type(name) is not str:
        return Refusal(code=INVALID_PARAMS, message="name must be a string")
    if type(arguments) is not dict:
        return Refusal(code=INVALID_PARAMS, message="arguments must be an object")
    entry = ctx.server.registry.prompts.get(name)
    if entry is None or not ctx.exchange.offer.includes(entry):
        return Refusal(code=INVALID_PARAMS, message=f"Unknown prompt: {short(name)}")
    ctx.entry = entry
    refusal = refuse_scopes(ctx.server, ctx, entry)
    if refusal is not None:
        return refusal

    def finish(value: Any) -> bytes | Refusal:
        return _encode(ctx, entry.convert(value))

    outcome = await run_handler(
        ctx, entry.handler, arguments, finish, what=f"prompt {entry.name}", may_ask=True
    )
    if isinstance(outcome, Failure):
        is_ours = outcome.kind in (FailureKind.TIMEOUT, FailureKind.FAULT)
        return Refusal(code=INTERNAL_ERROR if is_ours else INVALID_PARAMS, message=outcome.message)
    return outcome


def _encode(ctx: Context[Any], result: PromptResult) -> bytes | Refusal:
    encoded = ctx.server.encode_result(lower(ctx.method, result.to_wire(), ctx.rules), ctx.rules)
    limit = ctx.options.max_result_bytes
    if len(encoded) > limit:
        return Refusal(
            code=INTERNAL_ERROR,
            message=f"The prompt is too large: {len(encoded)} bytes, at most {limit} are sent",
        )
    return encoded
