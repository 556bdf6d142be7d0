"""Ready-made pages of generated tools: `app=True` of each source."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.admin import AdminSite, ModelAdmin
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import include, path
from django.utils.translation import override
from ninja import ModelSchema, NinjaAPI
from rest_framework import filters, pagination, permissions, serializers, viewsets
from rest_framework.routers import DefaultRouter

from django_mcp import MCPServer
from django_mcp.contrib.drf import viewset_tools
from django_mcp.contrib.modeladmin import admin_tools
from django_mcp.contrib.models import ModelTools
from django_mcp.contrib.ninja import operation_tools
from django_mcp.test import MCPClient
from example_project.shop.models import Order, Product

pytestmark = pytest.mark.django_db

HOST = {"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}}


class Products(ModelTools):
    model = Product
    fields: tuple[str, ...] = ("sku", "name", "price", "stock")
    search = ("name",)
    sortable_by = ("name",)
    everyone = True
    aggregates = True
    writes = ("create", "update", "delete")

    def has_permission(self, user: Any, action: str) -> bool:
        return action in ("search", "get") or bool(user.is_staff)


def add_models(server: MCPServer) -> None:
    Products.register(server=server, app=True)


class ProductAdmin(ModelAdmin):
    list_display = ("sku", "name", "price", "stock")
    search_fields = ("name",)


def add_admin(server: MCPServer) -> None:
    site = AdminSite()
    site.register(Product, ProductAdmin)
    admin_tools(
        server=server, site=site, models=["shop.product"], app=True, aggregates=True, actions=False
    )


class ProductSerializer(serializers.ModelSerializer):
    class Meta:
        model = Product
        fields = ("sku", "name", "price", "stock", "category")


class Pages(pagination.PageNumberPagination):
    page_size = 2


class IsStaffOrReads(permissions.BasePermission):
    def has_permission(self, request: Any, view: Any) -> bool:
        return request.method == "GET" or bool(request.user.is_staff)


class ProductViewSet(viewsets.ModelViewSet):
    queryset = Product.objects.order_by("sku")
    serializer_class = ProductSerializer
    pagination_class = Pages
    permission_classes = (IsStaffOrReads,)
    filter_backends = (filters.SearchFilter, filters.OrderingFilter)
    search_fields = ("name",)
    ordering_fields = ("name",)
    lookup_field = "sku"


router = DefaultRouter()
router.register("products", ProductViewSet)
urlpatterns = [path("", include(router.urls))]


def add_views(server: MCPServer) -> None:
    viewset_tools(ProductViewSet, server=server, app=True)


class ProductOut(ModelSchema):
    class Meta:
        model = Product
        fields = ("sku", "name", "price", "stock")


def add_operations(server: MCPServer) -> None:
    api = NinjaAPI(urls_namespace=server.name)

    @api.get("/products", response=list[ProductOut])
    def list_products(request: Any, search: str = "") -> Any:
        return Product.objects.filter(name__icontains=search).order_by("sku")

    @api.get("/products/{sku}", response=ProductOut)
    def get_product(request: Any, sku: str) -> Any:
        return Product.objects.get(sku=sku)

    @api.delete("/products/{sku}", response=None)
    def delete_product(request: Any, sku: str) -> None:
        Product.objects.get(sku=sku).delete()

    operation_tools(api, server=server, app=True)


SOURCES = {
    "model": (add_models, "search_products", "get_product", "delete_product"),
    "admin": (add_admin, "search_products", "get_product", "delete_product"),
    "view": (add_views, "product_list", "product_retrieve", "product_destroy"),
    "operation": (add_operations, "list_products", "get_product", "delete_product"),
}


@pytest.fixture(autouse=True)
def products(settings: Any) -> None:
    settings.ROOT_URLCONF = __name__
    for sku in ("cup", "mug", "pot"):
        Product.objects.create(
            sku=sku, name=f"A <{sku}>", category="kitchen", price="1.50", stock=3
        )


@pytest.fixture
def root() -> User:
    return User.objects.create_superuser("root")


@pytest.fixture
def make(request: pytest.FixtureRequest) -> Iterator[Callable[[str], MCPServer]]:
    made: list[MCPServer] = []

    def make_server(source: str) -> MCPServer:
        server = MCPServer(f"apps-{source}", public=True, instructions="")
        SOURCES[source][0](server)
        made.append(server)
        return server

    yield make_server
    for server in made:
        for name in list(server.registry.tools):
            server.remove_tool(name)


def part_of(result: Any) -> str:
    found: str = result.meta["django_mcp/html"]
    return found


def calls_in(part: str) -> list[tuple[str, Any]]:
    found = re.findall(r'data-mcp-call="([\w-]+)" data-mcp-args="([^"]*)"', part)
    return [(name, json.loads(html.unescape(arguments))) for name, arguments in found]


@pytest.mark.parametrize("source", SOURCES)
def test_a_list_is_a_table_whose_rows_open_cards(
    source: str, make: Callable[[str], MCPServer], root: User
):
    _add, search, get, _delete = SOURCES[source]
    client = MCPClient(make(source), user=root, capabilities=HOST)

    part = part_of(client.call(search))

    assert "A &lt;cup&gt;" in part
    opening = [arguments for name, arguments in calls_in(part) if name == get]
    assert len(opening) == (2 if source == "view" else 3)
    card = part_of(client.call(get, **opening[0]))
    assert "<dd>A &lt;cup&gt;</dd>" in card
    client.assert_app(search)


@pytest.mark.parametrize("source", SOURCES)
def test_a_table_is_searched(source: str, make: Callable[[str], MCPServer], root: User):
    search = SOURCES[source][1]
    client = MCPClient(make(source), user=root, capabilities=HOST)

    part = part_of(client.call(search, search="pot"))

    assert 'name="search" value="pot"' in part
    assert "A &lt;cup&gt;" not in part


@pytest.mark.parametrize("source", ["model", "admin", "view"])
def test_a_table_is_sorted_and_turned_over(
    source: str, make: Callable[[str], MCPServer], root: User
):
    search = SOURCES[source][1]
    client = MCPClient(make(source), user=root, capabilities=HOST)
    given = {} if source == "view" else {"limit": 2}

    part = part_of(client.call(search, **given))

    own = [arguments for name, arguments in calls_in(part) if name == search]
    [by_name] = [each for each in own if each.get("ordering") == "name"]
    assert by_name == {**given, "ordering": "name"}
    [after] = [each for each in own if "cursor" in each or "page" in each]
    assert "A &lt;pot&gt;" in part_of(client.call(search, **after))


@pytest.mark.parametrize("source", ["model", "admin", "view"])
def test_only_who_may_write_has_buttons_for_it(
    source: str, make: Callable[[str], MCPServer], root: User
):
    _add, search, get, delete = SOURCES[source]
    server = make(source)
    staff = User.objects.create_user("reader", is_staff=source == "admin")
    if source == "admin":
        from django.contrib.auth.models import Permission

        staff.user_permissions.add(Permission.objects.get(codename="view_product"))

    reading = MCPClient(server, user=staff, capabilities=HOST)
    part = part_of(reading.call(search))
    [key] = [arguments for name, arguments in calls_in(part) if name == get][:1]
    card = part_of(reading.call(get, **key))
    assert delete not in part + card
    assert "open_" not in part + card

    writing = MCPClient(server, user=root, capabilities=HOST)
    card = part_of(writing.call(get, **key))
    assert (delete, key) in calls_in(card)
    update = delete.replace("delete", "update").replace("destroy", "partial_update")
    assert (f"open_{update}", key) in calls_in(card)
    form = part_of(writing.call(f"open_{update}", **key))
    assert 'value="A &lt;cup&gt;"' in form


@pytest.mark.parametrize("source", ["model", "admin"])
def test_a_deletion_asks_before(source: str, make: Callable[[str], MCPServer], root: User):
    _add, _search, _get, delete = SOURCES[source]
    client = MCPClient(make(source), user=root, capabilities=HOST)
    key = {"id": Product.objects.get(sku="cup").pk} if source == "admin" else {"sku": "cup"}

    part = part_of(client.call(delete, **key))

    assert "This cannot be undone." in part
    [(_name, confirmed)] = calls_in(part)
    assert Product.objects.count() == 3
    part = part_of(client.call(delete, **confirmed))
    assert calls_in(part) == []
    assert Product.objects.count() == 2


@pytest.mark.parametrize("source", ["view", "operation"])
def test_a_deletion_of_an_api_asks_as_well(
    source: str, make: Callable[[str], MCPServer], root: User
):
    _add, search, get, delete = SOURCES[source]
    client = MCPClient(make(source), user=root, capabilities=HOST)

    assert delete in [name for name, _ in calls_in(part_of(client.call(search)))]
    card = part_of(client.call(get, sku="cup"))
    assert (delete, {"sku": "cup"}) in calls_in(card)
    asked = client.call(delete, sku="cup")

    assert ">cup</dd>" in part_of(asked)
    assert Product.objects.count() == 3
    assert not client.confirm(asked).is_error
    assert Product.objects.count() == 2


@pytest.mark.parametrize("source", ["model", "admin"])
def test_a_summary_is_a_chart(source: str, make: Callable[[str], MCPServer], root: User):
    client = MCPClient(make(source), user=root, capabilities=HOST)

    part = part_of(client.call("summarize_products", group_by=["name"], sum=["stock"]))

    assert 'data-mcp-chart="bar"' in part
    assert "Sum of stock" in html.unescape(part)


@pytest.mark.parametrize("source", SOURCES)
def test_without_the_option_nothing_has_a_page(source: str, root: User, settings: Any):
    server = MCPServer(f"none-{source}", public=True)
    if source == "model":
        Products.register(server=server)
    else:
        return

    client = MCPClient(server, user=root, capabilities=HOST)

    assert all("_meta" not in tool for tool in client.list_tools())
    assert "django_mcp/html" not in client.call("search_products").meta


@pytest.mark.parametrize("source", ["model", "admin"])
def test_a_form_shows_the_labels_of_choices_and_sends_their_values(source: str, root: User):
    server = MCPServer(f"labels-{source}", public=True, instructions="")
    if source == "model":

        class Labelled(Products):
            fields = (*Products.fields, "category")

        Labelled.register(server=server, app=True)
    else:
        add_admin(server)
    client = MCPClient(server, user=root, capabilities=HOST)
    key = {"sku": "cup"} if source == "model" else {"id": Product.objects.get(sku="cup").pk}

    with override("de"):
        german = part_of(client.call("open_update_product", **key))
    part = part_of(client.call("open_update_product", **key))

    assert '<option value="&quot;kitchen&quot;" selected>Kitchen</option>' in part
    assert '<option value="&quot;garden&quot;">Garden</option>' in part
    assert '<option value="&quot;garden&quot;">Garten</option>' in german
    assert "enumNames" not in json.dumps(client.list_tools())
    assert client.call("update_product", **key, category="garden").is_error is False


def test_the_filters_of_an_admin_have_inputs_whose_values_it_takes(root: User):
    class OrderAdmin(ModelAdmin):
        list_display = ("number", "status", "placed_at")
        list_filter = ("status", "placed_at")

    site = AdminSite()
    site.register(Order, OrderAdmin)
    server = MCPServer("filters-of-admin", public=True, instructions="")
    admin_tools(server=server, site=site, models=["shop.order"], app=True)
    client = MCPClient(server, user=root, capabilities=HOST)

    part = part_of(client.call("search_orders"))

    names = re.findall(r'name="(\w+)"[^>]* data-mcp-filter', part)
    assert names == ["status", "placed_at__gte", "placed_at__lt"]
    assert 'type="datetime-local"' in part
    # As the input has it.
    since = {"placed_at__gte": "2026-05-01T10:00:00"}
    found = client.call("search_orders", status="placed", **since)
    assert found.is_error is False, found.text
    assert 'name="placed_at__gte" value="2026-05-01T10:00:00"' in part_of(found)


class CautiousAdmin(ProductAdmin):
    def has_change_permission(self, request: Any, obj: Any = None) -> bool:
        return obj is None or obj.sku != "mug"

    def has_delete_permission(self, request: Any, obj: Any = None) -> bool:
        return obj is None or obj.sku != "pot"


@pytest.mark.parametrize(
    ("admin", "changed", "queries"),
    [(ProductAdmin, ["cup", "mug", "pot"], 0), (CautiousAdmin, ["cup", "pot"], 2)],
)
def test_no_button_changes_what_the_admin_keeps_from_the_user(
    admin: type[ModelAdmin[Any]], changed: list[str], queries: int, root: User
):
    site = AdminSite()
    site.register(Product, admin)
    server = MCPServer(f"cautious-{queries}", public=True, instructions="")
    admin_tools(server=server, site=site, models=["shop.product"], app=True, actions=False)
    client = MCPClient(server, user=root, capabilities=HOST)
    names = {product.pk: product.sku for product in Product.objects.all()}

    with CaptureQueriesContext(connection) as found:
        part = part_of(client.call("search_products"))
    with CaptureQueriesContext(connection) as plain:
        MCPClient(server, user=root).call("search_products")

    calls = calls_in(part)
    assert [names[given["id"]] for name, given in calls if name == "open_update_product"] == changed
    assert len([name for name, _given in calls if name == "get_product"]) == 3
    # One for all rows and each button about which the admin decides by the object.
    assert len(found) - len(plain) == queries
    for pk, sku in names.items():
        buttons = dict(calls_in(part_of(client.call("get_product", id=pk))))
        assert ("open_update_product" in buttons) is (sku in changed)
        assert ("delete_product" in buttons) is (admin is ProductAdmin or sku != "pot")
