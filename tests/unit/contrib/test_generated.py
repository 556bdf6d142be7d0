"""The options and the registration that all generated tools share."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.admin import AdminSite
from django.contrib.auth.models import User
from django.utils import translation
from django.utils.translation import gettext_lazy
from ninja import NinjaAPI
from rest_framework import viewsets

from django_mcp import MCPServer
from django_mcp.contrib.drf import viewset_tools
from django_mcp.contrib.generated import GeneratedFunction, GeneratedOptions, register_generated
from django_mcp.contrib.modeladmin import admin_tools
from django_mcp.contrib.models import ModelTools
from django_mcp.contrib.ninja import operation_tools
from django_mcp.registry.object_schemas import object_schema
from django_mcp.registry.problems import RegistrationError
from django_mcp.test import MCPClient
from example_project.shop.models import Order, Product
from example_project.storefront.rest import OrderSerializer

SCHEMA = object_schema({"n": {"type": "integer"}}, required=["n"])


class Source:
    pass


def register(
    server: MCPServer, action: str = "double", listed_if: Any = None, **options: Any
) -> Any:
    def run(ctx: Any, arguments: dict[str, Any]) -> Any:
        return {"n": arguments["n"] * 2}

    return register_generated(
        server,
        GeneratedOptions(**options),
        GeneratedFunction(run, Source, action, origin="source"),
        action=action,
        name=f"{action}_source",
        description="Double it.",
        input_schema=SCHEMA,
        output_schema=SCHEMA,
        read_only=True,
        listed_if=listed_if,
    )


@pytest.fixture
def server() -> MCPServer:
    return MCPServer("generated", public=True)


def test_a_generated_tool_is_named_after_its_source(server: MCPServer):
    entry = register(server)

    assert (entry.name, entry.description) == ("double_source", "Double it.")
    assert entry.source == f"{__name__}.Source.double"
    assert entry.annotations["readOnlyHint"] is True
    assert entry.annotations["openWorldHint"] is False
    assert MCPClient(server).call("double_source", n=4).structured == {"n": 8}


def test_options_override_generated_values(server: MCPServer):
    entry = register(
        server,
        prefix="my_",
        names={"double": "twice"},
        descriptions={"double": "Twice."},
        annotations={"double": {"idempotent": False, "open_world": True, "title": "Twice"}},
        scopes=["numbers"],
    )

    wire = entry.to_wire()
    assert (wire["name"], wire["description"], wire["title"]) == ("my_twice", "Twice.", "Twice")
    assert wire["annotations"] == {
        "title": "Twice",
        "readOnlyHint": True,
        "destructiveHint": False,
        "idempotentHint": False,
        "openWorldHint": True,
    }
    assert entry.access.scopes == ("numbers",)


@pytest.mark.parametrize("prefix", ["my", "my_"])
def test_a_prefix_stands_before_an_underscore_for_every_source(server: MCPServer, prefix: str):
    class Orders(ModelTools):
        model = Order
        fields = ("number",)
        lookup_field = "number"
        everyone = True

    class OrderViews(viewsets.ReadOnlyModelViewSet[Order]):
        queryset = Order.objects.all()
        serializer_class = OrderSerializer

    api = NinjaAPI(urls_namespace=f"prefix {prefix}")

    @api.get("/total")
    def total(request: Any) -> int:
        return 1

    site = AdminSite(name="prefix")
    site.register(Product)
    of: dict[str, Any] = {"server": server, "prefix": prefix}
    Orders.register(**of, include=["search"], names={"search": "find"})
    admin_tools(**of, site=site, models=[Product], include=["search", "get"], names={"get": "one"})
    viewset_tools(OrderViews, **of, names={"list": "rows"})
    operation_tools(api, **of)

    assert sorted(server.registry.tools) == [
        "my_find",
        "my_one",
        "my_retrieve",
        "my_rows",
        "my_search_products",
        "my_total",
    ]


def test_a_prefix_stands_before_the_name_of_the_app(server: MCPServer):
    site = AdminSite(name="prefix of all")
    site.register(Product)

    admin_tools(server=server, site=site, models="__all__", include=["search"], prefix="desk")

    assert list(server.registry.tools) == ["desk_shop_search_products"]


def test_the_uri_of_a_model_has_the_prefix_of_its_tools(server: MCPServer):
    class Orders(ModelTools):
        model = Order
        fields = ("number",)
        lookup_field = "number"
        everyone = True

    Orders.register(server=server, prefix="my", include=["get", "resource"])

    assert list(server.registry.templates) == ["my-order://{number}"]


@pytest.mark.parametrize(
    ("options", "is_there"),
    [
        ({}, True),
        ({"include": ["double"]}, True),
        ({"include": ["halve"]}, False),
        ({"exclude": ["double"]}, False),
        ({"include": ["double"], "exclude": ["double"]}, False),
    ],
)
def test_actions_are_included_and_excluded(server: MCPServer, options: Any, is_there: bool):
    assert (register(server, **options) is not None) == is_there


def test_a_permission_is_required_in_addition_to_the_sources(server: MCPServer):
    register(server, permission=lambda user: user.is_staff, listed_if=lambda user: user.pk == 7)

    for user in (User(pk=7, username="a"), User(pk=8, username="b", is_staff=True)):
        MCPClient(server, user=user).assert_hidden("double_source")
    MCPClient(server, user=User(pk=7, username="c", is_staff=True)).assert_visible("double_source")


def test_a_check_gets_the_arguments_by_name(server: MCPServer):
    register(server, check=lambda user, n: n < 5)
    client = MCPClient(server, user=User(username="ann"))

    assert client.call("double_source", n=4).structured == {"n": 8}
    assert client.call("double_source", n=5).text == "Not found."


def test_a_duplicate_tool_name_is_an_error_naming_the_source(server: MCPServer):
    register(server)

    with pytest.raises(RegistrationError, match=r"Source\.double: there is a tool"):
        register(server)


LONG_SCHEMA = object_schema(
    {
        "unit_price": {"type": "string", "title": "Unit price", "maxLength": 100},
        "sku": {"type": "string", "title": "Stock keeping unit", "minLength": 1, "maxLength": 12},
        "title": {
            "type": "string",
            "title": gettext_lazy("title"),
            "description": "",
            "default": "",
        },
        "is_gift": {"type": "boolean", "default": False},
        "amount": {"type": "integer", "minimum": 0, "maximum": 2147483647, "default": 0},
        "lines": {
            "type": "array",
            "items": object_schema({"default": {"type": "integer", "title": "Default"}}),
            "maxItems": 1000,
            "uniqueItems": True,
        },
    },
    required=["sku"],
)


def test_a_published_schema_has_only_what_tells_a_model_something():
    server = MCPServer("compact", public=True)
    register_generated(
        server,
        GeneratedOptions(),
        GeneratedFunction(lambda ctx, arguments: arguments, Source, "add", origin="source"),
        action="add",
        name="add",
        input_schema=LONG_SCHEMA,
        output_schema=LONG_SCHEMA,
    )

    with translation.override("de"):
        tool = server.list_tools()[0]

    assert tool["inputSchema"] == {
        "type": "object",
        "properties": {
            "unit_price": {"type": "string"},
            "sku": {"type": "string", "title": "Stock keeping unit", "maxLength": 12},
            "title": {"type": "string"},
            "is_gift": {"type": "boolean"},
            "amount": {"type": "integer", "default": 0},
            "lines": {
                "type": "array",
                "items": {"type": "object", "properties": {"default": {"type": "integer"}}},
            },
        },
        "required": ["sku"],
    }
    assert tool["outputSchema"]["properties"]["sku"] == {"type": "string"}
    refused = server.call_tool("add", {"sku": "0123456789012"})
    assert refused.is_error
    assert "sku" in refused.text


@pytest.mark.parametrize(("form", "listed"), [("full", True), ("none", False), ("thin", True)])
def test_a_server_chooses_the_form_of_output_schemas(form: str, listed: bool):
    server = MCPServer("forms", public=True, output_schemas=form)
    register(server)

    assert ("outputSchema" in server.list_tools()[0]) is listed
    assert server.call_tool("double_source", {"n": 2}).structured == {"n": 4}
