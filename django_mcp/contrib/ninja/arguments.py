"""The arguments of an operation: its parameters and the fields of its body in one object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from ninja.conf import settings as ninja_settings
from ninja.operation import Operation
from pydantic.errors import PydanticUserError

from django_mcp.contrib.http_calls import BODY, MAX_ERRORS, PATH, QUERY, Arguments
from django_mcp.contrib.ninja.found import FoundOperation
from django_mcp.contrib.ninja.patterns import find_patterns
from django_mcp.contrib.ninja.responses import WHOLE
from django_mcp.contrib.ninja.schemas import (
    Definitions,
    find_needed,
    is_file,
    limit_integer,
    limit_text,
    resolve,
    with_local_references,
)
from django_mcp.contrib.view_problems import ViewProblem
from django_mcp.forms.pydantic_models import SlowValidation, check_models
from django_mcp.forms.values import MAX_TEXT_CHARS
from django_mcp.protocol.json import JSONObject

_JSON = "application/json"

_SIZES = ("limit", "page_size")
"""The parameters of Django Ninja's pagination that say how many rows a page has."""

_STARTS = ("offset", "page")
"""Those that say where a page begins."""

_LARGEST_START = 2**31 - 1
"""Databases cannot skip more rows than 64 bits count."""


class OperationArguments:
    """The arguments of an operation.

    Args:
        found: of an API.
        rename: other names for arguments.
        max_results: rows of a page at most.

    Attributes:
        all: of the path, the query and the body.
        files: the names of the files that are left out.
        patterns: the names of those that are left out, since they are regular expressions.
        sizes: how many rows a page has where the argument for it is not sent, by its name.
        is_form: whether the body is a form.
        is_whole: whether it is one value that is no object.
        has_unnamed_body: whether it is the value of one parameter, whose name nobody sends.
        json_fields: the fields of a form whose values are JSON.

    Raises:
        ViewProblem: a tool cannot send what the operation requires.
    """

    def __init__(self, found: FoundOperation, rename: Mapping[str, str], max_results: int) -> None:
        operation = found.operation
        openapi = Definitions(operation.api)
        self.files: list[str] = []
        self.patterns: list[str] = []
        self.all = Arguments(rename)
        self.all.max_values = MAX_ERRORS // _check_models(operation)
        self.sizes: dict[str, int] = {}
        self._max_results = max_results
        self._definitions = openapi.schemas
        self._patterns = find_patterns(found)
        with telling_of_schemas():
            parameters, body = (
                openapi.operation_parameters(operation),
                openapi.request_body(operation),
            )
        self._add_parameters(parameters)
        self.is_form, self.is_whole = self._add_body(body)
        self._check_patterns()
        self.has_unnamed_body = any(
            getattr(model, "__read_from_single_attr__", None) for model in operation.models
        )
        self.json_fields = {
            name
            for model in operation.models
            for name in getattr(model, "__ninja_body_params__", ())
        }

    @property
    def has_pages(self) -> bool:
        """Whether the query selects a page, as Django Ninja's pagination has it."""
        return not {*_SIZES, *_STARTS}.isdisjoint(self.all.names_of(QUERY))

    @property
    def has_start(self) -> bool:
        """Whether the query says where a page begins."""
        return not set(_STARTS).isdisjoint(self.all.names_of(QUERY))

    def _add_parameters(self, parameters: list[JSONObject]) -> None:
        for parameter in parameters:
            place, is_required = parameter["in"], parameter["required"]
            if place in (PATH, QUERY):
                schema = parameter["schema"]
                if place == QUERY and parameter["name"] in _SIZES + _STARTS:
                    schema = self._limit_page(parameter["name"], schema)
                self._add(place, parameter["name"], schema, is_required=is_required)
            elif is_required:
                raise ViewProblem(
                    f"it requires the {place} {parameter['name']!r}, which a tool has not",
                    "Give the parameter a default, or leave the operation out with exclude=.",
                )

    def _add(self, place: str, name: str, schema: JSONObject, *, is_required: bool) -> None:
        """Add an argument, unless it is a regular expression."""
        if (place, name) in self._patterns.words:
            # A query has a condition for each word and each field.
            schema = limit_text(schema, MAX_TEXT_CHARS)
        if (place, name) not in self._patterns.arguments:
            self.all.add(place, name, schema, is_required=is_required)
        elif is_required or place == PATH:
            raise ViewProblem(
                f"it requires the regular expression {name!r}",
                "Give the parameter a default, or leave the operation out with exclude=.",
            )
        else:
            self.patterns.append(name)

    def _check_patterns(self) -> None:
        """Check that all regular expressions were left out.

        Raises:
            ViewProblem: one is inside of an argument.
        """
        inside = {*self._patterns.inside, *(name for _place, name in self._patterns.arguments)}
        inside.difference_update(self.patterns)
        if inside:
            raise ViewProblem(
                f"it takes regular expressions inside of an argument: {', '.join(sorted(inside))}",
                "One of a client can keep a database busy. Give the filter schema another lookup, or leave the "
                "operation out with exclude=.",
            )

    def _limit_page(self, name: str, schema: JSONObject) -> JSONObject:
        """Return the schema of a parameter of the pagination with the limits that it has here."""
        largest = self._max_results if name in _SIZES else _LARGEST_START
        limited = limit_integer(schema, largest)
        usual = schema.get("default")
        if name in _SIZES and limited != schema:
            most = largest if usual is None else min(usual, largest)
            # Without the argument, the operation would use its own.
            if usual != most and (
                usual is not None or largest < ninja_settings.PAGINATION_PER_PAGE
            ):
                self.sizes[name] = limited["default"] = most
        return limited

    def _add_body(self, body: JSONObject) -> tuple[bool, bool]:
        """Add the fields of the body; return whether it is a form, and one value that is no object."""
        if not body:
            return False, False
        ((media_type, content),) = body["content"].items()
        schema = resolve(content["schema"], self._definitions)
        if "properties" not in schema:
            whole = content["schema"]
            self.all.add(BODY, WHOLE, whole, is_required=body["required"])
            return False, True
        for name, each in schema["properties"].items():
            is_required = body["required"] and name in schema.get("required", ())
            if is_file(resolve(each, self._definitions)):
                if is_required:
                    raise ViewProblem(
                        f"it requires the file {name!r}",
                        "Files cannot be uploaded. Leave the operation out with exclude=.",
                    )
                self.files.append(name)
                continue
            self._add(BODY, name, each, is_required=is_required)
        return media_type != _JSON, False

    @property
    def schema(self) -> JSONObject:
        """The JSON Schema of all arguments, with the definitions that it refers to."""
        schema = with_local_references(self.all.schema)
        needed = find_needed(schema, self._definitions)
        return {**schema, "$defs": needed} if needed else schema


@contextmanager
def telling_of_schemas() -> Iterator[None]:
    """Tell that a type of an operation has no schema.

    Raises:
        ViewProblem: in place of the error of pydantic.
    """
    try:
        yield
    except PydanticUserError as error:
        text = f"pydantic cannot describe its data: {error.message}"
        raise ViewProblem(text, "Declare the type where its module can see it.") from error


def _check_models(operation: Operation) -> int:
    """Check that the models of what a client sends, and gets back, are checked in linear time.

    Returns with how many forms a part of what a client sends is compared at most.

    Raises:
        ViewProblem: one has an ambiguous union, or a pattern that may take very long.
    """
    answers = [model for model in operation.response_models.values() if isinstance(model, type)]
    try:
        check_models(answers)
        return check_models(operation.models)
    except SlowValidation as problem:
        raise ViewProblem(str(problem), problem.hint) from problem
