"""A few tools for all models do what the single tools of each model do, and no more."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.core.exceptions import ImproperlyConfigured

from django_mcp import MCPServer
from django_mcp.auth.authenticators import APIKeyAuthenticator
from django_mcp.calls import flush_calls
from django_mcp.contrib.modeladmin import admin_tools
from django_mcp.contrib.models import ModelTools
from django_mcp.endpoints.usable_entries import usable_entries
from django_mcp.models import APIKey
from django_mcp.registry.problems import RegistrationError
from django_mcp.test import MCPClient
from example_project.shop.models import Order, Product
from tests.support.library.models import Book, Shelf, Tag
from tests.unit.contrib.modeladmin.test_reading import read, refuse
from tests.unit.contrib.modeladmin.test_writing import AllOrders

pytestmark = pytest.mark.django_db

READING = ["describe_model", "get_object", "list_models", "search_objects"]
WRITING = ["create_object", "delete_object", "run_action", "update_object"]


@pytest.fixture
def site(site: admin.AdminSite) -> admin.AdminSite:
    site.unregister(Order)
    site.register(Order, AllOrders)
    return site


MODELS = [Order, Product, Book, Shelf, Tag]


@pytest.fixture
def single(site: admin.AdminSite) -> MCPServer:
    server = MCPServer("single", public=True)
    admin_tools(server=server, site=site, models=MODELS)
    return server


@pytest.fixture
def compact(site: admin.AdminSite) -> MCPServer:
    server = MCPServer("compact", public=True)
    admin_tools(server=server, site=site, models=MODELS, style="compact")
    return server


@pytest.fixture
def client(compact: MCPServer, root: User, orders: list[Order]) -> MCPClient:
    return MCPClient(compact, user=root)


def names(client: MCPClient) -> list[str]:
    return sorted(tool["name"] for tool in client.list_tools())


def models_of(client: MCPClient) -> dict[str, list[str]]:
    return {each["model"]: each["actions"] for each in read(client, "list_models")["models"]}


# -- what is listed


def test_a_few_tools_are_listed_for_all_models(client: MCPClient, single: MCPServer, root: User):
    assert names(client) == sorted([*READING, *WRITING])
    assert len(MCPClient(single, user=root).list_tools()) == 26
    # Four characters are about one token.
    assert len(json.dumps(client.list_tools())) < 4 * 1500


def test_reading_and_writing_stay_apart(client: MCPClient):
    said = {tool["name"]: tool["annotations"]["readOnlyHint"] for tool in client.list_tools()}

    assert [name for name in sorted(said) if said[name]] == READING


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_they_lead_to_the_toolsets_that_a_client_names(
    compact: MCPServer, root: User, revision: str
):
    headers = {"X-MCP-Toolsets": "library", "X-MCP-Readonly": "true"}
    client = MCPClient(compact, user=root, revision=revision, headers=headers)

    assert names(client) == READING
    assert models_of(client) == {
        f"library.{name}": ["search", "get"] for name in ("book", "shelf", "tag")
    }
    assert refuse(client, "search_objects", model="shop.order") == refuse(
        client, "search_objects", model="shop.ordre"
    ).replace("ordre", "order")
    client.headers = {"X-MCP-Toolsets": "nowhere"}
    assert names(client) == []


def test_models_and_what_can_be_done_with_them_are_listed(client: MCPClient):
    models = models_of(client)

    assert list(models) == [
        "shop.order",
        "shop.product",
        "library.book",
        "library.shelf",
        "library.tag",
    ]
    assert models["shop.order"] == ["search", "get", "create", "update", "delete", "ship"]


def test_users_see_what_they_may_use(compact: MCPServer, make_staff: Any, orders: list[Order]):
    clerk = MCPClient(compact, user=make_staff("clerk", "shop.view_order"))
    nobody = MCPClient(compact, user=make_staff("nobody"))

    assert names(clerk) == READING
    assert models_of(clerk) == {"shop.order": ["search", "get"]}
    assert names(nobody) == []


# -- what they do


def test_objects_are_searched_and_read(client: MCPClient, single: MCPServer, root: User):
    other = MCPClient(single, user=root)
    page = {"ordering": "-number", "limit": 1}

    found = read(client, "search_objects", model="shop.order", filters={"status": "placed"}, **page)

    assert found["results"] == read(other, "search_orders", status="placed", **page)["results"]
    assert len(found["results"]) == 1
    key = found["results"][0]["id"]
    one = read(client, "get_object", model="shop.order", id=key)
    assert one == read(other, "get_order", id=key)
    further = read(
        client,
        "search_objects",
        model="Shop.Order",
        cursor=found["next_cursor"],
        filters={"status": "placed"},
        **page,
    )
    assert further["results"][0]["id"] != key


def test_objects_are_written(client: MCPClient, orders: list[Order]):
    made = read(
        client,
        "create_object",
        model="shop.order",
        values={"number": "C-1", "placed_at": "2026-02-01T00:00:00Z"},
    )
    changed = read(
        client, "update_object", model="shop.order", id=made["id"], values={"note": "Hi"}
    )
    assert (changed["number"], changed["note"]) == ("C-1", "Hi")

    shipped = read(client, "run_action", model="shop.order", action="ship", ids=[made["id"]])
    assert shipped["messages"][0]["text"] == "1 shipped."

    client.answer({"delete": True}, {"delete": True})
    assert read(client, "delete_object", model="shop.order", id=made["id"])["deleted"]
    keys = [orders[0].pk, orders[1].pk]
    assert read(client, "delete_object", model="shop.order", id=keys)["deleted"]
    assert Order.objects.count() == 3


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-11-25", "2026-07-28"])
def test_a_deletion_is_confirmed_in_every_revision(
    compact: MCPServer, root: User, orders: list[Order], revision: str
):
    mute = MCPClient(compact, user=root, revision=revision, capabilities={})
    call = {"model": "shop.order", "id": orders[0].pk}
    told = json.loads(mute.call("delete_object", **call).text)

    assert told["deleted"] is False
    assert "not for this" in refuse(
        mute, "delete_object", **{**call, "id": orders[1].pk}, confirmation=told["confirmation"]
    )
    done = mute.call("delete_object", **call, confirmation=told["confirmation"])
    assert json.loads(done.text)["deleted"] is True


def test_digits_are_the_key_that_a_model_has(client: MCPClient, orders: list[Order]):
    Book.objects.create(isbn="123", title="One")

    assert read(client, "get_object", model="library.book", id=123)["title"] == "One"
    found = read(client, "get_object", model="shop.order", id=str(orders[0].pk))
    assert found["id"] == orders[0].pk


def test_a_description_says_what_a_call_takes(client: MCPClient):
    described = read(client, "describe_model", model="shop.order")["actions"]

    assert described["create"]["tool"] == "create_object"
    values = described["create"]["arguments"]["properties"]["values"]
    assert {"number", "status", "customer"} <= set(values["properties"])
    assert "placed_at" in values["required"]
    search = described["search"]["arguments"]["properties"]
    assert "status" in search["filters"]["properties"]
    assert "status" not in search
    assert set(described["update"]["arguments"]["properties"]) == {"id", "values"}
    assert described["ship"]["tool"] == "run_action"
    only = read(client, "describe_model", model="shop.order", action="get")["actions"]
    assert list(only) == ["get"]


def test_a_description_keeps_to_the_budget_and_names_the_other_actions(
    site: admin.AdminSite, root: User
):
    server = MCPServer("few-tokens-compact", public=True, max_result_tokens=500)
    admin_tools(server=server, site=site, models=MODELS, style="compact")
    client = MCPClient(server, user=root)
    offered = models_of(client)["shop.order"]

    found = read(client, "describe_model", model="shop.order")

    shown = list(found["actions"])
    assert shown == offered[: len(shown)]
    assert len(shown) < len(offered)
    for name in offered[len(shown) :]:
        assert name in found["note"]
        assert list(read(client, "describe_model", model="shop.order", action=name)["actions"]) == [
            name
        ]


def test_a_call_counts_as_one_of_the_single_tool(
    client: MCPClient, orders: list[Order], calls: list[Any]
):
    read(client, "get_object", model="shop.order", id=orders[0].pk)
    refuse(client, "get_object", model="shop.nothing", id=1)
    flush_calls()

    assert calls == [("get_order", "done"), ("get_object", "failed")]


# -- what is refused


def test_hidden_models_are_unknown(
    compact: MCPServer, make_staff: Any, orders: list[Order], root: User
):
    clerk = MCPClient(compact, user=make_staff("clerk", "shop.view_order", "library.view_book"))
    hidden = refuse(clerk, "get_object", model="library.tag", id=1)
    unknown = refuse(clerk, "get_object", model="library.tax", id=1)

    assert hidden == unknown
    assert "There is no such model." in hidden
    near = refuse(clerk, "get_object", model="shop.ordr", id=1)
    assert "Did you mean 'shop.order'?" in near
    assert "list" not in refuse(clerk, "describe_model", model="library.tag")


def test_hidden_actions_are_not_told(compact: MCPServer, make_staff: Any, orders: list[Order]):
    clerk = MCPClient(compact, user=make_staff("clerk", "shop.view_order"))

    for action in ("ship", "shi", "delete", "delet"):
        told = refuse(clerk, "describe_model", model="shop.order", action=action)
        assert told.endswith("There is no such action.")
    assert "Did you mean" not in refuse(clerk, "get_object", model="shop.order" * 20, id=1)


def test_writing_needs_the_permission_of_the_single_tool(
    compact: MCPServer, make_staff: Any, orders: list[Order]
):
    clerk = MCPClient(
        compact, user=make_staff("clerk", "shop.view_order", "library.add_tag", "library.view_tag")
    )

    assert "create_object" in names(clerk)
    refuse(clerk, "create_object", model="shop.order", values={"number": "C-1"})
    assert not Order.objects.filter(number="C-1").exists()


def test_a_disabled_tool_is_not_reached(client: MCPClient, orders: list[Order]):
    server = client.server
    server.registry.set_disabled(frozenset({("tools", "get_order")}))
    again = MCPClient(server, user=User.objects.get(username="root"))

    assert "get" not in models_of(again)["shop.order"]
    assert "cannot be done" in refuse(again, "get_object", model="shop.order", id=orders[0].pk)
    assert read(again, "get_object", model="shop.product", id=Product.objects.all()[0].pk)


def test_the_check_of_the_single_tool_is_asked(
    site: admin.AdminSite, root: User, orders: list[Order]
):
    server = MCPServer("checking", public=True)
    admin_tools(
        server=server,
        site=site,
        models=[Order],
        style="compact",
        check=lambda user, id: id == orders[0].pk,
        include=["get"],
    )
    client = MCPClient(server, user=root)

    assert read(client, "get_object", model="shop.order", id=orders[0].pk)
    assert "Not found" in refuse(client, "get_object", model="shop.order", id=orders[1].pk)


def test_a_key_that_names_a_compact_tool_has_those_it_stands_for(
    site: admin.AdminSite, root: User, orders: list[Order]
):
    server = MCPServer("keys-of-compact", authenticators=[APIKeyAuthenticator(cache_s=0)])
    admin_tools(server=server, site=site, models=[Order, Book], style="compact")
    Book.objects.create(isbn="1", title="One")

    def client_of(*tools: str) -> MCPClient:
        _, text = APIKey.objects.issue(user=root, name="some", tools=tools)
        return MCPClient(server, headers={"Authorization": f"Bearer {text}"})

    getting = client_of("get_object")
    assert names(getting) == ["describe_model", "get_object", "list_models"]
    assert models_of(getting) == {"shop.order": ["get"], "library.book": ["get"]}
    assert read(getting, "get_object", model="library.book", id="1")
    assert read(getting, "get_order", id=orders[0].pk)
    refused = refuse(getting, "describe_model", model="shop.order", action="delete")
    assert "no such action" in refused
    # What only tells of the others opens none of them.
    assert names(client_of("list_models", "describe_model")) == []
    usable = usable_entries(root, [server])["tools"]
    assert {"get_object", "get_order"} <= set(usable)
    assert {"list_models", "describe_model"}.isdisjoint(usable)


def test_a_restricted_key_needs_the_single_tool(
    site: admin.AdminSite, root: User, orders: list[Order]
):
    server = MCPServer("keys", authenticators=[APIKeyAuthenticator()])
    admin_tools(server=server, site=site, models=[Order, Book], style="compact")
    Book.objects.create(isbn="1", title="One")
    _, text = APIKey.objects.issue(user=root, name="some", tools=["get_order"])
    client = MCPClient(server, headers={"Authorization": f"Bearer {text}"})

    assert names(client) == ["describe_model", "get_object", "list_models"]
    assert models_of(client) == {"shop.order": ["get"]}
    assert read(client, "get_object", model="shop.order", id=orders[0].pk)
    assert "no such model" in refuse(client, "get_object", model="library.book", id="1")


def test_a_client_narrows_them_to_toolsets(compact: MCPServer, root: User, orders: list[Order]):
    shop = MCPClient(compact, user=root, headers={"X-MCP-Toolsets": "shop"})
    reading = MCPClient(compact, user=root, headers={"X-MCP-Readonly": "true"})

    assert names(shop) == sorted([*READING, *WRITING])
    assert list(models_of(shop)) == ["shop.order", "shop.product"]
    assert "no such model" in refuse(shop, "get_object", model="library.tag", id=1)
    assert names(reading) == READING
    assert models_of(reading)["shop.order"] == ["search", "get"]


@pytest.mark.parametrize(
    ("tool", "arguments", "told"),
    [
        ("search_objects", {"filters": {"limit": 3}, "limit": 2}, "/filters/limit: Give it beside"),
        ("search_objects", {"filters": {"nothing": 3}}, "/nothing"),
        ("search_objects", {"filters": [1]}, "/filters"),
        ("update_object", {"id": 1, "values": {"id": 2}}, "/values/id: Give it beside"),
        ("update_object", {"values": {}}, "/id: is required"),
        ("get_object", {"id": {"a": 1}}, "/id"),
        ("get_object", {"id": 10**30}, "not found"),
        ("run_action", {"action": "delete", "ids": [1]}, "cannot be done"),
        ("run_action", {"action": "shp", "ids": [1]}, "Did you mean 'ship'?"),
        ("run_action", {"action": "ship", "ids": []}, "/ids"),
        ("describe_model", {"action": "fly"}, "There is no such action."),
    ],
)
def test_wrong_arguments_are_told(
    client: MCPClient, tool: str, arguments: dict[str, Any], told: str
):
    assert told in refuse(client, tool, model="shop.order", **arguments)


def test_an_unknown_style_is_refused(site: admin.AdminSite):
    with pytest.raises(ImproperlyConfigured, match="'single' or 'compact', not 'small'"):
        admin_tools(server=MCPServer("styles"), site=site, models=[Order], style="small")


def test_two_tools_cannot_do_the_same_with_a_model(site: admin.AdminSite):
    server = MCPServer("twice")
    admin_tools(server=server, site=site, models=[Tag], style="compact")

    with pytest.raises(RegistrationError, match=r"'search' with library\.tag already"):
        Tags.register(server=server, prefix="other_")


# -- classes of models


class Tags(ModelTools):
    model = Tag
    fields = ["id", "name"]
    filters = ["name"]
    everyone = True
    style = "compact"


def test_classes_of_models_have_them_too(db: None):
    server = MCPServer("classes", public=True)
    Tags.register(server=server)
    tag = Tag.objects.create(name="new")
    client = MCPClient(server)

    assert names(client) == READING
    assert read(client, "search_objects", model="library.tag", filters={"name": "new"})["results"]
    assert read(client, "get_object", model="library.tag", id=str(tag.pk))["name"] == "new"
