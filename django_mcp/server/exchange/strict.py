"""Strict mode: check every message against the schemas of its revision, in and out.

It is for development and tests. Without it only what would do harm is refused.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from django_mcp.log import logger
from django_mcp.protocol.errors import INTERNAL_ERROR, Refusal, invalid_params
from django_mcp.protocol.json import JSONObject, decode
from django_mcp.protocol.message_schemas import (
    find_error_schema,
    find_params_schema,
    find_result_schema,
)
from django_mcp.protocol.messages import Response, method_of
from django_mcp.protocol.records import Record
from django_mcp.protocol.revisions import Revision
from django_mcp.registry.validators import MAX_STEPS, TOO_COMPLEX, Validator
from django_mcp.server.exchange.call import Call
from django_mcp.server.exchange.channel import Sink


class InvalidQuestion(Exception):
    """A handler asks the client something that is not valid in its revision."""


def check_params(method: str, params: JSONObject, revision: Revision) -> Refusal | None:
    """Return the refusal of a client's request or notification with invalid params, or None."""
    problems = _find_problems(params, find_params_schema, method, revision)
    return None if problems is None else invalid_params(f"Invalid params for {method}: {problems}")


def check_response(response: Response, revision: Revision) -> Refusal | None:
    """Return the refusal of an invalid response to a request of the server's, or None."""
    method = method_of(response.id)
    if response.error is not None:
        problems = _find_problems(response.error, find_error_schema, revision)
    else:
        problems = _find_problems(response.result, find_result_schema, method, revision)
    if problems is None:
        return None
    return invalid_params(f"Invalid response to {method or 'a request'}: {problems}")


def check_outcome(call: Call, outcome: bytes | Refusal) -> bytes | Refusal:
    """Return the outcome of a request, or a refusal in its place if it is not valid."""
    if isinstance(outcome, Refusal):
        problems = _find_problems(outcome.to_error(), find_error_schema, call.rules)
    else:
        result, interim = decode(outcome), call.rules.interim_fields
        problems = _find_problems(
            result,
            find_result_schema,
            call.method,
            call.rules,
            is_interim=any(result.get(key) == value for key, value in interim.items()),
            is_early=call.is_answered_early,
        )
    if problems is None:
        return outcome
    logger.error("Invalid result for %s at %s: %s", call.method, call.rules.name, problems)
    return Refusal(code=INTERNAL_ERROR, message="The result is not valid in the protocol")


def check_question(method: str, params: JSONObject | None, revision: Revision) -> None:
    """Raise `InvalidQuestion` unless a request to the client is valid."""
    problems = _find_problems(params or {}, find_params_schema, method, revision)
    if problems is not None:
        raise InvalidQuestion(f"{method} is not valid at {revision.name}: {problems}")


def is_valid(method: str, params: JSONObject, revision: Revision) -> bool:
    """Return whether a notification to the client is valid; log it if it is not."""
    problems = _find_problems(params, find_params_schema, method, revision)
    if problems is not None:
        logger.error("%s is not valid at %s: %s", method, revision.name, problems)
    return problems is None


class StrictSink(Record):
    """Sends only messages that are valid in the revision of their stream, once that is known."""

    _find_revision: Callable[[], Revision | None]
    _sink: Sink

    async def send(self, message: bytes) -> None:
        revision = self._find_revision()
        wire = decode(message)
        # A response on the stream of HTTP+SSE has no method; `check_outcome` has checked it.
        if (
            revision is None
            or "method" not in wire
            or is_valid(wire["method"], wire.get("params", {}), revision)
        ):
            await self._sink.send(message)


def _find_problems(value: Any, *schema: Any, **kind: bool) -> str | None:
    problems_found = _validator(*schema, **kind).check(value, MAX_STEPS)
    problems = [TOO_COMPLEX] if problems_found is None else problems_found
    return (
        "; ".join(f"{problem.pointer or '(all of it)'} {problem.message}" for problem in problems)
        or None
    )


@functools.lru_cache(1024)
def _validator(find_schema: Callable[..., Any], *given: Any, **kind: bool) -> Validator:
    return Validator(find_schema(*given, **kind), "a message", is_input=False)
