"""Ask the client while a handler runs: asking unwinds the handler, and it runs again with the answer.

What stands before a question runs once for each round, so write after the last question, or use
`once`. What a synchronous tool wrote in its transaction before a question is rolled back.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, Unpack

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
from django_mcp.protocol.sampling import SamplingMessage, SamplingOptions
from django_mcp.protocol.sampling_result import SamplingResult
from django_mcp.registry.forms import Form
from django_mcp.server.asking.answers import Elicited, Unfit, read_answer
from django_mcp.server.asking.input_responses import InputResponses
from django_mcp.server.exchange.capabilities import covers
from django_mcp.server.exchange.rounds import Asked, AskFailed, CannotAsk, OnceDue

if TYPE_CHECKING:
    from django_mcp.server.asking.clients import ClientMethods

T = TypeVar("T")

logger = logging.getLogger("django_mcp")

MAX_UNFIT = 10
"""Answers to one question that do not fit it, before it is asked no more while a request lasts. Our own limit."""

MAX_UNFIT_UNREAD = 2
"""The same where it is not a person who answers. Our own limit."""


class Asking(InputResponses, kw_only=True):
    """The part of a context that asks the client. Each method has an `a` twin for async handlers."""

    server: ClientMethods
    """The server that the request came to."""

    def client_supports(self, *path: str) -> bool:
        """Return whether the client declared a capability: `client_supports("elicitation", "url")`."""
        wanted: JSONObject = {}
        for name in reversed(path):
            wanted = {name: wanted}
        return covers(self.client_capabilities, wanted)

    def ask(self, asks: Mapping[str, Ask]) -> dict[str, Any]:
        """Ask several things at once, and return the answers by the same keys.

        Args:
            asks: made with `ask_form`, `ask_url`, `ask_sampling` and `ask_roots`.

        Returns:
            For each question what `elicit`, `elicit_url`, `sample` or `list_roots` returns.

        Raises:
            CannotAsk: the client does not take one of them; uncaught, the caller is told so.
        """
        due: dict[str, Ask] = {}
        found: dict[str, Any] = {}
        for key, given in asks.items():
            question, form = self._prepare(given)
            if key in self.answers.failed:
                raise self.answers.failed[key]
            if key not in self.answers.known:
                due[key] = question
                continue
            found[key] = read_answer(question, form, self.answers.known[key])
            if isinstance(found[key], Unfit):
                # An answer that does not fit is no answer: it is asked for again.
                due[key] = self._again(key, question, found[key])
        if due:
            self._ask(due)
        return found

    async def aask(self, asks: Mapping[str, Ask]) -> dict[str, Any]:
        """Do as `ask` does."""
        if self.needs_thread_to_ask(asks):
            return await self.server.scope.run(lambda: self.ask(asks), self)
        return self.ask(asks)

    def elicit(self, message: str, schema: Any, *, key: str | None = None) -> Elicited:
        """Ask the user to fill a form in, and return what they did.

        An answer that does not fit is asked for again, with what is wrong below the message.

        Args:
            message: what is asked and why. Never ask for secrets here: use `elicit_url`.
            schema: a dataclass, TypedDict or pydantic model with plain fields, or a JSON Schema;
                on a Django site also a form class.
            key: names the question, when its place among the others may change between rounds.

        Raises:
            CannotAsk: the client does not take forms; uncaught, the caller is told so.
        """
        key = key or self.answers.next_key()
        elicited: Elicited = self.ask({key: ask_form(message, schema)})[key]
        return elicited

    async def aelicit(self, message: str, schema: Any, *, key: str | None = None) -> Elicited:
        """Do as `elicit` does."""
        key = key or self.answers.next_key()
        elicited: Elicited = (await self.aask({key: ask_form(message, schema)}))[key]
        return elicited

    def elicit_url(self, message: str, url: str, *, key: str | None = None) -> Elicited:
        """Ask the user to visit a page. Accepting means they agreed to, not that they are done."""
        key = key or self.answers.next_key()
        elicited: Elicited = self.ask({key: ask_url(message, url)})[key]
        return elicited

    async def aelicit_url(self, message: str, url: str, *, key: str | None = None) -> Elicited:
        """Do as `elicit_url` does."""
        return self.elicit_url(message, url, key=key)

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
            CannotAsk: the client has no model to ask; uncaught, the caller is told so.
            AskFailed: the client refused, or did not answer in time.
            TypeError, ValueError: an argument cannot be what it is.
        """
        question = ask_sampling(messages, max_tokens=max_tokens, request_id=request_id, **options)
        result: SamplingResult = self._ask_one(question, key or request_id)
        return result

    async def asample(
        self,
        messages: str | Sequence[SamplingMessage],
        *,
        max_tokens: int,
        key: str | None = None,
        request_id: str | None = None,
        **options: Unpack[SamplingOptions],
    ) -> SamplingResult:
        """Do as `sample` does."""
        return self.sample(
            messages, max_tokens=max_tokens, key=key, request_id=request_id, **options
        )

    def sample_raw(
        self, params: JSONObject, *, key: str | None = None, request_id: str | None = None
    ) -> JSONObject:
        """Do as `sample` does, with the params and the result of `sampling/createMessage`."""
        question = ask_sampling_raw(params, request_id=request_id)
        result: JSONObject = self._ask_one(question, key or request_id)
        return result

    async def asample_raw(
        self, params: JSONObject, *, key: str | None = None, request_id: str | None = None
    ) -> JSONObject:
        """Do as `sample_raw` does."""
        return self.sample_raw(params, key=key, request_id=request_id)

    def _ask_one(self, question: Ask, key: str | None) -> Any:
        key = key or self.answers.next_key()
        return self.ask({key: question})[key]

    def list_roots(self, *, key: str | None = None) -> list[JSONObject]:
        """Return the folders the client works in: `{"uri": str, "name"?: str}` each.

        They are the client's word: check them before you open anything.
        """
        key = key or self.answers.next_key()
        roots: list[JSONObject] = self.ask({key: ask_roots()})[key]
        return roots

    async def alist_roots(self, *, key: str | None = None) -> list[JSONObject]:
        """Do as `list_roots` does."""
        return self.list_roots(key=key)

    def once(self, key: str, function: Callable[[], T]) -> T:
        """Run something once for all rounds of this call, and return its result in each.

        It runs apart from the handler, and in a transaction of its own where the handler has one. What
        it wrote is kept whatever becomes of the call.

        Args:
            key: names it among the others of this handler.
            function: takes nothing; returns something that has a form in JSON, which it comes back
                in: a tuple as a list, a Decimal as a string.

        Raises:
            TypeError: what it returned has no form in JSON.
        """
        if key not in self.answers.kept:
            raise OnceDue(key, partial(_call_for_json, key, function))
        result: T = self.answers.kept[key]
        return result

    async def aonce(self, key: str, function: Callable[[], Awaitable[T]]) -> T:
        """Run something once for all rounds of this call, from an asynchronous handler."""
        if key not in self.answers.kept:
            self.answers.kept[key] = _to_json(key, await function())
            if self.run is not None:
                await self.run.keep(self.answers)
        result: T = self.answers.kept[key]
        return result

    def complete_asks(self, asks: Mapping[str, Ask]) -> dict[str, Ask]:
        """Return questions with the schemas of their forms, ready to be sent."""
        return {key: self._prepare(each)[0] for key, each in asks.items()}

    def needs_thread_to_ask(self, asks: Mapping[str, Ask]) -> bool:
        """Return whether making one of the forms may ask a database."""
        forms = [each.form for each in asks.values() if each.form is not None]
        return any(self.server.make_form(each).needs_thread for each in forms)

    def _prepare(self, ask: Ask) -> tuple[Ask, Form | None]:
        """Return a question ready to be sent, and what its answer is read by."""
        if ask.form is None:
            return self._without_context(ask), None
        form = self.server.make_form(ask.form)
        if not isinstance(ask.form, Mapping):
            message = (ask.params or {})["message"]
            ask = replace(ask, params=ask_form(message, form.schema).params)
        if holds_link(ask):
            logger.warning(
                "A form that %s asks with shows an address: clients may refuse it, and users be "
                "led astray. Send them there with elicit_url().",
                self.entry.name if self.entry is not None else "a handler",
            )
        return ask, form

    def _without_context(self, ask: Ask) -> Ask:
        """Leave out what a model is to see of other servers, where its client does not offer that."""
        params = ask.params or {}
        if (
            params.get("includeContext", "none") == "none"
            or "sampling.context" not in self.rules.asks
            or self.client_supports("sampling", "context")
        ):
            return ask
        rest = {key: value for key, value in params.items() if key != "includeContext"}
        return replace(ask, params=rest)

    def _ask(self, asks: Mapping[str, Ask]) -> NoReturn:
        self.check_asks(asks)
        raise Asked(asks)

    def check_asks(self, asks: Mapping[str, Ask], *, may_be_told: bool = True) -> None:
        """Raise `CannotAsk` unless each question can be put to this client.

        Args:
            asks: the questions.
            may_be_told: whether an error may tell of them, where that is all there is.
        """
        for ask in asks.values():
            if not self.rules.interim_fields and not self.has_back_channel:
                raise CannotAsk(
                    "This needs to ask you something, which clients of this protocol version "
                    "can only be asked within a session, on an event stream. Use a newer client.",
                    ask.capability,
                    tuple(asks.values()) if may_be_told else (),
                )
            if ask.kind not in self.rules.asks:
                raise CannotAsk(
                    f"This needs to ask the client ({ask.method}) in a way that this protocol "
                    f"version does not have. Use a newer client.",
                    ask.capability,
                )
            if not covers(self.client_capabilities, ask.capability):
                raise CannotAsk(
                    f"This needs to ask the client ({ask.method}), which did not declare "
                    f"{_dotted(ask.capability)}. Use a client that does.",
                    ask.capability,
                )

    def _again(self, key: str, ask: Ask, unfit: Unfit) -> Ask:
        """Return the question as it is asked again after an answer that does not fit.

        Raises:
            AskFailed: asking again would bring nothing else.
        """
        params = ask.params or {}
        # Where it is not a person who answers, nobody reads what is wrong.
        is_read = "message" in params
        tries = self.answers.count_unfit(key)
        if tries >= (MAX_UNFIT if is_read else MAX_UNFIT_UNREAD):
            why = unfit.explain(":")
            raise AskFailed(f"None of {tries} answers to {ask.method} fitted{why}")
        if not is_read:
            return ask
        return replace(ask, params={**params, "message": unfit.explain(params["message"])})


def _dotted(capability: Mapping[str, Any]) -> str:
    """Return a capability as it is spoken of: `elicitation.url`."""
    names = []
    while capability:
        name, capability = next(iter(capability.items()))
        names.append(name)
    return ".".join(names)


def _call_for_json(key: str, function: Callable[[], Any]) -> Any:
    return _to_json(key, function())


def _to_json(key: str, value: Any) -> Any:
    """Return a value as it is after being kept, so that each round sees the same."""
    try:
        return decode(encode(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(
            f"What runs once as {key!r} returned what has no form in JSON: {error}"
        ) from error
