"""Ask the client while a handler runs: asking ends its run, and it runs again with the answer."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any, Concatenate, ParamSpec, TypeVar, Unpack, cast

from django_mcp.log import logger
from django_mcp.protocol.asks import (
    Ask,
    ask_form,
    ask_roots,
    ask_sampling,
    ask_sampling_raw,
    ask_url,
    holds_link,
)
from django_mcp.protocol.json import JSONObject, decode, encode
from django_mcp.protocol.revisions import Revision, lower
from django_mcp.protocol.sampling import (
    SamplingMessage,
    SamplingOptions,
    SamplingResult,
    read_sampling_result,
)
from django_mcp.registry.field_validators import ValueRules
from django_mcp.registry.forms import Form, convert, convert_own
from django_mcp.registry.problems import ArgumentErrors, Problem, describe_conversion
from django_mcp.registry.signatures import named
from django_mcp.server.asking.by_argument import explain, refuse_unfit, take_answer, takes_answers
from django_mcp.server.asking.fingerprints import find_fingerprint, is_other_function
from django_mcp.server.asking.round_trips import Elicited, Unfit, read_answer, read_elicited
from django_mcp.server.capabilities import covers, refuse_unknown_capability
from django_mcp.server.exchange.call import AskFailed, Call, CannotAsk, Suspended, SuspendedForOnce
from django_mcp.server.services import ServedCall

T = TypeVar("T")
P = ParamSpec("P")

MAX_UNFIT = 10
MAX_UNFIT_UNREAD = 2
"""Answers in a request that do not fit their question, by people and by programs, until it is not asked any more."""


def _twin(
    method: Callable[Concatenate[Any, P], T],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """Return the asynchronous twin of a method that does not block."""

    async def twin(ctx: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return method(ctx, *args, **kwargs)

    return named(twin, f"a{method.__name__}", like=method)


def ask_params(ask: Ask, revision: Revision, meta: JSONObject | None = None) -> JSONObject | None:
    """Return the params of a question in the form of a revision, with `_meta` if there is any."""
    params = ask.params
    if meta:
        params = {**(params or {}), "_meta": meta}
    if params is None:
        return None
    if ask.kind == "url":
        params = {"elicitationId": ask.elicitation_id or uuid.uuid4().hex, **params}
    return lower(ask.method, params, revision)


class AskMethods:
    """The part of a context that asks the client. Each method has an `a` twin for async handlers."""

    def __init__(self, call: ServedCall) -> None:
        self._call = call

    def client_supports(self, *path: str) -> bool:
        """Return whether the client declared a capability: `client_supports("elicitation", "url")`.

        Raises:
            ValueError: no client declares this, since the protocol has no such capability.
        """
        wanted: JSONObject = {}
        for name in reversed(path):
            wanted = {name: wanted}
        return covers(
            self._call.connection.client_capabilities, wanted
        ) or refuse_unknown_capability(path)

    def ask(self, asks: Mapping[str, Ask]) -> dict[str, Any]:
        """Ask several things at once, and return the answers by the same keys.

        Args:
            asks: made with `ask_form`, `ask_url`, `ask_sampling` and `ask_roots`.

        Returns:
            For each question what `elicit`, `elicit_url`, `sample` or `list_roots` returns.

        Raises:
            CannotAsk: the client does not support one of them; uncaught, the caller gets its text.
            TypeError: `asks` is no dict.
            ValueError: an earlier question of this run has the key, and is another one.
        """
        if not isinstance(asks, Mapping):
            raise TypeError(
                "ctx.ask() takes a dict of questions by their keys, such as {'day': ask_form(...)}"
            )
        due: dict[str, Ask] = {}
        answers: dict[str, Any] = {}
        for key, given in asks.items():
            self._refuse_other_question(key, given)
            question, form = self._prepare(given)
            if key in self._call.answers.failed:
                raise self._call.answers.failed[key]
            if key not in self._call.answers.known:
                take_answer(self._call, key, question)
            if key not in self._call.answers.known:
                due[key] = question
                continue
            answers[key] = read_answer(question, form, self._call.answers.known[key])
            if isinstance(answers[key], Unfit):
                refuse_unfit(self._call, key, answers[key].problems)
                due[key] = self._again(key, question, answers[key])
            else:
                self._call.answers.used += 1
        if due:
            check_asks(self._call, due)
            self._call.answers.is_leaving = True
            raise Suspended(due)
        return answers

    async def aask(self, asks: Mapping[str, Ask]) -> dict[str, Any]:
        """Do as `ask` does."""
        if needs_thread_to_ask(self._call, asks):
            return await self._call.server.ports.scope.run(lambda: self.ask(asks), self._call)
        return self.ask(asks)

    def _ask_one(self, question: Ask, key: str | None) -> Any:
        key = key or self._call.answers.next_key()
        return self.ask({key: question})[key]

    def elicit(self, message: str, schema: Any, *, key: str | None = None) -> Elicited:
        """Ask the user to fill a form in, and return what they did.

        An answer that does not fit is asked for again, with what is wrong below the message.

        Args:
            message: what is asked and why. Never ask for secrets here: use `elicit_url`.
            schema: a dataclass, TypedDict or pydantic model with plain fields, or a JSON Schema;
                on a Django site also a form class.
            key: names the question, if its place among the others may change between rounds.

        Raises:
            CannotAsk: the client does not support forms; uncaught, the caller gets its text.
        """
        return cast("Elicited", self._ask_one(ask_form(message, schema), key))

    async def aelicit(self, message: str, schema: Any, *, key: str | None = None) -> Elicited:
        """Do as `elicit` does."""
        key = key or self._call.answers.next_key()
        return cast("Elicited", (await self.aask({key: ask_form(message, schema)}))[key])

    def elicit_url(self, message: str, url: str, *, key: str | None = None) -> Elicited:
        """Ask the user to visit a page. Accepting means they agreed to, not that they are done."""
        return cast("Elicited", self._ask_one(ask_url(message, url), key))

    def sample(
        self,
        messages: str | Sequence[SamplingMessage],
        *,
        max_tokens: int,
        key: str | None = None,
        request_id: str | None = None,
        **options: Unpack[SamplingOptions],
    ) -> SamplingResult:
        """Have the client's model write something, and return what it wrote.

        Args:
            messages: a text of the user's, or messages, oldest first.
            max_tokens: the most that the model may write.
            key: see `elicit`.
            request_id: names the request that carries the question, for `cancel_request`; see
                `ask_sampling`. Where results carry questions, it is the key.
            options: see `SamplingOptions`.

        Raises:
            CannotAsk: the client offers no model; uncaught, the caller gets its text.
            AskFailed: the client refused, or did not answer in time.
            TypeError, ValueError: an argument has a wrong type or value.
        """
        question = ask_sampling(messages, max_tokens=max_tokens, request_id=request_id, **options)
        return cast("SamplingResult", self._ask_one(question, key or request_id))

    def sample_raw(
        self, params: JSONObject, *, key: str | None = None, request_id: str | None = None
    ) -> JSONObject:
        """Do as `sample` does, with the params and the result of `sampling/createMessage`."""
        question = ask_sampling_raw(params, request_id=request_id)
        return cast("JSONObject", self._ask_one(question, key or request_id))

    def list_roots(self, *, key: str | None = None) -> list[JSONObject]:
        """Return the folders the client works in: `{"uri": str, "name"?: str}` each.

        They come from the client: check them before you open anything.
        """
        return cast("list[JSONObject]", self._ask_one(ask_roots(), key))

    aelicit_url = _twin(elicit_url)
    asample = _twin(sample)
    asample_raw = _twin(sample_raw)
    alist_roots = _twin(list_roots)

    def once(self, key: str, function: Callable[[], T]) -> T:
        """Run something once for all rounds of this call, and return its result in each.

        It runs apart from the handler, and in a transaction of its own where the handler has one. What
        it wrote is kept whatever becomes of the call afterwards.

        Args:
            key: names it among the others of this handler.
            function: takes nothing; returns a value with a form in JSON, and `once` returns that
                form: a list for a tuple, a string for a Decimal.

        Raises:
            TypeError: the result has no form in JSON.
        """
        if key not in self._call.answers.kept:
            raise SuspendedForOnce(key, lambda: _to_json(key, function()))
        self._tell_other_function(key, function)
        self._call.answers.used += 1
        result: T = self._call.answers.kept[key]
        return result

    async def aonce(self, key: str, function: Callable[[], Awaitable[T]]) -> T:
        """Run something once for all rounds of this call, from an asynchronous handler."""
        answers = self._call.answers
        self._tell_other_function(key, function)
        if key in answers.kept:
            answers.used += 1
        else:
            answers.is_in_once = True
            try:
                answers.kept[key] = _to_json(key, await function())
            finally:
                answers.is_in_once = False
            if self._call.detached_run is not None:
                await self._call.detached_run.keep(answers)
        result: T = self._call.answers.kept[key]
        return result

    @property
    def input_responses(self) -> JSONObject:
        """The client's answers by key, unchecked, for handlers that return `InputRequired`."""
        return self._call.answers.known

    def has_input_response(self, key: str) -> bool:
        """Return whether the client answered a question of an `InputRequired`."""
        return key in self._call.answers.known

    def input_response_as(self, cls: type[T], key: str) -> T | None:
        """Return an answer as an instance of a class: the fields of a form, the whole of another answer.

        Args:
            cls: a dataclass, TypedDict, pydantic model or other type that pydantic reads; `Elicited`
                or `SamplingResult` for an answer of that kind.
            key: of the question.

        Returns:
            None when there is no answer, or the user said no.

        Raises:
            ArgumentErrors: the answer does not fit; uncaught, the caller gets its text.
        """
        answer = self._call.answers.known.get(key)
        if isinstance(answer, dict) and cls in (Elicited, SamplingResult):
            read = read_sampling_result if cls is SamplingResult else read_elicited
            try:
                return cast("T", read(answer))
            except ValueError as error:
                raise ArgumentErrors([Problem("", str(error))]) from None
        if isinstance(answer, dict) and "action" in answer:
            answer = answer.get("content", {}) if answer["action"] == "accept" else None
        return None if answer is None else self._convert(convert, cls, answer)

    def request_state_as(self, cls: type[T]) -> T | None:
        """Return `request_state` as an instance of a class; None on the first round."""
        state = self._call.answers.state
        return None if state is None else self._convert(convert_own, cls, state)

    def _convert(self, convert: Callable[[Any, Any, ValueRules], T], cls: type[T], value: Any) -> T:
        from pydantic import ValidationError

        try:
            return convert(cls, value, self._call.server.ports.converter)
        except ValidationError as error:
            raise ArgumentErrors(describe_conversion(error, value)) from None

    @property
    def request_state(self) -> Any:
        """What the last round's `InputRequired` held as its state; None on the first."""
        return self._call.answers.state

    def _refuse_other_question(self, key: str, ask: Ask) -> None:
        """Raise ValueError if this run has asked something else with the same key.

        The answer to that one would count for this one.
        """
        params = ask.params or {}
        shown = (ask.method, params.get("message", params))
        if self._call.answers.note_key(("ask", key), shown) != shown:
            raise ValueError(
                f"Two questions of a call have the key {key!r}, so the answer to the first would count for both. "
                "Give each its own, such as one with the number of the object in it."
            )

    def _tell_other_function(self, key: str, function: Callable[[], Any]) -> None:
        """Log it if this run has named another function of `once` by the same key, since this one never runs."""
        shown = find_fingerprint(function)
        if is_other_function(self._call.answers.note_key(("once", key), shown), shown):
            logger.warning(
                "%s calls once(%r) with different functions, or one with different values, of which only the first "
                "runs. Give each a key of its own.",
                self._call.entry.name if self._call.entry is not None else "A handler",
                key,
            )

    def _prepare(self, ask: Ask) -> tuple[Ask, Form | None]:
        """Return a question with the schema of its form, and the form that reads its answer."""
        if ask.form is None:
            return self._without_context(ask), None
        form = self._call.server.ports.make_form(ask.form)
        if not isinstance(ask.form, Mapping):
            message = (ask.params or {})["message"]
            ask = replace(ask, params=ask_form(message, form.schema).params)
        if holds_link(ask):
            logger.warning(
                "A form that %s asks with shows an address: clients may refuse it, and users may be "
                "misled. Send them there with elicit_url().",
                self._call.entry.name if self._call.entry is not None else "a handler",
            )
        return ask, form

    def _without_context(self, ask: Ask) -> Ask:
        """Return a question without `includeContext` if the client does not support that."""
        params = ask.params or {}
        if (
            params.get("includeContext", "none") == "none"
            or "sampling.context" not in self._call.rules.asks
            or self.client_supports("sampling", "context")
        ):
            return ask
        rest = {key: value for key, value in params.items() if key != "includeContext"}
        return replace(ask, params=rest)

    def _again(self, key: str, ask: Ask, unfit: Unfit) -> Ask:
        """Return the question as it is asked again, or raise `AskFailed` if it was asked often enough."""
        params = ask.params or {}
        # A program that answers does not read what is wrong.
        is_read = "message" in params
        self._call.answers.unfit[key] += 1
        tries = self._call.answers.unfit[key]
        if tries >= (MAX_UNFIT if is_read else MAX_UNFIT_UNREAD):
            why = unfit.explain(":")
            raise AskFailed(f"None of {tries} answers to {ask.method} fitted{why}")
        if not is_read:
            return ask
        return replace(ask, params={**params, "message": unfit.explain(params["message"])})


def needs_thread_to_ask(call: ServedCall, asks: Mapping[str, Ask]) -> bool:
    """Return whether making one of the forms may query a database."""
    forms = [ask.form for ask in asks.values() if ask.form is not None]
    return any(call.server.ports.make_form(form).needs_thread for form in forms)


def complete_asks(call: ServedCall, asks: Mapping[str, Ask]) -> dict[str, Ask]:
    """Return questions with the schemas of their forms, if this client can be asked them."""
    context: AskMethods = call.context
    forms = {key: context._prepare(each)[0] for key, each in asks.items()}
    check_asks(call, forms)
    return forms


def check_asks(call: Call, asks: Mapping[str, Ask], *, may_be_told: bool = True) -> None:
    """Raise `CannotAsk` unless this client can be asked each question now.

    Its text names what to ask the user for. With `may_be_told` its error may contain the questions, if that is the
    way to ask them.
    """
    try:
        _check_asks(call, asks, may_be_told=may_be_told)
    except CannotAsk as error:
        told = explain(call, asks)
        if told:
            error.args = (f"{error}\n{told}",)
            error.has_way = takes_answers(call)
        raise


def _check_asks(call: Call, asks: Mapping[str, Ask], *, may_be_told: bool) -> None:
    for ask in asks.values():
        if not call.rules.interim_fields and not call.has_back_channel:
            raise CannotAsk(
                "This needs to ask you something, which clients of this protocol version "
                "can only be asked within a session, on an event stream (not under WSGI). Use a newer client.",
                ask.capability,
                tuple(asks.values()) if may_be_told else (),
            )
        if ask.kind not in call.rules.asks:
            raise CannotAsk(
                f"This needs to ask the client ({ask.method}) in a way that this protocol "
                f"version does not have. Use a newer client.",
                ask.capability,
            )
        if not covers(call.connection.client_capabilities, ask.capability):
            # Such as `elicitation.url`.
            names, inner = [], ask.capability
            while inner:
                name, inner = next(iter(inner.items()))
                names.append(name)
            raise CannotAsk(
                f"This needs to ask the client ({ask.method}), which did not declare "
                f"{'.'.join(names)}. Use a client that does.",
                ask.capability,
            )


def _to_json(key: str, value: Any) -> Any:
    """Return a value as it is read from JSON, so that each round gets the same."""
    try:
        return decode(encode(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(
            f"What runs once as {key!r} returned what has no form in JSON: {error}"
        ) from error
