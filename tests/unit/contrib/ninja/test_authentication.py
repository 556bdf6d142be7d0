"""Authentication of operations that are called in process."""

from __future__ import annotations

from functools import wraps
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, User
from django.core.checks import run_checks
from django.core.exceptions import PermissionDenied
from ninja import NinjaAPI, Router
from ninja.decorators import decorate_view
from ninja.security import APIKeyQuery, HttpBearer, SessionAuth

from django_mcp import MCPServer
from django_mcp.contrib.ninja import operation_tools
from django_mcp.inprocess import UnknownTool

# Some checks of Django ask the database what it can do, once in a process.
pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _same_thread(settings: Any):
    settings.DJANGO_MCP = {"SYNC_THREADS": 0}


class Bearer(HttpBearer):
    def __init__(self, scope: str = "customer") -> None:
        super().__init__()
        self.scope = scope

    def authenticate(self, request: Any, token: str) -> Any:
        return None


class Key(APIKeyQuery):
    def authenticate(self, request: Any, key: str | None) -> Any:
        return None


class AtOffice(SessionAuth):
    """Lets in only those at the office."""

    def __call__(self, request: Any) -> Any:
        return None


def by_header(request: Any) -> Any:
    return None


STAFF = Bearer("staff")


def make_api(namespace: str) -> NinjaAPI:
    api = NinjaAPI(urls_namespace=namespace)

    @api.get("/mine", auth=Bearer())
    def mine(request: Any) -> Any:
        return "mine"

    @api.get("/also", auth=Bearer())
    def also_mine(request: Any) -> Any:
        return "also mine"

    @api.get("/later", auth=Bearer())
    async def later(request: Any) -> Any:
        return "later"

    @api.get("/staff", auth=STAFF)
    def staff(request: Any) -> Any:
        return "staff"

    @api.get("/key", auth=Key())
    def key(request: Any) -> Any:
        return "key"

    @api.get("/header", auth=[by_header, SessionAuth()])
    def header(request: Any) -> Any:
        return str(request.auth)

    @api.get("/office", auth=AtOffice())
    def office(request: Any) -> Any:
        return "office"

    return api


ADA = User(pk=1, username="ada")
BOSS = User(pk=2, username="boss", is_staff=True)


def anybody(request: Any) -> Any:
    return request.user.is_authenticated and request.user


def only_staff(request: Any) -> Any:
    return request.user.is_staff and request.user


def make_server(**options: Any) -> MCPServer:
    server = MCPServer("auth", public=True)
    operation_tools(make_api("auth"), server=server, **options)
    return server


def names(server: MCPServer, user: User | AnonymousUser) -> list[str]:
    return [each["name"] for each in server.list_tools(user=user)]


def test_one_function_does_not_stand_for_different_authentication():
    server = make_server(auth=anybody)

    assert names(server, ADA) == ["header"]  # which a session can enter as well
    found = [each for each in run_checks(tags=["django_mcp"]) if each.obj is server]
    assert {each.id for each in found} == {"django_mcp.ninja.W001"}
    assert len(found) == 6
    assert (
        "the operations have different authentication (Bearer, Bearer, Key, AtOffice), for "
        "which one function cannot stand" in found[0].msg
    )


def test_one_function_stands_for_equal_authentication():
    server = make_server(auth=anybody, include=["mine", "also_mine"])

    assert names(server, ADA) == ["mine", "also_mine"]


def test_each_authentication_has_its_own_function():
    server = make_server(auth={STAFF: only_staff, Key: anybody, by_header: anybody})

    assert names(server, ADA) == ["key", "header"]
    assert names(server, BOSS) == ["staff", "key", "header"]
    assert server.call_tool("staff", {}, user=BOSS).raw["structuredContent"] == {"result": "staff"}
    with pytest.raises(LookupError, match="Unknown tool"):
        server.call_tool("staff", {}, user=ADA)


def test_a_session_authentication_that_adds_a_rule_is_not_taken_for_djangos():
    server = make_server(include=["office"])

    assert names(server, ADA) == []


async def only_staff_later(request: Any) -> Any:
    return only_staff(request)


def returning_a_coroutine(request: Any) -> Any:
    return only_staff_later(request)


@pytest.mark.parametrize("auth", [only_staff_later, returning_a_coroutine])
def test_an_asynchronous_function_is_awaited_before_it_counts(auth: Any):
    server = make_server(auth=auth, include=["mine", "also_mine", "later"])

    assert names(server, ADA) == []
    assert names(server, BOSS) == ["mine", "also_mine", "later"]
    for name in ("mine", "later"):
        assert not server.call_tool(name, {}, user=BOSS).is_error
        with pytest.raises(LookupError, match="Unknown tool"):
            server.call_tool(name, {}, user=ADA)


def test_an_asynchronous_function_is_asked_about_each_call():
    """Also where the site lists the tools to everybody."""
    server = make_server(
        auth=returning_a_coroutine,
        include=["mine"],
        listed_if=lambda user: True,
    )

    assert server.call_tool("mine", {}, user=ADA).is_error
    assert not server.call_tool("mine", {}, user=BOSS).is_error


def staff_only(run: Any) -> Any:
    """Refuse others, as `decorate_view` and `add_decorator` have decorators of Django do."""

    @wraps(run)
    def checked(request: Any, *args: Any, **kwargs: Any) -> Any:
        if not request.user.is_staff:
            raise PermissionDenied
        return run(request, *args, **kwargs)

    return checked


def guarded_by(place: str) -> MCPServer:
    api, outer, inner = NinjaAPI(urls_namespace="guarded"), Router(), Router()

    @inner.get("/guarded")
    @decorate_view(*([staff_only] if place == "operation" else []))
    def guarded(request: Any) -> Any:
        return "seen"

    if place != "operation":
        place_of: Any = {"api": api, "outer": outer, "inner": inner}[place]
        place_of.add_decorator(staff_only, mode="view")
    outer.add_router("/inner", inner)
    api.add_router("/outer", outer)
    server = MCPServer("guarded", public=True)
    operation_tools(api, server=server)
    return server


@pytest.mark.parametrize("place", ["operation", "inner", "outer", "api"])
def test_a_decorator_guards_the_tools_of_all_operations_below_it(place: str):
    server = guarded_by(place)

    assert not server.call_tool("guarded", {}, user=BOSS).is_error
    assert "seen" not in str(outcome(server, ADA))
    assert "seen" not in str(outcome(server, None))


def outcome(server: MCPServer, user: User | None) -> Any:
    try:
        return server.call_tool("guarded", {}, user=user).raw
    except Exception as error:  # noqa: BLE001 - refused in one way or another
        return error


def is_staff(request: Any) -> Any:
    return request.user.is_staff and request.user


def is_near(request: Any) -> Any:
    return request.META["REMOTE_ADDR"] == "10.0.0.1" and "near"


def has_header(request: Any) -> Any:
    return request.headers["X-Key"] == "secret"


def make_functions() -> NinjaAPI:
    api = NinjaAPI(urls_namespace="functions")

    @api.get("/staff", auth=is_staff)
    def staff(request: Any) -> Any:
        return request.auth.username

    @api.get("/near", auth=is_near)
    def near(request: Any) -> Any:
        return str(request.auth)

    @api.get("/key", auth=has_header)
    def key(request: Any) -> Any:
        return "key"

    @api.post("/either", auth=[Bearer(), SessionAuth()])
    def either(request: Any) -> Any:
        return request.auth.username

    @api.get("/open", auth=None)
    def everybody(request: Any) -> Any:
        return "open"

    return api


def test_a_function_that_looks_at_the_user_says_who_is_shown_a_tool():
    server = MCPServer("functions", public=True)
    operation_tools(make_functions(), server=server)

    assert names(server, BOSS) == ["staff", "near", "either", "everybody"]
    assert names(server, ADA) == ["near", "either", "everybody"]
    assert server.call_tool("staff", {}, user=BOSS).raw["structuredContent"] == {"result": "boss"}


def test_a_function_that_looks_at_the_request_decides_about_each_call():
    server = MCPServer("functions", public=True)
    operation_tools(make_functions(), server=server)

    result = server.call_tool("near", {}, user=BOSS)  # has no address

    assert result.is_error
    assert result.raw["content"][0]["text"] == "Unauthorized"


@pytest.mark.parametrize("exclude", [["key", "either"], ["key"], []])
def test_one_function_does_not_stand_for_one_that_reads_no_credentials(exclude: list[str]):
    server = MCPServer("functions", public=True)
    operation_tools(make_functions(), server=server, auth=anybody, exclude=exclude)

    assert "staff" not in names(server, ADA)
    with pytest.raises(UnknownTool):
        server.call_tool("staff", {}, user=ADA)
    assert server.call_tool("near", {}, user=ADA).is_error
    assert server.call_tool("staff", {}, user=BOSS).raw["structuredContent"] == {"result": "boss"}


def test_of_several_ways_in_that_of_the_session_remains():
    server = MCPServer("functions", public=True)
    operation_tools(make_functions(), server=server, exclude=["key"])

    assert server.call_tool("either", {}, user=ADA).raw["structuredContent"] == {"result": "ada"}
    assert "either" not in names(server, AnonymousUser())
    found = [each for each in run_checks(tags=["django_mcp"]) if each.obj is server]
    assert found == []


def test_a_function_that_reads_credentials_needs_another_one():
    server = MCPServer("functions", public=True)
    operation_tools(make_functions(), server=server)

    (found,) = [each for each in run_checks(tags=["django_mcp"]) if each.obj is server]
    assert found.id == "django_mcp.ninja.W001"
    assert "its authentication has_header reads credentials" in found.msg


def find_key(request: Any, place: str) -> Any:
    """Look for a key where a call has none, or for the address, which each call has."""
    places: dict[str, Any] = {
        "headers": lambda: request.headers.get("X-Key"),
        "META": lambda: request.META.get("HTTP_AUTHORIZATION"),
        "cookies": lambda: request.COOKIES.get("sessionid"),
        "query": lambda: request.GET.get("key") or request.GET.getlist("keys"),
        "argument": lambda: request.GET["page"],
        "named header": lambda: request.headers["X-Team"],
        "address": lambda: request.headers.get("X-Key") or request.META["REMOTE_ADDR"],
        "all headers": lambda: dict(request.headers),
    }
    return places[place]()


def make_auth(place: str) -> Any:
    def authenticate(request: Any) -> Any:
        return find_key(request, place)

    return authenticate


@pytest.mark.parametrize(
    ("place", "is_listed"),
    [
        *[("headers", False), ("META", False), ("cookies", False), ("query", False)],
        *[("argument", True), ("named header", True), ("address", True), ("all headers", True)],
    ],
)
def test_an_operation_whose_authentication_finds_no_credentials_is_listed_to_nobody(
    place: str, is_listed: bool, settings: Any
):
    settings.DJANGO_MCP = {"SYNC_THREADS": 0, "HANDLER_HEADERS": ["x-team"]}
    api = NinjaAPI(urls_namespace="helped")

    @api.get("/helped", auth=make_auth(place))
    def helped(request: Any, page: int = 1) -> Any:
        return "seen"

    server = MCPServer("helped", public=True)
    operation_tools(api, server=server)

    assert (names(server, AnonymousUser()) == ["helped"]) == is_listed
    assert (names(server, BOSS) == ["helped"]) == is_listed
