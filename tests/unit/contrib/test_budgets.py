"""Lists of generated tools stay within `MAX_RESULT_TOKENS`, and say how to get the rest."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User

from django_mcp import MCPServer
from django_mcp.contrib.modeladmin import admin_tools
from django_mcp.contrib.models import ModelTools
from django_mcp.test import MCPClient
from example_project.shop.models import Product
from tests.support.queries import captured_queries

pytestmark = pytest.mark.django_db

MAX_TOKENS = 300

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
    else:
        site = admin.AdminSite(name=f"budgets-{next(_numbers)}")
        site.register(Product, ProductAdmin)
        admin_tools(server=server, models=[Product], site=site)
    return server


@pytest.fixture(params=["models", "modeladmin"])
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
    while page["next_cursor"] is not None:
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

    assert search(client, limit=40)["count"] == 40
    assert "count" not in search(client, limit=39)


def test_a_row_that_is_too_large_is_whole(source: str, root: User, products: list[str]):
    client = MCPClient(serve(source, 30), user=root)

    pages = list(follow(client, limit=2))

    assert [len(page["results"]) for page in pages] == [1] * 40
    assert pages[0]["results"][0]["name"] == "Päckchen p00"
    assert pages[0]["note"].endswith("One row is larger than 30 tokens.")


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
