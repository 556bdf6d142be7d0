"""`requestState`: the state of a call, sealed, which the client sends back with its answers.

It is the client's input then, so it is valid only as it was made: for the same principal, method,
target and arguments, and for a limited time. A large state is stored, and a reference to it is sent.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import secrets
from typing import Any

from django_mcp.protocol.errors import INVALID_REQUEST, Refusal, invalid_params, try_later
from django_mcp.protocol.json import JSONDecodeError, JSONObject, decode, encode, encode_sorted
from django_mcp.server.asking.answers import find_malformed
from django_mcp.server.exchange.call import Call
from django_mcp.server.exchange.exchange import key_of
from django_mcp.server.exchange.rounds import Answers
from django_mcp.server.services.ports import StateStoreFull
from django_mcp.server.services.services import Services

logger = logging.getLogger("django_mcp")

MAX_STATE_CHARS = 256 * 1024
"""A longer one is refused. Our own limit."""

MAX_KEPT_BYTES = 1024 * 1024
"""Maximum size of a call's state, which contains the client's answers. Our own limit."""

REFUSAL_S = 0.01
"""Minimum time until a state is refused, so that the time does not reveal the failed check. Our own choice."""


class StateTooLarge(Exception):
    """The state of a call is larger than `MAX_KEPT_BYTES`."""


async def seal_state(
    server: Services, call: Call, answers: Answers, asked: list[str], state: Any
) -> str:
    """Return the sealed state for the next round of a call.

    Raises:
        StateTooLarge: it is larger than `MAX_KEPT_BYTES`.
        StateStoreFull: too much is stored already.
    """
    until_s = server.clock() + call.options.state_ttl_s
    sealed: JSONObject = {
        "for": _binding(call),
        "until": until_s,
        "asked": asked,
        "salt": secrets.token_hex(16),
    }
    known = {"known": answers.known, "kept": answers.kept, "state": state}
    encoded = encode(known)
    if len(encoded) <= call.options.state_inline_bytes:
        sealed.update(known)
    elif len(encoded) <= MAX_KEPT_BYTES:
        sealed["reference"] = await server.states.keep(
            key_of(call.exchange.principal), encoded, until_s, call.exchange.quota_key
        )
    else:
        raise StateTooLarge(
            f"This cannot ask again: it knows {len(encoded)} bytes by now, and at most "
            f"{MAX_KEPT_BYTES} are kept between two rounds"
        )
    return server.sealer.seal(encode(sealed))


async def open_answers(server: Services, call: Call) -> Answers | Refusal:
    """Return the answers of a call's earlier rounds, or the refusal of its state.

    Every invalid state gets the same refusal; the reason is logged.
    Source: 2026-07-28 basic/patterns/mrtr "Server Requirements".
    """
    answers = Answers()
    responses = call.params.get("inputResponses", {})
    if type(responses) is not dict:
        return invalid_params("inputResponses must be an object")
    if "requestState" not in call.params:
        # Every question has a state, so these responses answer no question.
        return answers
    clock = asyncio.get_running_loop().time
    begun_s = clock()
    try:
        opened = await _open(server, call, call.params["requestState"])
    except StateStoreFull as error:
        return try_later(str(error), code=INVALID_REQUEST)
    if isinstance(opened, str):
        logger.info("requestState refused: %s", opened)
        await asyncio.sleep(REFUSAL_S - (clock() - begun_s))
        return invalid_params("Invalid requestState")
    answers.known, answers.kept = opened["known"], opened["kept"]
    answers.state = opened["state"]
    responses = {key: value for key, value in responses.items() if key in opened["asked"]}
    malformed = find_malformed(responses)
    if malformed is not None:
        return invalid_params(malformed)
    answers.known.update(responses)
    answers.is_resubmit = True
    return answers


async def _open(server: Services, call: Call, text: Any) -> JSONObject | str:
    """Return the contents of a state, or the reason why it is refused."""
    opened = _unseal(server, call, text)
    if isinstance(opened, str):
        return opened
    if "reference" in opened:
        encoded = await server.states.find(key_of(call.exchange.principal), opened["reference"])
        if encoded is None:
            return "kept no longer"
        opened.update(decode(encoded))
    if call.options.state_single_use and not await server.states.use(
        opened["salt"], opened["until"], call.exchange.quota_key
    ):
        return "used before"
    return opened


def _unseal(server: Services, call: Call, text: Any) -> JSONObject | str:
    if type(text) is not str or len(text) > MAX_STATE_CHARS:
        return "not a text of acceptable length"
    raw = server.sealer.unseal(text)
    if raw is None:
        return "not sealed by us"
    try:
        opened: JSONObject = decode(raw)
    except JSONDecodeError:
        return "sealed by us, for something else"
    if type(opened) is not dict or "for" not in opened:
        return "sealed by us, for something else"
    if opened["for"] != _binding(call):
        return "made for another call or principal"
    if opened["until"] < server.clock():
        return "expired"
    return opened


def _binding(call: Call) -> list[Any]:
    params = call.params
    salient = [params.get("name"), params.get("uri"), params.get("arguments", {})]
    digest = hashlib.sha256(encode_sorted(salient)).hexdigest()
    return [call.options.name, key_of(call.exchange.principal), call.method, digest]
