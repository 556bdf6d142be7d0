"""`requestState`: what a call knows, sealed, on its way through the client and back.

It is the client's input when it comes back, so it is good only as we made it: for the same
principal, the same method and target, the same arguments, and for a while. What is too large to
travel stays here, and a reference to it travels.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import secrets
from typing import TYPE_CHECKING, Any

from django_mcp.protocol.errors import INVALID_PARAMS, INVALID_REQUEST, Refusal
from django_mcp.protocol.json import JSONDecodeError, JSONObject, decode, encode, encode_sorted
from django_mcp.server.asking.answers import find_malformed
from django_mcp.server.exchange.quotas import quota_key_of
from django_mcp.server.exchange.rounds import Answers
from django_mcp.server.services.ports import StateStoreFull

if TYPE_CHECKING:
    from django_mcp.server.exchange.call import Call
    from django_mcp.server.services.services import Services

logger = logging.getLogger("django_mcp")

MAX_STATE_CHARS = 256 * 1024
"""A longer one is not looked at. Our own limit."""

MAX_KEPT_BYTES = 1024 * 1024
"""What a call may know between two rounds at most: it holds what the client answered. Our own limit."""

REFUSAL_S = 0.01
"""A state is refused no sooner, so that the time tells nobody which check it failed. Our own limit."""


class StateTooLarge(Exception):
    """A call knows more than is kept between two rounds."""


async def seal_state(
    server: Services, call: Call, answers: Answers, asked: list[str], state: Any
) -> str:
    """Return what the next round of this call needs, sealed.

    Raises:
        StateTooLarge: it is more than `MAX_KEPT_BYTES`.
        StateStoreFull: too much is stored already.
    """
    until_s = server.clock() + call.options.state_ttl_s
    sealed: JSONObject = {
        "for": _binding(server, call),
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
            _owner(server, call), encoded, until_s, _quota_key(server, call)
        )
    else:
        raise StateTooLarge(
            f"This cannot ask again: it knows {len(encoded)} bytes by now, and at most "
            f"{MAX_KEPT_BYTES} are kept between two rounds"
        )
    return server.sealer.seal(encode(sealed))


async def open_answers(server: Services, call: Call) -> Answers | Refusal:
    """Return what a call brings from its earlier rounds, or the refusal of it.

    Every state that is not as we made it, for this call, gets the same refusal; the reason goes
    to the log. Source: 2026-07-28 basic/patterns/mrtr "Server Requirements".
    """
    answers = Answers()
    responses = call.params.get("inputResponses", {})
    if type(responses) is not dict:
        return Refusal(code=INVALID_PARAMS, message="inputResponses must be an object")
    if "requestState" not in call.params:
        # Every question of ours comes with a state, so nothing was asked: these answer nothing.
        return answers
    clock = asyncio.get_running_loop().time
    begun_s = clock()
    try:
        opened = await _open(server, call, call.params["requestState"])
    except StateStoreFull as error:
        return Refusal(code=INVALID_REQUEST, message=str(error), status=503, headers=_RETRY_LATER)
    if isinstance(opened, str):
        logger.info("requestState refused: %s", opened)
        await asyncio.sleep(REFUSAL_S - (clock() - begun_s))
        return Refusal(code=INVALID_PARAMS, message="Invalid requestState")
    answers.known, answers.kept = opened["known"], opened["kept"]
    answers.state = opened["state"]
    responses = {key: value for key, value in responses.items() if key in opened["asked"]}
    malformed = find_malformed(responses)
    if malformed is not None:
        return Refusal(code=INVALID_PARAMS, message=malformed)
    answers.known.update(responses)
    answers.is_resubmit = True
    return answers


_RETRY_LATER = ((b"retry-after", b"10"),)


async def _open(server: Services, call: Call, text: Any) -> JSONObject | str:
    """Return what a state holds, or the reason why it is refused."""
    opened = _unseal(server, call, text)
    if isinstance(opened, str):
        return opened
    if "reference" in opened:
        encoded = await server.states.find(_owner(server, call), opened["reference"])
        if encoded is None:
            return "kept no longer"
        opened.update(decode(encoded))
    if call.options.state_single_use and not await server.states.use(
        opened["salt"], opened["until"], _quota_key(server, call)
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
    if opened["for"] != _binding(server, call):
        return "made for another call or principal"
    if opened["until"] < server.clock():
        return "expired"
    return opened


def _owner(server: Services, call: Call) -> str | None:
    return server.access.identify(call.exchange.principal)


def _quota_key(server: Services, call: Call) -> str:
    return quota_key_of(_owner(server, call), call.exchange.address)


def _binding(server: Services, call: Call) -> list[Any]:
    params = call.params
    salient = [params.get("name"), params.get("uri"), params.get("arguments", {})]
    digest = hashlib.sha256(encode_sorted(salient)).hexdigest()
    return [call.options.name, _owner(server, call), call.method, digest]
