"""The arguments of an action: variables of the path, the query and the body in one object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from inspect import unwrap
from typing import Any

from rest_framework import serializers
from rest_framework.generics import GenericAPIView

from django_mcp.contrib.drf.actions import STANDARD, ViewAction
from django_mcp.contrib.drf.annotations import Annotated
from django_mcp.contrib.drf.code_reading import (
    QUERY_ATTRIBUTES,
    find_attributes,
    find_keywords,
    find_query_names,
    reads_body,
)
from django_mcp.contrib.drf.list_arguments import (
    filter_parameters,
    find_order,
    find_patterns,
    page_parameters,
)
from django_mcp.contrib.drf.outputs import output_schema
from django_mcp.contrib.drf.reading import complete_context
from django_mcp.contrib.drf.schemas import (
    UnsupportedField,
    find_credentials,
    find_files,
    repeats_lookups,
    schema_of,
)
from django_mcp.contrib.drf.stand_in import make_stand_in
from django_mcp.contrib.http_calls import (
    BODY,
    MAX_ERRORS,
    MAX_LOOKUPS,
    PATH,
    QUERY,
    Arguments,
)
from django_mcp.contrib.lists import MEMBERS, ListArguments
from django_mcp.contrib.view_problems import DatabaseProblem, ViewProblem, reading_at_startup
from django_mcp.forms import key_schema
from django_mcp.forms.pydantic_models import SlowValidation, check_models
from django_mcp.protocol.json import JSONObject

MANY = "items"
"""The argument that holds the data of a serializer with `many=True`."""

WHOLE = "data"
"""The argument that holds the data of a serializer that does not tell its fields."""


class ListKind(Enum):
    """Which arguments select rows of a result: none, a cursor inside of pages of the view, or a limit and a cursor."""

    NONE = auto()
    PAGES = auto()
    WHOLE = auto()


@dataclass(frozen=True, kw_only=True, slots=True)
class ActionArguments:
    """The arguments of an action, and what it returns.

    Attributes:
        all: of the path, the query and the body.
        pages: the query's parameters that select a page.
        whole: the argument that holds the whole body; None: each of its fields is one.
        annotated: what the site says of the action.
        output: the JSON Schema of its results.
        rows: the arguments that select rows of a list; None: it is no list.
        key: the argument that says which object is meant, and the field that it is compared with; None: that
            is not known.
    """

    all: Arguments
    rows: ListArguments | None
    pages: frozenset[str]
    whole: str | None
    annotated: Annotated
    output: JSONObject
    key: tuple[str, Any] | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadView:
    """What a view tells of an action, without the variables of its URL.

    Attributes:
        view: that was read.
        parameters: of the query, as JSON Schemas.
        body: the JSON Schema of the data.
        pages, whole, annotated, output: those of `ActionArguments`.
        max_values: values that the body may have.
        files: the fields of the body that are left out, since they are files.
        patterns: the query's parameters that are left out, since they are regular expressions.
        left_out: why other parameters of the query could not be read.
        query_readers: methods of the site that read the query, if nothing names its parameters, each with the
            parameters that its code names.
        lacks_body: its code reads the body, and nothing says what is in it.
        credentials: names of the serializer, and of its fields for passwords.
        list_kind: which arguments select rows of a list.
        order: what the rows of the list are ordered by.
        max_results: rows of a list at most.
        key: the variable of the URL that says which object is meant, and its field; None: that is not known.
    """

    view: Any
    parameters: Mapping[str, JSONObject]
    body: JSONObject
    pages: frozenset[str]
    whole: str | None
    annotated: Annotated
    output: JSONObject
    max_values: int
    files: Sequence[str]
    patterns: Sequence[str]
    left_out: Sequence[str]
    query_readers: Mapping[str, Sequence[str]]
    lacks_body: bool
    credentials: Sequence[str]
    list_kind: ListKind
    order: str
    max_results: int
    key: tuple[str, Any] | None

    def with_path(
        self, action: ViewAction, *, path: Mapping[str, JSONObject], rename: Mapping[str, str]
    ) -> ActionArguments:
        """Return all arguments.

        Args:
            action: has the variables of the URL.
            path: their JSON Schemas, and further variables, as the site gives them.
            rename: see `Arguments`.

        Raises:
            ViewProblem: two arguments have one name.
        """
        arguments = Arguments(rename)
        arguments.max_values = self.max_values
        for name in {**dict.fromkeys(action.path), **path}:
            schema = path.get(name) or _path_schema(action, self.view, name)
            arguments.add(PATH, name, schema, is_required=name not in action.optional)
        for name, schema in self.parameters.items():
            required = bool(schema.get("required") is True)
            kept = {
                key: value
                for key, value in schema.items()
                if key != "required" or value is not True
            }
            arguments.add(QUERY, name, kept, is_required=required)
        required_fields = self.body.get("required", ())
        fields = self.body.get("properties", {})
        # The key of an object, and the new one that it is given.
        new = {
            f"body.{name}": f"new_{name}"
            for name in arguments.path_names & fields.keys()
            if f"path.{name}" not in rename and f"new_{name}" not in fields
        }
        arguments.rename = {**new, **rename}
        for name, schema in fields.items():
            arguments.add(BODY, name, schema, is_required=name in required_fields)
        rows = None
        if self.list_kind is not ListKind.NONE:
            rows = ListArguments.choose(
                f"{action.source.__module__}.{action.source.__qualname__}.{action.key}",
                arguments.properties,
                has_pages=self.list_kind is ListKind.PAGES,
                max_results=self.max_results,
            )
            arguments.properties.update(rows.schemas(self.order))
        key = None if self.key is None else arguments.find(PATH, self.key[0])
        return ActionArguments(
            all=arguments,
            rows=rows,
            pages=self.pages,
            whole=self.whole,
            annotated=self.annotated,
            output=self.output,
            key=None if self.key is None or key is None else (key, self.key[1]),
        )


def read_action(
    action: ViewAction, *, query: Mapping[str, JSONObject], max_results: int
) -> ReadView:
    """Return what the view of an action tells of it.

    Views may ask for the user: what fails for nobody is read again for a user who is signed in and has nothing.

    Raises:
        ViewProblem: its view does not tell.
        DatabaseProblem: its view needs the database, which does not answer.
    """
    try:
        return _read_action(action, None, query, max_results)
    except DatabaseProblem:
        raise
    except ViewProblem as problem:
        try:
            return _read_action(action, make_stand_in(), query, max_results)
        except ViewProblem:
            raise problem from None


def _read_action(
    action: ViewAction, user: Any, query: Mapping[str, JSONObject], max_results: int
) -> ReadView:
    left_out: list[str] = []
    try:
        with reading_at_startup():
            view = action.bind_for_schema(user)
            annotated = Annotated(action, view)
            serializer = _find_serializer(action, view, annotated)
            body, whole = _body(action, serializer)
            pages = page_parameters(view, max_results) if _has(action, view, PAGES) else {}
            is_filtered = _has(action, view, FILTERS)
            patterns = find_patterns(view, left_out) if is_filtered else []
            filter_by = filter_parameters(view, left_out) if is_filtered else {}
            filter_by = {name: each for name, each in filter_by.items() if name not in patterns}
            if is_filtered:
                # Filters read the query, which is short.
                check_models([(getattr(view, "filterset_class", None), view.filter_backends)])
            forms = check_models([serializer])
            output = output_schema(action, view, annotated, serializer)
            list_kind = _find_list_kind(action, view, output)
            order = "" if list_kind is ListKind.NONE else find_order(view)
            key = _find_key(action, view)
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
            f"Name what it reads: serializers={{{action.key!r}: YourSerializer}}, or None. A view "
            "can also look at self.swagger_fake_view, which is set here.",
        ) from error
    max_values = MAX_ERRORS // forms
    found = {**filter_by, **pages}
    named = {
        name: _with_limits(each, found.get(name, {}))
        for name, each in {**annotated.query(), **query}.items()
        if name not in patterns
    }
    return ReadView(
        view=view,
        parameters={**found, **named},
        body=body,
        pages=frozenset(pages),
        whole=whole,
        annotated=annotated,
        output=output,
        max_values=min(max_values, MAX_LOOKUPS) if repeats_lookups(serializer) else max_values,
        files=find_files(serializer),
        patterns=patterns,
        left_out=list(dict.fromkeys(left_out)),
        query_readers={} if named else _find_query_readers(action, view),
        lacks_body=serializer is None and _reads_unknown_body(action, annotated),
        credentials=find_credentials(serializer),
        list_kind=list_kind,
        order=order,
        max_results=max_results,
        key=key,
    )


def _with_limits(named: JSONObject, found: JSONObject) -> JSONObject:
    """Return the schema that a site gives a parameter, within the limits of what its view does with it."""
    limits = {keyword: each for keyword, each in found.items() if keyword in _LIMITS}
    if not limits:
        return named
    if named.get("type") != found.get("type"):
        return {**found, "description": named["description"]} if "description" in named else found
    return {**named, **{name: min(each, named.get(name, each)) for name, each in limits.items()}}


_LIMITS = frozenset(("maxLength", "maxItems", "maximum"))


def _find_query_readers(action: ViewAction, view: Any) -> dict[str, list[str]]:
    """Return the methods of the site that read the query of a request, with the parameters that their code names."""
    # What selects the rows of a list matters little for one object.
    selecting = (
        () if action.is_detail or action.method != "get" else ("get_queryset", "filter_queryset")
    )
    functions = {name: getattr(type(view), name, None) for name in selecting}
    functions = {action.name: action.site_function, **functions}
    return {
        name: find_query_names(function)
        for name, function in functions.items()
        if not str(getattr(function, "__module__", "rest_framework.")).startswith("rest_framework.")
        and find_attributes(function) & QUERY_ATTRIBUTES
    }


def _reads_unknown_body(action: ViewAction, annotated: Annotated) -> bool:
    """Return whether an action without a serializer reads the body, and the site has not said that it needs none."""
    if action.method == "get" or action.key in action.serializers or annotated.has_request:
        return False
    return reads_body(action.site_function)


def _find_list_kind(action: ViewAction, view: Any, output: JSONObject) -> ListKind:
    """Return which arguments select rows of what an action returns, as far as its code and its schema tell."""
    if action.method != "get":
        return ListKind.NONE
    if _has(action, view, PAGES):
        return ListKind.WHOLE if view.pagination_class is None else ListKind.PAGES
    own_code = not action.is_of_framework and "many" in find_keywords(action.function)
    is_list = output.get("properties", {}).keys() >= MEMBERS.keys()
    return ListKind.WHOLE if own_code or is_list else ListKind.NONE


PAGES, FILTERS = "paginate_queryset", "filter_queryset"


def _has(action: ViewAction, view: Any, method: str) -> bool:
    """Return whether an action uses a method of its generic view, as the list does."""
    if not isinstance(view, GenericAPIView) or action.method != "get":
        return False
    return _is_list(action, view) or bool({method, "list"} & find_attributes(action.function))


def _is_list(action: ViewAction, view: Any) -> bool:
    if not isinstance(view, GenericAPIView) or action.method != "get":
        return False
    return action.name == "list" or (
        action.action_map is None and not action.is_detail and hasattr(view, "list")
    )


def _find_key(action: ViewAction, view: Any) -> tuple[str, Any] | None:
    """Return the variable of the URL that says which object is meant, and its field; None if that is not known."""
    lookup = getattr(view, "lookup_field", None)
    if lookup is None or "__" in lookup:
        return None
    try:
        options = (action.model or view.get_queryset().model)._meta
        field = options.pk if lookup == "pk" else options.get_field(lookup)
    except Exception:  # noqa: BLE001 - a view may need a call for its rows
        return None
    return view.lookup_url_kwarg or lookup, field


def _path_schema(action: ViewAction, view: Any, name: str) -> JSONObject:
    lookup = getattr(view, "lookup_field", "pk")
    of_url = action.variables.get(name, {"type": ["string", "integer"]})
    if action.model is None or name != (getattr(view, "lookup_url_kwarg", None) or lookup):
        return of_url
    options = action.model._meta
    field = options.pk if lookup == "pk" else None
    if field is None and "__" not in lookup:
        field = options.get_field(lookup)
    return key_schema(field)


def _body(action: ViewAction, serializer: Any) -> tuple[JSONObject, str | None]:
    """Return the schema of the data that an action reads, and the argument that holds all of it, if one does."""
    if serializer is None:
        return {}, None
    schema = schema_of(serializer, partial=action.method == "patch")
    if "properties" in schema:
        return schema, None
    whole = MANY if schema["type"] == "array" else WHOLE
    return {"properties": {whole: schema}, "required": [whole]}, whole


def _find_serializer(action: ViewAction, view: Any, annotated: Annotated) -> Any:
    """Return the serializer of the data that an action reads; None if it reads none."""
    if action.method in ("get", "delete") and action.key not in action.serializers:
        return None
    complete_context(view)
    context = view.get_serializer_context() if hasattr(view, "get_serializer_context") else {}
    if action.key in action.serializers:
        return _instance(action.serializers[action.key], context)
    if annotated.has_request:
        return _instance(annotated.request, context)
    if not hasattr(view, "get_serializer"):
        return _instance(getattr(view, "serializer_class", None), context)
    if _is_standard(action):
        return view.get_serializer()
    # An extra action has the view set's serializer by default, and most read something else.
    declared = getattr(action.function, "kwargs", {}).get("serializer_class")
    if declared is not None and declared is not action.view_class.serializer_class:
        return view.get_serializer()
    own = action.initkwargs.get("serializer_class") or view.get_serializer_class()
    is_own = own not in _usual_classes(action, view)
    return view.get_serializer() if is_own or _validates(action.function) else None


def _usual_classes(action: ViewAction, view: Any) -> list[Any]:
    """Return the serializer classes of a view set's other actions."""
    classes = [action.view_class.serializer_class]
    for name in (None, *STANDARD):
        view.action = name
        # The view may have no such action.
        with suppress(Exception):
            classes.append(view.get_serializer_class())
    view.action = action.name
    return classes


def _validates(function: Any) -> bool:
    """Return whether the code of a function validates data by the serializer of its view, and by no other one."""
    function = unwrap(function)
    variables = getattr(function, "__globals__", {})
    names = getattr(getattr(function, "__code__", None), "co_names", ())
    others = [variables.get(name) for name in names]
    return {"get_serializer", "is_valid"} <= find_attributes(function) and not any(
        isinstance(other, type) and issubclass(other, serializers.BaseSerializer)
        for other in others
    )


def _is_standard(action: ViewAction) -> bool:
    return action.action_map is None or action.name in STANDARD


def _instance(given: Any, context: Mapping[str, Any]) -> Any:
    if isinstance(given, type) and issubclass(given, serializers.BaseSerializer):
        return given(context=context)
    return given if isinstance(given, serializers.BaseSerializer) else None
