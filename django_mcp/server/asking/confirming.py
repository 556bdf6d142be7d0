"""Confirmations: values by which a second call shows that the user agreed to what a first one told, once."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from hmac import compare_digest
from typing import Any, Final

from django_mcp.protocol.errors import ToolError
from django_mcp.protocol.json import JSONDecodeError, JSONObject, decode, encode, encode_sorted
from django_mcp.registry.big_integers import level_numbers
from django_mcp.server.asking.round_trips import binding_of
from django_mcp.server.exchange.call import SuspendedForWait
from django_mcp.server.ports import StateStoreFull
from django_mcp.server.services import ServedCall

CONFIRMATION: Final = "confirmation"
"""The argument that holds what a call without it returned."""

MAX_CONFIRMATION_CHARS = 500
"""Longer confirmations are rejected unread."""

MAX_AGE_S = 600.0
"""How long a confirmation is good for."""

CONFIRMATION_SCHEMA: JSONObject = {
    "type": "string",
    "maxLength": MAX_CONFIRMATION_CHARS,
    "description": "From a first call",
}


def without_confirmation(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call but its confirmation."""
    return {name: value for name, value in arguments.items() if name != CONFIRMATION}


def sign_confirmation(call: ServedCall, arguments: Mapping[str, Any], state: str) -> str:
    """Return a confirmation, which is good for one call of the same tool by the same caller.

    Args:
        call: of the tool.
        arguments: with which it is called.
        state: differs for another state of what the tool changes. Clients can read a digest of it.
    """
    confirmed = {
        "confirms": _digest(call, arguments, state),
        "until": call.server.ports.clock() + MAX_AGE_S,
        "salt": secrets.token_hex(16),
    }
    return call.server.ports.signer.sign(encode(confirmed))


def take_confirmation(call: ServedCall, arguments: Mapping[str, Any], state: str) -> bool:
    """Return whether the arguments of a call have a confirmation of it that was not used before.

    It leaves the handler to mark it as used, in any process, before the handler does anything. So a call that
    fails afterwards has used it as well.

    Raises:
        ToolError: too many were used of late.
    """
    confirmed = _open(call, arguments.get(CONFIRMATION))
    if (
        confirmed is None
        or not compare_digest(confirmed["confirms"], _digest(call, arguments, state))
        or confirmed["until"] < call.server.ports.clock()
    ):
        return False
    key = f"{CONFIRMATION} {confirmed['salt']}"
    if key not in call.answers.kept:

        async def use() -> None:
            try:
                is_first = await call.server.ports.states.use(
                    confirmed["salt"], confirmed["until"], call.exchange.caller.quota_key
                )
            except StateStoreFull as error:
                raise ToolError(str(error)) from None
            call.answers.kept[key] = is_first
            if call.detached_run is not None:
                await call.detached_run.keep(call.answers)

        raise SuspendedForWait(key, use)
    return call.answers.kept[key] is True


def _open(call: ServedCall, text: Any) -> JSONObject | None:
    """Return the contents of a confirmation; None: it is none of this site."""
    if type(text) is not str or len(text) > MAX_CONFIRMATION_CHARS:
        return None
    raw = call.server.ports.signer.unsign(text)
    try:
        opened: Any = None if raw is None else decode(raw)
    except JSONDecodeError:
        return None
    # The states of calls have the same signature.
    return opened if type(opened) is dict and "confirms" in opened else None


def _digest(call: ServedCall, arguments: Mapping[str, Any], state: str) -> str:
    # A page writes the numbers of its call anew.
    bound = [*binding_of(call, level_numbers(without_confirmation(arguments))), state]
    return hashlib.sha256(encode_sorted(bound)).hexdigest()
