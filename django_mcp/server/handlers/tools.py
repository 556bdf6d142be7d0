"""Run a tool and encode its result, for a call that is answered and for a task."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

from django_mcp.protocol.content import Text
from django_mcp.protocol.errors import INTERNAL_ERROR, Refusal
from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.results import ABSENT, ToolResult
from django_mcp.protocol.revisions import lower
from django_mcp.protocol.subschemas import to_object
from django_mcp.registry.entries import ToolEntry
from django_mcp.registry.problems import Problem
from django_mcp.server.exchange.call import Failure, FailureKind
from django_mcp.server.handlers.context import Context
from django_mcp.server.handlers.run import describe_problems, note, run_handler

logger = logging.getLogger("django_mcp")


async def run_tool(ctx: Context, entry: ToolEntry, arguments: JSONObject) -> bytes | Refusal:
    """Run a tool, and return its encoded result or the refusal."""
    outcome = await run_handler(
        ctx,
        entry.handler,
        arguments,
        partial(_finish, ctx, entry),
        what=f"tool {entry.name}",
        timeout_s=entry.timeout_s,
        may_ask=True,
    )
    return encode_failure(ctx, outcome) if isinstance(outcome, Failure) else outcome


def _finish(ctx: Context, entry: ToolEntry, value: Any) -> bytes | Refusal:
    if type(value) is str and entry.output_schema is None:
        # The most frequent result, without the values in between.
        return _within_limit(ctx, ctx.server.encode_text(value, ctx.rules))
    return _encode(ctx, entry, entry.handler.convert(value))


def _encode(ctx: Context, entry: ToolEntry, result: ToolResult) -> bytes | Refusal:
    validator, is_validated = entry.output_validator, entry.validate_output
    if is_validated is None:
        is_validated = ctx.options.validate_output
    if validator is not None and is_validated and not result.is_error:
        problems = (
            [Problem(pointer="", message="structured content is missing")]
            if result.structured is ABSENT
            else validator.problems(result.structured)
        )
        if problems:
            logger.error(
                "Tool %s broke its output schema: %s", entry.name, describe_problems(problems)
            )
            return Refusal(
                code=INTERNAL_ERROR, message=f"Tool {entry.name} did not keep its output schema"
            )
    if result.is_error:
        note(ctx, Failure(kind=FailureKind.TOOL_ERROR, message="The result says so itself"))
    wire = result.to_wire()
    if ctx.rules.structures_objects_only and "structuredContent" in wire:
        structured = to_object(wire["structuredContent"], entry.output_schema)
        wire = {**wire, "structuredContent": structured}
    wire = lower("tools/call", wire, ctx.rules)
    return _within_limit(ctx, ctx.server.encode_result(wire, ctx.rules))


def _within_limit(ctx: Context, encoded: bytes) -> bytes:
    limit = ctx.options.max_result_bytes
    if len(encoded) > limit:
        text = (
            f"The result is too large: {len(encoded)} bytes, at most {limit} are sent. "
            "Ask for less."
        )
        return encode_failure(ctx, note(ctx, Failure(kind=FailureKind.TOOL_ERROR, message=text)))
    return encoded


def encode_failure(ctx: Context, failure: Failure) -> bytes:
    """Return a failure as the result of a tool, for the model to read."""
    result = ToolResult(content=[Text(failure.message)], is_error=True).to_wire()
    return ctx.server.encode_result(result, ctx.rules)
