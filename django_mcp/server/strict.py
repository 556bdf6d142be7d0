"""Strict mode: hold every message against the rules of its revision, coming in and going out.

For development and tests: it finds what a client, or an entry of the site, does not keep to. Without
it only what would do harm is refused.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from django_mcp.protocol.errors import INTERNAL_ERROR, INVALID_PARAMS, Refusal
from django_mcp.protocol.json import JSONObject, decode
from django_mcp.protocol.revisions import Revision
from django_mcp.protocol.rules import find_params_schema, find_result_schema
from django_mcp.registry.problems import Problem
from django_mcp.registry.validators import Validator, compile_schema

if TYPE_CHECKING:
    from django_mcp.server.context import Context

__all__ = ["check_params", "check_result", "is_sound"]

logger = logging.getLogger("django_mcp")


def check_params(method: str, params: JSONObject, revision: Revision) -> Refusal | None:
    """Return why the params of a client's message are refused; None when they keep to the rules."""
    problems = _params_validator(method, revision).problems(params)
    if not problems:
        return None
    return Refusal(
        code=INVALID_PARAMS, message=f"The params of {method} break the rules: {_told(problems)}"
    )


def check_result(ctx: Context[Any], encoded: bytes) -> bytes | Refusal:
    """Return a result, or a refusal in its place when it does not keep to the rules."""
    if ctx.is_task:
        # In place of the result, which comes later.
        return encoded
    result = decode(encoded)
    is_interim = any(result.get(key) == value for key, value in ctx.rules.interim_fields.items())
    problems = _result_validator(ctx.method, ctx.rules, is_interim).problems(result)
    if not problems:
        return encoded
    logger.error(
        "The result of %s breaks the rules of %s: %s",
        ctx.method,
        ctx.revision,
        _told(problems),
    )
    return Refusal(code=INTERNAL_ERROR, message="The result breaks the rules of the protocol")


def is_sound(method: str, params: JSONObject, revision: Revision) -> bool:
    """Tell whether a notification to the client keeps to the rules; log it when it does not."""
    problems = _params_validator(method, revision).problems(params)
    if problems:
        logger.error("%s breaks the rules of %s: %s", method, revision.name, _told(problems))
    return not problems


def _told(problems: Sequence[Problem]) -> str:
    return "; ".join(f"{each.pointer or '(all of it)'} {each.message}" for each in problems)


@functools.lru_cache(512)
def _params_validator(method: str, revision: Revision) -> Validator:
    return compile_schema(find_params_schema(method, revision), method, is_input=False)


@functools.lru_cache(512)
def _result_validator(method: str, revision: Revision, is_interim: bool) -> Validator:  # noqa: FBT001
    schema = find_result_schema(method, revision, is_interim=is_interim)
    return compile_schema(schema, method, is_input=False)
