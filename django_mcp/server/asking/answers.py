"""Read the answers of clients as what they were asked for, or find out what is wrong with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django_mcp.protocol.asks import Ask
from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.sampling import read_sampling_result
from django_mcp.registry.forms import Form
from django_mcp.registry.problems import Problem

_ACTIONS = ("accept", "decline", "cancel")


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
class Unfit:
    """An answer that does not fit the question; the problems are for the user."""

    problems: Sequence[Problem] = ()

    def explain(self, message: str) -> str:
        """Return the message of the question, with the problems below it."""
        lines = [f"- {_name(each)}{each.message}" for each in self.problems]
        return "\n".join([message, "", *lines]) if lines else message


def _name(problem: Problem) -> str:
    field = problem.pointer.removeprefix("/").replace("~1", "/").replace("~0", "~")
    return f"{field}: " if field else ""


def _unfit(message: str) -> Unfit:
    return Unfit([Problem("", message)])


def read_answer(ask: Ask, form: Form | None, answer: Any) -> Any:
    """Return what a client answered, or an `Unfit`.

    That is an `Elicited`, a `SamplingResult` (the answer itself if the question is raw) or a list
    of roots.

    Args:
        form: reads the answer, if the question has a form.
    """
    if not isinstance(answer, dict):
        return _unfit("it must be an object")
    if ask.method == "elicitation/create":
        return _read_elicited(form, answer)
    if ask.method == "roots/list":
        roots = answer.get("roots")
        if isinstance(roots, list) and all(
            isinstance(root, dict) and isinstance(root.get("uri"), str) for root in roots
        ):
            return roots
        return _unfit("it must have a list of roots, each with its uri")
    try:
        result = read_sampling_result(answer)
    except ValueError as error:
        return _unfit(str(error))
    return answer if ask.is_raw else result


def find_malformed(responses: Mapping[str, Any]) -> str | None:
    """Return what is wrong with answers by key that are not objects, else None."""
    for key, answer in responses.items():
        if type(answer) is not dict:
            return f"inputResponses must hold an object for {key[:100]!r}"
    return None


def read_elicited(answer: JSONObject) -> Elicited:
    """Return what the user did with a question, without checking the content against a form.

    Raises:
        ValueError: the answer has no valid action.
    """
    action, content = answer.get("action"), answer.get("content")
    if action not in _ACTIONS:
        raise ValueError(f"the action must be {_ACTIONS[0]}, {_ACTIONS[1]} or {_ACTIONS[2]}")
    has_content = action == "accept" and isinstance(content, dict)
    return Elicited(action=action, content=content if has_content else None)


def _read_elicited(form: Form | None, answer: JSONObject) -> Elicited | Unfit:
    try:
        elicited = read_elicited(answer)
    except ValueError as error:
        return _unfit(str(error))
    if not elicited.is_accepted or form is None:
        return Elicited(action=elicited.action)
    content = answer.get("content", {})
    read = form.read(content)
    if isinstance(read, list):
        return Unfit(read)
    return Elicited(action=elicited.action, content=content, data=read.data)
