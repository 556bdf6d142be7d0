"""What a client answered: read as what it was asked for, or the reason why it is no answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django_mcp.protocol.asks import Ask
from django_mcp.protocol.json import JSONObject
from django_mcp.registry.forms import Form
from django_mcp.registry.problems import Problem

__all__ = ["Elicited", "Unfit", "read_answer"]

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
    """An answer that does not answer the question; the problems are for the user."""

    problems: Sequence[Problem] = ()

    def explain(self, message: str) -> str:
        """Return the message of the question with what was wrong below it."""
        lines = [f"- {_name(each)}{each.message}" for each in self.problems]
        return "\n".join([message, "", *lines]) if lines else message


def _name(problem: Problem) -> str:
    field = problem.pointer.removeprefix("/").replace("~1", "/").replace("~0", "~")
    return f"{field}: " if field else ""


def read_answer(ask: Ask, form: Form | None, answer: Any) -> Any:
    """Return what an answer says, or an `Unfit`.

    Args:
        ask: the question.
        form: what it is read by, where a form was asked for.
        answer: as the client sent it.

    Returns:
        An `Elicited`, the message of the client's model, or a list of roots.
    """
    if not isinstance(answer, dict):
        return Unfit()
    if ask.method == "elicitation/create":
        return _read_elicited(form, answer)
    if ask.method == "roots/list":
        roots = answer.get("roots")
        return roots if isinstance(roots, list) else Unfit()
    return answer if "content" in answer and "role" in answer else Unfit()


def _read_elicited(form: Form | None, answer: JSONObject) -> Elicited | Unfit:
    action = answer.get("action")
    if action not in _ACTIONS:
        return Unfit()
    if action != "accept" or form is None:
        return Elicited(action=action)
    content = answer.get("content", {})
    read = form.read(content)
    if isinstance(read, list):
        return Unfit(read)
    return Elicited(action=action, content=content, data=read.data)
