"""Confirmations of generated tools: for one call of one tool of one server, once, and on a page where there is one."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import User
from ninja import NinjaAPI
from rest_framework import permissions, serializers, viewsets

from django_mcp import MCPServer
from django_mcp.contrib.drf import viewset_tools
from django_mcp.contrib.modeladmin import admin_tools
from django_mcp.contrib.models import ModelTools
from django_mcp.contrib.ninja import operation_tools
from django_mcp.models import UsedState
from django_mcp.registry.problems import RegistrationError
from django_mcp.test import MCPClient
from example_project.shop.models import Order

pytestmark = pytest.mark.django_db

HOST = {"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}}
REFUSED = "was used already"


class Orders(ModelTools):
    model = Order
    fields = ["number", "note", "customer"]
    lookup_field = "number"
    writable = ["note"]
    everyone = True
    writes = ["update", "delete"]
    update_many = True
    annotations = {"delete": {"confirm": "app"}, "update_many": {"confirm": "app"}}


@pytest.fixture
def ann() -> User:
    user = User.objects.create_superuser("ann")
    Order.objects.create(number="A-1", customer=user, note="old", placed_at=datetime.now(UTC))
    return user


@pytest.fixture
def server() -> MCPServer:
    server = MCPServer("shop")
    Orders.register(server=server)
    return server


def change(client: MCPClient, **more: Any) -> Any:
    arguments = {"ids": ["A-1"], "values": {"note": "new"}, **more}
    return client.call("update_many_orders", arguments)


def test_a_confirmation_counts_once_though_everything_is_as_it_was(server: MCPServer, ann: User):
    client = MCPClient(server, user=ann, capabilities={})
    before = UsedState.objects.count()
    token = change(client).structured["confirmation"]
    assert change(client, confirmation=token).structured["updated"] is True
    Order.objects.update(note="old")

    again = change(client, confirmation=token)

    assert REFUSED in again.text
    assert Order.objects.get().note == "old"
    assert UsedState.objects.count() == before + 1


def test_a_confirmation_is_for_one_server(server: MCPServer, ann: User):
    other = MCPServer("other")
    Orders.register(server=other)
    token = change(MCPClient(server, user=ann, capabilities={})).structured["confirmation"]

    client = MCPClient(other, user=ann, capabilities={})

    assert REFUSED in change(client, confirmation=token).text


def test_a_host_shows_the_page_of_a_deletion(server: MCPServer, ann: User):
    client = MCPClient(server, user=ann, capabilities=HOST)

    asked = client.call("delete_order", number="A-1")

    assert (asked.structured["deleted"], "confirmation" in asked.structured) == (False, False)
    html = asked.meta["django_mcp/html"]
    assert "Delete order &quot;A-1&quot;? This cannot be undone." in html
    assert ">Delete</button>" in html
    assert client.app("delete_order")
    done = client.confirm(asked)
    assert done.structured["deleted"] is True
    assert "was deleted." in done.meta["django_mcp/html"]
    assert not Order.objects.exists()


def test_a_host_shows_the_page_of_a_change_of_several(server: MCPServer, ann: User):
    client = MCPClient(server, user=ann, capabilities=HOST)

    asked = change(client)
    assert Order.objects.get().note == "old"

    assert client.confirm(asked).structured["updated"] is True
    assert Order.objects.get().note == "new"


def test_a_tool_without_the_option_asks_the_model_to_call_again(ann: User):
    class Plain(Orders):
        annotations: dict[str, Any] = {}

    server = MCPServer("shop")
    Plain.register(server=server)

    asked = MCPClient(server, user=ann, capabilities=HOST).call("delete_order", number="A-1")

    assert asked.structured["confirmation"]
    assert "django_mcp/html" not in asked.meta


# -- an argument of the site that is called as the one for confirmations


def make_api() -> tuple[NinjaAPI, list[str]]:
    api, wiped = NinjaAPI(urls_namespace="wiping"), []

    @api.delete("/wipe/{id}", response=None)
    def wipe(request: Any, id: int, confirmation: str = "") -> None:
        wiped.append(f"{id} {confirmation}")

    return api, wiped


class OrderSerializer(serializers.ModelSerializer[Order]):
    class Meta:
        model = Order
        fields = ("number",)


class OrderViewSet(viewsets.ModelViewSet[Order]):
    queryset = Order.objects.order_by("pk")
    serializer_class = OrderSerializer
    permission_classes = (permissions.AllowAny,)


QUERY = {"destroy": {"confirmation": {"type": "string"}}}


def add_operation(server: MCPServer, **options: Any) -> None:
    operation_tools(make_api()[0], server=server, **options)


def add_view(server: MCPServer, **options: Any) -> None:
    viewset_tools(
        OrderViewSet.as_view({"delete": "destroy"}), server=server, query=QUERY, **options
    )


def add_users(server: MCPServer, **options: Any) -> None:
    """The tool asks about rights, and about nothing else."""
    site = admin.AdminSite()
    site.register(User, UserAdmin)
    admin_tools(models=["auth.user"], site=site, server=server, **options)


@pytest.mark.parametrize(
    ("add", "options"),
    [
        (add_operation, {"app": True}),
        (add_operation, {"annotations": {"wipe": {"confirm": "app"}}}),
        (add_view, {"app": True}),
        (add_view, {"annotations": {"destroy": {"confirm": "app"}}}),
        (add_users, {"annotations": {"update": {"confirm": "app"}}}),
    ],
)
def test_a_tool_with_such_an_argument_is_not_taken_for_one_that_asks_itself(add: Any, options: Any):
    server = MCPServer("shop", public=True)

    with pytest.raises(RegistrationError, match="Rename that, or leave confirm= out"):
        add(server, **options)
    assert not server.registry.tools


def test_a_renamed_argument_leaves_the_name_to_the_confirmation(ann: User):
    server = MCPServer("shop", public=True)
    api, wiped = make_api()
    operation_tools(api, server=server, app=True, rename={"query.confirmation": "reason"})
    client = MCPClient(server, user=ann, capabilities={})

    asked = client.call("wipe", id=1, reason="old")
    assert not asked.is_error
    assert wiped == []

    assert not client.call(
        "wipe", id=1, reason="old", confirmation=asked.structured["confirmation"]
    ).is_error
    assert wiped == ["1 old"]
