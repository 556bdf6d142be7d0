"""JSON Schemas of the results of tools, from the responses that operations declare."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from http import HTTPStatus
from typing import Any, get_origin, get_type_hints

from django.http.response import HttpResponseBase
from ninja import NinjaAPI
from ninja.constants import NOT_SET
from ninja.operation import Operation
from ninja.renderers import JSONRenderer
from ninja.responses import NinjaJSONEncoder
from ninja.schema import NinjaGenerateJsonSchema
from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaValue

from django_mcp.contrib.generated import TRUNCATED, TRUNCATED_SCHEMA
from django_mcp.contrib.lists import MEMBERS, MEMBERS_OF_PAGE, find_free
from django_mcp.contrib.ninja.found import FoundOperation, find_names
from django_mcp.contrib.ninja.schemas import (
    REFERENCE,
    find_needed,
    resolve,
    take_any_json,
    with_local_references,
)
from django_mcp.contrib.view_decorators import find_decorators, find_views
from django_mcp.protocol.json import JSONObject
from django_mcp.registry.hints import members, strip

ANY: JSONObject = {"type": "object"}
"""The schema of a tool whose operation does not say what it answers."""

_KEPT = {
    "$ref", "additionalProperties", "anyOf", "allOf", "const", "description", "enum", "format", "items", "oneOf",
    "prefixItems", "properties", "required", "title", "type",
}  # fmt: skip
"""What says which values come. Limits are for those who send."""

_OWN_RESPONSES = {"create_response", "redirect", "render"}
"""Functions that make a response; classes of responses end in `Response`."""


def find_output_schema(found: FoundOperation) -> JSONObject:
    """Return the schema of the results of an operation, as `to_object` makes them of what it declares."""
    operation = found.operation
    models = _find_models(operation)
    if not models or NOT_SET in models or not _is_plain(found):
        return ANY
    definitions: dict[str, JSONObject] = {}
    branches: list[JSONObject] = []
    for model in models:
        own: dict[str, JSONObject] = {}
        of_model = _schema_of(model, operation, own)
        if any(definitions.get(name, each) != each for name, each in own.items()):
            return ANY  # two schemas of one name
        definitions |= own
        for branch in _find_branches(of_model):
            wrapped = _as_object(branch, definitions)
            if wrapped is None:
                return ANY
            if wrapped not in branches:
                branches.append(wrapped)
    schema = branches[0] if len(branches) == 1 else {"type": "object", "anyOf": branches}
    schema = with_local_references(schema)
    needed = find_needed(schema, definitions)
    return {**schema, "$defs": needed} if needed else schema


def may_return_list(found: FoundOperation) -> bool:
    """Return whether an operation without a known schema may return a list, or an object that holds one.

    What the operation says of its response decides, then what its function returns, then the path: that of one
    object ends in a variable.
    """
    operation = found.operation
    models = _find_models(operation)
    if NOT_SET not in models:
        definitions: dict[str, JSONObject] = {}
        branches = [
            branch
            for model in models
            for branch in _find_branches(_schema_of(model, operation, definitions))
        ]
        return any(resolve(branch, definitions).get("type") == "array" for branch in branches)
    try:
        returned = get_type_hints(found.written).get("return", Any)
    except Exception:  # noqa: BLE001 - evaluating the text of an annotation may raise anything
        returned = Any
    if returned is Any:
        return not operation.path.rstrip("/").endswith("}")
    return any(map(_may_hold_rows, members(strip(returned))))


def _may_hold_rows(returned: Any) -> bool:
    """Return whether a type is one of lists, or of responses that may hold one."""
    kind = get_origin(returned) or returned
    return isinstance(kind, type) and (
        issubclass(kind, HttpResponseBase)
        or (issubclass(kind, Iterable) and not issubclass(kind, str | bytes | Mapping | BaseModel))
    )


def _find_models(operation: Operation) -> list[Any]:
    """Return what an operation declares for its responses without an error; None: nothing is in one."""
    return [
        None if status == HTTPStatus.NO_CONTENT else model
        for status, model in operation.response_models.items()
        if status is Ellipsis or HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES
    ]


def note_own_responses(operation: Operation) -> None:
    """Note on requests that the function of an operation made the response itself, which nothing has checked.

    Args:
        operation: a copy.
    """
    to_response: Any = operation._result_to_response

    def note(request: Any, result: Any, temporal_response: Any) -> Any:
        if isinstance(result, HttpResponseBase):
            request.mcp_has_own_response = True
        return to_response(request, result, temporal_response)

    operation._result_to_response = note  # type: ignore[method-assign]


def _is_plain(found: FoundOperation) -> bool:
    """Return whether what comes is what the operation declares, in the JSON of Django Ninja."""
    operation = found.operation
    api, renderer = operation.api, operation.api.renderer
    return (
        getattr(api.create_response, "__func__", None) is NinjaAPI.create_response
        and not _is_decorated(operation)
        and isinstance(renderer, JSONRenderer)
        and type(renderer).render is JSONRenderer.render
        and renderer.encoder_class is NinjaJSONEncoder
        and not any(
            name in _OWN_RESPONSES or name.endswith("Response")
            for name in find_names(found.written)
        )
    )


def _is_decorated(operation: Operation) -> bool:
    """Return whether a decorator may change the response, which those of Django do not."""
    own: Any = type(operation).run
    views = find_views(operation.run, lambda layer: getattr(layer, "__func__", None) is own)
    return not views or bool(find_decorators(views[0]))


class _Schema(NinjaGenerateJsonSchema):
    """Describes values as the encoder of Django Ninja writes them."""

    def enum_schema(self, schema: Any) -> JsonSchemaValue:
        """Return the schema of an enum; of one that JSON does not know, the encoder writes `str()`."""
        kind: type[Enum] = schema["cls"]
        return super().enum_schema(schema) if issubclass(kind, str | int) else {"type": "string"}


def _schema_of(model: Any, operation: Operation, definitions: dict[str, JSONObject]) -> JSONObject:
    if model is None:
        return {"type": "null"}
    whole = model.model_json_schema(
        ref_template=f"{REFERENCE}{{model}}",
        by_alias=operation.by_alias,
        schema_generator=_Schema,
        mode="serialization",
    )
    whole = take_any_json(whole)
    leaves_out = operation.exclude_unset or operation.exclude_defaults or operation.exclude_none
    for name, definition in whole.get("$defs", {}).items():
        definitions[name] = _clean(definition, leaves_out=leaves_out)
    schema: JSONObject = _clean(whole["properties"]["response"], leaves_out=leaves_out)
    return schema


def _clean(schema: Any, *, leaves_out: bool) -> Any:
    """Return a schema without limits, and without required properties if an answer may leave some out."""
    if isinstance(schema, list):
        return [_clean(each, leaves_out=leaves_out) for each in schema]
    if not isinstance(schema, dict):
        return schema
    cleaned: JSONObject = {}
    for name, each in schema.items():
        if name not in _KEPT or (leaves_out and name == "required"):
            continue
        if name == "format" and each == "date-time":
            continue  # times without an offset have another one
        if name == "properties":
            cleaned[name] = {key: _clean(part, leaves_out=leaves_out) for key, part in each.items()}
        else:
            cleaned[name] = (
                each
                if name in ("enum", "const", "required")
                else _clean(each, leaves_out=leaves_out)
            )
    return _with_truncated(cleaned)


def _with_truncated(schema: JSONObject) -> JSONObject:
    """Return the schema of an object with what names its lists that were cut."""
    rest = schema.get("additionalProperties")
    parts = [*schema.get("properties", {}).values(), *([rest] if isinstance(rest, dict) else [])]
    if not any(map(_may_be_list, parts)) or TRUNCATED in schema.get("properties", {}):
        return schema
    return {**schema, "properties": {**schema.get("properties", {}), TRUNCATED: TRUNCATED_SCHEMA}}


def _may_be_list(schema: Any) -> bool:
    """Return whether a value may be a list of objects."""
    if not isinstance(schema, dict):
        return False
    if any(map(_may_be_list, [*schema.get("anyOf", ()), *schema.get("oneOf", ())])):
        return True
    items = schema.get("items")
    is_plain = isinstance(items, dict) and items.get("type") in (
        "string",
        "integer",
        "number",
        "boolean",
    )
    return schema.get("type") == "array" and not is_plain


def _find_branches(schema: JSONObject) -> Iterator[JSONObject]:
    branches = schema.get("anyOf", schema.get("oneOf"))
    if branches is None:
        yield schema
    for branch in branches or ():
        yield from _find_branches(branch)


def _as_object(schema: JSONObject, definitions: Mapping[str, JSONObject]) -> JSONObject | None:
    """Return the schema of what `to_object` makes of a value; None if it may be anything."""
    schema = resolve(schema, definitions)
    kind = schema.get("type")
    if not isinstance(kind, str):
        return None
    if kind == "object":
        return schema
    name = "results" if kind == "array" else "result"
    members = MEMBERS if kind == "array" else {}
    return {"type": "object", "properties": {name: schema, **members}, "required": [name]}


def is_list(schema: JSONObject) -> bool:
    """Return whether a schema that `find_output_schema` made is that of a list, or of one among others."""
    if schema.get("properties", {}).get("next_cursor") == MEMBERS["next_cursor"]:
        return True
    return any(map(is_list, schema.get("anyOf", ())))


def with_members(schema: JSONObject) -> JSONObject:
    """Return the schema of a page with what it has if rows were left out."""
    if "properties" in schema:
        properties = schema["properties"]
        own = {find_free(name, properties): each for name, each in MEMBERS_OF_PAGE.items()}
        return {**schema, "properties": {**properties, **own}}
    if "anyOf" in schema:
        return {**schema, "anyOf": [with_members(branch) for branch in schema["anyOf"]]}
    return schema
