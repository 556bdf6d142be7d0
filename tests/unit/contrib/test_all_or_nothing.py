"""Where one of several tools cannot be registered, none of them stays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib import admin
from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured
from ninja import NinjaAPI
from rest_framework.serializers import ModelSerializer
from rest_framework.viewsets import ModelViewSet

from django_mcp import MCPServer
from django_mcp.contrib.drf import viewset_tools
from django_mcp.contrib.modeladmin import admin_tools
from django_mcp.contrib.models import ModelTools
from django_mcp.contrib.models.tools import registered_tools
from django_mcp.contrib.ninja import operation_tools
from django_mcp.contrib.tool_search import tool_search
from django_mcp.registry.problems import RegistrationError
from example_project.shop.models import Order, Product

pytestmark = pytest.mark.django_db


class ProductTools(ModelTools):
    """Products."""

    model = Product
    fields = ["sku", "name"]
    everyone = True
    writes = ["create"]
    uri = "product://{sku}"
    lookup_field = "sku"


class Products(admin.ModelAdmin):
    actions = ["finish"]

    def finish(self, request: Any, queryset: Any) -> None:
        """Finish."""


class ProductSerializer(ModelSerializer):
    class Meta:
        model = Product
        fields = ["sku", "name"]


class ProductViews(ModelViewSet):
    queryset = Product.objects.order_by("pk")
    serializer_class = ProductSerializer


def make_site() -> admin.AdminSite:
    site = admin.AdminSite("all-or-nothing")
    site.register(Product, Products)
    site.register(Order)
    return site


def make_api() -> NinjaAPI:
    api = NinjaAPI(urls_namespace="all-or-nothing")

    @api.get("/first")
    def first(request: Any) -> str:
        return "first"

    @api.get("/second")
    def second(request: Any) -> str:
        return "second"

    return api


def of_admin(server: MCPServer, **options: Any) -> None:
    admin_tools(server=server, site=make_site(), models=[Product, Order], **options)


SOURCES: dict[str, tuple[str, Callable[[MCPServer], Any]]] = {
    "models": ("create_product", lambda server: ProductTools.register(server=server)),
    "compact models": (
        "create_object",
        lambda server: ProductTools.register(server=server, style="compact"),
    ),
    "admin": ("delete_order", of_admin),
    "compact admin": ("describe_model", lambda server: of_admin(server, style="compact")),
    "views": (
        "products_bad",
        lambda server: viewset_tools(
            ProductViews,
            server=server,
            prefix="products",
            annotations={"destroy": {"read_only": "perhaps"}},
        ),
    ),
    "operations": ("second", lambda server: operation_tools(make_api(), server=server)),
    "search": ("run_write_tool", tool_search),
}


@pytest.mark.parametrize("source", SOURCES)
def test_no_tool_stays_if_one_cannot_be_registered(source: str):
    name, register = SOURCES[source]
    server = MCPServer(f"nothing-{source}", public=True)

    def taken() -> str:
        """Stand in the way."""
        return ""

    server.tool(name=name)(taken)
    before = {*registered_tools()}
    with pytest.raises(RegistrationError):
        register(server)

    assert [*server.registry.tools] == [name]
    assert not server.registry.resources
    assert not server.registry.templates
    assert {*registered_tools()} <= before
    assert [each for each in run_checks(tags=["django_mcp"]) if each.obj is server] == []

    server.registry.remove("tools", name)
    if source != "views":
        register(server)
        assert len(server.registry.tools) > 1


def test_no_tool_of_the_admin_stays_if_an_option_is_wrong():
    server = MCPServer("nothing-wrong", public=True)

    with pytest.raises(ImproperlyConfigured) as error:
        of_admin(server, actions=["finsh"])

    assert "has no action 'finsh', which actions= names. Did you mean 'finish'?" in str(error.value)
    assert "It has delete_selected, finish." in str(error.value)
    assert not server.registry.tools
    of_admin(server, actions=["finish"])
    assert "finish_products" in server.registry.tools


def test_a_compact_tool_that_is_left_out_leaves_none_behind():
    server = MCPServer("nothing-lenient", public=True)
    site = make_site()
    admin_tools(server=server, site=site, models=[Product], style="compact")
    before = {*server.registry.tools}

    admin_tools(server=server, site=site, models="__all__", style="compact", exclude=["shop.order"])

    assert {*server.registry.tools} == before
