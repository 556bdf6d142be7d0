"""Names of tools from operations, and which operations are tools only if they are named."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured
from ninja import Form, NinjaAPI, Router, Schema

from django_mcp import MCPServer
from django_mcp.contrib.ninja import operation_tools

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _same_thread(settings: Any):
    settings.DJANGO_MCP = {"SYNC_THREADS": 0}


class Credentials(Schema):
    email: str
    passphrase: str


def make_server(api: NinjaAPI, **options: Any) -> MCPServer:
    server = MCPServer("names", public=True)
    operation_tools(api, server=server, **options)
    return server


def names(server: MCPServer) -> list[str]:
    return sorted(each["name"] for each in server.list_tools())


def call(server: MCPServer, tool: str, **arguments: Any) -> Any:
    return server.call_tool(tool, arguments).raw["structuredContent"]


def messages(server: MCPServer, id: str) -> list[str]:
    found = run_checks(tags=["django_mcp"])
    return [each.msg for each in found if each.obj is server and each.id == id]


def make_router(answer: str, **options: Any) -> Router:
    router = Router()

    @router.get("/", **options)
    def list_all(request: Any) -> Any:
        return answer

    return router


def test_an_operation_is_named_by_its_operation_id():
    api = NinjaAPI(urls_namespace="ids")
    api.add_router("/things", make_router("things", operation_id="things.list all"))
    server = make_server(api, prefix="shop", descriptions={"things.list_all": "All things."})

    (tool,) = server.list_tools()
    assert tool["name"] == "shop_things.list_all"
    assert tool["description"] == "All things."
    assert call(server, "shop_things.list_all") == {"result": "things"}


def test_functions_of_one_name_begin_with_the_prefix_of_their_router():
    api = NinjaAPI(urls_namespace="twice")
    api.add_router("/v1/books", make_router("books"))
    api.add_router("/authors", make_router("authors"))
    server = make_server(api)

    assert names(server) == ["authors_list_all", "v1_books_list_all"]
    assert call(server, "v1_books_list_all") == {"result": "books"}
    assert call(server, "authors_list_all") == {"result": "authors"}


def test_functions_of_one_name_in_one_router_are_named_after_their_paths():
    api, router = NinjaAPI(urls_namespace="paths"), Router()
    for path in ("/new", "/old"):

        @router.get(path)
        def show(request: Any) -> Any:
            return None

    api.add_router("/orders", router)

    assert names(make_server(api)) == ["orders_new_get", "orders_old_get"]


def test_a_router_that_is_mounted_twice_has_tools_for_both():
    router = make_router("x")
    api = NinjaAPI(urls_namespace="mounts")
    api.add_router("/one", router, url_name_prefix="one")
    api.add_router("/two", router, url_name_prefix="two")

    assert names(make_server(api)) == ["one_list_all", "two_list_all"]


def test_each_method_of_an_operation_has_a_tool():
    api = NinjaAPI(urls_namespace="methods")

    @api.api_operation(["POST", "PATCH", "HEAD"], "/thing")
    def save(request: Any, number: int) -> Any:
        return request.method

    server = make_server(api)

    assert names(server) == ["save", "save_patch"]
    assert call(server, "save", number=1) == {"result": "POST"}
    assert call(server, "save_patch", number=1) == {"result": "PATCH"}


def make_sign_ins() -> NinjaAPI:
    api = NinjaAPI(urls_namespace="sign-ins")

    @api.post("/enter")
    def enter(request: Any, data: Credentials) -> Any:
        return data.email

    @api.post("/form")
    def enter_by_form(request: Any, email: Form[str], password: Form[str]) -> Any:
        return email

    @api.post("/token/refresh")
    def renew(request: Any, refresh: str) -> Any:
        return refresh

    @api.post("/session", operation_id="signIn")
    def begin(request: Any) -> Any:
        return "in"

    @api.get("/passengers")
    def passengers(request: Any) -> Any:
        return []

    return api


def test_operations_about_passwords_tokens_and_sign_ins_are_refused_with_a_warning():
    server = make_server(make_sign_ins())

    assert names(server) == ["passengers"]
    told = messages(server, "django_mcp.ninja.W003")
    where = "The operation tests.unit.contrib.ninja.test_names"
    assert told == [
        f"{where}.enter is no tool: the password passphrase is about passwords, tokens or sign-ins.",
        f"{where}.enter_by_form is no tool: the password password is about passwords, tokens or sign-ins.",
        f"{where}.renew is no tool: token is about passwords, tokens or sign-ins.",
        f"{where}.begin is no tool: signIn is about passwords, tokens or sign-ins.",
    ]


def test_an_operation_about_sign_ins_is_a_tool_if_it_is_named():
    server = make_server(make_sign_ins(), include=["renew", "signIn"])

    assert names(server) == ["renew", "signIn"]
    assert messages(server, "django_mcp.ninja.W003") == []
    assert call(server, "signIn") == {"result": "in"}


tagged = NinjaAPI(urls_namespace="tagged")


@tagged.get("/orders", tags=["orders"])
def list_orders(request: Any) -> list[str]:
    return []


@pytest.mark.parametrize(
    ("api", "options", "says"),
    [
        (NinjaAPI(urls_namespace="empty"), {}, "after all routers were added"),
        (Router(), {}, "takes a NinjaAPI, not <ninja"),
        (
            tagged,
            {"tags": ["order"]},
            "has no tag 'order', which tags= names. Did you mean 'orders'?",
        ),
        (tagged, {"tags": "orders"}, r"write tags=\['orders'\]"),
    ],
)
def test_what_selects_no_operation_is_refused(api: Any, options: dict[str, Any], says: str):
    with pytest.raises(ImproperlyConfigured, match=says):
        operation_tools(api, server=MCPServer("none"), **options)
