"""JSON Schemas of what actions return, as far as serializers and the framework's own methods tell.

No member is required: serializers may leave fields out, and renderers of the site as well. What is not known is
left open.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.core.exceptions import FieldDoesNotExist
from rest_framework import fields, pagination, relations, serializers
from rest_framework.generics import GenericAPIView
from rest_framework.renderers import JSONRenderer

from django_mcp.contrib.drf.actions import ViewAction
from django_mcp.contrib.drf.annotations import Annotated
from django_mcp.contrib.drf.code_reading import is_same_for_all
from django_mcp.contrib.lists import MEMBERS, MEMBERS_OF_PAGE
from django_mcp.log import logger
from django_mcp.protocol.json import JSONObject
from django_mcp.registry.object_schemas import or_null

ANYTHING: JSONObject = {"type": "object"}

_STANDARD = ("list", "retrieve", "create", "update", "partial_update")


def output_schema(
    action: ViewAction, view: Any, annotated: Annotated, serializer: Any
) -> JSONObject:
    """Return the JSON Schema of the results of an action; what a view does not tell without a call is left open.

    Args:
        action: of the view.
        view: that is read.
        annotated: what the site says of the action.
        serializer: of the data that the action reads; None: it reads none.
    """
    try:
        return _output_schema(action, view, annotated, serializer)
    except Exception:
        logger.debug("No output schema of %r", action.source, exc_info=True)
        return ANYTHING


def _output_schema(
    action: ViewAction, view: Any, annotated: Annotated, serializer: Any
) -> JSONObject:
    if not _writes_plainly(view):
        return ANYTHING
    if annotated.has_response:
        given = annotated.response
        is_class = isinstance(given, type) and issubclass(given, serializers.BaseSerializer)
        shown = given() if is_class else given
        if not isinstance(shown, serializers.BaseSerializer):
            return ANYTHING
        is_list = isinstance(shown, serializers.ListSerializer) or action.standard_name == "list"
        return _list_of(action, view, shown) if is_list else _one_of(shown)
    if not (isinstance(view, GenericAPIView) and action.is_of_framework):
        return ANYTHING
    if action.standard_name == "destroy":
        return {"type": "object", "properties": {"result": {"type": "null"}}}
    if action.standard_name not in _STANDARD or _depends_on_call(view):
        return ANYTHING
    shown = view.get_serializer() if serializer is None else serializer
    is_list = action.standard_name == "list" or isinstance(shown, serializers.ListSerializer)
    return _list_of(action, view, shown) if is_list else _one_of(shown)


def _writes_plainly(view: Any) -> bool:
    """Return whether the view's renderer of JSON writes the data as they are."""
    renderers = [each for each in view.renderer_classes if issubclass(each, JSONRenderer)]
    is_finished = _is_of_framework(type(view), "finalize_response")
    return (
        is_finished
        and bool(renderers)
        and all(_is_of_framework(each, "render") for each in renderers)
        and all(each.encoder_class is JSONRenderer.encoder_class for each in renderers)
    )


def _is_of_framework(cls: type[Any], method: str) -> bool:
    return str(getattr(cls, method).__module__).startswith("rest_framework.")


def _depends_on_call(view: Any) -> bool:
    """Return whether a view has other serializers for other callers."""
    functions = [getattr(type(view), name) for name in ("get_serializer_class", "get_serializer")]
    return any(
        not is_same_for_all(function, type(view))
        for function in functions
        if not str(function.__module__).startswith("rest_framework.")
    )


def _one_of(serializer: Any) -> JSONObject:
    schema = shown_schema(serializer)
    return schema if schema.get("type") == "object" else ANYTHING


def _list_of(action: ViewAction, view: Any, serializer: Any) -> JSONObject:
    one = serializer.child if isinstance(serializer, serializers.ListSerializer) else serializer
    meta = getattr(one, "Meta", None)
    of_list = getattr(meta, "list_serializer_class", serializers.ListSerializer)
    kind = of_list if one is serializer else type(serializer)
    if not _is_of_framework(kind, "to_representation"):
        return ANYTHING
    properties: dict[str, JSONObject] = {"results": {"type": "array", "items": shown_schema(one)}}
    paginator = getattr(view, "paginator", None) if action.method == "get" else None
    if isinstance(paginator, pagination.BasePagination) and view.pagination_class is not None:
        own = (type(paginator).get_paginated_response, type(view).get_paginated_response)
        if any(not str(each.__module__).startswith(_FRAMEWORK) for each in own):
            return ANYTHING
        page = {"type": ["object", "null"], "description": "The arguments that select this page."}
        links = {"next": page, "previous": page}
        count = {} if isinstance(paginator, pagination.CursorPagination) else {"count": _INTEGER}
        properties = {**count, **links, **properties}
        return {"type": "object", "properties": {**properties, **MEMBERS_OF_PAGE}}
    return {"type": "object", "properties": {**properties, **MEMBERS}}


_FRAMEWORK = ("rest_framework.", "django_mcp.")
_INTEGER: JSONObject = {"type": "integer"}


def shown_schema(serializer: Any) -> JSONObject:
    """Return the JSON Schema of an object as a serializer shows it."""
    if not isinstance(serializer, serializers.Serializer):
        return {}
    if not _is_of_framework(type(serializer), "to_representation"):
        return {}
    model = getattr(getattr(serializer, "Meta", None), "model", None)
    properties: dict[str, JSONObject] = {}
    for name, field in serializer.fields.items():
        if field.write_only:
            continue
        schema = _shown_field(field)
        schema = schema if _has_always_value(model, field) else or_null(schema)
        if field.help_text and schema:
            schema = {**schema, "description": str(field.help_text)}
        properties[name] = schema
    return {"type": "object", "properties": properties}


def _shown_field(field: Any) -> JSONObject:
    if not _is_of_framework(type(field), "to_representation"):
        return {}
    if isinstance(field, serializers.ListSerializer):
        return {"type": "array", "items": shown_schema(field.child)}
    if isinstance(field, serializers.BaseSerializer):
        return shown_schema(field)
    for kind, build in _BUILDERS:
        if isinstance(field, kind):
            return build(field)
    return {}


def _has_always_value(model: Any, field: Any) -> bool:
    """Return whether a field shows a column, or rows of a relation, that cannot be null."""
    if model is None or "." in field.source or isinstance(field, fields.FloatField):
        return False
    try:
        column = model._meta.get_field(field.source)
    except FieldDoesNotExist:
        return False
    if isinstance(field, serializers.ListSerializer | relations.ManyRelatedField):
        return bool(column.one_to_many or column.many_to_many)
    is_column = bool(column.concrete) and not column.many_to_many
    return is_column and not column.null and not isinstance(field, fields.FileField)


def _items(child: Any) -> JSONObject:
    return {"type": "array", "items": or_null(_shown_field(child))}


def _choice(field: fields.ChoiceField) -> JSONObject:
    are_texts = all(isinstance(key, str) for key in field.choices)
    return {"type": "string"} if are_texts else {}


def _integer(field: Any) -> JSONObject:
    is_text = getattr(field, "coerce_to_string", False)
    return {"type": "string"} if is_text else _INTEGER


def _uuid(field: fields.UUIDField) -> JSONObject:
    return _INTEGER if field.uuid_format == "int" else {"type": "string"}


def _text(_field: Any) -> JSONObject:
    return {"type": "string"}


_KEY: JSONObject = {"type": ["string", "integer"]}

# The first class that fits decides, so subclasses come before their bases.
_BUILDERS: list[tuple[Any, Callable[[Any], JSONObject]]] = [
    (fields.BooleanField, lambda _: {"type": "boolean"}),
    (fields.UUIDField, _uuid),
    (fields.CharField, _text),
    (fields.MultipleChoiceField, lambda _: {"type": "array", "items": {}}),
    (fields.ChoiceField, _choice),
    (fields.IntegerField, _integer),
    (fields.FloatField, lambda _: {"type": "number"}),
    (fields.DecimalField, lambda _: {"type": ["string", "number"]}),
    (fields.DateTimeField, _text),
    (fields.DateField, _text),
    (fields.TimeField, _text),
    (fields.DurationField, _text),
    (fields.FileField, _text),
    (fields.ListField, lambda field: _items(field.child)),
    (
        fields.DictField,
        lambda field: {
            "type": "object",
            "additionalProperties": or_null(_shown_field(field.child)),
        },
    ),
    (relations.ManyRelatedField, lambda field: _items(field.child_relation)),
    (relations.PrimaryKeyRelatedField, lambda _: _KEY),
    (relations.HyperlinkedRelatedField, _text),
    (relations.StringRelatedField, _text),
]
