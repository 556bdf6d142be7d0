"""Lists of generated tools stay within `MAX_RESULT_TOKENS`, and say how to get the rest."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from ninja import NinjaAPI, Schema
from ninja.pagination import PageNumberPagination, paginate
from rest_framework import filters, pagination, serializers, viewsets
from rest_framework.decorators import action
from rest_framework.response import Response

from django_mcp import MCPServer
from django_mcp.contrib.drf import viewset_tools
from django_mcp.contrib.modeladmin import admin_tools
from django_mcp.contrib.models import ModelTools
from django_mcp.contrib.ninja import operation_tools
from django_mcp.test import MCPClient
from example_project.shop.models import Product
from tests.support.queries import captured_queries

pytestmark = pytest.mark.django_db

MAX_TOKENS = 200

_numbers = count()


class Products(ModelTools):
    model = Product
    fields = ("sku", "name", "price")
    search = ("name",)
    ordering = ("sku",)
    everyone = True


class ProductAdmin(admin.ModelAdmin):
    list_display = ("sku", "name", "price")
    search_fields = ("name",)
    ordering = ("sku",)


class ProductSerializer(serializers.ModelSerializer):
    class Meta:
        model = Product
        fields = ("sku", "name", "price")


class ProductViews(viewsets.ReadOnlyModelViewSet):
    queryset = Product.objects.all()
    serializer_class = ProductSerializer
    permission_classes = ()
    filter_backends = (filters.SearchFilter,)
    search_fields = ("name",)

    @action(detail=False)
    def dear(self, request: Any, limit: int = 0) -> Response:
        """List dear products."""
        rows = self.filter_queryset(self.get_queryset().order_by("sku"))
        return Response(self.get_serializer(rows, many=True).data)


class PagedProducts(ProductViews):
    class Pages(pagination.PageNumberPagination):
        page_size_query_param = "page_size"
        page_size = 40

    queryset = Product.objects.order_by("sku")
    pagination_class = Pages


class ProductOut(Schema):
    sku: str
    name: str
    price: float


def make_api() -> NinjaAPI:
    api = NinjaAPI(urls_namespace=f"budgets-{next(_numbers)}")

    def find(search: str) -> Any:
        return Product.objects.filter(name__contains=search).order_by("sku")

    @api.get("/products", response=list[ProductOut])
    def search_products(request: Any, search: str = "") -> Any:
        return find(search)

    @api.get("/limited", response=list[ProductOut])
    def limited(request: Any, limit: int, cursor: str = "") -> Any:
        return find(cursor)[:limit]

    @api.get("/pages", response=list[ProductOut])
    @paginate(PageNumberPagination)
    def pages(request: Any) -> Any:
        return find("")

    @api.post("/copies", response=list[ProductOut])
    def copies(request: Any) -> Any:
        return find("")

    return api


def serve(source: str, max_tokens: int | None) -> MCPServer:
    server = MCPServer(
        f"budgets-{next(_numbers)}",
        public=True,
        max_result_tokens=max_tokens,
        validate_output=True,
        output_schemas="full",
    )
    if source == "models":
        Products.register(server=server)
    elif source == "ninja":
        operation_tools(make_api(), server=server)
    elif source == "pages":
        viewset_tools(PagedProducts, server=server, names={"list": "pages"}, actions=["list"])
    elif source in ("list", "dear"):
        names = {source: "search_products"}
        viewset_tools(ProductViews, server=server, names=names, actions=[source])
    else:
        site = admin.AdminSite(name=f"budgets-{next(_numbers)}")
        site.register(Product, ProductAdmin)
        admin_tools(server=server, models=[Product], site=site)
    return server


@pytest.fixture(params=["models", "modeladmin", "list", "dear", "ninja"])
def source(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def root() -> User:
    return User.objects.create_superuser("root")


@pytest.fixture
def products() -> list[str]:
    """As many as a page may have, of about 30 tokens each."""
    skus = [f"p{number:02}" for number in range(40)]
    Product.objects.bulk_create(
        Product(sku=sku, name=f"Päckchen {sku}", category="garden", price=1) for sku in skus
    )
    return skus


def search(client: MCPClient, **arguments: Any) -> dict[str, Any]:
    found = client.call("search_products", **arguments)
    assert not found.is_error, found.text
    assert json.loads(found.text) == found.structured
    return dict(found.structured)


def follow(client: MCPClient, **arguments: Any) -> Iterator[dict[str, Any]]:
    page = search(client, **arguments)
    yield page
    while page.get("next_cursor") is not None:
        page = search(client, **arguments, cursor=page["next_cursor"])
        yield page


def test_a_page_above_the_budget_has_fewer_whole_rows_and_a_cursor_for_the_rest(
    source: str, root: User, products: list[str]
):
    client = MCPClient(serve(source, MAX_TOKENS), user=root)
    whole = MCPClient(serve(source, None), user=root)

    pages = list(follow(client, limit=40))
    (uncut,) = follow(whole, limit=40)

    assert len(pages) > 2
    assert [row for page in pages for row in page["results"]] == uncut["results"]
    sizes = [len(json.dumps(page, ensure_ascii=False, separators=(",", ":"))) for page in pages]
    assert max(sizes) <= 4 * MAX_TOKENS
    for page in pages[:-1]:
        assert page["note"].startswith(f"The first {len(page['results'])} of ")
        assert "cursor = next_cursor" in page["note"]
    assert "note" not in pages[-1]
    assert "note" not in uncut


def test_what_is_left_out_is_counted_where_the_page_has_all(
    source: str, root: User, products: list[str]
):
    client = MCPClient(serve(source, MAX_TOKENS), user=root)

    first = search(client, limit=40)
    assert first["count" if source in ("models", "modeladmin") else "total"] == 40
    # A query more would tell it of these.
    if source in ("models", "modeladmin", "list"):
        assert {"count", "total"}.isdisjoint(search(client, limit=39))


def test_a_row_that_is_too_large_is_whole(source: str, root: User, products: list[str]):
    client = MCPClient(serve(source, 20), user=root)

    pages = list(follow(client, limit=2))

    assert [len(page["results"]) for page in pages] == [1] * 40
    assert pages[0]["results"][0]["name"] == "Päckchen p00"
    assert pages[0]["note"].endswith("One row is larger than 20 tokens.")


def test_a_cursor_of_a_page_that_was_cut_is_that_of_its_search_alone(
    source: str, root: User, products: list[str]
):
    client = MCPClient(serve(source, MAX_TOKENS), user=root)
    cursor = search(client, limit=40)["next_cursor"]

    other = client.call("search_products", search="p", cursor=cursor)

    assert other.is_error
    assert "is not a cursor of this search" in other.text
    assert client.call("search_products", cursor=f"{cursor}x").is_error


def test_a_page_that_is_cut_needs_no_further_query(source: str, root: User, products: list[str]):
    counts = []
    for server in (serve(source, None), serve(source, MAX_TOKENS)):
        client = MCPClient(server, user=root)
        search(client, limit=40)
        with captured_queries() as queries:
            search(client, limit=40)
        counts.append(len(queries))

    assert counts[0] == counts[1]


def test_results_of_functions_are_not_cut(root: User):
    server = MCPServer("functions-and-budgets", public=True, max_result_tokens=10)

    @server.tool
    def list_numbers() -> list[int]:
        """List numbers."""
        return list(range(100))

    assert MCPClient(server, user=root).call("list_numbers").structured == list(range(100))


@pytest.mark.parametrize(("source", "rows"), [("pages", "results"), ("ninja", "items")])
def test_a_page_of_a_view_that_is_cut_has_a_cursor_within_the_page(
    root: User, products: list[str], source: str, rows: str
):
    client = MCPClient(serve(source, MAX_TOKENS), user=root)

    found: list[str] = []
    for number in (1, 2):
        arguments: dict[str, Any] = {"page": number, "page_size": 20}
        sizes = []
        while True:
            page = client.call("pages", **arguments)
            assert not page.is_error, page.text
            assert json.loads(page.text) == page.structured
            assert len(page.text) <= 4 * MAX_TOKENS
            found += [row["sku"] for row in page.structured[rows]]
            sizes.append(len(page.structured[rows]))
            assert page.structured["count"] == 40
            assert ("note" in page.structured) == ("next_cursor" in page.structured)
            if "next_cursor" not in page.structured:
                break
            arguments["cursor"] = page.structured["next_cursor"]
        assert (len(sizes) > 1, sum(sizes)) == (True, 20)

    assert found == products


def test_arguments_of_the_view_keep_their_names(root: User, products: list[str]):
    client = MCPClient(serve("ninja", None), user=root)

    first = client.call("limited", limit=6, cursor="p0", row_limit=4).structured
    rest = client.call(
        "limited", limit=6, cursor="p0", row_limit=4, row_cursor=first["next_cursor"]
    ).structured

    assert [row["sku"] for row in first["results"]] == ["p00", "p01", "p02", "p03"]
    assert [row["sku"] for row in rest["results"]] == ["p04", "p05"]
    assert (first["total"], rest["total"], "next_cursor" in rest) == (6, 6, False)
    refused = client.call("limited", limit=6, cursor="p0", row_cursor="x")
    assert "/row_cursor: is not a cursor" in refused.text


def test_a_list_that_was_written_is_cut_without_a_cursor(root: User, products: list[str]):
    found = MCPClient(serve("ninja", MAX_TOKENS), user=root).call("copies").structured

    assert found["total"] == 40
    assert "next_cursor" not in found
    assert found["note"].startswith(f"The first {len(found['results'])} of 40 rows")


def test_a_list_that_is_cut_twice_says_once_how_many_rows_there_are(
    root: User, products: list[str]
):
    server = MCPServer("cut-twice", public=True, max_result_tokens=MAX_TOKENS)
    operation_tools(make_api(), server=server, max_results=20)
    client = MCPClient(server, user=root)

    written = client.call("copies").structured
    paged = client.call("pages", page_size=20).structured

    assert written["note"].startswith(f"The first {len(written['results'])} of 40 rows")
    assert written["note"].count("The first") == 1
    assert paged["note"].count("The first") == 1


def test_rows_without_an_order_come_in_that_of_their_keys(root: User, products: list[str]):
    schema = serve("list", None).registry.tools["search_products"].input_schema
    client = MCPClient(serve("list", None), user=root)

    with captured_queries() as queries:
        search(client, limit=2)

    (query,) = [sql for sql in queries if "shop_product" in sql]
    assert query.partition("ORDER BY")[2]
    assert "Order: " in schema["properties"]["cursor"]["description"]


@pytest.mark.parametrize("source", ["models", "modeladmin", "list", "pages"])
def test_a_search_that_finds_nothing_says_where_it_has_looked(
    root: User, products: list[str], source: str
):
    client = MCPClient(serve(source, None), user=root)
    tool = "pages" if source == "pages" else "search_products"

    found = client.call(tool, search="p01 nowhere").structured

    assert found["results"] == []
    assert found["note"] == ("Nothing found. The search looks in name, and all words must match.")
    assert "note" not in client.call(tool, search="p01").structured


@pytest.mark.parametrize("source", ["models", "list", "ninja"])
def test_a_limit_that_no_list_has_says_what_to_send(root: User, source: str):
    client = MCPClient(serve(source, None), user=root)

    refused = client.call("search_products", limit=-1)

    assert refused.is_error
    assert "/limit: must be at least 1, not -1" in refused.text


def test_compact_tools_cut_as_the_tools_they_stand_for(root: User, products: list[str]):
    site = admin.AdminSite(name=f"budgets-{next(_numbers)}")
    site.register(Product, ProductAdmin)
    server = MCPServer("compact-budgets", public=True, max_result_tokens=MAX_TOKENS)
    admin_tools(server=server, models=[Product], site=site, style="compact")
    client = MCPClient(server, user=root)

    found: list[str] = []
    arguments: dict[str, Any] = {"model": "shop.product", "limit": 40}
    while True:
        page = client.call("search_objects", **arguments)
        assert not page.is_error, page.text
        assert len(page.text) <= 4 * MAX_TOKENS
        found += [row["sku"] for row in page.structured["results"]]
        if page.structured["next_cursor"] is None:
            break
        arguments["cursor"] = page.structured["next_cursor"]

    assert found == products
