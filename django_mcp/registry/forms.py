"""Forms for users to fill in: the schema of a class, and the conversion of an answer."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from django_mcp.protocol.asks import FormError
from django_mcp.protocol.json import JSONObject, decode, encode
from django_mcp.registry import hints
from django_mcp.registry.adapters import adapt, schema_of
from django_mcp.registry.field_validators import FieldValidators, ValueRules
from django_mcp.registry.moments import Moments
from django_mcp.registry.problems import (
    ArgumentErrors,
    Problem,
    RegistrationError,
    describe_conversion,
)
from django_mcp.registry.validators import TOO_COMPLEX, Validator

if TYPE_CHECKING:
    from pydantic import TypeAdapter

MAX_FORMS = 256
"""Compiled schemas that are cached; a site has few different forms."""


class Form:
    """A form to fill in, given as a JSON Schema or made from the fields of a class."""

    needs_thread = False
    """Whether its schema or its reading may query a database."""

    def __init__(
        self, schema: JSONObject, cls: Any = None, rules: ValueRules | None = None
    ) -> None:
        self._schema = schema
        self._cls = cls
        self._rules = rules

    @property
    def schema(self) -> JSONObject:
        """A flat JSON Schema of its fields."""
        return self._schema

    def read(self, content: Any) -> Any:
        """Return a client's answer as an instance of the class; raises `ArgumentErrors`."""
        from pydantic import ValidationError

        if type(content) is not dict:
            raise ArgumentErrors([Problem("", "must be an object")])
        # Fields of forms are plain values, so a brief check is enough for any regular answer.
        problems = _validator(encode(self.schema)).check(content)
        if problems != []:
            raise ArgumentErrors([TOO_COMPLEX] if problems is None else problems)
        try:
            return content if self._cls is None else convert(self._cls, content, self._rules)
        except ValidationError as error:
            raise ArgumentErrors(describe_conversion(error, content)) from None


FormMaker: TypeAlias = Callable[[Any], Form]
"""Makes a form from a handler's argument; raises `FormError` if it cannot."""


def make_form(schema: Any, rules: ValueRules | None = None) -> Form:
    """Return the form of a class with declared fields, or of a JSON Schema.

    Args:
        schema: the class or the JSON Schema.
        rules: those by which the values of a class are read.

    Raises:
        FormError: it is something else.
    """
    if isinstance(schema, Mapping):
        return Form(dict(schema))
    if not hints.is_record(schema):
        raise FormError(
            f"{schema!r:.100} is not a form: use a dataclass, a TypedDict, a pydantic model or a "
            f"JSON Schema."
        )
    return _form_of_class(schema, rules)


def convert(cls: Any, value: Any, rules: ValueRules | None = None) -> Any:
    """Return a JSON value of a client as an instance of a class."""
    validators = None if rules is None else rules.validators
    return _adapter(cls, rules, validators).validate_python(value)


def convert_own(cls: Any, value: Any, rules: ValueRules) -> Any:
    """Return a JSON value of this server as an instance of a class: its date-times stay as they are."""
    return _adapter(cls, None, rules.validators).validate_python(value)


@functools.lru_cache(MAX_FORMS)
def _adapter(
    cls: Any, moments: Moments | None, validators: FieldValidators | None
) -> TypeAdapter[Any]:
    return adapt(cls, reads=moments, validators=validators)


@functools.lru_cache(MAX_FORMS)
def _form_of_class(cls: Any, rules: ValueRules | None) -> Form:
    validators = None if rules is None else rules.validators
    whole = schema_of(_adapter(cls, rules, validators))
    definitions = whole.get("$defs", {})
    fields = {
        name: _plain(field, definitions) for name, field in whole.get("properties", {}).items()
    }
    schema: JSONObject = {"type": "object", "properties": fields}
    if "required" in whole:
        schema["required"] = whole["required"]
    return Form(schema, cls, rules)


def _plain(field: JSONObject, definitions: Mapping[str, JSONObject]) -> JSONObject:
    """Return a field's schema without references and without null, which forms do not support."""
    rest = {key: value for key, value in field.items() if key not in ("$ref", "anyOf")}
    if "$ref" in field:
        name = field["$ref"].rpartition("/")[2]
        plain = {**definitions[name], **rest}
        # The name of the class is not a title for users.
        return {key: value for key, value in plain.items() if (key, value) != ("title", name)}
    branches = [branch for branch in field.get("anyOf", ()) if branch != {"type": "null"}]
    if len(branches) == 1:
        if "default" in rest and rest["default"] is None:
            del rest["default"]
        return {**_plain(branches[0], definitions), **rest}
    return field


@functools.lru_cache(MAX_FORMS)
def _validator(encoded: bytes) -> Validator:
    try:
        return Validator(decode(encoded), "a form", is_input=False)
    except RegistrationError as error:
        raise FormError(str(error)) from error
