"""What a handler reads that steers the rounds of a call itself: the answers, and its own state."""

from __future__ import annotations

from typing import Any, TypeVar, cast

from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.sampling_result import SamplingResult, read_sampling_result
from django_mcp.registry.forms import convert
from django_mcp.registry.problems import ArgumentErrors, Problem
from django_mcp.registry.reports import describe_conversion
from django_mcp.server.asking.answers import Elicited, read_elicited
from django_mcp.server.exchange.call import Call

__all__ = ["InputResponses"]

T = TypeVar("T")


class InputResponses(Call):
    """The part of a context that reads what the client answered to an `InputRequired`."""

    @property
    def input_responses(self) -> JSONObject:
        """The client's answers by key, unchecked, for handlers that return `InputRequired`."""
        return self.answers.known

    def has_input_response(self, key: str) -> bool:
        """Return whether the client answered a question of an `InputRequired`."""
        return key in self.answers.known

    def input_response_as(self, cls: type[T], key: str) -> T | None:
        """Return an answer as an instance of a class: of a form its fields, of others all of it.

        Args:
            cls: a dataclass, TypedDict, pydantic model or other type that pydantic reads; `Elicited`
                or `SamplingResult` for an answer of that kind.
            key: of the question.

        Returns:
            None when there is no answer, or the user said no.

        Raises:
            ArgumentErrors: the answer does not fit; uncaught, the caller is told so.
        """
        answer = self.answers.known.get(key)
        if isinstance(answer, dict) and cls in (Elicited, SamplingResult):
            return cast("T", _read_as(cls, answer))
        if isinstance(answer, dict) and "action" in answer:
            answer = answer.get("content", {}) if answer["action"] == "accept" else None
        return None if answer is None else _convert(cls, answer)

    def request_state_as(self, cls: type[T]) -> T | None:
        """Return `request_state` as an instance of a class; None on the first round."""
        state = self.answers.state
        return None if state is None else _convert(cls, state)

    @property
    def request_state(self) -> Any:
        """What the last round's `InputRequired` held as its state; None on the first."""
        return self.answers.state


def _read_as(cls: type, answer: JSONObject) -> Elicited | SamplingResult:
    try:
        if cls is SamplingResult:
            return read_sampling_result(answer)
        return read_elicited(answer)
    except ValueError as error:
        raise ArgumentErrors([Problem("", str(error))]) from None


def _convert(cls: type[T], value: Any) -> T:
    from pydantic import ValidationError

    try:
        found: T = convert(cls, value)
    except ValidationError as error:
        raise ArgumentErrors(describe_conversion(error, value)) from None
    return found
