"""`requestState`: what a call knows, sealed, on its way through the client and back.

It is the client's input when it comes back, so it is good only as we made it: for the same
principal, the same method and target, the same arguments, and for a while.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
from typing import TYPE_CHECKING, Any

from django_mcp.protocol.errors import INVALID_PARAMS, Refusal
from django_mcp.protocol.json import JSONDecodeError, JSONObject, decode, encode, encode_sorted
from django_mcp.server.asking import Answers

if TYPE_CHECKING:
    from django_mcp.server.context import Context

logger = logging.getLogger("django_mcp")

MAX_STATE_CHARS = 256 * 1024
"""A longer one is not looked at. Ours."""


def seal_state(ctx: Context[Any], answers: Answers, asked: list[str], state: Any) -> str:
    """Return what the next round of this call needs, sealed."""
    value: JSONObject = {
        "for": _binding(ctx),
        "until": ctx.server.clock() + ctx.server.options.state_ttl_s,
        "known": answers.known,
        "kept": answers.kept,
        "asked": asked,
        "state": state,
        "salt": secrets.token_hex(8),
    }
    return ctx.server.sealer.seal(encode(value))


def open_answers(ctx: Context[Any]) -> Answers | Refusal:
    """Return what a call brings from its earlier rounds, or the refusal of it.

    Every state that is not as we made it, for this call, gets the same refusal; the reason goes
    to the log. Source: 2026-07-28 basic/patterns/mrtr "Server Requirements".
    """
    answers = Answers()
    responses = ctx.params.get("inputResponses", {})
    if type(responses) is not dict:
        return Refusal(code=INVALID_PARAMS, message="inputResponses must be an object")
    if "requestState" in ctx.params:
        opened = _open(ctx, ctx.params["requestState"])
        if isinstance(opened, str):
            logger.info("requestState refused: %s", opened)
            return Refusal(code=INVALID_PARAMS, message="Invalid requestState")
        answers.known, answers.kept = opened["known"], opened["kept"]
        answers.state = opened["state"]
        responses = {key: value for key, value in responses.items() if key in opened["asked"]}
    answers.known.update(responses)
    answers.is_resubmit = bool(responses) or "requestState" in ctx.params
    return answers


def _open(ctx: Context[Any], sealed: Any) -> JSONObject | str:
    if type(sealed) is not str or len(sealed) > MAX_STATE_CHARS:
        return "not a text of acceptable length"
    raw = ctx.server.sealer.unseal(sealed)
    if raw is None:
        return "not sealed by us"
    try:
        opened: JSONObject = decode(raw)
    except JSONDecodeError:
        return "sealed by us, for something else"
    if type(opened) is not dict or "for" not in opened:
        return "sealed by us, for something else"
    if opened["for"] != _binding(ctx):
        return "made for another call or principal"
    if opened["until"] < ctx.server.clock():
        return "expired"
    return opened


def _binding(ctx: Context[Any]) -> list[Any]:
    params = ctx.params
    salient = [params.get("name"), params.get("uri"), params.get("arguments", {})]
    digest = hashlib.sha256(encode_sorted(salient)).hexdigest()
    return [ctx.server.options.name, getattr(ctx.principal, "key", None), ctx.method, digest]
