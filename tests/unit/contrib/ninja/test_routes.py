"""What a client may put into the URL of an operation of Django Ninja."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import AnonymousUser, User
from django.core.checks import run_checks
from django.http import HttpResponse
from django.urls import include, path, register_converter
from django.urls.converters import get_converters
from ninja import Form, NinjaAPI, Path, Query, Schema

from django_mcp import MCPServer
from django_mcp.contrib.ninja import operation_tools

calls: list[Any] = []


class YearConverter:
    regex = "[0-9]{4}"

    def to_python(self, value: str) -> int:
        return int(value)

    def to_url(self, value: int) -> str:
        return f"{value:04}"


if "ninja_year" not in get_converters():
    register_converter(YearConverter, "ninja_year")


class Day(Schema):
    year: int
    month: int


def remember(*values: Any) -> dict[str, bool]:
    calls.append(values)
    return {"done": True}


def add_operations(api: NinjaAPI) -> None:
    @api.get("/names/{name}")
    def by_name(request: Any, name: str) -> Any:
        return remember(name)

    @api.get("/names/stats")
    def stats(request: Any) -> Any:
        return remember("stats")

    @api.get("/slugs/{slug:name}")
    def by_slug(request: Any, name: str) -> Any:
        return remember(name)

    @api.get("/numbers/{int:number}")
    def by_number(request: Any, number: int) -> Any:
        return remember(number)

    @api.get("/files/{path:name}")
    def by_path(request: Any, name: str) -> Any:
        return remember(name)

    @api.get("/uuids/{uuid:key}")
    def by_uuid(request: Any, key: UUID) -> Any:
        return remember(key)

    @api.get("/years/{ninja_year:year}")
    def by_year(request: Any, year: int) -> Any:
        return remember(year)

    @api.get("/days/{year}-{month}")
    def by_day(request: Any, day: Path[Day]) -> Any:
        return remember(day.year, day.month)

    add_others(api)


def add_others(api: NinjaAPI) -> None:
    @api.get("/flags/{flag}")
    def by_flag(request: Any, flag: bool) -> Any:
        return remember(flag)

    @api.post("/many")
    def many(request: Any, words: Form[list[str]], ids: Query[list[int]]) -> Any:
        return remember(len(words), len(ids))

    @api.get("/tenants")
    def tenants(request: Any) -> Any:
        return remember()

    @api.get("/{anything}")
    def by_anything(request: Any, anything: str) -> Any:
        return remember(anything)


API = NinjaAPI(urls_namespace="routes")
add_operations(API)
PREFIXED = NinjaAPI(urls_namespace="prefixed")
add_operations(PREFIXED)
DECORATED = NinjaAPI(urls_namespace="decorated")
add_operations(DECORATED)
GATED = NinjaAPI(urls_namespace="gated")
add_operations(GATED)


def shadow(request: Any) -> HttpResponse:
    return HttpResponse()


def gate(view: Any) -> Any:
    """A decorator that forgets `functools.wraps()`."""

    def inner(request: Any, **kwargs: Any) -> Any:
        return view(request, **kwargs) if request.user.is_staff else HttpResponse(status=403)

    return inner


def decorated_urls(api: NinjaAPI, decorator: Any) -> Iterator[Any]:
    for each in api.urls[0]:
        each.callback = decorator(each.callback)
        yield each


urlpatterns = [
    path("api/names/taken", shadow),
    path("api/", API.urls),
    path("<slug:tenant>/api/", PREFIXED.urls),
    path(
        "decorated/",
        include((list(decorated_urls(DECORATED, login_required)), "ninja"), namespace="decorated"),
    ),
    path("gated/", include((list(decorated_urls(GATED, gate)), "ninja"), namespace="gated")),
]


@pytest.fixture(autouse=True)
def _same_thread(settings: Any):
    settings.DJANGO_MCP = {"SYNC_THREADS": 0}
    calls.clear()


def make_server(api: NinjaAPI = API) -> MCPServer:
    server = MCPServer("urls", public=True)
    operation_tools(api, server=server)
    return server


def call(server: MCPServer, tool: str, **arguments: Any) -> Any:
    """Return what the operation got; None if the answer is "not found" and it did not run."""
    calls.clear()
    result = server.call_tool(tool, arguments, user=AnonymousUser())
    if result.is_error:
        assert (result.raw["content"][0]["text"], calls) == ("Not Found.", [])
        return None
    return calls[0]


KEY = "6f1f5b32-1a0e-4c26-9c3c-0a4d8f9f3a11"

ACCEPTED = [
    ("by_name", {"name": "ä b.txt%2F"}, ("ä b.txt%2F",)),
    ("by_slug", {"name": "a-b_1"}, ("a-b_1",)),
    ("by_number", {"number": 7}, (7,)),
    ("by_path", {"name": "a/b.txt"}, ("a/b.txt",)),
    ("by_uuid", {"key": KEY}, (UUID(KEY),)),
    ("by_year", {"year": 2025}, (2025,)),
    ("by_day", {"year": 2025, "month": 1}, (2025, 1)),
    ("by_flag", {"flag": True}, (True,)),
    ("by_anything", {"anything": "x"}, ("x",)),
]

REJECTED = [
    *[("by_name", {"name": name}) for name in ("../x", "a/b", "", "..", ".", "/etc/passwd")],
    *[("by_slug", {"name": name}) for name in ("../outside.txt", "a.b", "a\n", "", "/a", "ä")],
    *[("by_path", {"name": name}) for name in ("../x", "a/../b", "/etc/passwd", "", "x" * 9000)],
    *[("by_year", {"year": year}) for year in (1, 20255, -225)],
    ("by_number", {"number": -1}),
    ("by_uuid", {"key": KEY.upper()}),
    ("by_anything", {"anything": "docs"}),
    ("by_anything", {"anything": "openapi.json"}),
    ("by_anything", {"anything": "tenants"}),
]


@pytest.mark.parametrize(("tool", "arguments", "expected"), ACCEPTED)
def test_a_value_is_converted_as_in_a_url(tool: str, arguments: Any, expected: Any):
    assert call(make_server(), tool, **arguments) == expected


@pytest.mark.parametrize("is_routed", [False, True])
@pytest.mark.parametrize(("tool", "arguments"), REJECTED)
def test_a_value_that_the_url_would_not_take_is_not_found(
    tool: str, arguments: Any, is_routed: bool, settings: Any
):
    if is_routed:
        settings.ROOT_URLCONF = __name__

    assert call(make_server(), tool, **arguments) is None


def test_a_url_that_leads_to_another_view_is_not_found(settings: Any):
    server = make_server()
    assert call(server, "by_name", name="taken") == ("taken",)

    settings.ROOT_URLCONF = __name__
    assert call(server, "by_name", name="taken") is None
    assert call(server, "by_name", name="other") == ("other",)


def faults(server: MCPServer) -> set[str]:
    found = [each for each in run_checks(tags=["django_mcp"]) if each.obj is server]
    assert {each.id for each in found} <= {"django_mcp.ninja.W002"}
    return {each.msg.rpartition(" cannot be called: ")[2] for each in found}


def test_an_operation_whose_url_has_an_unknown_variable_does_not_run(settings: Any):
    settings.ROOT_URLCONF = __name__
    server = make_server(PREFIXED)

    assert call(server, "tenants") is None
    assert faults(server) == {"no URL of it has exactly the variables that the tool has."}


@pytest.mark.parametrize("api", [DECORATED, GATED], ids=["login_required", "gate"])
def test_operations_with_a_decorator_in_the_urlconf_are_hidden(settings: Any, api: NinjaAPI):
    settings.ROOT_URLCONF = __name__
    server = make_server(api)

    assert server.list_tools(user=User(pk=1)) == []
    assert faults(server) == {"another operation or a decorator takes the requests to its URL."}


def test_an_operation_needs_a_user_where_the_site_demands_a_login(settings: Any):
    settings.ROOT_URLCONF = __name__
    settings.MIDDLEWARE = [
        "django.contrib.auth.middleware.AuthenticationMiddleware",
        "django.contrib.auth.middleware.LoginRequiredMiddleware",
    ]
    server = make_server()

    assert server.list_tools(user=AnonymousUser()) == []
    assert "tenants" in [each["name"] for each in server.list_tools(user=User(pk=1))]


@pytest.mark.django_db
def test_a_form_and_a_query_have_no_more_values_than_over_http():
    server = make_server()

    assert call(server, "many", words=["x"] * 1000, ids=[1] * 1000) == (1000, 1000)
    for words, ids in ((1001, 1), (1, 1001)):
        result = server.call_tool("many", {"words": ["x"] * words, "ids": [1] * ids})
        assert result.is_error
    assert len(calls) == 1
