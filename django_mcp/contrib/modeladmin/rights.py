"""Fields that give rights, such as `is_superuser`: the user agrees before a tool of the admin changes them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission
from django.core.exceptions import FieldDoesNotExist
from django.db.models import Model
from django.utils.text import Truncator
from django.utils.translation import gettext as _

from django_mcp.contrib.confirming import CONFIRMATION, CONFIRMATION_SCHEMA, Agreement
from django_mcp.protocol.json import JSONObject

_FLAGS = frozenset({"is_superuser", "is_staff"})

MAX_SHOWN_CHARS = 300
"""Of the new value of a field, in the question."""

QUESTION_SCHEMA: JSONObject = {
    "message": {"type": "string", "description": "What the user has to agree to."},
    CONFIRMATION: CONFIRMATION_SCHEMA,
}
"""What a result has in place of the object until the user has agreed."""


def find_rights(model: type[Model], names: Collection[str], allowed: Collection[str]) -> set[str]:
    """Return the fields of a form that give rights to users.

    Args:
        model: of the form.
        names: of its fields.
        allowed: those that are written without a question.
    """
    return {name for name in names if name not in allowed and _gives_rights(model, name)}


def _gives_rights(model: type[Model], name: str) -> bool:
    try:
        field: Any = model._meta.get_field(name)
    except FieldDoesNotExist:
        return False
    is_of_users = issubclass(model, get_user_model())
    if not field.is_relation:
        return is_of_users and name in _FLAGS
    if not field.many_to_many or field.related_model is None:
        return False
    if issubclass(field.related_model, Permission):
        return True
    return is_of_users and issubclass(field.related_model, Group)


def ask_about_rights(form: Any, changed: Collection[str], state: list[Any]) -> Agreement:
    """Return what the user has to agree to.

    Args:
        form: is valid.
        changed: the fields that give rights, and that it changes.
        state: differs for another call.
    """
    instance = form.instance
    what = f"{instance._meta.verbose_name} {instance}"
    shown = "; ".join(
        f"{form.fields[name].label or name}: {_show(form.cleaned_data[name])}"
        for name in sorted(changed)
    )
    return Agreement(
        "change",
        title=_("Change"),
        question=_("Change the rights of %(what)s? %(changes)s.")
        % {"what": what, "changes": shown},
        refused=_("The user did not agree, so nothing was changed."),
        state=state,
    )


def _show(value: Any) -> str:
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    text = ", ".join(map(str, value)) or _("none")
    return Truncator(text).chars(MAX_SHOWN_CHARS)


def without_confirmation(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that go into the form."""
    return {name: value for name, value in arguments.items() if name != CONFIRMATION}
