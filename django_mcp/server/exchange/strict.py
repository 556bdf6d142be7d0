"""Strict mode: hold every message against the rules of its revision, coming in and going out.

For development and tests: it finds what a client, or an entry of the site, does not keep to. Without
it only what would do harm is refused. A message comes in as a request, a notification or a response,
and goes out as an outcome, a request, or a notification on a call's stream or a standing one; there
is one function here for each.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from django_mcp.protocol.errors import INTERNAL_ERROR, INVALID_PARAMS, Refusal
from django_mcp.protocol.json import JSONObject, decode
from django_mcp.protocol.messages import Response
from django_mcp.protocol.revisions import Revision
from django_mcp.protocol.rules import find_error_schema, find_params_schema, find_result_schema
from django_mcp.registry.validators import Validator, compile_schema

if TYPE_CHECKING:
    from django_mcp.server.exchange.call import Call
    from django_mcp.server.exchange.exchange import Sink

__all__ = [
    "BrokenRules",
    "StrictSink",
    "check_outcome",
    "check_params",
    "check_question",
    "check_response",
    "is_sound",
    "method_of",
    "to_ask_id",
]

logger = logging.getLogger("django_mcp")

_ASK = "ask-"
_BROKEN = Refusal(code=INTERNAL_ERROR, message="The answer breaks the rules of the protocol")


class BrokenRules(Exception):
    """A handler asks the client something in a form that its revision does not have."""


# -- coming in


def check_params(method: str, params: JSONObject, revision: Revision) -> Refusal | None:
    """Return why the params of a client's message are refused; None when they keep to the rules."""
    told = _told(_params_validator(method, revision), params)
    if told is None:
        return None
    return Refusal(code=INVALID_PARAMS, message=f"The params of {method} break the rules: {told}")


def check_response(response: Response, revision: Revision) -> Refusal | None:
    """Return why a client's answer to a request of ours is refused; None when it is sound."""
    method = method_of(response.id)
    if response.error is not None:
        told = _told(_error_validator(revision), response.error)
    else:
        told = _told(_result_validator(method, revision), response.result)
    if told is None:
        return None
    return Refusal(
        code=INVALID_PARAMS,
        message=f"What answers {method or 'a request'} breaks the rules: {told}",
    )


def to_ask_id(method: str, number: str) -> str:
    """Return the id of a request of ours, from which any process can tell what was asked."""
    return f"{_ASK}{method}-{number}"


def method_of(ask_id: object) -> str:
    """Return the method of the request that an id is of; `""` when it does not say."""
    text = ask_id if isinstance(ask_id, str) else ""
    return text.removeprefix(_ASK).rpartition("-")[0] if text.startswith(_ASK) else ""


# -- going out


def check_outcome(call: Call, outcome: bytes | Refusal) -> bytes | Refusal:
    """Return what answers a request, or a refusal in its place when it breaks the rules."""
    if isinstance(outcome, Refusal):
        error: JSONObject = {"code": outcome.code, "message": str(outcome.message)}
        if outcome.data is not None:
            error["data"] = outcome.data
        told = _told(_error_validator(call.rules), error)
    else:
        result = decode(outcome)
        told = _told(
            _result_validator(
                call.method,
                call.rules,
                is_interim=_has(result, call.rules.interim_fields),
                is_task=call.is_task,
            ),
            result,
        )
    if told is None:
        return outcome
    logger.error("Invalid result for %s at %s: %s", call.method, call.revision, told)
    return _BROKEN


def check_question(method: str, params: JSONObject | None, revision: Revision) -> None:
    """Raise `BrokenRules` unless a request to the client keeps to the rules."""
    told = _told(_params_validator(method, revision), params or {})
    if told is not None:
        raise BrokenRules(f"{method} breaks the rules of {revision.name}: {told}")


def is_sound(method: str, params: JSONObject, revision: Revision) -> bool:
    """Return whether a notification to the client keeps to the rules; log it when it does not."""
    told = _told(_params_validator(method, revision), params)
    if told is not None:
        logger.error("%s breaks the rules of %s: %s", method, revision.name, told)
    return told is None


class StrictSink:
    """Sends only messages that are valid in the revision of their stream.

    Args:
        find_revision: returns the revision of the stream now; None while it is unknown.
        sink: takes the valid messages.
    """

    def __init__(self, find_revision: Callable[[], Revision | None], sink: Sink) -> None:
        self._find_revision = find_revision
        self._sink = sink

    async def send(self, message: bytes, event_id: str | None = None) -> None:
        """See `Sink.send`."""
        revision = self._find_revision()
        wire = decode(message)
        # An answer on the stream of HTTP+SSE has no method; `check_outcome` has checked it.
        if (
            revision is None
            or "method" not in wire
            or is_sound(wire["method"], wire.get("params", {}), revision)
        ):
            await self._sink.send(message, event_id)

    async def prime(self, event_id: str | None) -> None:
        """See `Sink.prime`."""
        await self._sink.prime(event_id)

    async def hang_up(self, retry_ms: int) -> None:
        """See `Sink.hang_up`."""
        await self._sink.hang_up(retry_ms)


# -- the rules, compiled


def _has(result: JSONObject, fields: Mapping[str, str]) -> bool:
    return any(result.get(key) == value for key, value in fields.items())


def _told(validator: Validator, value: Any) -> str | None:
    """Return what is wrong with a value; None when nothing is."""
    problems = validator.problems(value)
    told = (f"{each.pointer or '(all of it)'} {each.message}" for each in problems)
    return "; ".join(told) or None


@functools.lru_cache(512)
def _params_validator(method: str, revision: Revision) -> Validator:
    return compile_schema(find_params_schema(method, revision), method, is_input=False)


@functools.lru_cache(512)
def _result_validator(
    method: str, revision: Revision, *, is_interim: bool = False, is_task: bool = False
) -> Validator:
    schema = find_result_schema(method, revision, is_interim=is_interim, is_task=is_task)
    return compile_schema(schema, method, is_input=False)


@functools.lru_cache(16)
def _error_validator(revision: Revision) -> Validator:
    return compile_schema(find_error_schema(revision), "error", is_input=False)
