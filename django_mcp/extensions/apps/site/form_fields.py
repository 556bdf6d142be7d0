"""The fields of a form as the template of a page shows them: those of a form of Django, and those of a JSON Schema."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time
from itertools import islice
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.forms.utils import to_current_timezone
from django.utils.dateparse import parse_datetime
from django.utils.safestring import mark_safe
from django.utils.translation import gettext as _

from django_mcp.contrib.model_forms import offered_fields
from django_mcp.extensions.apps.site.values import label_of
from django_mcp.protocol.json import JSONObject, encode

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
        choices = _choose_from(_truth(), [_to_json(start)])
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


def _truth() -> list[tuple[str, str]]:
    return [("null", _("Unknown")), ("true", _("Yes")), ("false", _("No"))]


def _choose_from(pairs: Iterable[tuple[str, Any]], chosen: Sequence[str]) -> tuple[Choice, ...]:
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
        return _write_moment(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, time):
        return value.isoformat("seconds")
    if isinstance(value, list | tuple):
        is_json = isinstance(each, forms.MultiValueField) or hasattr(each, "base_field")
        return _to_json(value) if is_json else ", ".join(map(str, value))
    if value is None or isinstance(value, bool):
        return ""
    return str(value)


def _to_json(value: Any) -> str:
    return encode(value).decode()


def _write_moment(moment: datetime) -> str:
    """Return a date-time in the current time zone, as forms of Django have it."""
    return to_current_timezone(moment).replace(tzinfo=None).isoformat("T", "seconds")


# -- JSON Schema


def describe_schema(
    schema: JSONObject,
    values: Mapping[str, Any],
    *,
    keys: Iterable[str] = (),
    hidden: Iterable[str] = (),
    is_change: bool = False,
) -> list[FormField]:
    """Return the fields of a JSON Schema of arguments.

    Args:
        schema: of all arguments, with its texts in the active language.
        values: that the form starts with, by argument.
        keys: arguments that are no fields.
        hidden: arguments that are sent as they are, and not shown.
        is_change: whether what is not sent stays as it is.
    """
    required = () if is_change else schema.get("required", ())
    fields = []
    for name, part in schema.get("properties", {}).items():
        if name in keys:
            continue
        if name in hidden:
            shown = _to_json(values.get(name))
            fields.append(
                FormField(name=name, label=name, kind="hidden", reads=JSON, text=shown, value=None)
            )
            continue
        fields.append(
            _describe_part(
                name, part, values, is_required=name in required, is_change=is_change, whole=schema
            )
        )
    return fields


def _describe_part(
    name: str,
    given: Any,
    values: Mapping[str, Any],
    *,
    is_required: bool,
    is_change: bool,
    whole: JSONObject,
) -> FormField:
    part, is_nullable = _resolve(given, whole)
    value = values.get(name, None if is_change else part.get("default"))
    label = label_of(name, part)
    field_of = _FieldOfSchema(part, is_nullable, value, is_required)
    kind, reads, choices = field_of.find_kind()
    empty = field_of.find_empty(kind, is_change=is_change)
    text = field_of.write(kind, reads)
    return FormField(
        name=name,
        label=label[:MAX_LABEL_CHARS],
        help=str(part.get("description", "")),
        kind=kind,
        reads=reads,
        value=value,
        text=text,
        is_required=is_required,
        choices=choices,
        empty=empty,
        attributes=field_of.find_attributes(kind),
    )


def _resolve(given: Any, whole: JSONObject) -> tuple[JSONObject, bool]:
    """Return a schema without references and without null, and whether it takes null."""
    part: JSONObject = dict(given) if isinstance(given, dict) else {}
    for _step in range(8):
        if "$ref" not in part:
            break
        name = str(part.pop("$ref")).rpartition("/")[2]
        part = {**whole.get("$defs", {}).get(name, {}), **part}
    branches = part.get("anyOf")
    others = [each for each in branches or () if each != {"type": "null"}]
    is_nullable = branches is not None and len(others) < len(branches)
    if is_nullable and len(others) == 1:
        del part["anyOf"]
        inner, _inner_null = _resolve(others[0], whole)
        part = {**inner, **part}
    types = part.get("type")
    if isinstance(types, list):
        is_nullable |= "null" in types
        left = [each for each in types if each != "null"]
        part["type"] = left[0] if len(left) == 1 else left
    if None in part.get("enum", ()):
        is_nullable = True
        part["enum"] = [each for each in part["enum"] if each is not None]
    return part, is_nullable


@dataclass(frozen=True, slots=True)
class _FieldOfSchema:
    """A part of a schema of arguments, and the value that it starts with."""

    part: JSONObject
    is_nullable: bool
    value: Any
    is_required: bool

    def find_kind(self) -> tuple[str, str, tuple[Choice, ...] | None]:
        part = self.part
        kind, form = part.get("type"), part.get("format")
        options = _options_of(part)
        if options is not None:
            return "select", JSON, self._choices(options)
        if kind == "boolean":
            return "select", JSON, self._choices([(True, _("Yes")), (False, _("No"))])
        if kind == "array" and isinstance(part.get("items"), dict):
            of_items = _options_of(part["items"])
            if of_items is not None:
                chosen = self.value if isinstance(self.value, list) else []
                return "checkboxes", ITEMS, _as_json(of_items, chosen)
        if kind in ("integer", "number"):
            return "number", NUMBER, None
        if isinstance(kind, list) and set(kind) <= {"string", "integer", "number"}:
            return "text", TEXT, None
        if kind == "string":
            is_long = part.get("maxLength", 0) > MAX_LABEL_CHARS
            usual = "textarea" if is_long else "text"
            return _FORMATS.get(str(form), usual), TEXT, None
        return "textarea", JSON, None

    def _choices(self, options: list[tuple[Any, str]]) -> tuple[Choice, ...]:
        chosen = _as_json(options, [self.value])
        has_choice = any(choice.is_chosen for choice in chosen)
        if has_choice and self.is_required and not self.is_nullable:
            return chosen
        return (Choice(value="", label="---------", is_chosen=not has_choice), *chosen)

    def find_empty(self, kind: str, *, is_change: bool) -> str:
        """Return what is sent for an empty input."""
        if is_change and self.is_nullable:
            return "null"
        is_text = kind in ("text", "textarea") and self.part.get("type") == "string"
        takes_empty = is_text and not self.part.get("minLength") and "format" not in self.part
        if self.is_required or (is_change and takes_empty):
            return "null" if self.is_nullable else ""
        return "omit"

    def write(self, kind: str, reads: str) -> str:
        value = self.value
        if value is None:
            return ""
        if kind == "datetime-local":
            moment = parse_datetime(str(value))
            return "" if moment is None else _write_moment(moment)
        if reads == JSON:
            return _to_json(value)
        return str(value)

    def find_attributes(self, kind: str) -> dict[str, Any]:
        part = self.part
        found: dict[str, Any] = {}
        if kind == "number":
            whole = part.get("type") == "integer"
            found["step"] = part.get("multipleOf", 1 if whole else "any")
            found |= {key: part[name] for key, name in _BOUNDS if name in part}
        elif kind in ("time", "datetime-local"):
            found["step"] = 1
        else:
            found |= {"maxlength": part["maxLength"]} if "maxLength" in part else {}
        return found


_BOUNDS = (("min", "minimum"), ("max", "maximum"))
_FORMATS = {
    "date": "date",
    "time": "time",
    "date-time": "datetime-local",
    "email": "email",
    "uri": "url",
}


def _options_of(part: JSONObject) -> list[tuple[Any, str]] | None:
    """Return the values and labels that a schema lists."""
    if "enum" in part:
        return [(value, str(value)) for value in part["enum"]]
    alternatives = part.get("oneOf") or part.get("anyOf")
    if alternatives and all(isinstance(each, dict) and "const" in each for each in alternatives):
        return [(each["const"], str(each.get("title", each["const"]))) for each in alternatives]
    return None


def _as_json(options: Iterable[tuple[Any, str]], chosen: Sequence[Any]) -> tuple[Choice, ...]:
    texts = [_to_json(value) for value in chosen]
    return _choose_from(((_to_json(value), label) for value, label in options), texts)
