"""Django forms that users of a client fill in: their schema, and the validation of an answer."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from datetime import date, time
from decimal import Decimal
from itertools import islice
from typing import TYPE_CHECKING, Any

from django.core.exceptions import NON_FIELD_ERRORS
from django.utils.translation import gettext as _

from django_mcp.protocol.asks import FormError
from django_mcp.protocol.json import JSONObject, to_pointer
from django_mcp.registry.forms import Form, FormAnswer, make_form
from django_mcp.registry.problems import Problem

if TYPE_CHECKING:
    from django.forms import BaseForm, Field

MAX_CHOICES = 200
"""A field with more choices, such as one for all products, becomes a text field."""

MAX_NUMBER = 10**18
"""Larger numbers are refused, since they are slow to convert to text."""


def make_django_form(schema: Any) -> Form:
    """Return the form of a Django form class, or of anything else that the core makes forms of.

    A `functools.partial` of such a class has further arguments for it, such as `instance`.
    """
    made = schema.func if isinstance(schema, functools.partial) else schema
    # A class can only be one when its module is loaded.
    module = sys.modules.get("django.forms.forms")
    if module is not None and isinstance(made, type) and issubclass(made, module.BaseForm):
        return _DjangoForm(schema)
    return make_form(schema)


class _DjangoForm(Form):
    """A form class of the site, bound to the user's answer."""

    needs_thread = True

    def __init__(self, make: Callable[..., BaseForm]) -> None:
        self._make = make

    @property
    def schema(self) -> JSONObject:
        form = self._make()
        asked = {name: field for name, field in form.fields.items() if _is_asked(field)}
        return {
            "type": "object",
            "properties": {
                name: _describe(field, name, form.get_initial_for_field(field, name))
                for name, field in asked.items()
            },
            "required": [name for name, field in asked.items() if field.required],
        }

    def read(self, content: Any) -> FormAnswer | list[Problem]:
        """See `Form.read`; the form validates the answer, with its own error messages."""
        if type(content) is not dict:
            return [Problem("", _("Enter a valid value."))]
        unbound = self._make()
        asked = {name for name, field in unbound.fields.items() if _is_asked(field)}
        given = {name: value for name, value in content.items() if name in asked}
        wrong = [name for name, value in given.items() if not _is_plain(value)]
        if wrong:
            return [Problem(to_pointer([name]), _("Enter a valid value.")) for name in wrong]
        hidden = {
            name: unbound.get_initial_for_field(field, name)
            for name, field in unbound.fields.items()
            if name not in asked
        }
        data = {unbound.add_prefix(name): value for name, value in {**hidden, **given}.items()}
        form = self._make(data=data)
        return FormAnswer(form) if form.is_valid() else list(_problems(form))


def _is_plain(value: Any) -> bool:
    """Return whether a form field can have this value."""
    if isinstance(value, list):
        return all(isinstance(each, str) for each in value)
    if isinstance(value, int | float):
        return -MAX_NUMBER < value < MAX_NUMBER
    return isinstance(value, str)


def _problems(form: BaseForm) -> Iterator[Problem]:
    for name, messages in form.errors.items():
        pointer = "" if name == NON_FIELD_ERRORS else to_pointer([name])
        for message in messages:
            yield Problem(pointer, str(message))


def _is_asked(field: Field) -> bool:
    return not field.disabled and not field.widget.is_hidden


def _describe(field: Field, name: str, initial: Any) -> JSONObject:
    from django.forms.utils import pretty_name
    from django.utils.html import strip_tags

    described = {**_kind(field, name), "title": str(field.label or pretty_name(name))}
    if field.help_text:
        described["description"] = strip_tags(str(field.help_text))
    default = _default(field.prepare_value(initial), described["type"])
    if default is not None:
        described["default"] = default
    return described


def _kind(field: Any, name: str) -> JSONObject:
    from django import forms

    if isinstance(field.widget, forms.PasswordInput):
        raise FormError(f"The field {name!r} is secret: have the user visit a page (elicit_url).")
    if isinstance(field, forms.FileField | forms.MultiValueField | forms.JSONField):
        raise FormError(f"The field {name!r} ({type(field).__name__}) cannot be asked for.")
    if isinstance(field, forms.NullBooleanField | forms.BooleanField):
        return {"type": "boolean"}
    if isinstance(field, forms.ChoiceField):
        return _choices(field)
    if isinstance(field, forms.IntegerField):
        is_whole = not isinstance(field, forms.FloatField | forms.DecimalField)
        return {"type": "integer" if is_whole else "number", **_bounds(field)}
    return {"type": "string", **_text_rules(field)}


def _choices(field: Any) -> JSONObject:
    from django import forms

    found = list(islice(_flat(field.choices), MAX_CHOICES + 1))
    shown = [{"const": value, "title": label} for value, label in found]
    if isinstance(field, forms.MultipleChoiceField | forms.ModelMultipleChoiceField):
        items: JSONObject = {"anyOf": shown} if shown else {"enum": []}
        return {"type": "array", "items": items, **({"minItems": 1} if field.required else {})}
    if len(found) > MAX_CHOICES or not shown:
        return {"type": "string"}
    return {"type": "string", "oneOf": shown}


def _flat(choices: Any) -> Iterator[tuple[str, str]]:
    for value, label in choices:
        if isinstance(label, list | tuple):
            yield from _flat(label)
        elif value not in ("", None):
            yield str(value), str(label)


def _bounds(field: Any) -> JSONObject:
    found = {"minimum": field.min_value, "maximum": field.max_value}
    return {key: _number(value) for key, value in found.items() if value is not None}


def _number(value: Any) -> int | float:
    value = value() if callable(value) else value
    return value if isinstance(value, int) else float(value)


def _text_rules(field: Any) -> JSONObject:
    from django import forms

    rules: JSONObject = {
        key: getattr(field, attribute)
        for key, attribute in (("minLength", "min_length"), ("maxLength", "max_length"))
        if getattr(field, attribute, None) is not None
    }
    formats = (
        (forms.EmailField, "email"),
        (forms.URLField, "uri"),
        (forms.DateTimeField, "date-time"),
        (forms.DateField, "date"),
    )
    for kind, name in formats:
        if isinstance(field, kind):
            rules["format"] = name
    return rules


def _default(value: Any, kind: str) -> Any:
    """Return a field's initial value as JSON, if it has one."""
    if value is None or value == "":
        return None
    if kind == "array":
        return [str(each) for each in value] if isinstance(value, list | tuple) else None
    if kind == "boolean":
        return value if isinstance(value, bool) else None
    if kind in ("integer", "number"):
        return float(value) if isinstance(value, Decimal) else value
    return value.isoformat() if isinstance(value, date | time) else str(value)
