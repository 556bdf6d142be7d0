"""The JSON Schemas of Django Ninja's OpenAPI document, as a tool needs them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ninja.openapi.schema import OpenAPISchema

from django_mcp.protocol.json import JSONObject

REFERENCE = "#/components/schemas/"
"""What references to definitions begin with in the document."""


class Definitions(OpenAPISchema):
    """Makes the schemas of what one operation reads.

    The document of the whole API has one definition of each name, which may be that of an answer.
    """

    def get_paths(self) -> dict[str, Any]:
        """Return no paths, as each operation is read by itself."""
        return {}

    def __init__(self, api: Any) -> None:
        super().__init__(api, "")

    def add_schema_definitions(self, definitions: dict[str, Any]) -> None:
        """Add definitions, in which fields of JSON take all values."""
        super().add_schema_definitions(take_any_json(definitions))

    def _extract_parameters(self, model: Any) -> list[dict[str, Any]]:
        parameters: list[dict[str, Any]] = take_any_json(super()._extract_parameters(model))
        return parameters

    def _create_schema_from_model(self, *args: Any, **kwargs: Any) -> tuple[dict[str, Any], bool]:
        schema, is_required = super()._create_schema_from_model(*args, **kwargs)
        return take_any_json(schema), is_required


def take_any_json(schema: Any) -> Any:
    """Return a schema in which a `JSONField` of a model, which Django Ninja calls an object, has any value."""
    if isinstance(schema, list):
        return [take_any_json(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    taken = {name: take_any_json(each) for name, each in schema.items()}
    # An object that pydantic describes says what it has.
    if schema.get("type") == "object" and not _OF_OBJECTS.intersection(schema):
        del taken["type"]
    return taken


_OF_OBJECTS = frozenset(("additionalProperties", "patternProperties", "properties"))


def limit_integer(schema: JSONObject, largest: int) -> JSONObject:
    """Return a schema in which integers are not larger; it may take null as well."""
    return _limit(schema, "integer", "maximum", largest)


def limit_text(schema: JSONObject, longest: int) -> JSONObject:
    """Return a schema in which texts are not longer; it may take null as well."""
    return _limit(schema, "string", "maxLength", longest)


def _limit(schema: JSONObject, kind: str, keyword: str, most: int) -> JSONObject:
    if "anyOf" in schema:
        return {
            **schema, "anyOf": [_limit(branch, kind, keyword, most) for branch in schema["anyOf"]],
        }  # fmt: skip
    if schema.get("type") != kind:
        return schema
    return {**schema, keyword: min(schema.get(keyword, most), most)}


def is_file(schema: JSONObject) -> bool:
    """Return whether a schema is that of a file, or of files."""
    parts = [*schema.get("anyOf", ()), schema.get("items")]
    is_of_files = any(isinstance(part, dict) and is_file(part) for part in parts)
    return schema.get("format") == "binary" or is_of_files


def resolve(schema: JSONObject, definitions: Mapping[str, JSONObject]) -> JSONObject:
    """Return what a schema refers to, and the schema itself if it is no reference."""
    for _ in range(len(definitions) + 1):
        reference = schema.get("$ref")
        if reference is None and len(schema.get("allOf", ())) == 1:
            reference = schema["allOf"][0].get("$ref")
        if reference is None:
            break
        schema = definitions[reference.removeprefix(REFERENCE)]
    return schema


def with_local_references(schema: Any) -> Any:
    """Return a schema that refers to definitions of its own."""
    if isinstance(schema, dict):
        return {
            key: f"#/$defs/{value.removeprefix(REFERENCE)}"
            if key == "$ref" and isinstance(value, str)
            else with_local_references(value)
            for key, value in schema.items()
        }
    return [with_local_references(part) for part in schema] if isinstance(schema, list) else schema


def find_needed(schema: JSONObject, definitions: Mapping[str, JSONObject]) -> dict[str, JSONObject]:
    """Return the definitions that a schema refers to, also by one another."""
    needed: dict[str, JSONObject] = {}
    left = [schema]
    while left:
        for name in _find_references(left.pop()):
            if name not in needed:
                needed[name] = with_local_references(definitions[name])
                left.append(needed[name])
    return needed


def _find_references(schema: Any) -> Iterator[str]:
    """Yield the names of the definitions that a schema refers to."""
    if isinstance(schema, dict):
        reference = schema.get("$ref")
        if isinstance(reference, str):
            yield reference.removeprefix("#/$defs/")
        for value in schema.values():
            yield from _find_references(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _find_references(value)
