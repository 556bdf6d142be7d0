"""Ask the user to agree to a call of a tool with `confirm=`, as generated tools ask."""

from __future__ import annotations

from typing import Any

from django.db.models import Model
from django.utils.translation import gettext as _

from django_mcp import ToolError
from django_mcp.agreement import Agreement, read_state
from django_mcp.context import Context
from django_mcp.extensions.apps.core.confirm import Confirmed
from django_mcp.extensions.apps.site.values import find_terms, on_one_line
from django_mcp.protocol.json import JSONObject, encode
from django_mcp.registry.access import ObjectCheck
from django_mcp.server.asking.confirming import CONFIRMATION, without_confirmation

MAX_SHOWN_CHARS = 4_000
"""Of a question with its arguments. Nobody can agree to what is cut."""


def agree(
    confirmed: Confirmed, ctx: Context, arguments: JSONObject, kwargs: dict[str, Any]
) -> JSONObject | None:
    """See `Agree`."""
    title = str(confirmed.title)
    question, said = confirmed.question, None
    if isinstance(question, ObjectCheck):
        # Arguments may be in it, and must not write lines that look like terms.
        said = on_one_line(str(question.answer(ctx, kwargs)))
    elif question is not None:
        said = str(question)
    terms = [
        f"{term}: {value}"
        for term, value in find_terms(without_confirmation(arguments), confirmed.schema)
    ]
    asked = "\n".join([said or f"{title}?", *terms])
    if len(asked) > MAX_SHOWN_CHARS:
        raise ToolError(_("This is too long to ask the user about. Change less at once."))
    state = None if confirmed.state is None else _to_state(confirmed.state.answer(ctx, kwargs))
    agreement = Agreement(
        "confirm",
        title=title,
        question=asked,
        refused=_("The user did not agree, so nothing was done."),
        state=[state],
        shown=said or "",
    )
    told = agreement.ask(ctx, arguments)
    if told is None:
        return None
    text = told["message"] if CONFIRMATION not in told else encode(told).decode()
    return {"text": text, "structured": told}


def _to_state(value: Any) -> Any:
    """Return what a function of the site says of what is there, in a form that is equal while nothing changes."""
    if isinstance(value, Model):
        return [value._meta.label, str(value.pk), read_state(value)]
    if isinstance(value, dict):
        return {str(name): _to_state(each) for name, each in value.items()}
    if isinstance(value, str | int | float | bool | None):
        return value
    try:
        return [_to_state(each) for each in value]
    except TypeError:
        return str(value)
