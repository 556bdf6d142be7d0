"""What the user is asked about objects: whether to delete them, and how a question names them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.utils.translation import gettext as _

from django_mcp.agreement import Agreement
from django_mcp.context import Context
from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.sanitize import clean
from django_mcp.registry.object_schemas import object_schema
from django_mcp.server.asking.confirming import CONFIRMATION

MAX_TEXT_CHARS = 100
"""Of the text of an object, in a question."""

Count = tuple[str, int]
"""What objects are called, and how many there are."""

RESULT_SCHEMA = object_schema(
    {
        "deleted": {"type": "boolean"},
        "message": {"type": "string"},
        "falls": {
            "type": "array",
            "description": "What is deleted as well.",
            "items": object_schema(
                {"what": {"type": "string"}, "count": {"type": "integer"}},
                required=["what", "count"],
            ),
        },
        CONFIRMATION: {
            "type": "string",
            "description": "Call again with this, after the user has agreed.",
        },
    },
    required=["deleted", "message", "falls"],
)


def quote(text: Any, max_chars: int = MAX_TEXT_CHARS) -> str:
    """Return the text of an object as a question has it: in quotation marks, on one line, cut short.

    Otherwise the name of an object could read like a part of the question.
    """
    return '"' + clean(str(text), max_chars).replace('"', "'") + '"'


class Deletion:
    """A deletion that the user has to agree to.

    Args:
        what: is deleted.
        falls: what is deleted with it.
        state: differs for another user, other objects and another state of them.
    """

    def __init__(self, what: str, falls: Sequence[Count], state: Sequence[Any]) -> None:
        self._what = what
        question = _("Delete %(what)s? This cannot be undone.") % {"what": what}
        if falls:
            lost = ", ".join(f"{count} {name}" for name, count in falls)
            question = f"{question} " + _("This also deletes: %(lost)s.") % {"lost": lost}
        self._agreement = Agreement(
            "delete",
            title=_("Delete"),
            question=question,
            refused=_("The user did not agree, so nothing was deleted."),
            state=[*state, falls],
        )
        self._result: JSONObject = {
            "deleted": False,
            "message": question,
            "falls": [{"what": name, "count": count} for name, count in falls],
        }

    def ask(self, ctx: Context, arguments: Mapping[str, Any]) -> JSONObject | None:
        """Return the result of a call that deletes nothing; None, if the user has agreed.

        Raises:
            ToolError: the confirmation among the arguments is not for this.
        """
        told = self._agreement.ask(ctx, arguments)
        return None if told is None else {**self._result, **told}

    def done(self) -> JSONObject:
        """Return the result of the call that has deleted."""
        message = _("%(what)s was deleted.") % {"what": self._what}
        return {**self._result, "deleted": True, "message": message}
