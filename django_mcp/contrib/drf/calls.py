"""Run an action of a view in process, and turn its response into a result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial, wraps
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, urlsplit

from django.core.exceptions import ObjectDoesNotExist, PermissionDenied, ValidationError
from django.db import router
from django.http import HttpResponse
from django.utils.text import format_lazy
from rest_framework.filters import SearchFilter
from rest_framework.generics import GenericAPIView
from rest_framework.renderers import JSONRenderer
from rest_framework.response import Response

from django_mcp.context import Context
from django_mcp.contrib.cursors import explain_search
from django_mcp.contrib.drf.actions import ViewAction
from django_mcp.contrib.drf.arguments import MANY, ActionArguments
from django_mcp.contrib.drf.authentication import find_guard
from django_mcp.contrib.drf.listing import find_code, find_rules, may_be_listed
from django_mcp.contrib.drf.routes import find_decorators_of, find_routes_of
from django_mcp.contrib.generated import (
    GeneratedFunction,
    GeneratedOptions,
    converting_key,
    register_generated,
)
from django_mcp.contrib.history import recording_caller
from django_mcp.contrib.http_calls import (
    BODY,
    PATH,
    QUERY,
    REDIRECTS,
    build_request,
    describe_status,
    find_errors,
    get_found,
    hints_of,
    is_redirect,
    join_errors,
)
from django_mcp.contrib.lists import Window
from django_mcp.contrib.routes import ViewRoutes
from django_mcp.forms.values import to_python
from django_mcp.protocol.content import File
from django_mcp.protocol.errors import ToolError
from django_mcp.protocol.json import JSONObject, decode
from django_mcp.protocol.results import ToolResult
from django_mcp.registry.entries import Family, ToolEntry
from django_mcp.registry.problems import name_as
from django_mcp.servers import MCPServer

_ROLES = {
    "list": "search",
    "retrieve": "get",
    "create": "create",
    "update": "update",
    "partial_update": "update",
    "destroy": "delete",
}
"""What the actions that routers know do, as other generated tools call it."""


class ActionTool:
    """The tool of an action.

    Attributes:
        action: of the view.
        routes: the URLs that lead to it.
        arguments: what it takes.
    """

    def __init__(
        self,
        server: MCPServer,
        action: ViewAction,
        options: GeneratedOptions,
        arguments: ActionArguments,
        *,
        family: Family,
        path: Mapping[str, JSONObject],
        listed_if: Callable[..., Any] | None,
    ) -> None:
        self.action, self.arguments = action, arguments
        self._server, self._options, self._listed_if = server, options, listed_if
        self._family = family
        self.routes = find_routes_of(action, path, is_named=action.key in (options.include or ()))
        self._variables = arguments.all.path_names
        self._guard_of = cache(partial(find_guard, action, self._variables))

    def register(self, name: str) -> ToolEntry | None:
        """Register the tool; None if the options leave it out."""
        action, arguments, annotated = self.action, self.arguments, self.arguments.annotated
        run = partial(
            _run, action, self.routes, arguments, self._guard_of, self._options.max_results
        )
        function = GeneratedFunction(run, action.source, action.name, origin="view")
        function.find_rules = partial(find_rules, action, self.routes)
        function.find_code = partial(find_code, action, self.routes)
        family = function.family = self._family
        function.role = _ROLES.get(action.standard_name, action.key)
        if action.model is not None:
            meta = action.model._meta
            family.singular, family.plural = meta.verbose_name, meta.verbose_name_plural
        if arguments.key is not None:
            key, field = arguments.key
            family.key, family.members = key, (key, field.name, "pk", "id")
            # A view may take other values as well, such as "me".
            function.convert_for_check = converting_key(
                key, partial(_to_key, field), is_filter=True
            )
        return register_generated(
            self._server,
            self._options,
            function,
            action=action.key,
            name=name,
            title=annotated.title,
            description=annotated.description or _describe(action),
            input_schema=arguments.all.schema,
            output_schema=arguments.output,
            listed_if=self._make_rule(),
            atomic=find_alias(action),
            **({"destructive": False} if action.name == "create" else hints_of(action.method)),
        )

    def _make_rule(self) -> Callable[..., Any]:
        """Return what says to whom the tool is shown: nobody if no URL leads to its action, or a tool may not."""
        action, routes, guard_of = self.action, self.routes, self._guard_of
        variables, by_site = self._variables, self._listed_if

        def find_open() -> list[Any]:
            return [callback for callback in routes.callbacks if guard_of(callback) is None]

        if by_site is None:

            def is_listed(user: Any) -> Any:
                return any(may_be_listed(action, user, each, variables) for each in find_open())

            name_as(is_listed, action.source, "permission_classes")
            return is_listed

        @wraps(by_site)
        def is_listed_by_site(*args: Any, **kwargs: Any) -> Any:
            return bool(find_open()) and by_site(*args, **kwargs)

        return is_listed_by_site

    @property
    def fault_finder(self) -> Callable[[], tuple[str, str] | None]:
        """Returns why the tool cannot be called, and what to do. It does not keep the server."""
        return partial(_find_fault, self.action, self.routes, self.arguments, self._guard_of)


def _find_fault(
    action: ViewAction,
    routes: ViewRoutes,
    arguments: ActionArguments,
    guard_of: Callable[[Any], str | None],
) -> tuple[str, str] | None:
    """Return why an action cannot be called, and what to do: the URLconf is known by now."""
    if not routes.callbacks:
        decorators = find_decorators_of(action)
        if decorators:
            message = f"no tool can run the decorator {decorators[0]} of its URL"
            hint = "Decorate the view's class instead: @method_decorator(..., name='dispatch')."
        else:
            message = "the site has URLs for this view, but none for this action"
            hint = "Name it in actions= if it may be called, or leave it out with exclude=."
    elif not routes.takes(
        arguments.all.path_names - action.optional, frozenset(action.kwargs) | action.optional
    ):
        message = "no URL of it has exactly the variables that the tool has"
        hint = "Name further variables in path=, or constant ones in kwargs=."
    elif guards := [name for name in map(guard_of, routes.callbacks) if name is not None]:
        message = (
            f"its authentication class {guards[0]} refuses requests without credentials, its permission "
            "classes let everybody pass, and authentication classes do not run for a tool"
        )
        hint = (
            "Say whom it lets in: auth=lambda request: request.user.is_authenticated and request.user. "
            "Or give the view permission classes, such as IsAuthenticated."
        )
    else:
        return None
    return message, hint


def find_alias(action: ViewAction) -> Any:
    """Return the database of a writing action's transaction."""
    if action.method == "get":
        return False
    return True if action.model is None else router.db_for_write(action.model)


_VERBS = {
    "list": "List {many}.",
    "retrieve": "Get one {one}.",
    "create": "Create one {one}.",
    "update": "Replace one {one}.",
    "partial_update": "Change fields of one {one}.",
    "destroy": "Delete one {one}.",
}


def _describe(action: ViewAction) -> Any:
    """Return the docstring of the site's function, or what the action does and the docstring of the class."""
    own = (action.function.__doc__ or "").strip()
    if own and not action.is_of_framework:
        return own
    about = (action.source.__doc__ or "").strip()
    if about and action.is_of_framework and not issubclass(action.source, GenericAPIView):
        return about  # of a function with `@api_view`
    one, many = _words(action)
    words = action.name.replace("_", " ").capitalize()
    of = "{one}" if action.is_detail else "{many}"
    text = format_lazy(_VERBS.get(action.standard_name, f"{words}, for {of}."), one=one, many=many)
    return format_lazy("{}\n\n{}", text, about) if about else text


def _words(action: ViewAction) -> tuple[Any, Any]:
    """Return the words for one object and for several."""
    model = action.model or getattr(
        getattr(getattr(action.view_class, "serializer_class", None), "Meta", None), "model", None
    )
    if model is not None:
        return model._meta.verbose_name, model._meta.verbose_name_plural
    word = action.default_prefix.replace("_", " ")
    return word, f"{word} objects"


def _to_key(field: Any, value: Any) -> Any:
    try:
        return to_python(field, value)
    except ValidationError:
        raise ObjectDoesNotExist from None


def _run(
    action: ViewAction,
    routes: ViewRoutes,
    arguments: ActionArguments,
    guard_of: Callable[[Any], str | None],
    max_results: int,
    ctx: Context,
    given: dict[str, Any],
) -> Any:
    window = Window(arguments.rows, ctx.user, given, max_results)
    path, query, body = arguments.all.split(window.rest)
    kwargs_read = get_found(routes, path, action.kwargs)
    if guard_of(kwargs_read.match.func) is not None:
        raise PermissionDenied
    kwargs = {**kwargs_read.match.kwargs, **action.kwargs}
    request = build_request(ctx, action.method.upper(), query, kwargs_read)
    request.mcp_auth = ctx.auth
    request.mcp_data = body if arguments.whole is None else body.get(arguments.whole)
    if action.method != "get":
        # Tells Django REST framework that there is something to parse.
        request.META["CONTENT_LENGTH"] = "1"
    view = action.bind(request, kwargs, kwargs_read.match.func)
    view.mcp_max_results, view.mcp_window = max_results, window
    if action.action_map is None:
        # As `as_view()` of Django does, and that of view sets does not.
        view.setup(request, **kwargs)
    with recording_caller(request):
        response = view.dispatch(request, **kwargs)
        if not isinstance(response, Response):
            return _read_plain(response)
        if is_redirect(response.status_code):
            raise ToolError(REDIRECTS)
        if response.status_code >= HTTPStatus.BAD_REQUEST:
            lines = find_errors(_name_arguments(response.data, action, arguments))
            raise ToolError(join_errors(lines, response.status_code))
    data = response.data
    if not _writes_all(response):
        response = response.render()
        if "json" not in response.headers.get("Content-Type", "json"):
            return _to_file(response)
        data = decode(response.content) if response.content else None
    return _read_data(data, view, arguments, window)


def _name_arguments(data: Any, action: ViewAction, arguments: ActionArguments) -> Any:
    """Return errors by field with the names of the arguments that were sent, where these are others."""
    if arguments.whole == MANY and _is_about_items(data):
        return {arguments.all.name_of(MANY, BODY): data}
    if not isinstance(data, dict):
        return data
    places = (QUERY, PATH) if action.method == "get" else (BODY, PATH, QUERY)
    return {arguments.all.name_of(name, *places): each for name, each in data.items()}


def _is_about_items(errors: Any) -> bool:
    """Return whether errors are those of the items of a list: of each, or by their positions."""
    if isinstance(errors, dict):
        return all(str(position).isdecimal() for position in errors)
    return isinstance(errors, list) and any(isinstance(each, dict) for each in errors)


def _writes_all(response: Response) -> bool:
    """Return whether the renderer of a response writes all data, as that of Django REST framework does.

    Others may leave something out, and to a template the data are no more than its variables. What is called
    after the renderer may change what it wrote, or has done so in a page of a cache.
    """
    if response.is_rendered or response._post_render_callbacks:
        return False
    renderer = getattr(response, "accepted_renderer", None)  # not in pages of a cache
    return (
        isinstance(renderer, JSONRenderer)
        and type(renderer).render is JSONRenderer.render
        and renderer.encoder_class is JSONRenderer.encoder_class
    )


def _read_plain(response: Any) -> Any:
    """Return the result for a response that is not one of Django REST framework."""
    if is_redirect(response.status_code):
        raise ToolError(REDIRECTS)
    if response.status_code >= HTTPStatus.BAD_REQUEST or not isinstance(response, HttpResponse):
        raise ToolError(describe_status(response.status_code))
    return _to_file(response)


def _to_file(response: Any) -> ToolResult:
    mime_type = response.headers.get("Content-Type", "application/octet-stream")
    file = File(response.content, mime_type=mime_type.partition(";")[0])
    return ToolResult(content=[file], structured={"status": response.status_code})


def _read_data(data: Any, view: Any, arguments: ActionArguments, window: Window) -> JSONObject:
    """Return the data of a response; links to pages become the arguments that select them."""
    if arguments.pages and isinstance(data, dict) and "results" in data:
        links = {
            name: _page(data[name], arguments.pages)
            for name in ("next", "previous")
            if isinstance(data.get(name), str)
        }
        data = {**data, **links}
    return window.show_any(data, partial(_explain_empty, view, window.rest))


def _explain_empty(view: Any, given: Mapping[str, Any]) -> str:
    """Return where a search has looked that found nothing; "" if nothing was searched for."""
    for backend in getattr(view, "filter_backends", ()):
        if issubclass(backend, SearchFilter) and given.get(backend.search_param):
            fields = backend().get_search_fields(view, view.request)
            return explain_search(str(name).lstrip("^=@$") for name in fields or ())
    return ""


def _page(url: str, names: frozenset[str]) -> dict[str, str | int]:
    """Return the arguments that select the page of a link."""
    query = parse_qs(urlsplit(url).query)
    return {
        name: int(values[-1]) if values[-1].isdecimal() else values[-1]
        for name, values in query.items()
        if name in names
    }
