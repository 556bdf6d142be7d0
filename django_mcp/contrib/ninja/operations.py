"""The operations of a Django Ninja API: their arguments, their authentication and their calls."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, cached_property, partial, wraps
from http import HTTPStatus
from typing import Any

from asgiref.sync import async_to_sync
from django.conf import settings
from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.core.exceptions import ImproperlyConfigured
from django.http import QueryDict
from django.utils.module_loading import import_string
from ninja import NinjaAPI
from ninja.conf import settings as ninja_settings
from ninja.operation import Operation
from pydantic.errors import PydanticUserError

from django_mcp.context import Context
from django_mcp.contrib.credentials import find_credential_word, find_passwords
from django_mcp.contrib.generated import (
    GeneratedFunction,
    GeneratedOptions,
    Report,
    check_actions,
    register_generated,
    report,
    report_later,
)
from django_mcp.contrib.history import recording_caller
from django_mcp.contrib.http_calls import (
    BODY,
    MAX_ERRORS,
    PATH,
    QUERY,
    Arguments,
    build_request,
    check_fields,
    describe_status,
    get_found,
    hints_of,
    to_texts,
)
from django_mcp.contrib.ninja.asking import may_call
from django_mcp.contrib.ninja.authentication import Authentication, Replaced
from django_mcp.contrib.ninja.copies import copy_operation
from django_mcp.contrib.ninja.found import FoundOperation, find_operations
from django_mcp.contrib.ninja.names import name_operations
from django_mcp.contrib.ninja.outputs import ANY, find_output_schema, note_own_responses
from django_mcp.contrib.ninja.responses import WHOLE, read_response
from django_mcp.contrib.ninja.routes import find_routes_of
from django_mcp.contrib.ninja.schemas import (
    REFERENCE,
    Definitions,
    find_needed,
    find_patterns,
    is_file,
    limit_integer,
    with_local_references,
)
from django_mcp.contrib.pydantic_models import SlowValidation, check_models
from django_mcp.contrib.routes import ViewRoutes
from django_mcp.contrib.view_problems import (
    ViewProblem,
    note_files,
    note_patterns,
    note_problem,
)
from django_mcp.protocol.errors import ToolError
from django_mcp.protocol.json import JSONObject, encode
from django_mcp.registry.entries import ToolEntry
from django_mcp.registry.validators import Validator
from django_mcp.servers import MCPServer

_JSON = "application/json"

_SIZES = ("limit", "page_size")
"""The parameters of Django Ninja's pagination that say how many rows a page has."""

_STARTS = ("offset", "page")
"""Those that say where a page begins."""

_NO_FORM = QueryDict()
"""What requests without a form share, which cannot be changed."""

_LARGEST_START = 2**31 - 1
"""Databases cannot skip more rows than 64 bits count."""


class Operations:
    """The operations of an API that have one of some tags.

    Attributes:
        names: of all.
        shown: the names of those that the API's schema shows.
    """

    def __init__(
        self, api: Any, *, tags: Collection[str] | None, auth: Authentication | None
    ) -> None:
        self._api = api
        if not isinstance(api, NinjaAPI):
            raise ImproperlyConfigured(f"operation_tools() takes a NinjaAPI, not {api!r:.100}.")
        found = list(find_operations(api))
        if not found:
            raise ImproperlyConfigured(
                "operation_tools(): the API has no operations. Call it after all routers were added to the API."
            )
        known = {tag for each in found for tag in each.operation.tags or ()}
        if isinstance(tags, str):
            raise ImproperlyConfigured(f"operation_tools(): write tags=[{tags!r}].")
        check_actions("operation_tools(): the API", sorted(known), kind="tag", tags=tags)
        self._found = [
            (name, each)
            for name, each in zip(name_operations(found), found, strict=True)
            if tags is None or set(each.operation.tags or ()) & set(tags)
        ]
        self._auth = auth
        self.names = {name for name, _ in self._found}
        self.shown = {name for name, each in self._found if each.operation.include_in_schema}

    def register(
        self,
        server: MCPServer,
        options: GeneratedOptions,
        *,
        named: Collection[str],
        prefix: str,
        rename: Mapping[str, str],
        listed_if: Callable[..., Any] | None,
    ) -> list[ToolEntry]:
        """Register those that the options include, and return the tools.

        Args:
            server: gets the tools.
            options: of all.
            named: the operations that the site has named one by one.
            prefix: what the names of tools begin with.
            rename: other names for arguments.
            listed_if: says to whom the tools are shown.
        """
        taken: set[str] = set()
        entries = []
        own = [(name, each) for name, each in self._found if options.has(name)]
        replaced = Replaced(self._auth, [each.operation for _, each in own])
        for name, each in own:
            what = f"The operation {each.label}"
            try:
                if name in taken:
                    raise ViewProblem(
                        f"another operation is named {name!r} too", "Give it an operation_id=."
                    )
                taken.add(name)
                routes = find_routes_of(self._api, each)
                tool = _Tool(name, each, routes, replaced, rename, options.max_results)
            except ViewProblem as problem:
                note_problem(server, what, problem, "django_mcp.ninja.W001")
                continue
            word = None if name in named else find_credential_word(tool.words)
            if word is not None:
                message = f"{what} is no tool: {word} is about passwords, tokens or sign-ins."
                hint = f"Name it in include= if it may be one ({name!r}), or leave it out with exclude=."
                report(server, message, hint, "django_mcp.ninja.W003")
                continue
            note_files(server, what, tool.files, "django_mcp.ninja.I001")
            note_patterns(server, what, tool.patterns, "django_mcp.ninja.I001")
            report_later(server, partial(tool.find_fault, what))
            entry = tool.register(server, options, prefix, listed_if)
            if entry is not None:
                entries.append(entry)
        return entries


class _Tool:
    """One operation as a tool.

    Attributes:
        files: the names of the files that it leaves out.
        patterns: the names of the parameters that it leaves out, since they are regular expressions.
        words: what the site calls the operation and what it reads, as far as that may be secret.
    """

    def __init__(
        self,
        name: str,
        found: FoundOperation,
        routes: ViewRoutes,
        auth: Replaced,
        rename: Mapping[str, str],
        max_results: int,
    ) -> None:
        operation = copy_operation(found.router, found.operation)
        if getattr(operation, "stream_format", None) is not None:
            raise ViewProblem(
                "it answers with a stream", "A result is whole. Leave it out with exclude=."
            )
        openapi = Definitions(operation.api)
        self.files: list[str] = []
        self.patterns = find_patterns(operation.models)
        self._name = name
        self._routes = routes
        self._arguments = Arguments(rename)
        self._arguments.max_values = MAX_ERRORS // _check_models(operation)
        self._sizes: dict[str, int] = {}
        self._max_results = max_results
        self._definitions = openapi.schemas
        with _telling_of_schemas():
            parameters, body = (
                openapi.operation_parameters(operation),
                openapi.request_body(operation),
            )
        self._add_parameters(parameters)
        self._is_form, self._is_whole = self._add_body(body)
        self._has_unnamed_body = any(
            getattr(model, "__read_from_single_attr__", None) for model in operation.models
        )
        self._json_fields = {
            name
            for model in operation.models
            for name in getattr(model, "__ninja_body_params__", ())
        }
        self._method = found.method.lower()
        self._callbacks = auth.replace_all(operation.auth_callbacks)
        operation.auth_callbacks = self._callbacks
        self._permissions = found.permissions
        with _telling_of_schemas():
            self._output = find_output_schema(found)
        self._operation = operation
        if self._output is not ANY:
            note_own_responses(operation)
        self.words = [name, found.function.__name__, *_find_secret_words(found, self._arguments)]

    def register(
        self,
        server: MCPServer,
        options: GeneratedOptions,
        prefix: str,
        listed_if: Callable[..., Any] | None,
    ) -> ToolEntry | None:
        """Register it; None if the options leave it out."""
        operation, name = self._operation, self._name
        return register_generated(
            server,
            options,
            GeneratedFunction(self._run, operation.view_func, name, origin="operation"),
            action=name,
            name=f"{prefix}_{name}" if prefix else name,
            title=operation.summary,
            description=operation.description or operation.summary,
            input_schema=self._schema(),
            output_schema=self._output,
            listed_if=self._make_rule(listed_if),
            atomic=self._method != "get",
            **hints_of(self._method),
        )

    # -- arguments

    def _add_parameters(self, parameters: list[JSONObject]) -> None:
        for parameter in parameters:
            place, is_required = parameter["in"], parameter["required"]
            if place == QUERY and parameter["name"] in self.patterns:
                if is_required:
                    raise ViewProblem(
                        f"it requires the regular expression {parameter['name']!r}",
                        "Give the parameter a default, or leave the operation out with exclude=.",
                    )
            elif place in (PATH, QUERY):
                schema = parameter["schema"]
                if place == QUERY and parameter["name"] in _SIZES + _STARTS:
                    schema = self._limit_page(parameter["name"], schema)
                self._arguments.add(place, parameter["name"], schema, is_required=is_required)
            elif is_required:
                raise ViewProblem(
                    f"it requires the {place} {parameter['name']!r}, which a tool has not",
                    "Give the parameter a default, or leave the operation out with exclude=.",
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
                self._sizes[name] = limited["default"] = most
        return limited

    def _add_body(self, body: JSONObject) -> tuple[bool, bool]:
        """Add the fields of the body; return whether it is a form, and one value that is no object."""
        if not body:
            return False, False
        ((media_type, content),) = body["content"].items()
        schema = self._resolve(content["schema"])
        if "properties" not in schema:
            whole = content["schema"]
            self._arguments.add(BODY, WHOLE, whole, is_required=body["required"])
            return False, True
        for name, each in schema["properties"].items():
            is_required = body["required"] and name in schema.get("required", ())
            if is_file(self._resolve(each)):
                if is_required:
                    raise ViewProblem(
                        f"it requires the file {name!r}",
                        "Files cannot be uploaded. Leave the operation out with exclude=.",
                    )
                self.files.append(name)
                continue
            self._arguments.add(BODY, name, each, is_required=is_required)
        return media_type != _JSON, False

    def _resolve(self, schema: JSONObject) -> JSONObject:
        """Return what a schema refers to."""
        reference = schema.get("$ref")
        if reference is None and len(schema.get("allOf", ())) == 1:
            reference = schema["allOf"][0].get("$ref")
        if reference is None:
            return schema
        definition: JSONObject = self._definitions[reference.removeprefix(REFERENCE)]
        return definition

    def _schema(self) -> JSONObject:
        """Return the schema of all arguments, with the definitions that it refers to."""
        schema = with_local_references(self._arguments.schema)
        needed = find_needed(schema, self._definitions)
        return {**schema, "$defs": needed} if needed else schema

    # -- calls

    def _run(self, ctx: Context, given: dict[str, Any]) -> Any:
        path, query, body = self._arguments.split(given)
        for name, size in self._sizes.items():
            query.setdefault(name, str(size))
        kwargs = get_found(self._routes, path, {})
        if not self._may_enter(ctx.user):
            raise ToolError(describe_status(HTTPStatus.UNAUTHORIZED))
        request = build_request(ctx, self._method.upper(), query, kwargs)
        self._fill(request, body)
        run: Any = self._operation.run
        if self._operation.is_async:
            run = async_to_sync(run)
        with recording_caller(request):
            response = run(request, **kwargs.match.kwargs)
            result = read_response(
                response,
                self._max_results,
                self._arguments,
                has_unnamed_body=self._has_unnamed_body,
            )
        if getattr(request, "mcp_has_own_response", False) and not self._is_declared(result):
            raise ToolError("The operation answers with something else than it declares.")
        return result

    def _is_declared(self, result: Any) -> bool:
        return isinstance(result, dict) and not self._output_validator.problems(result)

    @cached_property
    def _output_validator(self) -> Validator:
        return Validator(self._output, self._name, is_input=False)

    def _fill(self, request: Any, body: dict[str, Any]) -> None:
        request._files, request.POST = {}, _NO_FORM
        if self._is_form:
            request.POST = form = QueryDict(mutable=True)
            for name, value in body.items():
                is_json = name in self._json_fields
                form.setlist(name, [encode(value).decode()] if is_json else to_texts(value))
            check_fields(form)
            request._body = b""
        elif self._is_whole:
            request._body = encode(body[WHOLE]) if WHOLE in body else b""
        else:
            request._body = encode(body) if body else b""

    # -- authentication

    def _make_rule(self, listed_if: Callable[..., Any] | None) -> Callable[..., Any]:
        """Return what says to whom the tool is shown: nobody if no URL leads to the operation."""
        if listed_if is not None:

            @wraps(listed_if)
            def may_be_listed_by_site(*args: Any, **kwargs: Any) -> Any:
                return bool(self._routes.callbacks) and listed_if(*args, **kwargs)

            return may_be_listed_by_site

        def may_be_listed(user: Any) -> bool:
            if not self._routes.callbacks or not self._may_enter(user):
                return False
            query = self._arguments.names_of(QUERY)
            return may_call(self._method.upper(), user, self._callbacks, self._permissions, query)

        function = self._operation.view_func
        may_be_listed.__qualname__ = f"{function.__qualname__}.auth"
        return may_be_listed

    def _may_enter(self, user: Any) -> bool:
        """Return whether the site's `LoginRequiredMiddleware`, if there is one, lets a user in."""
        needs_login = any(
            getattr(callback, "login_required", True) for callback in self._routes.callbacks
        )
        return user.is_authenticated or not (
            needs_login and _has_login_middleware(tuple(settings.MIDDLEWARE))
        )

    def find_fault(self, what: str) -> Report | None:
        """Return why the tool cannot be called, as `report` takes it."""
        if not self._routes.callbacks:
            message = "another operation or a decorator takes the requests to its URL"
            hint = "Give it a URL of its own, and decorate the operation instead of the URL."
        elif not self._routes.takes(self._arguments.path_names, frozenset()):
            message = "no URL of it has exactly the variables that the tool has"
            hint = "Declare each variable of the URL as a parameter of the operation."
        else:
            return None
        return f"{what} cannot be called: {message}.", hint, "django_mcp.ninja.W002"


@contextmanager
def _telling_of_schemas() -> Iterator[None]:
    """Tell that a type of an operation has no schema.

    Raises:
        ViewProblem: in place of the error of pydantic.
    """
    try:
        yield
    except PydanticUserError as error:
        text = f"pydantic cannot describe its data: {error.message}"
        raise ViewProblem(text, "Declare the type where its module can see it.") from error


@cache
def _has_login_middleware(middleware: tuple[str, ...]) -> bool:
    classes = map(import_string, middleware)
    return any(
        isinstance(cls, type) and issubclass(cls, LoginRequiredMiddleware) for cls in classes
    )


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


def _find_secret_words(found: FoundOperation, arguments: Arguments) -> list[str]:
    """Return the names of a path, a controller, of data and of inputs that may tell of passwords and sign-ins."""
    controller = found.controller
    models = [*found.operation.models, *found.operation.response_models.values()]
    fields = [each for model in models for each in getattr(model, "model_fields", {}).values()]
    return [
        *(part for part in found.operation.path.split("/") if "{" not in part),
        *([] if controller is None else [controller.__name__]),
        *find_passwords(arguments.names_of(BODY)),
        *(each.annotation.__name__ for each in fields if isinstance(each.annotation, type)),
    ]
