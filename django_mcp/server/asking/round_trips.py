"""Answers of a client to the questions of a call, and the call's signed state."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django_mcp.log import logger
from django_mcp.protocol.asks import Ask
from django_mcp.protocol.errors import INVALID_REQUEST, Refusal, invalid_params, try_later
from django_mcp.protocol.json import JSONDecodeError, JSONObject, decode, encode, encode_sorted
from django_mcp.protocol.sampling import read_sampling_result
from django_mcp.registry.forms import Form
from django_mcp.registry.problems import ArgumentErrors, Problem
from django_mcp.server.exchange.call import MAX_STATE_BYTES, RetryAnswers, StateTooLarge
from django_mcp.server.exchange.caller import key_of
from django_mcp.server.ports import StateStoreFull
from django_mcp.server.services import ServedCall

_ACTIONS = ("accept", "decline", "cancel")


class _Action(str):
    """What the user did with a question; comparing it with a text that is no action is a mistake."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str) and not str.__eq__(self, other) and other not in _ACTIONS:
            raise ValueError(
                f"An action is never {str(other)!r:.100}: it is 'accept', 'decline' or 'cancel'. "
                "Use is_accepted to read whether the user said yes."
            )
        return str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other


@dataclass(frozen=True, kw_only=True, slots=True)
class Elicited:
    """What the user did with a question; true if they said yes.

    Attributes:
        action: `accept`, `decline` or `cancel`.
        content: the form's fields, checked against its schema; None unless accepted.
        data: the same as an instance of the class that was asked for, where one was.
    """

    action: str
    content: JSONObject | None = None
    data: Any = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "action", _Action(self.action))

    def __bool__(self) -> bool:
        return self.is_accepted

    @property
    def is_accepted(self) -> bool:
        """Whether the user said yes."""
        return self.action == "accept"


@dataclass(frozen=True, slots=True)
class Unfit:
    """An answer that does not fit the question; the problems are for the user."""

    problems: Sequence[Problem] = ()

    def explain(self, message: str) -> str:
        """Return the message of the question, with the problems below it."""
        lines = []
        for problem in self.problems:
            field = problem.pointer.removeprefix("/").replace("~1", "/").replace("~0", "~")
            lines.append(f"- {field}: {problem.message}" if field else f"- {problem.message}")
        return "\n".join([message, "", *lines]) if lines else message


def read_answer(ask: Ask, form: Form | None, answer: Any) -> Any:
    """Return what a client answered, or an `Unfit`.

    That is an `Elicited`, a `SamplingResult` (the answer itself if the question is raw) or a list
    of roots. The form, if the question has one, reads what the user filled in.
    """
    if not isinstance(answer, dict):
        return Unfit([Problem("", "it must be an object")])
    try:
        if ask.method == "roots/list":
            roots = answer.get("roots")
            if isinstance(roots, list) and all(
                isinstance(root, dict) and isinstance(root.get("uri"), str) for root in roots
            ):
                return roots
            raise ValueError("it must have a list of roots, each with its uri")
        if ask.method != "elicitation/create":
            result = read_sampling_result(answer)
            return answer if ask.is_raw else result
        elicited = read_elicited(answer)
    except ValueError as error:
        return Unfit([Problem("", str(error))])
    if not elicited.is_accepted or form is None:
        return Elicited(action=elicited.action)
    content = answer.get("content", {})
    try:
        return Elicited(action=elicited.action, content=content, data=form.read(content))
    except ArgumentErrors as error:
        return Unfit(error.problems)


def check_responses(responses: Mapping[str, Any]) -> Refusal | None:
    """Return the refusal of answers by key that are not objects, or None."""
    for key, answer in responses.items():
        if type(answer) is not dict:
            return invalid_params(f"inputResponses must hold an object for {key[:100]!r}")
    return None


def read_elicited(answer: JSONObject) -> Elicited:
    """Return what the user did with a question, unchecked; raise `ValueError` if that is unclear."""
    action, content = answer.get("action"), answer.get("content")
    if action not in _ACTIONS:
        raise ValueError("the action must be accept, decline or cancel")
    has_content = action == "accept" and isinstance(content, dict)
    return Elicited(action=action, content=content if has_content else None)


MAX_STATE_CHARS = 256 * 1024
"""A longer one is refused."""

REFUSAL_S = 0.01
"""Minimum time until a state is refused, so that the time does not reveal the failed check."""


async def sign_state(call: ServedCall, asked: list[str], state: Any) -> str:
    """Return the signed state for the next round; raise `StateTooLarge` or `StateStoreFull`."""
    server, answers = call.server, call.answers
    until_s = server.ports.clock() + call.options.state_ttl_s
    signed: JSONObject = {
        "for": binding_of(call, call.params.get("arguments")),
        "until": until_s,
        "asked": asked,
        "salt": secrets.token_hex(16),
        "once": answers.is_single_use,
    }
    known = {"known": answers.known, "kept": answers.kept, "state": state}
    encoded = encode(known)
    if len(encoded) <= call.options.state_inline_bytes:
        signed.update(known)
    elif len(encoded) <= MAX_STATE_BYTES:
        signed["reference"] = await server.ports.states.keep(
            key_of(call.exchange.caller.principal), encoded, until_s, call.exchange.caller.quota_key
        )
    else:
        raise StateTooLarge(
            f"This cannot ask again: it knows {len(encoded)} bytes by now, and at most "
            f"{MAX_STATE_BYTES} are kept between two rounds"
        )
    return server.ports.signer.sign(encode(signed))


async def open_answers(call: ServedCall) -> RetryAnswers | Refusal:
    """Return the answers of a call's earlier rounds, or the refusal of its state.

    Every invalid state gets the same refusal; the reason is logged.
    Source: 2026-07-28 basic/patterns/mrtr "Server Requirements".
    """
    answers = RetryAnswers()
    responses = call.params.get("inputResponses", {})
    if type(responses) is not dict:
        return invalid_params("inputResponses must be an object")
    if "requestState" not in call.params:
        # Every question has a state, so these responses answer no question.
        return answers
    clock = asyncio.get_running_loop().time
    begun_s = clock()
    try:
        opened = await _open_state(call, call.params["requestState"])
    except StateStoreFull as error:
        return try_later(str(error), code=INVALID_REQUEST)
    if isinstance(opened, str):
        logger.info("requestState refused: %s", opened)
        await asyncio.sleep(REFUSAL_S - (clock() - begun_s))
        return invalid_params("Invalid requestState")
    answers.known, answers.kept = opened["known"], opened["kept"]
    answers.state, answers.is_single_use = opened["state"], opened.get("once") is True
    responses = {key: value for key, value in responses.items() if key in opened["asked"]}
    malformed = check_responses(responses)
    if malformed is not None:
        return malformed
    answers.known.update(responses)
    answers.is_resubmit = True
    return answers


async def _open_state(call: ServedCall, text: Any) -> JSONObject | str:
    """Return the contents of a state, or the reason why it is refused."""
    server = call.server
    if type(text) is not str or len(text) > MAX_STATE_CHARS:
        return "not a text of acceptable length"
    raw = server.ports.signer.unsign(text)
    if raw is None:
        return "not signed by us"
    try:
        opened: JSONObject = decode(raw)
    except JSONDecodeError:
        opened = {}
    if type(opened) is not dict or "for" not in opened:
        return "signed by us, for something else"
    if opened["for"] != binding_of(call, call.params.get("arguments")):
        return "made for another call or principal"
    if opened["until"] < server.ports.clock():
        return "expired"
    if "reference" in opened:
        encoded = await server.ports.states.find(
            key_of(call.exchange.caller.principal), opened["reference"]
        )
        if encoded is None:
            return "kept no longer"
        opened.update(decode(encoded))
    is_single_use = call.options.state_single_use or opened.get("once")
    if is_single_use and not await server.ports.states.use(
        opened["salt"], opened["until"], call.exchange.caller.quota_key
    ):
        return "used before"
    return opened


def binding_of(call: ServedCall, arguments: JSONObject | None) -> list[Any]:
    """Return what tells a call with these arguments from those of other callers, servers, entries and tenants."""
    params, caller = call.params, call.exchange.caller
    salient = [params.get("name"), params.get("uri"), arguments or {}]
    if caller.url_kwargs:
        # The URL may name what the caller acts in, such as a tenant.
        salient.append({name: str(value) for name, value in caller.url_kwargs.items()})
    if caller.tenant:
        salient.append(caller.tenant)
    digest = hashlib.sha256(encode_sorted(salient)).hexdigest()
    return [call.options.name, key_of(caller.principal), call.method, digest]
