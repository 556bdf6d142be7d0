"""The fields of a form as the template of a page shows them, and how those of a form of Django become such."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time
from itertools import islice
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.forms.utils import to_current_timezone
from django.utils.safestring import mark_safe
from django.utils.translation import gettext as _

from django_mcp.forms import offered_fields
from django_mcp.protocol.json import encode

MAX_CHOICES = 200
"""A field with more of them takes the value of a choice as text."""

MAX_LABEL_CHARS = 200

TEXT, NUMBER, BOOLEAN, JSON, LIST, ITEMS = "text", "number", "boolean", "json", "list", "items"
"""How the client of a page reads an input: as its text, as a number, whether it is checked, as JSON, all texts that
are chosen, and all that are chosen as JSON."""

ATTRIBUTES = (
    "autocapitalize", "autocomplete", "cols", "dir", "inputmode", "lang", "max", "maxlength", "min", "minlength",
    "pattern", "placeholder", "rows", "spellcheck", "step",
)  # fmt: skip
"""The attributes of widgets that inputs keep."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """A choice of a field.

    Attributes:
        value: as the input has it.
        label: for people.
        group: the label of its group; "" if it is in none.
        is_chosen: whether the form starts with it.
    """

    value: str
    label: str
    group: str = ""
    is_chosen: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class FormField:
    """A field of a form, for its template.

    Attributes:
        name: of the argument.
        label, help: for people. A help text that is safe may hold HTML.
        kind: the type of an `<input>`, `"textarea"`, `"select"`, `"multiple"`, `"radio"` or `"checkboxes"`.
        reads: how the client reads its input; see `TEXT`.
        value: that the form starts with, as JSON.
        text: the same as the input has it.
        is_required: whether it has to be filled in.
        choices: at most `MAX_CHOICES`; None: it has none.
        has_more: whether there are more choices, so that it takes one as text.
        empty: what is sent for an empty input: `""` its text, `"null"`, or `"omit"` nothing.
        attributes: further ones of its input.
    """

    name: str
    label: Any
    help: Any = ""
    kind: str = "text"
    reads: str = TEXT
    value: Any = None
    text: str = ""
    is_required: bool = False
    choices: tuple[Choice, ...] | None = None
    has_more: bool = False
    empty: str = ""
    attributes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """Of its input."""
        return f"mcp-field-{self.name}"

    @property
    def is_hidden(self) -> bool:
        """Whether people do not see it."""
        return self.kind == "hidden"

    @property
    def is_group(self) -> bool:
        """Whether it has several inputs."""
        return self.kind in ("radio", "checkboxes")

    @property
    def chosen(self) -> list[Choice]:
        """The choices that the form starts with."""
        return [choice for choice in self.choices or () if choice.is_chosen]

    @property
    def groups(self) -> list[tuple[str, list[Choice]]]:
        """The choices by the labels of their groups, in order."""
        groups: list[tuple[str, list[Choice]]] = []
        for choice in self.choices or ():
            if not groups or groups[-1][0] != choice.group:
                groups.append((choice.group, []))
            groups[-1][1].append(choice)
        return groups


# -- forms of Django


def describe_form(form: forms.BaseForm) -> list[FormField]:
    """Return the fields of a form without data that callers may fill in, with the choices that it offers.

    It makes one query for each field that takes objects. Nothing is told of the others, such as those of passwords,
    whose values no page of Django shows.
    """
    offered = offered_fields(form.fields, (), (), takes_hidden=True)
    return [_describe_field(form, name, form.fields[name]) for name in offered]


def _describe_field(form: forms.BaseForm, name: str, each: Any) -> FormField:
    bound = form[name]
    start = bound.value()
    kind, reads = _find_kind(each)
    choices: tuple[Choice, ...] | None = None
    has_more = False
    if isinstance(each, forms.NullBooleanField):
        kind, reads = "select", JSON
        choices = choose_from(name_truths(), [to_json(start)])
    elif kind != "hidden" and hasattr(each, "choices"):
        chosen = _texts_of(each, start)
        choices, has_more = _read_choices(each, chosen)
        start = [choice.value for choice in choices if choice.is_chosen]
        start = start if reads == LIST else next(iter(start), None)
        kind = "text" if has_more else kind
    text = _to_text(each, start)
    if isinstance(each, forms.JSONField) and text == "null":
        text = ""
    return FormField(
        name=name,
        label=bound.label,
        # As in Django's own templates: a help text is the site's, and may have links.
        help=mark_safe(str(bound.help_text)) if bound.help_text else "",  # noqa: S308
        kind=kind,
        reads=reads,
        value=start if isinstance(start, bool | int | float | list | None) else text,
        text=text,
        is_required=each.required,
        choices=choices,
        has_more=has_more,
        # They read no empty text.
        empty="null" if reads == JSON or isinstance(each, forms.MultiValueField) else "",
        attributes=_attributes(each, kind),
    )


def _find_kind(each: Any) -> tuple[str, str]:
    """Return the kind of a field of a form, and how its input is read."""
    widget = each.widget
    if widget.is_hidden:
        return "hidden", JSON if isinstance(widget, forms.MultipleHiddenInput) else TEXT
    for classes, kind, reads in _WIDGETS:
        if isinstance(widget, classes):
            return kind, reads
    for classes, kind, reads in _FIELDS:
        if isinstance(each, classes):
            return kind, reads
    if isinstance(each, forms.MultiValueField) or hasattr(each, "base_field"):
        return "textarea", JSON
    return "textarea" if isinstance(widget, forms.Textarea) else "text", TEXT


_WIDGETS: Sequence[tuple[Any, str, str]] = (
    (forms.CheckboxSelectMultiple, "checkboxes", LIST),
    (forms.SelectMultiple, "multiple", LIST),
    (forms.RadioSelect, "radio", TEXT),
    (forms.NullBooleanSelect, "select", JSON),
    (forms.Select, "select", TEXT),
    (forms.CheckboxInput, "checkbox", BOOLEAN),
)
_FIELDS: Sequence[tuple[Any, str, str]] = (
    (forms.JSONField, "textarea", JSON),
    ((forms.DateTimeField, forms.SplitDateTimeField), "datetime-local", TEXT),
    (forms.DateField, "date", TEXT),
    (forms.TimeField, "time", TEXT),
    (forms.IntegerField, "number", TEXT),
    (forms.EmailField, "email", TEXT),
    (forms.URLField, "url", TEXT),
)


def _attributes(each: Any, kind: str) -> dict[str, Any]:
    own = each.widget.attrs
    given = {name: own[name] for name in ATTRIBUTES if name in own}
    if kind == "number" and not isinstance(each, forms.FloatField | forms.DecimalField):
        given.setdefault("step", each.step_size or 1)
    elif kind == "number":
        given.setdefault("step", "any")
    if kind in ("time", "datetime-local"):
        given.setdefault("step", 1)
    return given


def name_truths() -> list[tuple[str, str]]:
    """Return the choices of a field that is unknown, true or false, each with its label."""
    return [("null", _("Unknown")), ("true", _("Yes")), ("false", _("No"))]


def choose_from(pairs: Iterable[tuple[str, Any]], chosen: Sequence[str]) -> tuple[Choice, ...]:
    """Return the choices of pairs of a value and a label; `chosen` are the values that a form starts with."""
    return tuple(
        Choice(value=value, label=str(label), is_chosen=value in chosen) for value, label in pairs
    )


def _texts_of(each: Any, start: Any) -> list[str]:
    """Return the values that a field with choices starts with, as its inputs have them."""
    prepared = each.prepare_value(start)
    values = prepared if isinstance(prepared, list | tuple | set) else [prepared]
    return [str(getattr(value, "value", value)) for value in values if value not in (None, "")]


def _read_choices(each: Any, chosen: Sequence[str]) -> tuple[tuple[Choice, ...], bool]:
    """Return the first choices of a field, and whether there are more.

    What the form starts with is among them, if the field offers it.
    """
    rows = getattr(each, "queryset", None)
    if rows is None:
        found = list(islice(_flat(each.choices), MAX_CHOICES + 1))
        more = len(found) > MAX_CHOICES
        if more:
            found = [*found[:MAX_CHOICES], *_find_chosen(each, found, chosen)]
    else:
        empty = [("", each.empty_label, "")] if each.empty_label is not None else []
        objects = list(rows[: MAX_CHOICES + 1])
        more = len(objects) > MAX_CHOICES
        known = {str(each.prepare_value(one)) for one in objects[:MAX_CHOICES]}
        if more:
            objects = objects[:MAX_CHOICES] + _find_objects(each, set(chosen) - known)
        found = [
            *empty,
            *(
                (str(each.prepare_value(one)), str(each.label_from_instance(one)), "")
                for one in objects
            ),
        ]
    return tuple(
        Choice(
            value=value,
            label=label[:MAX_LABEL_CHARS],
            group=group,
            is_chosen=value in chosen or (not chosen and value == ""),
        )
        for value, label, group in found
    ), more


def _find_chosen(
    each: Any, known: Sequence[tuple[str, str, str]], chosen: Sequence[str]
) -> Iterator[tuple[str, str, str]]:
    shown = {value for value, _label, _group in known[:MAX_CHOICES]}
    wanted = set(chosen) - shown
    if wanted:
        yield from (choice for choice in _flat(each.choices) if choice[0] in wanted)


def _find_objects(each: Any, keys: Iterable[str]) -> list[Any]:
    """Return the objects with some keys that a field offers, which it decides as for what users send."""
    found = []
    for key in list(keys)[:MAX_CHOICES]:
        try:
            cleaned = each.clean([key] if isinstance(each, forms.ModelMultipleChoiceField) else key)
        except ValidationError:
            continue
        found += list(cleaned) if isinstance(each, forms.ModelMultipleChoiceField) else [cleaned]
    return found


def _flat(choices: Any, group: str = "") -> Iterator[tuple[str, str, str]]:
    for value, label in choices:
        if isinstance(label, list | tuple):
            yield from _flat(label, str(value))
        else:
            yield ("" if value is None else str(getattr(value, "value", value)), str(label), group)


def _to_text(each: Any, value: Any) -> str:
    """Return a value as an input has it, in the forms of HTML whatever the active language."""
    if isinstance(each, forms.SplitDateTimeField) and isinstance(value, list | tuple):
        value = datetime.combine(*value) if all(value) else None
    if isinstance(value, datetime):
        return write_moment(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, time):
        return value.isoformat("seconds")
    if isinstance(value, list | tuple):
        is_json = isinstance(each, forms.MultiValueField) or hasattr(each, "base_field")
        return to_json(value) if is_json else ", ".join(map(str, value))
    if value is None or isinstance(value, bool):
        return ""
    return str(value)


def to_json(value: Any) -> str:
    """Return a value as an input has it that is read as JSON."""
    return encode(value).decode()


def write_moment(moment: datetime) -> str:
    """Return a date-time in the current time zone, as forms of Django have it."""
    return to_current_timezone(moment).replace(tzinfo=None).isoformat("T", "seconds")
