"""Operations of Django Ninja as tools."""

from __future__ import annotations

from datetime import date
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.contrib.auth.models import AnonymousUser, User
from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured
from django.utils import timezone
from django.views.decorators.gzip import gzip_page
from django.views.decorators.http import condition
from ninja import Body, Form, NinjaAPI, Query, Router, Schema
from ninja.decorators import decorate_view
from pydantic import Field, RootModel

from django_mcp import MCPServer
from django_mcp.contrib.ninja import operation_tools
from django_mcp.test import MCPClient
from example_project.shop.models import Order
from tests.support.spellings import UUID_SPELLINGS
from tests.unit.contrib.ninja.api import make_api, make_difficult_api

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _same_thread(settings: Any):
    settings.DJANGO_MCP = {"SYNC_THREADS": 0}


@pytest.fixture
def server() -> MCPServer:
    server = MCPServer("api", public=True)
    operation_tools(make_api(), server=server)
    return server


@pytest.fixture
def ada() -> User:
    return User.objects.create_user("ada")


def make_order(customer: User, number: str, **more: Any) -> Order:
    return Order.objects.create(customer=customer, number=number, placed_at=timezone.now(), **more)


def names(server: MCPServer, user: Any = None) -> list[str]:
    return sorted(each["name"] for each in server.list_tools(user=user))


def schema(server: MCPServer, name: str) -> dict[str, Any]:
    return server.registry.tools[name].input_schema


def data(server: MCPServer, tool: str, user: Any = None, **arguments: Any) -> Any:
    result = server.call_tool(tool, arguments, user=user)
    assert not result.is_error, result.raw
    return result.raw["structuredContent"]


def error(server: MCPServer, tool: str, user: Any = None, **arguments: Any) -> str:
    result = server.call_tool(tool, arguments, user=user)
    assert result.is_error, result.raw
    return result.raw["content"][0]["text"]


OPEN = ["add_up", "download", "name_photo", "pages", "rows", "throttled", "user_names"]
MINE = ["delete_order", "get_order", "later", "list_orders", "place_order", "set_note"]


def test_each_operation_is_a_tool_for_authenticated_users(server: MCPServer, ada: User):
    staff = User.objects.create_user("staff", is_staff=True)

    assert names(server, AnonymousUser()) == OPEN
    assert names(server, ada) == sorted(OPEN + MINE)
    assert names(server, staff) == sorted([*OPEN, *MINE, "staff_only"])
    assert data(server, "staff_only", staff) == {"result": "staff"}
    with pytest.raises(LookupError, match="Unknown tool"):
        server.call_tool("staff_only", {}, user=ada)


def test_operations_can_be_chosen(ada: User):
    server = MCPServer("orders", public=True)
    operation_tools(
        make_api(),
        server=server,
        tags=["orders"],
        exclude=["set_note"],
        prefix="shop",
        names={"get_order": "find"},
        descriptions={"get_order": "Find one."},
        annotations={"place_order": {"destructive": False}},
        permission=lambda user: user.username == "ada",
    )

    tools = {each["name"]: each for each in server.list_tools(user=ada)}
    assert sorted(tools) == [
        "shop_delete_order",
        "shop_find",
        "shop_list_orders",
        "shop_place_order",
    ]
    assert tools["shop_find"]["description"] == "Find one."
    assert tools["shop_list_orders"]["description"] == "List your orders."
    assert tools["shop_list_orders"]["title"] == "List Orders"
    said = {
        name: {hint for hint, value in tool["annotations"].items() if value is True}
        for name, tool in tools.items()
    }
    assert said["shop_list_orders"] == {"readOnlyHint", "idempotentHint"}
    assert said["shop_place_order"] == set()
    assert said["shop_delete_order"] == {"destructiveHint", "idempotentHint"}
    assert names(server, User.objects.create_user("bob")) == []


def test_a_hidden_operation_can_be_included():
    server = MCPServer("hidden", public=True)
    operation_tools(make_api(), server=server, include=["hidden"])

    assert names(server) == ["hidden"]


def test_an_unknown_operation_is_rejected(server: MCPServer):
    with pytest.raises(ImproperlyConfigured, match=r"no operation 'nothing', .* It has add_up, "):
        operation_tools(make_api(), server=server, exclude=["nothing"])


@pytest.mark.parametrize("option", ["names", "descriptions", "annotations"])
def test_an_option_for_an_unknown_operation_is_rejected(server: MCPServer, option: str):
    with pytest.raises(
        ImproperlyConfigured, match=rf"which {option}= names. Did you mean 'add_up'\?"
    ):
        options: dict[str, Any] = {option: {"add_upp": "x"}}
        operation_tools(make_api(), server=server, **options)


def test_parameters_become_arguments(server: MCPServer):
    listed = schema(server, "list_orders")
    assert sorted(listed["properties"]) == ["cursor", "limit", "offset", "since", "status"]
    assert listed["properties"]["limit"]["maximum"] == 100

    placed = schema(server, "place_order")
    assert placed["required"] == ["lines"]
    assert placed["properties"]["note"]["maxLength"] == 20
    assert placed["properties"]["lines"]["items"]["properties"]["quantity"]["minimum"] == 1
    assert "$defs" not in placed
    assert schema(server, "add_up")["properties"]["body"]["type"] == "array"


def test_lists_are_filtered_and_paged(server: MCPServer, ada: User):
    for number in ("A-1", "A-2", "A-3"):
        make_order(ada, number)
    make_order(ada, "B-1", status="shipped")
    make_order(User.objects.create_user("bob"), "C-1")

    found = data(server, "list_orders", ada, status="placed", limit=2, offset=1)

    assert found == {
        "items": [{"number": "A-2", "status": "placed"}, {"number": "A-3", "status": "placed"}],
        "count": 3,
    }
    assert "limit" in error(server, "list_orders", ada, limit=10**6)


def test_objects_of_other_users_are_not_found(server: MCPServer, ada: User):
    make_order(ada, "A-1")
    bob = User.objects.create_user("bob")

    assert data(server, "get_order", ada, number="A-1") == {"number": "A-1", "status": "placed"}
    missing = error(server, "get_order", ada, number="A-2")
    assert error(server, "get_order", bob, number="A-1") == missing
    assert error(server, "delete_order", bob, number="A-1") == missing
    assert data(server, "delete_order", ada, number="A-1") == {"result": None}
    assert not Order.objects.exists()


def test_bodies_are_read_and_errors_come_back_by_field(server: MCPServer, ada: User):
    placed = data(server, "place_order", ada, lines=[{"sku": "mug", "quantity": 1}])
    assert Order.objects.get().number == placed["number"]

    text = error(server, "place_order", ada, note="x" * 21, lines=[{"sku": "mug", "quantity": 0}])
    assert "/note" in text
    assert "/lines/0/quantity" in text


class Parcel(Schema):
    weight: int


class Wrapped(RootModel[Parcel]):
    """A body whose schema is a reference to that of another class."""


def test_the_members_of_a_body_that_wraps_another_schema_are_arguments():
    api = NinjaAPI()

    @api.post("/parcels")
    def weigh(request: Any, parcel: Wrapped) -> int:
        return parcel.root.weight

    server = MCPServer("parcels", public=True)
    operation_tools(api, server=server)

    assert list(schema(server, "weigh")["properties"]) == ["weight"]
    assert data(server, "weigh", weight=3) == {"result": 3}


def test_writes_of_a_rejected_operation_are_rolled_back(server: MCPServer, ada: User):
    assert error(server, "place_order", ada, note="fail", lines=[]) == "The shop is closed."
    assert not Order.objects.exists()


def test_forms_and_plain_values_are_read(server: MCPServer, ada: User):
    assert data(server, "set_note", ada, number="A-1", note="Hi", tags=["a", "b"]) == {
        "number": "A-1",
        "note": "Hi",
        "tags": ["a", "b"],
    }
    assert data(server, "add_up", body=[1, 2, 3]) == {"result": 6}


def test_throttles_apply(server: MCPServer):
    assert error(server, "throttled") == "Too many requests."


def test_asynchronous_operations_run(server: MCPServer, ada: User):
    assert data(server, "later", ada) == {"user": "ada"}


def test_lists_without_pages_are_limited(ada: User):
    server = MCPServer("users", public=True)
    operation_tools(make_api(), server=server, include=["user_names"], max_results=1)
    User.objects.create_user("bob")

    first = data(server, "user_names")
    assert (first["results"], first["total"]) == (["ada"], 2)
    assert data(server, "user_names", cursor=first["next_cursor"]) == {
        "results": ["bob"],
        "total": 2,
    }


@pytest.mark.parametrize(
    ("tool", "size", "start"), [("pages", "page_size", "page"), ("rows", "limit", "offset")]
)
def test_pages_are_limited(ada: User, tool: str, size: str, start: str):
    server = MCPServer("pages", public=True)
    operation_tools(make_api(), server=server, include=[tool], max_results=2)
    for n in range(4):
        make_order(ada, f"A-{n}")

    def numbers(**arguments: Any) -> list[str]:
        return [each["number"] for each in data(server, tool, **arguments)["items"]]

    assert numbers() == ["A-0", "A-1"]
    assert len(numbers(**{size: 2, start: 1})) == 2
    assert numbers(**{size: 1, start: 2 if tool == "pages" else 1}) == ["A-1"]
    for name, value in ((size, 3), (size, 0), (start, -1), (start, 10**30)):
        assert f"/{name}: " in error(server, tool, **{name: value})
    assert numbers(**{start: 2**31 - 1}) == []


def test_an_optional_file_is_left_out_and_reported(server: MCPServer):
    assert set(schema(server, "name_photo")["properties"]) == {"name"}
    assert data(server, "name_photo", name="x") == {"name": "x", "has_photo": False}
    (found,) = [each for each in run_checks(tags=["django_mcp"]) if each.obj is server]
    assert found.id == "django_mcp.ninja.I001"
    assert found.msg.endswith("api.name_photo takes files, which its tool leaves out: photo.")


def test_a_file_response_becomes_a_file(server: MCPServer):
    (block,) = server.call_tool("download", {}).raw["content"]

    assert (block["resource"]["mimeType"], block["resource"]["text"]) == ("text/csv", "a,b")


TOKEN = (
    "with_token is no tool: its authentication Token reads credentials, which the server has "
    "read already."
)


def test_an_unsupported_operation_is_a_check_error():
    server = MCPServer("difficult", public=True)
    operation_tools(make_difficult_api(), server=server)

    found = {each.msg: each.hint for each in run_checks(tags=["django_mcp"]) if each.obj is server}

    start = "The operation tests.unit.contrib.ninja.api."
    assert [message.removeprefix(start) for message in found] == [
        TOKEN,
        "upload is no tool: it requires the file 'file'.",
        "with_header is no tool: it requires the header 'x_trace', which a tool has not.",
        "clashing is no tool: path.number and body.number would both be the argument 'number'.",
    ]
    assert "rename={'body.number': 'new_number'}" in str(list(found.values())[-1])
    assert names(server) == []


def test_the_site_can_supply_an_auth_function(ada: User):
    server = MCPServer("difficult", public=True)
    operation_tools(
        make_difficult_api(),
        server=server,
        include=["with_token", "clashing"],
        auth=lambda request: request.user.is_authenticated and request.user,
        rename={"body.number": "new_number"},
    )

    assert names(server, AnonymousUser()) == ["clashing"]
    assert data(server, "with_token", ada) == {"auth": "ada"}
    assert data(server, "clashing", number="A-1", new_number="A-2", status="x") == {
        "old": "A-1",
        "new": "A-2",
    }


class OtherRouter:
    """A router of another package, as the controllers of django-ninja-extra have."""

    def __init__(self, router: Any) -> None:
        self.prefix = router.prefix
        self.path_operations = router.path_operations
        self.urls_paths = router.urls_paths


class ExtendedAPI(NinjaAPI):
    def _get_bound_routers(self) -> Any:
        first, *others = super()._get_bound_routers()
        return [first, *map(OtherRouter, others)]


def test_an_operation_of_a_router_of_another_package_is_reported():
    api = ExtendedAPI(urls_namespace="extended")
    other = Router()

    @api.get("/known")
    def known(request: Any) -> str:
        return "known"

    @other.get("/unknown")
    def unknown(request: Any) -> str:
        return "unknown"

    api.add_router("", other)
    server = MCPServer("api", public=True)

    assert [each.name for each in operation_tools(api, server=server)] == ["known"]
    found = [each for each in run_checks(tags=["django_mcp"]) if each.obj is server]
    assert [each.id for each in found] == ["django_mcp.ninja.W001"]
    assert "it belongs to OtherRouter, which is no router of Django Ninja" in found[0].msg


def test_an_asynchronous_operation_gets_the_user_of_a_call_without_a_request(ada: User):
    api = NinjaAPI(urls_namespace="asynchronous user")

    @api.get("/whoami")
    async def whoami(request: Any) -> str:
        return str(await request.auser())

    server = MCPServer("api", public=True)
    operation_tools(api, server=server)

    assert data(server, "whoami", ada) == {"result": "ada"}


def test_headers_about_the_answer_to_the_message_are_not_for_the_operation(ada: User):
    api = NinjaAPI(urls_namespace="conditional")

    @api.get("/long")
    @decorate_view(gzip_page, condition(etag_func=lambda request, **variables: '"one"'))
    def long(request: Any) -> str:
        return f"{request.headers['Accept']} {request.headers['X-Request-Id']} " + "x" * 1000

    server = MCPServer("api", public=True)
    operation_tools(api, server=server, check=lambda ctx: "Accept" in ctx.request.headers)
    headers = {"Accept-Encoding": "gzip", "If-None-Match": '"one"', "X-Request-Id": "kept"}

    found = MCPClient(server, user=ada, headers=headers).call("long").structured["result"]

    assert found.startswith("application/json, */*;q=0.5 kept xxx")


class Dated(Schema):
    day: date
    key: UUID = Field(alias="id")


def make_keys_api() -> NinjaAPI:
    api = NinjaAPI(urls_namespace="keys")

    @api.get("/one/{id}")
    def in_path(request: Any, id: UUID) -> str:
        return str(id)

    @api.get("/found")
    def in_query(request: Any, key: UUID = Query(..., alias="id")) -> str:  # noqa: B008
        return str(key)

    @api.get("/filtered")
    def in_filters(request: Any, filters: Query[Dated]) -> str:
        return str(filters.key)

    @api.post("/form")
    def in_form(request: Any, id: Form[UUID]) -> str:
        return str(id)

    @api.post("/body")
    def in_body(request: Any, data: Dated, limit: int = 5) -> str:
        return str(data.key)

    @api.post("/parts")
    def in_part(request: Any, id: Body[UUID], data: Dated) -> str:
        return str(id)

    return api


KEY_ARGUMENTS: dict[str, dict[str, Any]] = {
    "in_path": {},
    "in_query": {},
    "in_filters": {"day": "2026-01-01"},
    "in_form": {},
    "in_body": {"day": "2026-01-01"},
    "in_part": {"data": {"day": "2026-01-01", "id": str(uuid4())}},
}


@pytest.mark.parametrize("spell", UUID_SPELLINGS)
@pytest.mark.parametrize("tool", KEY_ARGUMENTS)
def test_security_a_check_gets_arguments_as_the_operation_does(ada: User, tool: str, spell: Any):
    kept, free = uuid4(), uuid4()
    server = MCPServer("api", public=True)
    operation_tools(make_keys_api(), server=server, check=lambda user, id: id != kept)
    more = KEY_ARGUMENTS[tool]

    assert error(server, tool, ada, id=spell(kept), **more) == "Not found."
    assert data(server, tool, ada, id=spell(free), **more) == {"result": str(free)}


@pytest.mark.parametrize("tool", KEY_ARGUMENTS)
def test_an_argument_that_the_operation_refuses_reaches_no_check(ada: User, tool: str):
    asked: list[Any] = []

    def note(user: User, id: Any = None) -> bool:
        asked.append(id)
        return True

    server = MCPServer("api", public=True)
    operation_tools(make_keys_api(), server=server, check=note)

    told = error(server, tool, ada, id="none", **KEY_ARGUMENTS[tool])
    assert told.startswith("Invalid arguments:\n- /id: should be a valid UUID")
    assert asked == []


def test_a_check_gets_objects_and_arguments_with_other_names_as_well(ada: User):
    asked: list[dict[str, Any]] = []

    def note(user: User, **arguments: Any) -> bool:
        asked.append(arguments)
        return True

    server, key, day = MCPServer("api", public=True), uuid4(), "2026-01-01"
    operation_tools(make_keys_api(), server=server, check=note, rename={"body.day": "on"})
    sent = {"day": day, "id": str(key)}

    data(server, "in_body", ada, on=day, id=str(key))
    data(server, "in_part", ada, id=str(key), data=sent)

    assert asked == [{"on": date(2026, 1, 1), "id": key}, {"id": key, "data": sent}]
