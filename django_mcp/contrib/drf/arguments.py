"""The arguments of an action: variables of the path, the query and the body in one object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rest_framework import filters, serializers
from rest_framework.generics import GenericAPIView

from django_mcp.contrib.drf.actions import STANDARD, ViewAction
from django_mcp.contrib.drf.annotations import Annotated
from django_mcp.contrib.drf.filtersets import (
    filterset_parameters,
    has_filtersets,
    pattern_parameters,
)
from django_mcp.contrib.drf.schemas import UnsupportedField, find_files, repeats_lookups, schema_of
from django_mcp.contrib.http_calls import (
    BODY,
    MAX_ERRORS,
    MAX_LOOKUPS,
    PATH,
    QUERY,
    Arguments,
    ViewProblem,
    reading_at_startup,
)
from django_mcp.contrib.model_forms import key_schema
from django_mcp.contrib.pydantic_models import SlowValidation, check_models
from django_mcp.contrib.values import MAX_TEXT_CHARS, takes_pattern
from django_mcp.protocol.json import JSONObject

MANY = "items"
"""The argument that holds the data of a serializer with `many=True`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ActionArguments:
    """The arguments of an action.

    Attributes:
        all: of the path, the query and the body.
        pages: the query's parameters that select a page.
        is_many: the body is a list.
        files: the fields of the body that are left out, since they are files.
        patterns: the query's parameters that are left out, since they are regular expressions.
    """

    all: Arguments
    pages: frozenset[str]
    is_many: bool
    files: Sequence[str]
    patterns: Sequence[str]


def arguments_of(
    action: ViewAction,
    *,
    query: Mapping[str, JSONObject],
    path: Mapping[str, JSONObject],
    rename: Mapping[str, str],
    max_results: int,
) -> ActionArguments:
    """Return the arguments of an action.

    Raises:
        ViewProblem: its view does not tell, or two arguments have one name.
        DatabaseProblem: its view needs the database, which does not answer.
    """
    try:
        with reading_at_startup():
            view = action.bind_for_schema()
            annotated = Annotated(action, view)
            serializer = _find_serializer(action, view, annotated)
            body, is_many = _body(action, serializer)
            pages = _page_parameters(view, max_results) if _is_list(action, view) else {}
            patterns = _find_patterns(view) if _is_list(action, view) else []
            filter_by = _filter_parameters(view) if _is_list(action, view) else {}
            filter_by = {name: each for name, each in filter_by.items() if name not in patterns}
            used = getattr(view, "filterset_class", None), getattr(view, "filter_backends", ())
            # Filters read the query, which is short.
            check_models([used])
            forms = check_models([serializer])
    except ViewProblem:
        raise
    except SlowValidation as problem:
        raise ViewProblem(
            str(problem), f"{problem.hint} Or name another serializer in serializers=."
        ) from problem
    except UnsupportedField as error:
        raise ViewProblem(
            f"the field {error} of its serializer is a file, which is required",
            "Leave the action out with exclude=, or name another serializer in serializers=.",
        ) from error
    except Exception as error:
        raise ViewProblem(
            f"its view failed without a request: {type(error).__name__}: {error}",
            f"Name what it reads: serializers={{{action.name!r}: YourSerializer}}, or None. A view "
            "can also look at self.swagger_fake_view, which is set here.",
        ) from error
    parameters = {**filter_by, **pages, **annotated.query(), **query}
    arguments = Arguments(rename)
    arguments.max_values = MAX_ERRORS // forms
    if repeats_lookups(serializer):
        arguments.max_values = min(arguments.max_values, MAX_LOOKUPS)
    for name in {**dict.fromkeys(action.path), **path}:
        arguments.add(
            PATH, name, path.get(name) or _path_schema(action, view, name), is_required=True
        )
    for name, schema in parameters.items():
        required = bool(schema.get("required") is True)
        kept = {
            key: value for key, value in schema.items() if key != "required" or value is not True
        }
        arguments.add(QUERY, name, kept, is_required=required)
    for name, schema in body.get("properties", {}).items():
        arguments.add(BODY, name, schema, is_required=name in body.get("required", ()))
    return ActionArguments(
        all=arguments,
        pages=frozenset(pages),
        is_many=is_many,
        files=find_files(serializer),
        patterns=patterns,
    )


def _is_list(action: ViewAction, view: Any) -> bool:
    if not isinstance(view, GenericAPIView) or action.method != "get":
        return False
    return action.name == "list" or (
        action.action_map is None and not action.is_detail and hasattr(view, "list")
    )


def _path_schema(action: ViewAction, view: Any, name: str) -> JSONObject:
    lookup = getattr(view, "lookup_field", "pk")
    if action.model is None or name != (getattr(view, "lookup_url_kwarg", None) or lookup):
        return {"type": ["string", "integer"]}
    options = action.model._meta
    field = options.pk if lookup == "pk" else None
    if field is None and "__" not in lookup:
        field = options.get_field(lookup)
    return key_schema(field)


def _body(action: ViewAction, serializer: Any) -> tuple[JSONObject, bool]:
    """Return the schema of the data that an action reads, and whether that is a list."""
    if serializer is None:
        return {}, False
    schema = schema_of(serializer, partial=action.method == "patch")
    if schema["type"] == "array":
        body = {"properties": {MANY: schema}, "required": [MANY]}
        return body, True
    return schema, False


def _find_serializer(action: ViewAction, view: Any, annotated: Annotated) -> Any:
    """Return the serializer of the data that an action reads; None if it reads none."""
    if action.method in ("get", "delete") and action.name not in action.serializers:
        return None
    context = view.get_serializer_context() if hasattr(view, "get_serializer_context") else {}
    if action.name in action.serializers:
        return _instance(action.serializers[action.name], context)
    if annotated.has_request:
        return _instance(annotated.request, context)
    if not hasattr(view, "get_serializer"):
        return _instance(getattr(view, "serializer_class", None), context)
    if _is_standard(action):
        return view.get_serializer()
    # An extra action has the view set's serializer by default, and most read something else.
    own = action.initkwargs.get("serializer_class") or view.get_serializer_class()
    return view.get_serializer() if own is not action.view_class.serializer_class else None


def _is_standard(action: ViewAction) -> bool:
    return action.action_map is None or action.name in STANDARD


def _instance(given: Any, context: Mapping[str, Any]) -> Any:
    if isinstance(given, type) and issubclass(given, serializers.BaseSerializer):
        return given(context=context)
    return given if isinstance(given, serializers.BaseSerializer) else None


def _page_parameters(view: Any, max_results: int) -> dict[str, JSONObject]:
    if view.paginator is None:
        return {}
    parameters = dict(_described(view.paginator.get_schema_operation_parameters(view)))
    for name, schema in parameters.items():
        if schema.get("type") == "integer":
            is_offset = name == getattr(view.paginator, "offset_query_param", None)
            schema["minimum"] = 0 if is_offset else 1
    sizes = (
        (getattr(view.paginator, "page_size_query_param", None), "max_page_size"),
        (getattr(view.paginator, "limit_query_param", None), "max_limit"),
    )
    for size_name, attribute in sizes:
        if size_name in parameters:
            limit = getattr(view.paginator, attribute, None) or max_results
            parameters[size_name]["maximum"] = min(limit, max_results)
    return parameters


def _filter_parameters(view: Any) -> dict[str, JSONObject]:
    parameters: dict[str, JSONObject] = {}
    for backend_class in view.filter_backends:
        backend = backend_class()
        if isinstance(backend, filters.SearchFilter):
            if backend.get_search_fields(view, view.request):
                for name, schema in _described(backend.get_schema_operation_parameters(view)):
                    # The query has a condition for each word and each field.
                    parameters[name] = {**schema, "maxLength": MAX_TEXT_CHARS}
        elif isinstance(backend, filters.OrderingFilter):
            parameters |= _ordering(backend, view)
        elif has_filtersets(backend):
            parameters |= filterset_parameters(backend, view)
        else:
            parameters |= _described(backend.get_schema_operation_parameters(view))
    return parameters


def _find_patterns(view: Any) -> list[str]:
    """Return the parameters of a view's filters that take regular expressions."""
    patterns: list[str] = []
    for backend_class in view.filter_backends:
        backend = backend_class()
        if isinstance(backend, filters.SearchFilter):
            lookups = [
                backend.lookup_prefixes.get(name[:1], name)
                for name in map(str, backend.get_search_fields(view, view.request) or ())
            ]
            if any(map(takes_pattern, lookups)):
                patterns.append(backend.search_param)
        elif has_filtersets(backend):
            patterns += pattern_parameters(backend, view)
    return patterns


def _ordering(backend: filters.OrderingFilter, view: Any) -> dict[str, JSONObject]:
    """Return the parameter with the fields that can be ordered by, and no others."""
    valid = backend.get_valid_fields(view.get_queryset(), view, {"request": view.request})
    names = [name for name, _ in valid]
    return {
        backend.ordering_param: {
            "type": "string",
            "enum": [order for name in names for order in (name, f"-{name}")],
            "description": str(backend.ordering_description),
        }
    }


def _described(parameters: Any) -> Iterator[tuple[str, JSONObject]]:
    """Yield the names and schemas of OpenAPI parameters in the query."""
    for parameter in parameters:
        if parameter.get("in", QUERY) == QUERY:
            schema = dict(parameter.get("schema", {}))
            if parameter.get("description"):
                schema["description"] = str(parameter["description"])
            if parameter.get("required"):
                schema["required"] = True
            yield parameter["name"], schema
