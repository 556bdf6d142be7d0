"""The rounds of a call that asks the client: what ends one, and the answers for the next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django_mcp.protocol.asks import Ask
from django_mcp.protocol.errors import ToolError
from django_mcp.protocol.json import JSONObject

# These are no `Exception`, so that a handler's own `except Exception` lets them pass.


@dataclass(eq=False)
class Asked(BaseException):
    """Leave a handler to ask the client."""

    asks: Mapping[str, Ask]


@dataclass(eq=False)
class OnceDue(BaseException):
    """Leave a handler to run a function once, in a transaction of its own."""

    key: str
    function: Callable[[], Any]


@dataclass(eq=False)
class Waiting(BaseException):
    """Leave a handler until an event other than an answer of the client.

    The handler runs again when `wait` returns, and finds the key in `Answers.waited`.
    """

    key: str
    wait: Callable[[], Awaitable[None]]


class CannotAsk(Exception):
    """The client cannot be asked: it lacks the capability, or the server cannot send it requests.

    Attributes:
        capability: the capability that it would have to declare.
        unasked: the questions, if an error can contain them instead.
    """

    def __init__(
        self, message: str, capability: Mapping[str, Any], unasked: Sequence[Ask] = ()
    ) -> None:
        super().__init__(message)
        self.capability = capability
        self.unasked = unasked


class AskFailed(ToolError):
    """The client did not answer a question. If a tool does not catch it, the model gets its text.

    Attributes:
        code: the client's error code; None if it did not answer in time.
    """

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.code = code

    @classmethod
    def of(cls, error: JSONObject) -> AskFailed:
        """Return the exception for a client's error object."""
        message, code = error.get("message"), error.get("code")
        return cls(
            f"The client refused to answer: {message!s:.500}", code if type(code) is int else None
        )


class Answers:
    """The answers and results of a call's earlier rounds.

    Attributes:
        known: the client's unchecked answers, by the key of the question.
        failed: the failures in place of answers, by the key of the question.
        kept: results of `once`, by key.
        state: the `state` of an `InputRequired`.
        is_resubmit: whether this call answers an earlier one.
        waited: keys of the `Waiting` that were raised during this request.
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
        """Restart the numbers of questions, since the handler runs from its start."""
        self._asked = 0

    def next_key(self) -> str:
        """Return the key of a question without one: its number."""
        self._asked += 1
        return f"question-{self._asked}"

    def count_unfit(self, key: str) -> int:
        """Count an answer that did not fit its question, and return the count."""
        self._unfit[key] += 1
        return self._unfit[key]
