"""Deletions that the user agrees to: by an answer where the client can ask, by a second call elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.core import signing
from django.utils.crypto import constant_time_compare, salted_hmac
from django.utils.translation import gettext as _

from django_mcp import CannotAsk, ToolError
from django_mcp.context import Context
from django_mcp.contrib.generated import object_schema
from django_mcp.protocol.json import JSONObject, encode_sorted

CONFIRMATION = "confirmation"
"""The argument that holds what a call without it returned."""

MAX_TOKEN_CHARS = 500
"""Longer confirmations are rejected unread."""

MAX_AGE_S = 600
"""How long a confirmation is good for."""

_SALT = "django_mcp.contrib.delete"

Count = tuple[str, int]
"""What objects are called, and how many there are."""

CONFIRMATION_SCHEMA: JSONObject = {
    "type": "string",
    "maxLength": MAX_TOKEN_CHARS,
    "description": "What a call without it returned, after the user has agreed.",
}

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


class Deletion:
    """A deletion that the user has to agree to.

    Args:
        what: is deleted.
        falls: what is deleted with it.
        state: differs for another user, other objects and another state of them.
    """

    def __init__(self, what: str, falls: Sequence[Count], state: Sequence[Any]) -> None:
        self._what = what
        told = encode_sorted([*state, falls])
        self._state = salted_hmac(_SALT, told, algorithm="sha256").hexdigest()
        question = _("Delete %(what)s? This cannot be undone.") % {"what": what}
        if falls:
            lost = ", ".join(f"{count} {name}" for name, count in falls)
            question = f"{question} " + _("This also deletes: %(lost)s.") % {"lost": lost}
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
        agreed = _ask(ctx, self._result["message"], self._state)
        if agreed is None:
            if CONFIRMATION not in arguments:
                return {**self._result, CONFIRMATION: signing.dumps(self._state, salt=_SALT)}
            _check_confirmation(arguments[CONFIRMATION], self._state)
        elif not agreed:
            refused = _("The user did not agree, so nothing was deleted.")
            return {**self._result, "message": refused}
        return None

    def done(self) -> JSONObject:
        """Return the result of the call that has deleted."""
        message = _("%(what)s was deleted.") % {"what": self._what}
        return {**self._result, "deleted": True, "message": message}


def _ask(ctx: Context, question: str, state: str) -> bool | None:
    """Ask the user, and return whether they agreed; None, if they cannot be asked."""
    form = {
        "type": "object",
        "properties": {"delete": {"type": "boolean", "title": _("Delete"), "default": False}},
        "required": ["delete"],
    }
    try:
        # Another state is another question, so an answer is good for what it was told only.
        answer = ctx.elicit(question, form, key=f"delete-{state[:20]}")
    except CannotAsk:
        return None
    return answer.is_accepted and answer.data["delete"] is True


def _check_confirmation(token: str, state: str) -> None:
    try:
        confirmed = str(signing.loads(token, salt=_SALT, max_age=MAX_AGE_S))
    except signing.BadSignature:
        confirmed = ""
    if not constant_time_compare(confirmed, state):
        # Or the object has changed since, or more would fall with it.
        raise ToolError(
            _("The confirmation is not for this. Call without it, and ask the user again.")
        )
