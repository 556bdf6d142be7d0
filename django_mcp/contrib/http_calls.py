"""Arguments, requests and errors of tools that call a site's HTTP views in process."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Awaitable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from decimal import Decimal
from functools import cache, lru_cache
from http import HTTPStatus
from inspect import isawaitable
from types import NoneType
from typing import Any
from uuid import uuid4

from asgiref.sync import async_to_sync
from django.conf import settings
from django.http import HttpRequest, QueryDict
from django.urls import get_script_prefix
from django.utils.datastructures import MultiValueDict
from django.utils.functional import cached_property

from django_mcp.auth.left_out import Attributes, Headers, Meta, ViewQuery
from django_mcp.auth.principal import AuthInfo
from django_mcp.context import Context
from django_mcp.contrib.generated import TRUNCATED
from django_mcp.contrib.routes import MAX_URL_BYTES, Found, ViewRoutes
from django_mcp.contrib.view_problems import ViewProblem
from django_mcp.forms.values import MAX_EXPONENT
from django_mcp.protocol.errors import ToolError
from django_mcp.protocol.json import JSONObject
from django_mcp.registry.object_schemas import object_schema
from django_mcp.registry.problems import MAX_PROBLEMS

PATH, QUERY, BODY = "path", "query", "body"

MAX_ERRORS = 50_000
"""Errors that a framework may find in the body of one call."""

MAX_LOOKUPS = 5_000
"""Values of the body of one call, if a framework looks each of some of them up in the database."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """Where an argument goes: a variable of the path, a field of the query or of the body."""

    place: str
    name: str


class Arguments:
    """The arguments of a tool, and where in the request each goes.

    Args:
        rename: other names for arguments, by `"path.name"`, `"query.name"` or `"body.name"`.
    """

    def __init__(self, rename: Mapping[str, str]) -> None:
        self.properties: dict[str, JSONObject] = {}
        self.required: list[str] = []
        self._parts: dict[str, Part] = {}
        self.rename = rename
        self.max_values = MAX_ERRORS
        """Values that the body may have."""

    @property
    def schema(self) -> JSONObject:
        """The JSON Schema of all of them."""
        return object_schema(self.properties, required=self.required)

    def add(self, place: str, name: str, schema: JSONObject, *, is_required: bool) -> None:
        """Add an argument.

        Raises:
            ViewProblem: there is one of that name.
        """
        argument = self.rename.get(f"{place}.{name}", name)
        other = self._parts.get(argument)
        if other is not None:
            raise ViewProblem(
                f"{other.place}.{other.name} and {place}.{name} would both be the argument "
                f"{argument!r}",
                f"Give one of them another name: rename={{'{place}.{name}': 'new_{name}'}}.",
            )
        self._parts[argument] = Part(place=place, name=name)
        self.properties[argument] = schema
        if is_required:
            self.required.append(argument)

    def find(self, place: str, name: str) -> str | None:
        """Return the argument that goes to a place under a name; None: there is none."""
        part = Part(place=place, name=name)
        return next((argument for argument, each in self._parts.items() if each == part), None)

    def names_of(self, place: str) -> list[str]:
        """Return the names that a place has."""
        return [part.name for part in self._parts.values() if part.place == place]

    def name_of(self, name: str, *places: str) -> str:
        """Return what the argument of a field is called, that was sent to one of some places."""
        arguments = (self.find(place, name) for place in places)
        return next((argument for argument in arguments if argument is not None), name)

    @property
    def path_names(self) -> frozenset[str]:
        """The variables of the path."""
        return frozenset(part.name for part in self._parts.values() if part.place == PATH)

    def split(self, given: Mapping[str, Any]) -> tuple[dict[str, Any], QueryDict, dict[str, Any]]:
        """Return the variables of the path, the query and the body of a call.

        Raises:
            ToolError: no URL can carry the query, or the body has too many values; see `check_amount`.
        """
        path: dict[str, Any] = {}
        query = QueryDict(mutable=True)
        body: dict[str, Any] = {}
        for argument, value in given.items():
            part = self._parts[argument]
            if part.place == PATH:
                path[part.name] = value
            elif part.place == BODY:
                body[part.name] = value
            elif value is not None:
                query.setlist(part.name, to_texts(value))
        if body:
            check_amount(body, self.max_values)
        if query:
            check_fields(query)
            if len(query.urlencode()) > MAX_URL_BYTES:
                raise ToolError("The arguments of the query are too long for a URL.")
        return path, query, body


def check_amount(body: Mapping[str, Any], most: int) -> None:
    """Check that a body cannot make too many errors or queries: the framework keeps or asks one for each value.

    What the schema of the tool does not accept has been refused before.

    Raises:
        ToolError: it has more values.
    """
    count, left = 0, list(body.values())
    while left:
        value = left.pop()
        count += 1
        if isinstance(value, dict):
            left.extend(value.values())
        elif isinstance(value, list):
            left.extend(value)
    if count > most:
        raise ToolError(f"There are more than {most} values; send less at once.")


def check_fields(fields: QueryDict) -> None:
    """Check that a query or a form has no more values than Django accepts over HTTP.

    Raises:
        ToolError: it has more than `DATA_UPLOAD_MAX_NUMBER_FIELDS`.
    """
    limit: int | None = settings.DATA_UPLOAD_MAX_NUMBER_FIELDS
    count = sum(len(values) for _, values in fields.lists())
    if limit is not None and count > limit:
        raise ToolError(f"There are more than {limit} values; send less at once.")


def get_found(routes: ViewRoutes, given: Mapping[str, Any], fixed: Mapping[str, Any]) -> Found:
    """Return where the URL of a call leads; see `ViewRoutes.find`.

    Raises:
        ToolError: it does not lead to what the tool calls.
    """
    kwargs = routes.find(given, fixed)
    if kwargs is None:
        raise ToolError(describe_status(HTTPStatus.NOT_FOUND))
    return kwargs


def to_texts(value: Any) -> list[str]:
    """Return the values of a form's field for a value."""
    values = value if isinstance(value, list) else [value]
    return [
        ("true" if item else "false") if isinstance(item, bool) else str(item) for item in values
    ]


class _OfCaller(Attributes):
    """What a request without the credentials of its caller does otherwise.

    `cache_page()` knows pages by the URLs and the headers of requests. Without credentials these are equal for
    all callers, so each caller has other URLs there. A view that the site serves nowhere has no URL, so its
    pages are never found again.

    Attributes:
        mcp_caller: the user, the information in the credentials, the values in the URL of the server, which
            may name a tenant, and the tenant of a `TenantMiddleware`; None: the view has no URL.
    """

    mcp_caller: tuple[Any, AuthInfo | None, Mapping[str, Any], str] | None = None
    user: Any
    META: Any

    @cached_property
    def headers(self) -> Headers:
        """The headers, which tell of what a view asks for in vain."""
        return Headers(self.META)

    async def auser(self) -> Any:
        """Return the user, as what Django's middleware adds does."""
        return self.user

    def build_absolute_uri(self, location: str | None = None) -> str:
        """Return the absolute URL; for the keys of Django's cache, that of the caller alone."""
        absolute_uri: str = super().build_absolute_uri(location)  # type: ignore[misc]
        if sys._getframe(1).f_globals.get("__name__") != "django.utils.cache":
            return absolute_uri
        caller = repr(uuid4()) if self.mcp_caller is None else _name_caller(*self.mcp_caller)
        return f"{absolute_uri}#{hashlib.sha256(caller.encode()).hexdigest()}"


def _name_caller(pk: Any, auth: AuthInfo | None, url_kwargs: Mapping[str, Any], tenant: str) -> str:
    """Return a text that is the same in all processes for the same of all four."""
    values = [] if auth is None else [getattr(auth, field.name) for field in fields(auth)]
    # The order of a set differs from process to process.
    values = [sorted(each) if isinstance(each, frozenset) else each for each in values]
    in_url = sorted((name, str(value)) for name, value in url_kwargs.items())
    return repr([pk, *values, in_url, tenant])


@lru_cache
def _of_caller(cls: type[Any]) -> Any:
    """Return the class of the request of a tool, for that of the client's request."""
    if issubclass(cls, _OfCaller):
        return cls
    return type(cls.__name__, (_OfCaller, cls), {"__module__": cls.__module__})


@cache
def _without_client() -> HttpRequest:
    """Return what requests without HTTP are copied from, since Django parses two empty forms for each."""
    request = HttpRequest()
    request.POST._mutable = False
    return request


_OF_MESSAGE = (
    "GET", "_files", "_post", "_body", "_stream", "headers", "accepted_types", "accepted_types_by_precedence",
)  # fmt: skip
"""Attributes of a request that are made of what another one has otherwise."""


def build_request(ctx: Context, method: str, query: QueryDict, found: Found | None = None) -> Any:
    """Return a request of the caller, with a query and a method in place of the client's.

    It has the user of the MCP request, and no credentials. With `found`, it leads there.
    """
    source: Any = ctx.request
    kind: Any = HttpRequest if source is None else source.__class__
    cls = _of_caller(kind)
    # As copy.copy() does, which takes several times as long.
    request = cls.__new__(cls)
    if source is None:
        vars(request).update(vars(_without_client()))
        request.COOKIES, request.FILES = {}, MultiValueDict()
    else:
        vars(request).update(vars(source))
        # Cached properties of ASGI and WSGI requests, and what HttpRequest keeps of the body.
        for name in _OF_MESSAGE:
            vars(request).pop(name, None)
    query._mutable = False
    request.GET = query if source is None else _with_left_out(query, source.GET)
    request.method = method
    request.user = ctx.user
    request.content_type, request.content_params = "application/json", {}
    request.META = meta = Meta(_address() if source is None else source.META)
    meta.update(
        REQUEST_METHOD=method,
        QUERY_STRING=query.urlencode() if query else "",
        CONTENT_LENGTH="",
        CONTENT_TYPE="application/json",
        # Of views that also make pages, the data.
        HTTP_ACCEPT="application/json, */*;q=0.5",
    )
    if source is not None:
        meta.left_out = source.META.left_out
    request._read_started = False
    request.resolver_match = request.mcp_caller = None
    if found is not None and found.path is not None:
        request.mcp_caller = (ctx.user.pk, ctx.auth, ctx.url_kwargs, ctx.tenant)
        request.resolver_match = found.match
        request.path_info = request.META["PATH_INFO"] = found.path
        request.path = get_script_prefix() + found.path.removeprefix("/")
    return request


def _with_left_out(query: QueryDict, of_client: Any) -> QueryDict:
    """Return a query that tells of what a view asks for in vain, if the client's URL has a query."""
    left_out = {*of_client, *of_client.left_out}.difference(query)
    if not left_out:
        return query
    telling: Any = ViewQuery(mutable=True)
    telling.update(query)
    telling._mutable, telling.left_out = False, left_out
    return telling  # type: ignore[no-any-return]


def _address() -> dict[str, str]:
    """Return what a request without HTTP, as on stdio, has for the host of the site."""
    hosts = [host for host in settings.ALLOWED_HOSTS if not host.startswith((".", "*"))]
    return {"SERVER_NAME": hosts[0] if hosts else "localhost", "SERVER_PORT": "80"}


def hints_of(method: str) -> dict[str, bool]:
    """Return what an HTTP method says about a tool, as options of its registration."""
    if method == "get":
        return {"read_only": True}
    if method == "delete":
        return {"destructive": True, "idempotent": True}
    return {"idempotent": True} if method == "put" else {}


def cut_rows(data: Any, most: int) -> Any:
    """Return data with no more than so many rows in each list of objects, at any depth.

    The object that holds such a list names it in `truncated`.
    """
    if isinstance(data, list):
        return [row if type(row) in _AS_IT_IS else cut_rows(row, most) for row in data]
    if not isinstance(data, dict):
        return _write_decimal(data) if isinstance(data, Decimal) else data
    rows, cut = {}, []
    for name, each in data.items():
        if isinstance(each, list) and len(each) > most and isinstance(each[0], dict):
            cut.append(name)
            rows[name] = cut_rows(each[:most], most)
        else:
            rows[name] = each if type(each) in _AS_IT_IS else cut_rows(each, most)
    if cut:
        rows.setdefault(TRUNCATED, cut)
    return rows


_AS_IT_IS = frozenset([str, int, float, bool, NoneType])
"""The types of most values, which no function has to look at."""


def _write_decimal(value: Decimal) -> Any:
    """Return a decimal without an exponent, as `0E-10` is no text for people, unless it would be long."""
    is_short = "E" in str(value) and abs(value.adjusted()) < MAX_EXPONENT
    return format(value, "f") if is_short else value


def join_errors(lines: Iterable[str], status: int) -> str:
    """Return the first errors as one text, or what the status means where there are none."""
    texts = list(lines)
    left = len(texts) - MAX_PROBLEMS
    shown = [*texts[:MAX_PROBLEMS], f"and {left} further problems"] if left > 0 else texts
    return "\n".join(shown) or describe_status(status)


def find_errors(data: Any, path: str = "") -> Iterator[str]:
    """Yield the errors in the data of a response, each with the path of its field."""
    if isinstance(data, Mapping):
        for name, each in data.items():
            is_general = name in ("detail", "non_field_errors") and not path
            yield from find_errors(each, path if is_general else f"{path}.{name}".lstrip("."))
    elif isinstance(data, list):
        for index, each in enumerate(data):
            is_nested = isinstance(each, Mapping | list)
            yield from find_errors(each, f"{path}.{index}".lstrip(".") if is_nested else path)
    elif data is not None:
        yield f"{path}: {data}" if path else str(data)


def settle(value: Any) -> Any:
    """Return what a function of the site has returned; of an asynchronous one, its result.

    A coroutine counts as true, so the code that decides whether a caller may enter must not see it.
    """
    return async_to_sync(_wait_for)(value) if isawaitable(value) else value


async def _wait_for(value: Awaitable[Any]) -> Any:
    return await value


REDIRECTS = "The view redirects to another page, such as a login for users without a permission. A tool cannot follow it."


def is_redirect(status: int) -> bool:
    """Return whether an HTTP status sends the client elsewhere, for example to a login page."""
    return HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST


def describe_status(status: int) -> str:
    """Return the phrase of an HTTP status."""
    try:
        return f"{HTTPStatus(status).phrase}."
    except ValueError:
        return f"The view answered with the status {status}."
