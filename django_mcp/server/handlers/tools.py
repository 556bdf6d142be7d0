"""Run a tool and encode its result, for a call that is answered and for a task."""

from __future__ import annotations

from functools import partial
from typing import Any

from django_mcp.log import logger
from django_mcp.protocol.content import EmbeddedResource, Text, TextContents
from django_mcp.protocol.errors import INTERNAL_ERROR, Refusal
from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.results import ABSENT, ToolResult
from django_mcp.protocol.revisions import lower
from django_mcp.protocol.subschemas import to_object
from django_mcp.registry.entries import ToolEntry
from django_mcp.registry.listed import Listed, fit
from django_mcp.registry.problems import Problem
from django_mcp.server.exchange.call import Failure, FailureKind
from django_mcp.server.extension import ask
from django_mcp.server.handlers.dead_links import report_dead_links
from django_mcp.server.handlers.failures import describe_problems, within_limit
from django_mcp.server.handlers.run import HandlerRun
from django_mcp.server.handlers.whole_results import is_whole, link_whole
from django_mcp.server.services import ServedCall


async def run_tool(call: ServedCall, entry: ToolEntry, arguments: JSONObject) -> bytes | Refusal:
    """Run a tool, and return its encoded result or the refusal."""
    outcome = await HandlerRun(
        call,
        entry.handler,
        arguments,
        _finish,
        "tool",
        entry.name,
        timeout_s=entry.timeout_s,
        may_ask=True,
        takes_answers=entry.asks_by_argument,
    ).run()
    if isinstance(outcome, Failure):
        return encode_failure(call, outcome)
    if call.links:
        # Restricted credentials may read what their tools link to, in any process.
        await call.server.ports.access.give_links(call.exchange, entry.name, call.links)
    return outcome


def _finish(call: ServedCall, value: Any) -> bytes | Refusal:
    entry: Any = call.entry
    if type(value) is str and entry.output_schema is None:
        # The most frequent result, without the values in between.
        call.result_chars = len(value)
        encoded = call.server.encode_text(value, call.rules)
        return within_limit(call, "result", encoded, _refuse_large)
    result = entry.handler.convert(value)
    if isinstance(value, Listed) and call.options.max_result_tokens is not None:
        whole = result
        result = fit(
            value,
            whole,
            entry.handler.convert,
            call.options.max_result_tokens,
            partial(link_whole, call),
        )
        call.is_cut = result is not whole
    validator, is_validated = entry.output_validator, entry.validate_output
    if is_validated is None:
        is_validated = call.options.validate_output
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
        note_tool_error(call, is_error=True)
    wire = result.to_wire()
    report_dead_links(call, wire)
    allowed = call.exchange.caller.visible.allowed
    if allowed is not None and not allowed.names_all:
        call.links = _find_links(wire)
    if call.rules.structures_objects_only and "structuredContent" in wire:
        structured = to_object(wire["structuredContent"], entry.output_schema)
        wire = {**wire, "structuredContent": structured}
    wire = lower("tools/call", wire, call.rules)
    encoded = call.server.encode_result(wire, call.rules)
    call.result_chars = _count_text(result)
    if not call.result_chars and result.structured is not ABSENT:
        # Nothing is encoded again for its length, which is a little less than this.
        call.result_chars = len(encoded)
    return within_limit(call, "result", encoded, _refuse_large)


def _count_text(result: ToolResult) -> int:
    """Return how many characters of text a model reads of a result that has a text for it."""
    chars = 0
    for block in result.content:
        if isinstance(block, Text):
            chars += len(block.text)
        elif isinstance(block, EmbeddedResource) and isinstance(block.resource, TextContents):
            chars += len(block.resource.text)
    return chars


def _find_links(wire: JSONObject) -> list[str]:
    """Return the URIs of the resources that the content of a result links to or contains.

    A link to a whole result says itself who may read it.
    """
    blocks = wire.get("content", ())
    uris = [block["uri"] for block in blocks if block.get("type") == "resource_link"]
    uris += [block["resource"]["uri"] for block in blocks if block.get("type") == "resource"]
    return [uri for uri in dict.fromkeys(uris) if not is_whole(uri)]


def _refuse_large(call: ServedCall, message: str) -> bytes:
    text = f"{message}. Ask for less."
    return encode_failure(call, Failure(kind=FailureKind.TOOL_ERROR, message=text))


def note_tool_error(call: ServedCall, *, is_error: bool) -> None:
    """Note for observers what a result says of itself, unless what failed is known already."""
    if not is_error:
        call.failure = None
    elif call.failure is None:
        call.failure = Failure(kind=FailureKind.TOOL_ERROR, message="The result says so itself")


def encode_failure(call: ServedCall, failure: Failure) -> bytes:
    """Return a failure as the result of a tool, for the model to read; note it for observers."""
    call.failure = failure
    call.result_chars = len(failure.message)
    result = ToolResult(content=[Text(failure.message)], is_error=True).to_wire()
    meta = _describe_to_extensions(call, failure) if failure.problems else None
    if meta:
        result["_meta"] = meta
    return call.server.encode_result(result, call.rules)


def _describe_to_extensions(call: ServedCall, failure: Failure) -> JSONObject:
    """Return what extensions that wrap the tool say of wrong arguments."""
    meta: JSONObject = {}
    entry, wrapping = call.entry, call.derived.wrapping
    if isinstance(entry, ToolEntry) and wrapping is not None:
        for extension in wrapping.find(entry.name, call):
            meta.update(ask(extension, "describe_problems", {}, call, entry, failure.problems))
    return meta
