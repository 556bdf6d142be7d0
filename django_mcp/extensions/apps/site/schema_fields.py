"""The fields of a form for the arguments of a tool, made from its JSON Schema."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext as _

from django_mcp.extensions.apps.site.form_fields import (
    ITEMS,
    JSON,
    MAX_LABEL_CHARS,
    NUMBER,
    TEXT,
    Choice,
    FormField,
    choose_from,
    to_json,
    write_moment,
)
from django_mcp.extensions.apps.site.values import label_of
from django_mcp.forms.labels import LABELS
from django_mcp.protocol.json import JSONObject


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
            shown = to_json(values.get(name))
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
            return "" if moment is None else write_moment(moment)
        if reads == JSON:
            return to_json(value)
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


_UNLABELLED = object()


def _options_of(part: JSONObject) -> list[tuple[Any, str]] | None:
    """Return the values and labels that a schema lists."""
    if "enum" in part:
        given = part.get(LABELS)
        labels = given if isinstance(given, list) else []
        pairs = zip_longest(part["enum"], labels[: len(part["enum"])], fillvalue=_UNLABELLED)
        return [(value, str(value if label is _UNLABELLED else label)) for value, label in pairs]
    alternatives = part.get("oneOf") or part.get("anyOf")
    if alternatives and all(isinstance(each, dict) and "const" in each for each in alternatives):
        return [(each["const"], str(each.get("title", each["const"]))) for each in alternatives]
    return None


def _as_json(options: Iterable[tuple[Any, str]], chosen: Sequence[Any]) -> tuple[Choice, ...]:
    texts = [to_json(value) for value in chosen]
    return choose_from(((to_json(value), label) for value, label in options), texts)
