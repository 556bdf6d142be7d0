"""Ask the client while a handler runs: asking unwinds the handler, and it runs again with the answer.

What stands before a question runs once for each round, so write after the last question, or use
`once`. A synchronous handler's writes before a question are rolled back.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from django_mcp.protocol.asks import Ask, ask_form, ask_roots, ask_sampling, ask_url
from django_mcp.protocol.json import JSONObject
from django_mcp.registry.forms import form_schema, read_form
from django_mcp.server.capabilities import covers

if TYPE_CHECKING:
    from django_mcp.protocol.revisions import Revision

T = TypeVar("T")


class Asked(BaseException):
    """Leave a handler to ask the client.

    No `Exception`, so that a handler's own `except Exception` lets it pass.
    """

    def __init__(self, asks: Mapping[str, Ask]) -> None:
        super().__init__()
        self.asks = asks


class OnceDue(BaseException):
    """Leave a handler to run something that is to run once, in a transaction of its own."""

    def __init__(self, key: str, function: Callable[[], Any]) -> None:
        super().__init__()
        self.key = key
        self.function = function


class CannotAsk(Exception):
    """The client cannot be asked: it did not declare that it can, or nothing leads back to it."""

    def __init__(self, message: str, capability: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.capability = capability


class Answers:
    """What a call knows from its earlier rounds.

    Attributes:
        known: the client's answers, by the key of the question. They are its input: unchecked.
        kept: results of `once`, by key.
        state: what an explicit handler left for its next round.
        is_resubmit: whether this call answers an earlier one.
    """

    __slots__ = ("_asked", "is_resubmit", "kept", "known", "state")

    def __init__(self) -> None:
        self.known: JSONObject = {}
        self.kept: JSONObject = {}
        self.state: Any = None
        self.is_resubmit = False
        self._asked = 0

    def begin(self) -> None:
        """Count the questions anew: the handler runs from its start."""
        self._asked = 0

    def next_key(self) -> str:
        """Return the key of a question that was given none: its place among the questions."""
        self._asked += 1
        return f"question-{self._asked}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Elicited:
    """What the user did with a question.

    Attributes:
        action: `accept`, `decline` or `cancel`.
        content: the form's fields, checked against its schema; None unless accepted.
        data: the same as an instance of the class that was asked for, where one was.
    """

    action: str
    content: JSONObject | None = None
    data: Any = None

    @property
    def is_accepted(self) -> bool:
        """Whether the user said yes."""
        return self.action == "accept"


@dataclass(frozen=True, slots=True)
class InputRequired:
    """Return from a handler to ask, and read the answers from `ctx.input_responses` next time.

    For handlers that steer the rounds themselves; `ctx.elicit` and its siblings need none of this.

    Args:
        asks: the questions by key; made with `ask_form`, `ask_url`, `ask_sampling`, `ask_roots`.
        state: any JSON value, handed back as `ctx.request_state`, sealed on its way.
    """

    asks: Mapping[str, Ask]
    state: Any = None


class Asking:
    """The part of a context that asks the client. Each method has an `a` twin for async handlers."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def client_capabilities(self) -> JSONObject: ...

        rules: Revision

        @property
        def answers(self) -> Answers: ...

    def client_supports(self, *path: str) -> bool:
        """Tell whether the client declared a capability: `client_supports("elicitation", "url")`."""
        wanted: JSONObject = {}
        for name in reversed(path):
            wanted = {name: wanted}
        return covers(self.client_capabilities, wanted)

    def elicit(self, message: str, schema: Any, *, key: str | None = None) -> Elicited:
        """Ask the user to fill a form in, and return what they did.

        Args:
            message: what is asked and why. Never ask for secrets here: use `elicit_url`.
            schema: a dataclass, TypedDict or pydantic model with plain fields, or a JSON Schema.
            key: names the question, when its place among the others may change between rounds.

        Raises:
            CannotAsk: the client does not take forms; uncaught, the caller is told so.
        """
        key = key or self.answers.next_key()
        fields = form_schema(schema)
        ask = ask_form(message, fields)
        answer = self._answer(key, ask)
        read = _read_elicited(answer, schema, fields)
        # An answer that does not fit the form is no answer.
        if read is None:
            self._ask({key: ask})
        return read

    async def aelicit(self, message: str, schema: Any, *, key: str | None = None) -> Elicited:
        """Do as `elicit` does."""
        return self.elicit(message, schema, key=key)

    def elicit_url(self, message: str, url: str, *, key: str | None = None) -> Elicited:
        """Ask the user to visit a page. Accepting means they agreed to, not that they are done."""
        key = key or self.answers.next_key()
        ask = ask_url(message, url)
        answer = self._answer(key, ask)
        action = answer.get("action") if isinstance(answer, dict) else None
        if action not in _ACTIONS:
            self._ask({key: ask})
        return Elicited(action=action)

    async def aelicit_url(self, message: str, url: str, *, key: str | None = None) -> Elicited:
        """Do as `elicit_url` does."""
        return self.elicit_url(message, url, key=key)

    def sample(
        self,
        messages: str | Sequence[JSONObject],
        *,
        max_tokens: int,
        key: str | None = None,
        **options: Any,
    ) -> JSONObject:
        """Have the client's model write something, and return its message.

        Args:
            messages: a text of the user's, or messages as the protocol has them.
            max_tokens: the most that the model may write.
            key: see `elicit`.
            options: see `ask_sampling`.

        Returns:
            `{"role": str, "content": block or blocks, "model": str, "stopReason"?: str}`.
        """
        key = key or self.answers.next_key()
        if isinstance(messages, str):
            messages = [{"role": "user", "content": {"type": "text", "text": messages}}]
        ask = ask_sampling(messages, max_tokens=max_tokens, **options)
        answer = self._answer(key, ask)
        if not (isinstance(answer, dict) and "content" in answer and "role" in answer):
            self._ask({key: ask})
        message: JSONObject = answer
        return message

    async def asample(
        self,
        messages: str | Sequence[JSONObject],
        *,
        max_tokens: int,
        key: str | None = None,
        **options: Any,
    ) -> JSONObject:
        """Do as `sample` does."""
        return self.sample(messages, max_tokens=max_tokens, key=key, **options)

    def list_roots(self, *, key: str | None = None) -> list[JSONObject]:
        """Return the folders the client works in: `{"uri": str, "name"?: str}` each.

        They are the client's word: check them before you open anything.
        """
        key = key or self.answers.next_key()
        ask = ask_roots()
        answer = self._answer(key, ask)
        roots = answer.get("roots") if isinstance(answer, dict) else None
        if not isinstance(roots, list):
            self._ask({key: ask})
        return roots

    async def alist_roots(self, *, key: str | None = None) -> list[JSONObject]:
        """Do as `list_roots` does."""
        return self.list_roots(key=key)

    def once(self, key: str, function: Callable[[], T]) -> T:
        """Run something once for all rounds of this call, and return its result in each.

        It runs in a transaction of its own, which is kept whatever becomes of the call.

        Args:
            key: names it among the others of this handler.
            function: takes nothing; returns something that has a form in JSON.
        """
        if key not in self.answers.kept:
            raise OnceDue(key, function)
        result: T = self.answers.kept[key]
        return result

    async def aonce(self, key: str, function: Callable[[], Awaitable[T]]) -> T:
        """Run something once for all rounds of this call, from an asynchronous handler."""
        if key not in self.answers.kept:
            self.answers.kept[key] = await function()
        result: T = self.answers.kept[key]
        return result

    @property
    def input_responses(self) -> JSONObject:
        """The client's answers by key, unchecked, for handlers that return `InputRequired`."""
        return self.answers.known

    @property
    def request_state(self) -> Any:
        """What the last round's `InputRequired` held as its state; None on the first."""
        return self.answers.state

    @property
    def is_resubmit(self) -> bool:
        """Whether this call answers the questions of an earlier one."""
        return self.answers.is_resubmit

    def _answer(self, key: str, ask: Ask) -> Any:
        if key not in self.answers.known:
            self._ask({key: ask})
        return self.answers.known[key]

    def _ask(self, asks: Mapping[str, Ask]) -> NoReturn:
        self.check_asks(asks)
        raise Asked(asks)

    def check_asks(self, asks: Mapping[str, Ask]) -> None:
        """Raise `CannotAsk` unless each question can be put to this client."""
        for ask in asks.values():
            if not self.rules.interim_fields:
                raise CannotAsk(
                    "This needs to ask you something, which clients of this protocol version "
                    "can only be asked within a session. Use a newer client.",
                    ask.capability,
                )
            if not covers(self.client_capabilities, ask.capability):
                raise CannotAsk(
                    f"This needs to ask the client ({ask.method}), which it did not declare to "
                    f"support",
                    ask.capability,
                )


_ACTIONS = ("accept", "decline", "cancel")


def _read_elicited(answer: Any, schema: Any, fields: JSONObject) -> Elicited | None:
    """Return what an answer says; None when it does not fit the form."""
    action = answer.get("action") if isinstance(answer, dict) else None
    if action not in _ACTIONS:
        return None
    if action != "accept":
        return Elicited(action=action)
    content = answer.get("content", {})
    read = read_form(schema, fields, content)
    return None if read is None else Elicited(action=action, content=content, data=read.data)
