"""Forms that users are asked to fill in: the schema of a class, and an answer read by it."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django_mcp.protocol.asks import FormError
from django_mcp.protocol.json import JSONObject, decode, encode
from django_mcp.registry import hints
from django_mcp.registry.adapters import adapt, schema_of
from django_mcp.registry.problems import RegistrationError
from django_mcp.registry.validators import Validator, compile_schema

if TYPE_CHECKING:
    from pydantic import TypeAdapter

__all__ = ["FormAnswer", "form_schema", "read_form"]

MAX_FORMS = 256
"""Schemas kept compiled. Ours; a site asks few different questions."""


@dataclass(frozen=True, slots=True)
class FormAnswer:
    """An answer that fits its form; `data` is an instance of the class that was asked for."""

    data: Any


def form_schema(schema: Any) -> JSONObject:
    """Return the schema of a form: of a class with declared fields, or as it was given.

    Raises:
        FormError: it is neither a schema nor such a class.
    """
    if isinstance(schema, Mapping):
        return dict(schema)
    if not hints.is_record(schema):
        raise FormError(
            f"{schema!r:.100} is no form: use a dataclass, a TypedDict, a pydantic model or a "
            f"JSON Schema."
        )
    return dict(_schema_of_class(schema))


def read_form(schema: Any, fields: JSONObject, content: Any) -> FormAnswer | None:
    """Return an answer's content as what was asked for; None when it does not fit.

    Args:
        schema: what was asked with.
        fields: `form_schema` of it.
        content: as the client sent it.
    """
    if type(content) is not dict or not _validator(encode(fields)).is_valid(content):
        return None
    if isinstance(schema, Mapping):
        return FormAnswer(content)
    try:
        return FormAnswer(_adapter(schema).validate_python(content))
    except ValueError:
        return None


@functools.lru_cache(MAX_FORMS)
def _adapter(cls: Any) -> TypeAdapter[Any]:
    return adapt(cls)


@functools.lru_cache(MAX_FORMS)
def _schema_of_class(cls: Any) -> JSONObject:
    whole = schema_of(_adapter(cls))
    definitions = whole.get("$defs", {})
    fields = {
        name: _plain(field, definitions) for name, field in whole.get("properties", {}).items()
    }
    schema: JSONObject = {"type": "object", "properties": fields}
    if "required" in whole:
        schema["required"] = whole["required"]
    return schema


def _plain(field: JSONObject, definitions: Mapping[str, JSONObject]) -> JSONObject:
    """Return a field's schema without references and without null, which forms do not have."""
    rest = {key: value for key, value in field.items() if key not in ("$ref", "anyOf")}
    if "$ref" in field:
        name = field["$ref"].rpartition("/")[2]
        found = {**definitions[name], **rest}
        # The name of the class is no title for its users.
        return {key: value for key, value in found.items() if (key, value) != ("title", name)}
    branches = [each for each in field.get("anyOf", ()) if each != {"type": "null"}]
    if len(branches) == 1:
        return {**_plain(branches[0], definitions), **_without_null_default(rest)}
    return field


def _without_null_default(field: JSONObject) -> JSONObject:
    return {key: value for key, value in field.items() if key != "default" or value is not None}


@functools.lru_cache(MAX_FORMS)
def _validator(encoded: bytes) -> Validator:
    try:
        return compile_schema(decode(encoded), "a form", is_input=False)
    except RegistrationError as error:
        raise FormError(str(error)) from error
