"""What a server makes of a site when it is first used, wherever that is."""

from __future__ import annotations

import sqlite3
import threading
from typing import Any

import django_filters
import pytest
from asgiref.sync import sync_to_async
from django.core.checks import run_checks
from django.db import connection
from django.test import override_settings
from django.urls import path
from django.utils.translation import gettext_lazy, override
from django_filters.rest_framework import DjangoFilterBackend
from rest_framework import serializers, viewsets
from rest_framework.response import Response

from django_mcp import MCPServer
from django_mcp.contrib.drf import viewset_tools
from django_mcp.contrib.view_decorators import find_views
from django_mcp.transports.http.view import MCPView
from example_project.shop.models import Product

asked: list[tuple[threading.Thread, Any]] = []


class Asking(serializers.Serializer[Any]):
    def get_fields(self) -> Any:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 'colour'")
            (name,) = cursor.fetchone()
        asked.append((threading.current_thread(), connection.connection))
        return {name: serializers.CharField()}


class DayFilter(django_filters.FilterSet):
    day = django_filters.CharFilter(label=gettext_lazy("Monday"))

    class Meta:
        model = Product
        fields = ()


class Bound(viewsets.GenericViewSet[Any]):
    queryset = Product.objects.all()
    serializer_class = Asking
    filter_backends = (DjangoFilterBackend,)
    filterset_class = DayFilter

    def listing(self, request: Any) -> Response:
        return Response(self.filter_queryset([]))

    def add(self, request: Any) -> Response:
        serializer = self.get_serializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        return Response(serializer.data)


class Nested(viewsets.ModelViewSet[Any]):
    queryset = Product.objects.all()
    serializer_class = Asking


class Late(Nested):
    is_ready = False

    def get_serializer_class(self) -> Any:
        if not self.is_ready:
            raise LookupError
        return serializers.Serializer


urlpatterns = [
    path("bound/", Bound.as_view({"get": "listing", "post": "add"})),
    path("shops/<shop>/products/<pk>/", Nested.as_view({"get": "retrieve", "delete": "destroy"})),
    path("late/", Late.as_view({"post": "create"})),
]

pytestmark = pytest.mark.django_db


@pytest.fixture
def server(settings: Any) -> MCPServer:
    settings.ROOT_URLCONF = __name__
    return MCPServer("first", public=True)


@pytest.mark.django_db(transaction=True)
async def test_a_view_reads_the_database_though_the_server_is_first_used_on_an_event_loop(
    server: MCPServer,
):
    await sync_to_async(viewset_tools)(Bound, server=server, prefix="bound")

    assert server.engine.registry.tools["bound_add"].input_schema["required"] == ["colour"]


@pytest.mark.django_db(transaction=True)
async def test_the_connection_that_a_view_is_read_with_is_closed(server: MCPServer):
    await sync_to_async(viewset_tools)(Bound, server=server, prefix="bound")
    asked.clear()

    assert "bound_add" in server.engine.registry.tools
    thread, connected = asked[-1]
    assert not thread.is_alive()
    with pytest.raises(sqlite3.ProgrammingError, match="closed database"):
        connected.execute("SELECT 1")


def test_the_language_of_the_first_client_is_not_that_of_the_tools(server: MCPServer):
    viewset_tools(Bound, server=server, prefix="bound")

    with override("de"):
        tools = server.registry.tools
    assert tools["bound_listing"].input_schema["properties"]["day"]["description"] == "Monday"


def test_a_tool_that_the_site_has_removed_does_not_come_back(server: MCPServer):
    viewset_tools(Nested, server=server, prefix="nested", actions=["retrieve", "destroy"])
    server.remove_tool("nested_destroy")

    assert list(server.registry.tools) == ["nested_retrieve"]
    assert "shop" in server.tool_input_schema("nested_retrieve")["properties"]


def test_a_name_that_is_taken_meanwhile_is_a_warning(
    server: MCPServer, monkeypatch: pytest.MonkeyPatch
):
    viewset_tools(Late, server=server, prefix="late", actions=["create"])
    monkeypatch.setattr(Late, "is_ready", True)

    @server.tool
    def late_create() -> str:
        """Do something else."""
        return "done"

    assert list(server.registry.tools) == ["late_create"]
    (problem,) = [each for each in run_checks(tags=["django_mcp"]) if each.obj is server]
    assert problem.id == "django_mcp.drf.W002"
    assert "already" in problem.msg


others = [
    path("products/<pk>/", Nested.as_view({"get": "retrieve", "delete": "destroy"})),
    path("bound/", Bound.as_view({"get": "listing"})),
]


def test_other_urls_in_a_test_make_other_tools(server: MCPServer):
    viewset_tools(Nested, server=server, prefix="nested", actions=["retrieve", "destroy"])
    entries = viewset_tools(Bound, server=server, prefix="bound")

    def look() -> tuple[set[str], set[str], int]:
        names = {tool["name"] for tool in server.list_tools()}
        assert {entry.name for entry in entries} == {name for name in names if "bound" in name}
        properties = server.tool_input_schema("nested_retrieve")["properties"]
        problems = [each for each in run_checks(tags=["django_mcp"]) if each.obj is server]
        return names, set(properties), len(problems)

    before = look()
    assert before == (
        {"nested_retrieve", "nested_destroy", "bound_listing", "bound_add"},
        {"shop", "pk"},
        0,
    )
    server.remove_tool("nested_destroy")
    with override_settings(ROOT_URLCONF=tuple(others)):
        assert look() == ({"nested_retrieve", "bound_listing"}, {"pk"}, 0)
    with override_settings(ROOT_URLCONF=()):
        # Only URLs tell which actions `Bound` has, and a check says that it has none.
        assert look() == ({"nested_retrieve"}, {"pk"}, 1)
    assert look() == (before[0] - {"nested_destroy"}, before[1], 0)


def test_an_update_is_a_tool_where_urls_lead_to_the_put_alone(server: MCPServer):
    viewset_tools(Nested, server=server, prefix="nested")
    put = {"get": "retrieve", "put": "update"}

    def updates() -> set[str]:
        return {tool["name"] for tool in server.list_tools() if "update" in tool["name"]}

    with override_settings(ROOT_URLCONF=(path("products/<pk>/", Nested.as_view(put)),)):
        assert updates() == {"nested_update"}
    both = Nested.as_view({**put, "patch": "partial_update"})
    with override_settings(ROOT_URLCONF=(path("products/<pk>/", both),)):
        assert updates() == {"nested_partial_update"}


class ToSecond:
    """Sends products to another database."""

    def db_for_write(self, model: Any, **hints: Any) -> str | None:
        return "second" if model is Product else None


class ProductSerializer(serializers.ModelSerializer):
    class Meta:
        model = Product
        fields = ("sku", "name")


class Products(viewsets.ModelViewSet):
    queryset = Product.objects.all()
    serializer_class = ProductSerializer
    permission_classes = ()


def test_the_database_of_a_tool_is_that_of_the_routers_of_now(server: MCPServer):
    urls = (path("products/<pk>/", Products.as_view({"delete": "destroy"})),)
    viewset_tools(Products, server=server, prefix="products", actions=["destroy"])

    def alias() -> tuple[str, ...] | None:
        return server.registry.tools["products_destroy"].handler.aliases

    with override_settings(ROOT_URLCONF=urls):
        assert alias() == ("default",)
        with override_settings(DATABASE_ROUTERS=[ToSecond()]):
            assert alias() == ("second",)
        assert alias() == ("default",)


def test_routers_that_change_while_tools_are_registered_count(server: MCPServer):
    change = override_settings(DATABASE_ROUTERS=[ToSecond()])

    class Changing:
        """Changes the setting when it is first asked, as another thread may."""

        is_asked = False

        def db_for_write(self, model: Any, **_hints: Any) -> None:
            if not self.is_asked:
                self.is_asked = True
                change.enable()

    urls = (path("products/<pk>/", Products.as_view({"delete": "destroy"})),)
    viewset_tools(Products, server=server, prefix="products", actions=["destroy"])

    with override_settings(ROOT_URLCONF=urls):
        assert server.registry.tools["products_destroy"].handler.aliases == ("default",)
        with override_settings(DATABASE_ROUTERS=[Changing()]):
            try:
                assert server.registry.tools["products_destroy"].handler.aliases == ("second",)
            finally:
                change.disable()


def test_no_view_is_looked_for_in_an_endpoint(server: MCPServer):
    view, endpoint = Nested.as_view({"get": "retrieve"}), MCPView(server)
    # As its server refers to each view that has tools.
    vars(endpoint)["kept"] = view

    assert find_views(view, lambda layer: layer is view)
    assert find_views(endpoint, lambda layer: layer is view) == []
