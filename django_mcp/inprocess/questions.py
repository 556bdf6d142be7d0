"""Answer the questions of a call in process, with given answers or by a function."""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeAlias

from asgiref.sync import sync_to_async

from django_mcp.inprocess.errors import Unanswered
from django_mcp.protocol.json import JSONObject, decode, encode

Answers: TypeAlias = (
    Mapping[str, Any] | Iterable[Any] | Callable[[str, JSONObject], Any | Awaitable[Any]]
)
"""Answers by the key of their question, in the order of the questions, or a function of both."""

ALL_CAPABILITIES: JSONObject = {
    "elicitation": {"form": {}, "url": {}},
    "sampling": {"tools": {}},
    "roots": {},
}
"""The capabilities of a client that can be asked anything."""

_ACTIONS = ("accept", "decline", "cancel")


class Answerer:
    """Holds the answers to the questions of one or more calls.

    A question is answered by its key, else in the order of the questions, else by a function.
    """

    def __init__(self, given: Answers | None = None) -> None:
        self.by_key: dict[str, Any] = {}
        self.queue: deque[Any] = deque()
        self.function: Callable[[str, JSONObject], Any] | None = None
        self._used: set[str] = set()
        if given is not None:
            self.add(given)

    def add(self, given: Answers) -> None:
        """Add answers of one of the three kinds."""
        if isinstance(given, Mapping):
            self.by_key.update(given)
        elif callable(given):
            self.function = given
        else:
            self.queue.extend(given)

    def begin(self) -> None:
        """Start a new call, whose questions may have the same keys as the last one's."""
        self._used.clear()

    async def answer_all(self, questions: Mapping[str, JSONObject]) -> JSONObject:
        """Return the answers to the questions of one round, in the protocol's form.

        Raises:
            Unanswered: one of them has none.
        """
        return {
            key: to_answer(question, await self._find(key, question, questions))
            for key, question in questions.items()
        }

    async def _find(
        self, key: str, question: JSONObject, questions: Mapping[str, JSONObject]
    ) -> Any:
        if key in self.by_key:
            if key in self._used:
                raise Unanswered(
                    f"The question {key!r} was asked again, because the answer "
                    f"{self.by_key[key]!r:.100} does not fit{_message_of(question)}",
                    questions,
                )
            self._used.add(key)
            return self.by_key[key]
        if self.queue:
            return self.queue.popleft()
        if self.function is None:
            raise Unanswered(_describe(key, question, self.by_key), questions)
        if inspect.iscoroutinefunction(self.function):
            return await self.function(key, question)
        # It may ask a person, or query the database.
        return await sync_to_async(self.function, thread_sensitive=True)(key, question)


def to_answer(question: JSONObject, value: Any) -> JSONObject:
    """Return an answer in the protocol's form.

    Args:
        question: in the protocol's form.
        value: for a form its fields (a mapping, or an instance of its class), `True` to accept,
            `False` or `"decline"`, None or `"cancel"`; for the client's model a text or a message;
            for the roots a list of URIs or roots.

    Raises:
        TypeError: the value has another type.
    """
    method = question.get("method")
    if method == "elicitation/create":
        return _to_elicited(value)
    if method == "sampling/createMessage" and isinstance(value, str):
        content = {"type": "text", "text": value}
        return {"role": "assistant", "content": content, "model": "unknown"}
    if method == "roots/list" and not isinstance(value, Mapping | str):
        roots = [{"uri": each} if isinstance(each, str) else each for each in value]
        return {"roots": roots}
    return _to_object(value)


def _to_elicited(value: Any) -> JSONObject:
    if value is True:
        return {"action": "accept"}
    if value is False:
        return {"action": "decline"}
    if value is None:
        return {"action": "cancel"}
    if isinstance(value, str) and value in _ACTIONS:
        return {"action": value}
    return {"action": "accept", "content": _to_object(value)}


def _to_object(value: Any) -> JSONObject:
    found = decode(encode(value))
    if not isinstance(found, dict):
        raise TypeError(f"{value!r:.100} is not an answer to this question.")
    return found


def _describe(key: str, question: JSONObject, given: Mapping[str, Any]) -> str:
    asked = _message_of(question) or f" ({question.get('method')})"
    known = f" There are answers to {', '.join(map(repr, given))}." if given else ""
    return f"Nothing answers the question {key!r}{asked}.{known}"


def _message_of(question: JSONObject) -> str:
    message = question.get("params", {}).get("message")
    return f": {message!r:.500}" if message else ""
