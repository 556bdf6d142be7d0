"""`prompts/get` and `completion/complete`."""

from __future__ import annotations

from typing import Any

from django_mcp.protocol.errors import INTERNAL_ERROR, INVALID_PARAMS, Refusal, invalid_params
from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.results import Completion
from django_mcp.protocol.revisions import lower
from django_mcp.registry.entries import PromptEntry, TemplateEntry
from django_mcp.server.exchange.call import Failure, FailureKind
from django_mcp.server.handlers.failures import short, within_limit
from django_mcp.server.handlers.run import HandlerRun
from django_mcp.server.request_checks import check_scopes, note_hidden
from django_mcp.server.services import ServedCall


async def get(call: ServedCall) -> bytes | Refusal:
    """Answer `prompts/get`. Source: all revisions, server/prompts "Getting a Prompt"."""
    name = call.params.get("name")
    arguments = call.params.get("arguments")
    if arguments is None:
        arguments = {}
    if type(name) is not str:
        return invalid_params("name must be a string")
    if type(arguments) is not dict:
        return invalid_params("arguments must be an object")
    entry = call.server.registry.prompts.get(name)
    if entry is not None and not call.exchange.caller.visible.includes(entry):
        note_hidden(call, entry)
        entry = None
    if entry is None:
        return invalid_params(f"Unknown prompt: {short(name)}")
    call.entry = entry
    refusal = check_scopes(call, entry)
    if refusal is not None:
        return refusal

    def finish(_call: ServedCall, value: Any) -> bytes | Refusal:
        wire = lower(call.method, entry.convert(value).to_wire(), call.rules)
        return within_limit(call, "prompt", call.server.encode_result(wire, call.rules))

    outcome = await HandlerRun(
        call, entry.handler, arguments, finish, "prompt", entry.name, may_ask=True
    ).run()
    if isinstance(outcome, Failure):
        call.failure = outcome
        is_ours = outcome.kind in (FailureKind.TIMEOUT, FailureKind.FAULT)
        return Refusal(code=INTERNAL_ERROR if is_ours else INVALID_PARAMS, message=outcome.message)
    return outcome


async def complete(call: ServedCall) -> bytes | Refusal:
    """Answer `completion/complete`. Source: all revisions, server/utilities/completion."""
    ref, argument = call.params.get("ref"), call.params.get("argument")
    if type(ref) is not dict or type(argument) is not dict:
        return invalid_params("ref and argument must be objects")
    name, value = argument.get("name"), argument.get("value")
    if type(name) is not str or type(value) is not str:
        return invalid_params("argument must hold a name and a value, both strings")
    known = _known_arguments(call.params.get("context"))
    if isinstance(known, Refusal):
        return known
    entry = _find(call, ref)
    if isinstance(entry, Refusal):
        return entry
    if name not in entry.argument_names:
        return invalid_params(f"Unknown argument: {short(name)}")
    handler = call.server.registry.completer(entry, name)
    if handler is None or not call.exchange.caller.visible.includes(handler):
        return _encode_completion(call, Completion(values=[]))
    refusal = check_scopes(call, entry, handler)
    if refusal is not None:
        return refusal
    outcome = await HandlerRun(
        call,
        handler,
        {"ref": ref, "argument": name, "value": value, "arguments": known},
        lambda _call, values: _encode_completion(call, handler.convert(values)),
        "completion of",
        f"{entry.name}.{name}",
    ).run()
    if isinstance(outcome, Failure):
        call.failure = outcome
        code = INVALID_PARAMS if outcome.kind is FailureKind.ARGUMENTS else INTERNAL_ERROR
        return Refusal(code=code, message=outcome.message)
    return outcome


def _find(call: ServedCall, ref: JSONObject) -> PromptEntry | TemplateEntry | Refusal:
    registry = call.server.registry
    entry: PromptEntry | TemplateEntry | None
    match ref.get("type"):
        case "ref/prompt":
            key = ref.get("name")
            entry = registry.prompts.get(key) if isinstance(key, str) else None
        case "ref/resource":
            key = ref.get("uri")
            entry = registry.templates.get(key) if isinstance(key, str) else None
        case _:
            return invalid_params("ref.type must be ref/prompt or ref/resource")
    if entry is None or not call.exchange.caller.visible.includes(entry):
        return invalid_params(f"Unknown reference: {short(str(key))}")
    return entry


def _known_arguments(context: Any) -> dict[str, str] | Refusal:
    if context is None:
        return {}
    known = context.get("arguments") if type(context) is dict else context
    if known is None:
        return {}
    if type(known) is not dict or not all(type(value) is str for value in known.values()):
        return invalid_params("context.arguments must be an object of strings")
    return known


def _encode_completion(call: ServedCall, completion: Completion) -> bytes | Refusal:
    encoded = call.server.encode_result({"completion": completion.to_wire()}, call.rules)
    return within_limit(call, "completion", encoded)
