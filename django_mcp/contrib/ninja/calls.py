"""Run an operation of an API in process: who may, with which request, and what becomes of its response."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache, cached_property, wraps
from http import HTTPStatus
from typing import Any

from asgiref.sync import async_to_sync
from django.conf import settings
from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.http import QueryDict
from django.utils.module_loading import import_string
from pydantic import ValidationError

from django_mcp.context import Context
from django_mcp.contrib.credentials import find_passwords
from django_mcp.contrib.generated import (
    GeneratedFunction,
    GeneratedOptions,
    Report,
    register_generated,
)
from django_mcp.contrib.history import recording_caller
from django_mcp.contrib.http_calls import (
    BODY,
    QUERY,
    Arguments,
    build_request,
    check_fields,
    describe_status,
    get_found,
    hints_of,
    to_texts,
)
from django_mcp.contrib.lists import ListArguments, Window
from django_mcp.contrib.ninja.arguments import OperationArguments, telling_of_schemas
from django_mcp.contrib.ninja.asking import may_call
from django_mcp.contrib.ninja.authentication import Replaced, find_asked
from django_mcp.contrib.ninja.converted import find_converted, has_arguments
from django_mcp.contrib.ninja.copies import copy_operation
from django_mcp.contrib.ninja.families import Families
from django_mcp.contrib.ninja.found import FoundOperation
from django_mcp.contrib.ninja.outputs import (
    ANY,
    find_output_schema,
    is_list,
    may_return_list,
    note_own_responses,
    with_members,
)
from django_mcp.contrib.ninja.responses import WHOLE, read_response
from django_mcp.contrib.routes import ViewRoutes
from django_mcp.contrib.view_problems import ViewProblem
from django_mcp.protocol.errors import ToolError
from django_mcp.protocol.json import encode
from django_mcp.registry.entries import ToolEntry
from django_mcp.registry.problems import ArgumentErrors, describe_conversion, name_as
from django_mcp.registry.validators import Validator
from django_mcp.servers import MCPServer

_NO_FORM = QueryDict()
"""What requests without a form share, which cannot be changed."""


class OperationTool:
    """The tool of one operation.

    Attributes:
        arguments: what it takes.
        words: what the site calls the operation and what it reads, as far as that may be secret.

    Raises:
        ViewProblem: it cannot be one.
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
        self.arguments = OperationArguments(found, rename, max_results)
        self._found, self._name = found, name
        self._routes = routes
        self._max_results = max_results
        self._method = found.method.lower()
        self._callbacks = auth.replace_all(operation.auth_callbacks)
        operation.auth_callbacks = self._callbacks
        self._found = found
        self._permissions = found.permissions
        with telling_of_schemas():
            self._output = find_output_schema(found)
        self._rows = self._add_rows(found) if self._method == "get" else None
        self._operation = operation
        if self._output is not ANY:
            note_own_responses(operation)
        self.words = [name, found.function.__name__, *_find_secret_words(found, self.arguments.all)]

    def register(
        self,
        server: MCPServer,
        options: GeneratedOptions,
        listed_if: Callable[..., Any] | None,
        families: Families,
    ) -> ToolEntry | None:
        """Register it; None if the options leave it out."""
        operation, name = self._operation, self._name
        function = GeneratedFunction(self._run, operation.view_func, name, origin="operation")
        function.family, function.role = families.find(self._found, has_rows=self._rows is not None)
        function.role = function.role or name
        function.convert_for_check = self._convert
        function.find_rules, function.find_code = self._find_rules, self._find_code
        return register_generated(
            server,
            options,
            function,
            action=name,
            name=name,
            title=operation.summary,
            description=operation.description or operation.summary,
            input_schema=self.arguments.schema,
            output_schema=self._output,
            listed_if=self._make_rule(listed_if),
            atomic=self._method != "get",
            **hints_of(self._method),
        )

    def _add_rows(self, found: FoundOperation) -> ListArguments | None:
        """Add the arguments that select rows of a list; None: the operation returns none."""
        is_known = is_list(self._output)
        returns_list = is_known or (self._output is ANY and may_return_list(found))
        if not (returns_list or self.arguments.has_pages):
            return None
        # One that only limits its rows has no way to the others.
        has_pages = self.arguments.has_start or not returns_list
        if not is_known:
            self._output = with_members(self._output)
        rows = ListArguments.choose(
            f"{found.function.__module__}.{found.function.__qualname__}",
            self.arguments.all.properties,
            has_pages=has_pages,
            max_results=self._max_results,
        )
        self.arguments.all.properties.update(rows.schemas(""))
        return rows

    # -- calls

    def _convert(self, ctx: Context, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the arguments as a check gets them: those that the operation converts itself are converted.

        Raises:
            ArgumentErrors: the operation would refuse one.
        """
        _window, request, variables = self._make_request(ctx, given)
        arguments = dict(given)
        for model in self._operation.models:
            if not has_arguments(model):
                continue
            try:
                converted = model.resolve(request, self._operation.api, variables)
            except ValidationError as error:
                raise ArgumentErrors(describe_conversion(error, given)) from None
            for place, name, value in find_converted(converted):
                argument = self.arguments.all.find(place, name)
                if argument in arguments:
                    arguments[argument] = value
        return arguments

    def _make_request(
        self, ctx: Context, given: Mapping[str, Any]
    ) -> tuple[Window, Any, Mapping[str, Any]]:
        """Return the rows that a call gets, its request, and the variables of its URL."""
        window = Window(self._rows, ctx.user, given, self._max_results)
        path, query, body = self.arguments.all.split(window.rest)
        for name, size in self.arguments.sizes.items():
            query.setdefault(name, str(size))
        kwargs = get_found(self._routes, path, {})
        if not self._may_enter(ctx.user):
            raise ToolError(describe_status(HTTPStatus.UNAUTHORIZED))
        request = build_request(ctx, self._method.upper(), query, kwargs)
        self._fill(request, body)
        return window, request, kwargs.match.kwargs

    def _run(self, ctx: Context, given: dict[str, Any]) -> Any:
        window, request, variables = self._make_request(ctx, given)
        run: Any = self._operation.run
        if self._operation.is_async:
            run = async_to_sync(run)
        with recording_caller(request):
            response = run(request, **variables)
            result = read_response(
                response,
                window,
                self.arguments.all,
                has_unnamed_body=self.arguments.has_unnamed_body,
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
        if self.arguments.is_form:
            request.POST = form = QueryDict(mutable=True)
            for name, value in body.items():
                is_json = name in self.arguments.json_fields
                form.setlist(name, [encode(value).decode()] if is_json else to_texts(value))
            check_fields(form)
            request._body = b""
        elif self.arguments.is_whole:
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
            query = self.arguments.all.names_of(QUERY)
            return may_call(self._method.upper(), user, self._callbacks, self._permissions, query)

        function = self._operation.view_func
        name_as(may_be_listed, function, "auth", asks=function)
        return may_be_listed

    def _find_rules(self) -> Iterator[Callable[..., Any]]:
        """Yield what the site has to say who may call the operation."""
        for callback in find_asked(self._callbacks):
            yield getattr(callback, "authenticate", callback)
        for permission in self._permissions:
            for name in ("has_permission", "has_object_permission"):
                if hasattr(permission, name):
                    yield getattr(permission, name)

    def _find_code(self) -> Iterator[Any]:
        yield from find_asked(self._callbacks)
        for permission in self._permissions:
            yield permission if isinstance(permission, type) else type(permission)
        yield self._found.written
        if self._found.controller is not None:
            yield self._found.controller

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
        elif not self._routes.takes(self.arguments.all.path_names, frozenset()):
            message = "no URL of it has exactly the variables that the tool has"
            hint = "Declare each variable of the URL as a parameter of the operation."
        else:
            return None
        return f"{what} cannot be called: {message}.", hint, "django_mcp.ninja.W002"


@cache
def _has_login_middleware(middleware: tuple[str, ...]) -> bool:
    classes = map(import_string, middleware)
    return any(
        isinstance(cls, type) and issubclass(cls, LoginRequiredMiddleware) for cls in classes
    )


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
