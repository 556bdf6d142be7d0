"""The rounds of a call that asks: what ends one, and what the next one knows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django_mcp.protocol.asks import Ask
from django_mcp.protocol.errors import ToolError
from django_mcp.protocol.json import JSONObject

__all__ = ["Answers", "AskFailed", "Asked", "CannotAsk", "InputRequired", "OnceDue", "Waiting"]


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


class Waiting(BaseException):
    """Leave a handler until something has happened that is no answer of the client's.

    The handler runs again when `wait` returns, and finds the key among `Answers.waited`.
    """

    def __init__(self, key: str, wait: Callable[[], Awaitable[None]]) -> None:
        super().__init__()
        self.key = key
        self.wait = wait


class CannotAsk(Exception):
    """The client cannot be asked: it did not declare that it can, or nothing leads back to it.

    Attributes:
        capability: what it would have to declare.
        unasked: the questions, where an error can tell of them in their place.
    """

    def __init__(
        self, message: str, capability: Mapping[str, Any], unasked: Sequence[Ask] = ()
    ) -> None:
        super().__init__(message)
        self.capability = capability
        self.unasked = unasked


class AskFailed(ToolError):
    """The client was asked and gave no answer; uncaught, the model is told so.

    Attributes:
        code: the client's own error code; None when it did not answer in time.
    """

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.code = code

    @classmethod
    def of(cls, error: JSONObject) -> AskFailed:
        """Return what a handler is told of a client's error."""
        message, code = error.get("message"), error.get("code")
        return cls(
            f"The client refused to answer: {message!s:.500}", code if type(code) is int else None
        )


class Answers:
    """What a call knows from its earlier rounds.

    Attributes:
        known: the client's answers, by the key of the question. They are its input: unchecked.
        failed: what came in place of an answer, by the key of the question.
        kept: results of `once`, by key.
        state: what an explicit handler left for its next round.
        is_resubmit: whether this call answers an earlier one.
        waited: keys that were waited for while this request lasts.
    """

    __slots__ = ("_asked", "_unfit", "failed", "is_resubmit", "kept", "known", "state", "waited")

    def __init__(self) -> None:
        self.known: JSONObject = {}
        self.failed: dict[str, AskFailed] = {}
        self.kept: JSONObject = {}
        self.state: Any = None
        self.is_resubmit = False
        self.waited: set[str] = set()
        self._asked = 0
        self._unfit: Counter[str] = Counter()

    def begin(self) -> None:
        """Count the questions anew: the handler runs from its start."""
        self._asked = 0

    def next_key(self) -> str:
        """Return the key of a question that was given none: its place among the questions."""
        self._asked += 1
        return f"question-{self._asked}"

    def count_unfit(self, key: str) -> int:
        """Count an answer that did not fit its question, and return how many did not by now."""
        self._unfit[key] += 1
        return self._unfit[key]


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

    def __post_init__(self) -> None:
        if not self.asks and self.state is None:
            raise ValueError("InputRequired needs questions, a state, or both")
