"""Fields that give rights, such as `is_superuser`: the user agrees before a tool of the admin changes them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from django.contrib.admin.models import LogEntry
from django.contrib.contenttypes.models import ContentType
from django.db.models import Model, QuerySet
from django.forms.formsets import DELETION_FIELD_NAME
from django.utils.translation import gettext as _

from django_mcp import ArgumentErrors
from django_mcp.agreement import Agreement, read_state
from django_mcp.contrib.confirming import quote
from django_mcp.contrib.rights import find_rights
from django_mcp.forms.values import text_of
from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.sanitize import mark_invisible
from django_mcp.registry.problems import Problem
from django_mcp.server.asking.confirming import CONFIRMATION, CONFIRMATION_SCHEMA

MAX_SHOWN_CHARS = 4_000
"""Of the new values of a form, in the question. Nobody can agree to what is cut."""

QUESTION_SCHEMA: JSONObject = {
    "message": {"type": "string", "description": "What the user has to agree to."},
    CONFIRMATION: CONFIRMATION_SCHEMA,
}
"""What a result has in place of the object until the user has agreed."""


def read_state_of_rights(user: Any, form: Any) -> list[Any]:
    """Return what differs after each change of an object, or after the next one that is added.

    The entry of the history differs even if another change took back what was confirmed, so a
    confirmation is good for one change.

    Args:
        user: who changes or adds.
        form: of the object; is valid.
    """
    instance, state = form.instance, []
    content_type = ContentType.objects.get_for_model(instance, for_concrete_model=False)
    entries = LogEntry.objects.filter(content_type=content_type)
    if instance._state.adding:
        entries = entries.filter(user=user.pk)
    else:
        entries = entries.filter(object_id=str(instance.pk))
        rows = type(instance)._base_manager.using(instance._state.db)
        members = [
            sorted(str(each.pk) for each in form.initial.get(field.name) or ())
            for field in instance._meta.many_to_many
        ]
        state = [read_state(rows.get(pk=instance.pk)), members]
    return [state, entries.order_by("-pk").values_list("pk", flat=True).first()]


def ask_about_rights(form: Any, changes: list[str], state: list[Any]) -> Agreement:
    """Return what the user has to agree to.

    Args:
        form: of the object that is changed.
        changes: of fields that give rights.
        state: differs for another call.

    Raises:
        ArgumentErrors: they are too long for a question.
    """
    instance = form.instance
    what = f"{instance._meta.verbose_name} {quote(text_of(instance) or instance.pk)}"
    shown = mark_invisible("; ".join(changes), lambda _char: "\ufffd")
    if len(shown) > MAX_SHOWN_CHARS:
        text = _("This is too long to ask the user about. Change less at once.")
        raise ArgumentErrors([Problem("", text)])
    return Agreement(
        "change",
        title=_("Change"),
        question=_("Change the rights of %(what)s? %(changes)s.")
        % {"what": what, "changes": shown},
        refused=_("The user did not agree, so nothing was changed."),
        state=state,
    )


def describe_change(form: Any, names: Collection[str]) -> str:
    """Return the new values of some fields of a valid form, and what members come and go."""
    return "; ".join(
        f"{form.fields[name].label or name}: {_show(form, name)}"
        for name in sorted(names)
        if name in form.fields
    )


def describe_change_of_row(rows: Any, form: Any, changed: Collection[str] | None) -> str | None:
    """Return what a form changes in a row of an inline that gives rights; None, if it changes none.

    Args:
        rows: what these are called.
        form: of the row; is valid.
        changed: the fields that it changes; None: the row is added or deleted.
    """
    model = type(form.instance)
    names = names_of_row(model, form.changed_data) if changed is None else changed
    rights = find_rights(model, names, (), form.fields)
    if not rights:
        return None
    if form.cleaned_data.get(DELETION_FIELD_NAME):
        text = text_of(form.instance) or form.instance.pk
        return f"{rows}: " + _("%(what)s is deleted") % {"what": quote(text)}
    return f"{rows}: {describe_change(form, rights)}"


def names_of_row(model: type[Model], fields: Collection[str]) -> set[str]:
    """Return the names of what a whole row of an inline has: the fields of its model, and some of its form."""
    return {*(model_field.name for model_field in model._meta.get_fields()), *fields}


def _show(form: Any, name: str) -> str:
    value = form.cleaned_data.get(name)
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if not isinstance(value, QuerySet | list | tuple | set):
        return _on_one_line([value])
    stored = form.get_initial_for_field(form.fields[name], name)
    before = list(stored) if isinstance(stored, QuerySet | list | tuple | set) else []
    known, new = set(map(_key_of, before)), set(map(_key_of, value))
    added = [each for each in value if _key_of(each) not in known]
    removed = [each for each in before if _key_of(each) not in new]
    parts = [_on_one_line(added)] if added or not removed else []
    if removed:
        parts.append(_("without %(removed)s") % {"removed": _on_one_line(removed)})
    return ", ".join(parts)


def _key_of(member: Any) -> Any:
    return getattr(member, "pk", member)


def _on_one_line(values: Sequence[Any]) -> str:
    texts = ("" if value is None else " ".join(str(value).split()) for value in values)
    return ", ".join(text or _("none") for text in texts) or _("none")
