"""The JSON Schema of the arguments that a form takes, and which of its fields callers fill in."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from django import forms
from django.core.exceptions import FieldDoesNotExist
from django.db import models
from django.forms.utils import pretty_name
from django.utils.choices import CallableChoiceIterator
from django.utils.functional import lazy
from django.utils.html import strip_tags
from django.utils.text import capfirst
from django.utils.translation import gettext

from django_mcp.forms.labels import LABELS, describe_labels
from django_mcp.forms.names import or_name
from django_mcp.forms.pydantic_models import SlowValidation, check_models
from django_mcp.forms.values import BOUNDS, is_a, may_be_rounded
from django_mcp.protocol.json import JSONObject
from django_mcp.registry.big_integers import MAX_EXACT, or_digits
from django_mcp.registry.object_schemas import object_schema, or_null

MAX_CHOICES = 200
"""A field with more choices is described by its type alone."""

MAX_VALUES = 1000
"""Values of a field that takes several."""

MAX_DECIMAL_CHARS = 100
"""Of a decimal number that is sent as text."""

FormMaker = Callable[..., forms.BaseForm]
"""A form class, or a `functools.partial` of one with further arguments."""


class Relation(Protocol):
    """What is said of the objects that a field takes. It ends as the description of the argument.

    Attributes:
        takes_names: whether the argument takes their names too.
    """

    takes_names: bool

    def copy(self, **changes: Any) -> Relation:
        """Return the same with another `takes_names`, with `before` it, for several objects (`is_many`), or with `key`.

        `key` is the schema of a key alone, which is published where callers are shown no name.
        """


Tell = Callable[[str, type[models.Model]], Relation | None]
"""Takes the name of a field that takes objects, and their model; returns what is said of them, if anything is."""


def by_keys_alone(tell: Tell) -> Tell:
    """Return what says the same of objects that are taken by their keys, and by no name."""

    def tell_of_keys(name: str, model: type[models.Model]) -> Relation | None:
        told = tell(name, model)
        return None if told is None else told.copy(takes_names=False)

    return tell_of_keys


class FormProblem(Exception):
    """A form cannot be filled in by arguments. The text says why, `hint` what to do."""

    def __init__(self, text: str, hint: str) -> None:
        super().__init__(text)
        self.hint = hint


def form_schema(
    form: FormMaker | forms.BaseForm,
    *,
    is_partial: bool = False,
    exclude: Collection[str] = (),
    allow_sensitive: Collection[str] = (),
    personal_choices: Collection[str] = (),
    takes_hidden: bool = False,
    tell: Tell = lambda _name, _model: None,
) -> JSONObject:
    """Return the JSON Schema of the arguments that a form takes.

    No field of a class makes a query: objects to choose from are described by their keys, and choices
    that a function returns by their type. Files, hidden and disabled fields are left out.

    Args:
        form: a form class or a `functools.partial` of one; an instance, if its `__init__` adds fields.
        is_partial: whether fields keep their values when they are not among the arguments. None is
            required then: what the form of an object starts with is known only with the object.
        exclude: fields to leave out.
        allow_sensitive: password fields that clients may fill in.
        personal_choices: fields with other choices for each user, which are described by their type alone.
        takes_hidden: whether hidden fields are arguments as well.
        tell: says how objects are named, and which tool finds them.

    Raises:
        FormProblem: a field is required that arguments cannot fill in.
    """
    _check_models(form)
    fields = _fields_of(form)
    offered = set(offered_fields(fields, exclude, allow_sensitive, takes_hidden=takes_hidden))
    required = []
    for name, field in fields.items():
        if is_partial or not field.required or field.initial is not None:
            continue
        if name in offered:
            required.append(name)
        elif name not in exclude and not field.disabled:
            raise _unfillable(name, field)
    properties = {
        name: _describe(
            _without_choices(field) if name in personal_choices else field,
            name,
            find_model_field(form, name),
            tell,
            is_partial=is_partial,
        )
        for name, field in fields.items()
        if name in offered
    }
    return object_schema(properties, required=required)


def _without_choices(field: Any) -> Any:
    """Return a copy of a field whose choices are told as those that a function returns."""
    copied = copy.deepcopy(field)
    copied.choices = lambda: ()
    return copied


def _check_models(form: Any) -> None:
    fields = _fields_of(form)
    cls = form.func if isinstance(form, partial) else form
    # The tools that add and that change objects have the same form, most of the time.
    state = ("pydantic" in sys.modules, tuple(map(id, fields.values())))
    if isinstance(cls, type) and _checked.get(cls) == state:
        return
    columns = [find_model_field(form, name) for name in fields]
    try:
        check_models([cls if isinstance(cls, type) else type(cls), fields, columns])
    except SlowValidation as problem:
        raise FormProblem(
            str(problem), f"{problem.hint} Or leave the field out of the form."
        ) from problem
    if isinstance(cls, type):
        _checked[cls] = state


_checked: WeakKeyDictionary[type, tuple[bool, tuple[int, ...]]] = WeakKeyDictionary()
"""The forms whose fields lead to no model that may take long, by whether pydantic was imported, and their fields."""


def _fields_of(form: Any) -> Mapping[str, forms.Field]:
    if isinstance(form, partial):
        form = form.func
    is_class = isinstance(form, type)
    form_fields: Mapping[str, forms.Field] = getattr(form, "base_fields" if is_class else "fields")
    return form_fields


def find_model_field(form: Any, name: str) -> Any:
    """Return the model's field that a field of a `ModelForm` stands for; None if it is one of its own."""
    options = getattr(form.func if isinstance(form, partial) else form, "_meta", None)
    model = getattr(options, "model", None)
    if options is None or model is None:
        return None
    is_left_out = name in (options.exclude or ())
    if is_left_out or (options.fields is not None and name not in options.fields):
        return None
    try:
        field = model._meta.get_field(name)
    except FieldDoesNotExist:
        return None
    return field if getattr(field, "editable", False) else None


def offered_fields(
    fields: Mapping[str, forms.Field],
    exclude: Collection[str],
    allow_sensitive: Collection[str],
    *,
    takes_hidden: bool = False,
) -> Iterator[str]:
    """Yield the names of the fields that callers may fill in."""
    for name, field in fields.items():
        is_hidden = field.widget.is_hidden and not takes_hidden
        if name in exclude or field.disabled or is_hidden:
            continue
        if isinstance(field, forms.FileField):
            continue
        if isinstance(field.widget, forms.PasswordInput) and name not in allow_sensitive:
            continue
        yield name


def _unfillable(name: str, field: forms.Field) -> FormProblem:
    if isinstance(field, forms.FileField):
        return FormProblem(
            f"the field {name!r} requires a file, which arguments cannot carry",
            "Set required=False, or leave the field out of the form.",
        )
    if isinstance(field.widget, forms.PasswordInput):
        return FormProblem(
            f"the field {name!r} requires a password, which would pass through the client",
            "Leave the field out of the form, or add it to allow_sensitive.",
        )
    return FormProblem(
        f"the field {name!r} is required and hidden",
        "Give it an initial value, or leave it out of the form.",
    )


def _describe(
    field: Any, name: str, model_field: Any, tell: Tell, *, is_partial: bool
) -> JSONObject:
    schema = _describe_kind(field)
    objects = getattr(field, "queryset", None)
    relation = None if objects is None else tell(name, objects.model)
    is_many = isinstance(field, forms.ModelMultipleChoiceField)
    key = schema.get("items") if is_many else schema
    if relation is not None and relation.takes_names:
        schema = {**schema, "items": or_name(schema["items"])} if is_many else or_name(schema)
    if schema.get("type") == "integer" and _may_be_rounded(schema, model_field):
        schema = or_digits(schema)
    takes_empty = schema.get("type") in ("string", "array", "boolean") and "format" not in schema
    if is_partial and not isinstance(field, forms.MultiValueField):
        # An object may have none where its form asks for some, and gets that back.
        schema.pop("minItems", None)
    # An object may have null where its form asks for a value, and gets it back.
    may_be_null = bool(getattr(model_field, "null", False)) and (is_partial or not field.required)
    if may_be_null or (not field.required and not (takes_empty and "enum" not in schema)):
        schema = or_null(schema)
    schema["title"] = capfirst(field.label) if field.label else pretty_name(name)
    if field.help_text or _labels(field):
        schema["description"] = _description(field)
    if relation is not None:
        text = schema.get("description", "")
        schema["description"] = relation.copy(before=text, is_many=is_many, key=key)
    initial = getattr(field.initial, "value", field.initial)  # of a member of an enumeration
    if not is_partial and type(initial) in (str, int, float, bool):
        schema["default"] = initial
    return schema


def _may_be_rounded(schema: JSONObject, model_field: Any) -> bool:
    if model_field is not None:
        return may_be_rounded(model_field)
    limits = (schema.get("minimum", 0), schema.get("maximum", 0))
    return any(abs(limit) > MAX_EXACT for limit in limits)


def _describe_kind(field: Any) -> JSONObject:
    """Return the schema of the values of a field."""
    parts = part_names(field)
    if parts:
        properties = dict(zip(parts, map(_describe_kind, field.fields), strict=True))
        if is_range(field):
            ends = {name: or_null(schema) for name, schema in properties.items()}
            properties = {**ends, "bounds": {"enum": [*BOUNDS, "empty"]}}
        return object_schema(properties, required=parts)
    if takes_tags(field):
        return {"type": "array", "items": {"type": "string"}, "maxItems": MAX_VALUES}
    if hasattr(field, "base_field"):  # the array fields of PostgreSQL
        return {
            "type": "array",
            "items": _describe_kind(field.base_field),
            "maxItems": getattr(field, "max_length", None) or MAX_VALUES,
        }
    for classes, describe in _KINDS:
        if isinstance(field, classes):
            return describe(field)
    return _text(field)


def part_names(field: Any) -> tuple[str, ...]:
    """Return the names of the parts of a field with several, if they have some: of money, and of a range."""
    if is_a(field, "djmoney.forms.fields.MoneyField"):
        return ("amount", "currency")
    return ("lower", "upper") if is_a(field, f"{_RANGES}.BaseRangeField") else ()


_RANGES = "django.contrib.postgres.forms.ranges"


def is_range(field: Any) -> bool:
    """Return whether a field is for ranges of PostgreSQL."""
    return is_a(field, f"{_RANGES}.BaseRangeField")


def takes_tags(field: Any) -> bool:
    """Return whether a field takes the names of tags, in one text."""
    return is_a(field, "taggit.forms.TagField")


def _objects(field: Any) -> JSONObject:
    key = {"type": ["string", "integer"]}
    if field.queryset is not None:
        meta = field.queryset.model._meta
        name = getattr(field, "to_field_name", None)
        key = key_schema(meta.get_field(name) if name else meta.pk)
    if isinstance(field, forms.ModelMultipleChoiceField):
        return _several(field, key)
    return key


def key_schema(field: Any) -> JSONObject:
    """Return the schema of a value that tells objects apart by a field; None: it is not known which."""
    while isinstance(field, models.ForeignKey):
        field = field.target_field
    if isinstance(field, models.IntegerField):
        schema: JSONObject = {"type": "integer"}
        return or_digits(schema) if may_be_rounded(field) else schema
    if isinstance(field, models.UUIDField):
        return {"type": "string", "format": "uuid"}
    return {"type": "string"} if field is not None else {"type": ["string", "integer"]}


def _several(field: Any, items: JSONObject) -> JSONObject:
    least = {"minItems": 1} if field.required else {}
    return {"type": "array", "items": items, **least, "maxItems": MAX_VALUES}


def _choice(field: Any) -> JSONObject:
    values = _values(field)
    is_typed = isinstance(field, forms.TypedChoiceField | forms.TypedMultipleChoiceField)
    if values is None:
        one: JSONObject = {"type": ["string", "integer"]} if is_typed else {"type": "string"}
    else:
        labels = {str(value): label for value, label in _flat(field.choices)}
        one = {
            "enum": [value if is_typed else str(value) for value in values],
            # For forms. A model is told by the description.
            LABELS: [labels[str(value)] for value in values],
        }
    return _several(field, one) if isinstance(field, forms.MultipleChoiceField) else one


def _values(field: Any) -> list[Any] | None:
    """Return the choices of a field; None if a function returns them, or if they are too many."""
    choices = field.choices
    if isinstance(choices, CallableChoiceIterator):
        return None
    values = [value for value, _label in _flat(choices)]
    if not 0 < len(values) <= MAX_CHOICES:
        return None
    values = [value for value in values if value is not None]
    plain = [value for value in values if type(value) in (str, int)]
    if len(plain) < len(values):
        plain = [str(value) for value in values]
    return plain if not field.required else [value for value in plain if value != ""]


def choices_of(field: Any) -> list[tuple[Any, Any]] | None:
    """Return the values and labels of the choices of a field; None if a function returns them, or it has none."""
    choices = getattr(field, "choices", None)
    if choices is None or isinstance(choices, CallableChoiceIterator):
        return None
    return list(_flat(choices))


def choice_values(field: Any) -> list[Any]:
    """Return the values of the choices of a field of a form, also if a function returns them."""
    return [value for value, _label in _flat(field.choices)]


def _flat(choices: Any) -> Iterator[tuple[Any, Any]]:
    for value, label in choices:
        if isinstance(label, list | tuple):
            yield from _flat(label)
        else:
            yield value, label


def _labels(field: Any) -> list[tuple[Any, Any]]:
    is_choice = isinstance(field, forms.ChoiceField) and not isinstance(
        field, forms.ModelChoiceField
    )
    if not is_choice or _values(field) is None:
        return []
    return [(value, label) for value, label in _flat(field.choices) if value not in ("", None)]


def _describe_in_words(field: Any) -> str:
    text = strip_tags(str(field.help_text)).replace(gettext(_OF_WIDGET), "").strip()
    return " ".join(filter(None, [text, describe_labels(_labels(field))]))


_OF_WIDGET = "Hold down “Control”, or “Command” on a Mac, to select more than one."
"""What the admin adds to the help text of a list to choose from: no client has one."""


_description = lazy(_describe_in_words, str)
"""The help text and the labels of the choices, in the active language."""


def _several_parts(field: Any) -> JSONObject:
    parts = [_describe_kind(part) for part in field.fields]
    count = len(parts)
    return {"type": "array", "prefixItems": parts, "minItems": count, "maxItems": count}


def _number(kind: str) -> Callable[[Any], JSONObject]:
    def describe(field: Any) -> JSONObject:
        schema: JSONObject = {"type": kind}
        for keyword, limit in (("minimum", field.min_value), ("maximum", field.max_value)):
            value = limit() if callable(limit) else limit
            if value is not None:
                schema[keyword] = value if isinstance(value, int) else float(value)
        return schema

    return describe


def _decimal(field: Any) -> JSONObject:
    number = _number("number")(field)
    return {**number, "type": ["string", "number"], "maxLength": MAX_DECIMAL_CHARS}


def _text(field: Any) -> JSONObject:
    least, most = getattr(field, "min_length", None), getattr(field, "max_length", None)
    if field.required and not least:
        least = 1
    limits = {"minLength": least, "maxLength": most}
    return {"type": "string", **{key: value for key, value in limits.items() if value is not None}}


def _format(name: str) -> Callable[[Any], JSONObject]:
    return lambda _field: {"type": "string", "format": name}


_KINDS: tuple[tuple[Any, Callable[[Any], JSONObject]], ...] = (
    (forms.ModelChoiceField, _objects),
    ((forms.NullBooleanField, forms.BooleanField), lambda _field: {"type": "boolean"}),
    (forms.ChoiceField, _choice),
    (forms.DecimalField, _decimal),
    (forms.FloatField, _number("number")),
    (forms.IntegerField, _number("integer")),
    (forms.JSONField, lambda _field: {}),
    ((forms.DateTimeField, forms.SplitDateTimeField), _format("date-time")),
    (forms.DateField, _format("date")),
    (forms.TimeField, _format("time")),
    (forms.DurationField, _format("duration")),
    (forms.UUIDField, _format("uuid")),
    (forms.MultiValueField, _several_parts),
    (forms.EmailField, lambda field: {**_text(field), "format": "email"}),
    (forms.URLField, lambda field: {**_text(field), "format": "uri"}),
)
"""The first class that a field is of decides; all other fields take text."""
