"""Ask the user to agree to a call: by an answer where the client can ask, by a second call elsewhere.

The page that the client shows with the tool makes that call, or else the model does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.utils.crypto import salted_hmac
from django.utils.translation import gettext as _

from django_mcp.context import Context
from django_mcp.protocol.errors import ToolError
from django_mcp.protocol.json import JSONObject, encode_sorted
from django_mcp.registry.big_integers import write_integers
from django_mcp.server.asking.confirming import CONFIRMATION, sign_confirmation, take_confirmation
from django_mcp.server.exchange.call import CannotAsk, ToConfirm

_SALT = "django_mcp.agreement"


def read_state(instance: Any) -> list[str | None]:
    """Return the stored values of an object as texts, None for those that are null."""
    fields = instance._meta.concrete_fields
    # Some fields have no text for null.
    return [
        None if field.value_from_object(instance) is None else str(field.value_to_string(instance))
        for field in fields
    ]


class Agreement:
    """What the user has to agree to.

    Args:
        name: what is done, in one word.
        title: what the user chooses, such as `Delete`.
        question: says what is done.
        refused: what the caller is told if the user does not agree.
        state: differs for another user, other objects and another state of them.
        shown: what a page says beside the title and the arguments; None: the question.
    """

    def __init__(
        self,
        name: str,
        *,
        title: str,
        question: str,
        refused: str,
        state: Sequence[Any],
        shown: str | None = None,
    ) -> None:
        self._name = name
        self._title = title
        self.question = question
        self._refused = refused
        self._shown = question if shown is None else shown
        told = encode_sorted(list(state))
        self._state = salted_hmac(_SALT, told, algorithm="sha256").hexdigest()

    def ask(self, ctx: Context, arguments: Mapping[str, Any]) -> JSONObject | None:
        """Return what a call that does nothing tells its caller; None, if the user has agreed.

        Raises:
            ToolError: the confirmation among the arguments is not for this.
        """
        # From here on, each round has the user's consent, or asks for it.
        ctx._call.answers.is_single_use = True
        agreed = self._ask_user(ctx)
        if agreed is None:
            if CONFIRMATION not in arguments:
                return self._offer(ctx, arguments)
            if not take_confirmation(ctx._call, arguments, self._state):
                # Or the object has changed since, or more would fall with it.
                raise ToolError(
                    _("The confirmation is not for this call, was used already, or is too old.")
                    + " "
                    + _("Nothing was done. Call without it, so that the user is asked again.")
                )
        elif not agreed:
            return {"message": self._refused}
        return None

    def _offer(self, ctx: Context, arguments: Mapping[str, Any]) -> JSONObject:
        """Return the question, with what answers it: for the page that the client shows, or else for the model."""
        call = ctx._call
        confirmation = sign_confirmation(call, arguments, self._state)
        if call.show_question is None:
            return {"message": self.question, CONFIRMATION: confirmation}
        # A page would round large integers, and confirm another call.
        confirmed = {**write_integers(dict(arguments)), CONFIRMATION: confirmation}
        call.show_question(ToConfirm(question=self._shown, title=self._title, arguments=confirmed))
        told = _("Nothing was done yet. The user has to confirm this on the page that is shown.")
        return {"message": f"{told}\n{self.question}"}

    def _ask_user(self, ctx: Context) -> bool | None:
        """Ask the user, and return whether they agreed; None, if they cannot be asked."""
        form = {
            "type": "object",
            "properties": {self._name: {"type": "boolean", "title": self._title, "default": False}},
            "required": [self._name],
        }
        try:
            # Another state is another question, so an answer is good for what it was told only.
            answer = ctx.elicit(self.question, form, key=f"{self._name}-{self._state[:20]}")
        except CannotAsk:
            return None
        return answer.is_accepted and answer.data[self._name] is True
