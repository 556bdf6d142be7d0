"""`completion/complete`: propose values for an argument of a prompt or a resource template."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django_mcp.protocol.errors import INTERNAL_ERROR, INVALID_PARAMS, Refusal
from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.results import Completion
from django_mcp.registry.entries import PromptEntry, TemplateEntry
from django_mcp.server.exchange.call import Failure, FailureKind
from django_mcp.server.handlers.run import run_handler, short
from django_mcp.server.services.scopes_and_rates import refuse_scopes

if TYPE_CHECKING:
    from django_mcp.server.handlers.context import Context


async def complete(ctx: Context[Any]) -> bytes | Refusal:
    """Answer `completion/complete`. Source: all revisions, server/utilities/completion."""
    ref, argument = ctx.params.get("ref"), ctx.params.get("argument")
    if type(ref) is not dict or type(argument) is not dict:
        return _invalid("ref and argument must be objects")
    name, value = argument.get("name"), argument.get("value")
    if type(name) is not str or type(value) is not str:
        return _invalid("argument must hold a name and a value, both strings")
    known = _known_arguments(ctx.params.get("context"))
    if isinstance(known, Refusal):
        return known
    entry = _find(ctx, ref)
    if isinstance(entry, Refusal):
        return entry
    if name not in entry.argument_names:
        return _invalid(f"Unknown argument: {short(name)}")
    handler = ctx.server.registry.completer(entry, name)
    if handler is None or not ctx.exchange.offer.includes(handler):
        return _encode(ctx, Completion(values=[]))
    refusal = refuse_scopes(ctx.server, ctx, entry, handler)
    if refusal is not None:
        return refusal
    given: JSONObject = {"ref": ref, "argument": name, "value": value, "arguments": known}
    outcome = await run_handler(
        ctx,
        handler,
        given,
        lambda values: _encode(ctx, handler.convert(values)),
        what=f"completion of {entry.name}.{name}",
    )
    if isinstance(outcome, Failure):
        code = INVALID_PARAMS if outcome.kind is FailureKind.ARGUMENTS else INTERNAL_ERROR
        return Refusal(code=code, message=outcome.message)
    return outcome


def _find(ctx: Context[Any], ref: JSONObject) -> PromptEntry | TemplateEntry | Refusal:
    registry = ctx.server.registry
    entry: PromptEntry | TemplateEntry | None
    match ref.get("type"):
        case "ref/prompt":
            key = ref.get("name")
            entry = registry.prompts.get(key) if isinstance(key, str) else None
        case "ref/resource":
            key = ref.get("uri")
            entry = registry.templates.get(key) if isinstance(key, str) else None
        case _:
            return _invalid("ref.type must be ref/prompt or ref/resource")
    if entry is None or not ctx.exchange.offer.includes(entry):
        return _invalid(f"Unknown reference: {short(str(key))}")
    return entry


def _known_arguments(context: Any) -> dict[str, str] | Refusal:
    if context is None:
        return {}
    known = context.get("arguments", {}) if type(context) is dict else None
    if type(known) is not dict or not all(type(value) is str for value in known.values()):
        return _invalid("context.arguments must be an object of strings")
    return known


def _encode(ctx: Context[Any], completion: Completion) -> bytes:
    return ctx.server.encode_result({"completion": completion.to_wire()}, ctx.rules)


def _invalid(message: str) -> Refusal:
    return Refusal(code=INVALID_PARAMS, message=message)
