"""A list from which rows were left out links to the whole result, for its caller, for ten minutes."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import Permission, User
from ninja import NinjaAPI

from django_mcp import MCPServer
from django_mcp.auth.authenticators import APIKeyAuthenticator
from django_mcp.calls import flush_calls
from django_mcp.contrib.drf import viewset_tools
from django_mcp.contrib.modeladmin import admin_tools
from django_mcp.contrib.ninja import operation_tools
from django_mcp.inprocess import MCPError
from django_mcp.models import APIKey, CallRecord, GivenLink
from django_mcp.protocol.revisions import REVISIONS
from django_mcp.signals import tool_called
from django_mcp.test import MCPClient
from example_project.shop.models import Product
from tests.support.ports import use_ports
from tests.unit.contrib.test_budgets import (
    PagedProducts,
    ProductAdmin,
    ProductOut,
    Products,
    ProductViews,
    make_api,
)

pytestmark = pytest.mark.django_db

MAX_TOKENS = 2000
ROWS = 90
LINKING = ["2025-06-18", "2025-11-25", "2026-07-28"]


class StaffProducts(Products):
    permission = "auth.view_user"


def add_tools(server: MCPServer, source: str) -> None:
    if source == "models":
        Products.register(server=server)
    elif source == "list":
        viewset_tools(
            ProductViews, server=server, names={"list": "search_products"}, actions=["list"]
        )
    elif source == "ninja":
        operation_tools(make_api(), server=server)
    else:
        site = admin.AdminSite(name=f"whole-{source}")
        site.register(Product, ProductAdmin)
        style = "compact" if source == "compact" else "single"
        admin_tools(server=server, models=[Product], site=site, style=style)


def serve(source: str = "models", max_tokens: int | None = MAX_TOKENS, **options: Any) -> MCPServer:
    options = {"public": "authenticators" not in options, **options}
    server = MCPServer(f"whole-{source}", max_result_tokens=max_tokens, **options)
    add_tools(server, source)
    return server


@pytest.fixture
def root() -> User:
    return User.objects.create_superuser("root")


@pytest.fixture(autouse=True)
def products(db: None) -> None:
    Product.objects.bulk_create(
        Product(sku=f"p{number:02}", name="Päckchen " * 12, category="garden", price=1)
        for number in range(ROWS)
    )


def find_link(client: MCPClient, tool: str = "search_products", **arguments: Any) -> Any:
    """Return the link of a search's result; None: it has none."""
    found = client.call(tool, {"limit": ROWS, **arguments})
    assert not found.is_error, found.text
    links = [block for block in found.raw["content"] if block["type"] == "resource_link"]
    assert len(links) < 2
    return links[0] if links else None


def read(client: MCPClient, uri: str) -> Any:
    (contents,) = client.send("resources/read", {"uri": uri})["contents"]
    assert (contents["uri"], contents["mimeType"]) == (uri, "application/json")
    return json.loads(contents["text"])


def refuse(client: MCPClient, uri: str) -> str:
    with pytest.raises(MCPError) as refused:
        client.send("resources/read", {"uri": uri})
    return refused.value.message.partition(":")[0]


UNKNOWN = "Resource not found"


@pytest.mark.parametrize("source", ["models", "modeladmin", "list", "ninja"])
@pytest.mark.parametrize("revision", LINKING)
def test_the_link_gives_what_the_call_gives_without_a_budget(
    source: str, revision: str, root: User
) -> None:
    client = MCPClient(serve(source), user=root, revision=revision)
    whole = MCPClient(serve(source, None), user=root).call("search_products", limit=ROWS)

    link = find_link(client)

    assert (link["name"], link["mimeType"]) == ("search_products", "application/json")
    assert "10 minutes" in link["description"]
    contents = read(client, link["uri"])
    assert contents["results"] == whole.structured["results"]
    assert len(contents["results"]) == ROWS
    assert "note" not in contents
    (text,) = [
        each["text"] for each in client.send("resources/read", {"uri": link["uri"]})["contents"]
    ]
    assert link["size"] == len(text.encode())
    client.assert_conforms()


def test_the_link_is_part_of_the_budget(root: User) -> None:
    found = MCPClient(serve(), user=root).call("search_products", limit=ROWS)

    size = sum(len(json.dumps(each, ensure_ascii=False)) for each in found.raw["content"][1:])
    assert len(found.raw["content"]) == 2
    assert len(found.text) + size <= 4 * MAX_TOKENS


def test_a_page_of_a_view_has_one_too(root: User) -> None:
    server = MCPServer("whole-pages", public=True, max_result_tokens=MAX_TOKENS)
    viewset_tools(PagedProducts, server=server, names={"list": "pages"}, actions=["list"])
    client = MCPClient(server, user=root)

    found = client.call("pages", page=1, page_size=ROWS)
    link = found.raw["content"][1]

    assert len(read(client, link["uri"])["results"]) == ROWS


@pytest.mark.parametrize("revision", [each.name for each in REVISIONS if each.name not in LINKING])
def test_clients_without_links_get_none(revision: str, root: User) -> None:
    client = MCPClient(serve(), user=root, revision=revision)

    assert len(client.call("search_products", limit=ROWS).raw["content"]) == 1


def test_a_whole_result_needs_no_link(root: User) -> None:
    client = MCPClient(serve(), user=root)

    assert find_link(client, limit=3) is None
    assert find_link(MCPClient(serve(max_tokens=None), user=root)) is None


def test_a_list_that_was_written_has_none_since_reading_would_write_again(root: User) -> None:
    client = MCPClient(serve("ninja"), user=root)

    found = client.call("copies")
    assert "The first" in found.structured["note"]
    assert len(found.raw["content"]) == 1


def test_a_result_that_could_not_be_read_has_none(root: User) -> None:
    for max_bytes, is_linked in ((14_000, False), (28_000, True)):
        limited = serve(max_tokens=1300, max_result_bytes=max_bytes)
        assert (find_link(MCPClient(limited, user=root)) is not None) == is_linked

    api = NinjaAPI(urls_namespace="whole-long")

    @api.get("/products", response=list[ProductOut])
    def search_products(request: Any, about: str = "") -> Any:
        return Product.objects.order_by("sku")

    server = MCPServer("whole-long", public=True, max_result_tokens=MAX_TOKENS)
    operation_tools(api, server=server)
    client = MCPClient(server, user=root)
    # One of a tenth of the result, and one that is longer.
    assert find_link(client, about="x" * 200) is not None
    assert find_link(client, about="x" * 1000) is None


def test_only_its_caller_can_read_it(root: User) -> None:
    server = serve()
    other = User.objects.create_superuser("other")
    uri = find_link(MCPClient(server, user=root))["uri"]

    assert refuse(MCPClient(server, user=other), uri) == UNKNOWN
    assert refuse(MCPClient(server), uri) == UNKNOWN
    assert refuse(MCPClient(serve("list"), user=root), uri) == UNKNOWN
    assert len(read(MCPClient(server, user=root), uri)["results"]) == ROWS


def test_another_key_of_the_same_user_cannot_read_it(root: User) -> None:
    server = serve(authenticators=[APIKeyAuthenticator(cache_s=0)])
    clients = []
    for name in ("first", "second"):
        key, text = APIKey.objects.issue(user=root, name=name, tools=["search_products"])
        clients.append((key, MCPClient(server, headers={"Authorization": f"Bearer {text}"})))
    (key, client), (_key, other) = clients

    uri = find_link(client)["uri"]

    assert len(read(client, uri)["results"]) == ROWS
    assert refuse(other, uri) == UNKNOWN
    # Nothing is stored of it, not even for a restricted key.
    assert not GivenLink.objects.exists()
    APIKey.objects.filter(pk=key.pk).update(tools=["get_product"])
    assert refuse(client, uri) == UNKNOWN


def test_what_the_user_lost_since_then_is_not_read(root: User) -> None:
    user = User.objects.create_user("ada")
    user.user_permissions.add(Permission.objects.get(codename="view_user"))
    server = MCPServer("whole-lost", public=True, max_result_tokens=MAX_TOKENS)
    StaffProducts.register(server=server)
    uri = find_link(MCPClient(server, user=user))["uri"]
    Product.objects.filter(sku="p07").delete()

    assert len(read(MCPClient(server, user=user), uri)["results"]) == ROWS - 1
    user.user_permissions.clear()
    assert refuse(MCPClient(server, user=User.objects.get(pk=user.pk)), uri) == UNKNOWN


def test_it_ends_after_ten_minutes(root: User) -> None:
    server = serve()
    client = MCPClient(server, user=root)
    now_s = server.engine.ports.clock()
    use_ports(server, clock=lambda: now_s)
    uri = find_link(client)["uri"]

    use_ports(server, clock=lambda: now_s + 599)
    assert len(read(client, uri)["results"]) == ROWS
    use_ports(server, clock=lambda: now_s + 601)
    assert refuse(client, uri) == UNKNOWN


def spoil(uri: str) -> Iterator[str]:
    scheme, _, rest = uri.partition(":")
    value, _, signature = rest.rpartition(":")
    held = json.loads(base64.urlsafe_b64decode(value + "=" * (-len(value) % 4)))
    held[3] = "get_product"
    forged = base64.urlsafe_b64encode(json.dumps(held).encode()).decode().rstrip("=")
    yield f"{scheme}:{forged}:{signature}"
    yield f"{scheme}:{value}:{signature[:-1]}"
    yield f"{scheme}:{value}"
    yield f"{scheme}:"
    yield f"{scheme}:{rest}{'x' * 5000}"


def test_a_link_that_was_not_made_here_is_unknown(root: User) -> None:
    client = MCPClient(serve(), user=root)
    for uri in spoil(find_link(client)["uri"]):
        assert refuse(client, uri) == UNKNOWN


def test_what_is_signed_for_something_else_is_no_link(root: User) -> None:
    server = serve(page_size=1)
    client = MCPClient(server, user=root)
    cursor = client.send("tools/list", {})["nextCursor"]

    assert refuse(client, f"tool-result:{cursor}") == UNKNOWN


def test_a_disabled_tool_gives_no_more_results(root: User) -> None:
    server = serve()
    client = MCPClient(server, user=root)
    uri = find_link(client)["uri"]

    server.registry.set_disabled(frozenset({("tools", "search_products")}))
    assert refuse(client, uri) == UNKNOWN


def test_reading_counts_as_a_call_and_is_recorded_as_one_of_the_tool(
    root: User, settings: Any
) -> None:
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "RECORD_CALLS": 1}
    client = MCPClient(serve("compact"), user=root)
    uri = find_link(client, "search_objects", model="shop.product")["uri"]

    signalled = []

    def note(sender: Any, call: Any, **_kwargs: Any) -> None:
        signalled.append((call.method, call.name))

    tool_called.connect(note)
    try:
        read(client, uri)
        flush_calls()
    finally:
        tool_called.disconnect(note)

    recorded = CallRecord.objects.order_by("pk").values_list("method", "name", "outcome")
    assert list(recorded) == [
        ("tools/call", "search_products", "done"),
        ("resources/read", "search_products", "done"),
    ]
    assert ("resources/read", "search_products") in signalled


def test_reading_is_recorded_with_the_arguments_of_the_call_whatever_the_client_sends_beside_the_link(
    root: User, settings: Any
) -> None:
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "RECORD_CALLS": 1}
    client = MCPClient(serve(), user=root)
    uri = find_link(client)["uri"]

    client.send("resources/read", {"uri": uri, "arguments": {"query": "never asked for"}})
    flush_calls()

    call, reading = CallRecord.objects.order_by("pk")
    assert json.loads(call.arguments) == {"limit": "integer"}
    assert (reading.arguments, reading.varied) == (call.arguments, "")


def test_servers_with_such_tools_offer_resources(root: User) -> None:
    assert "resources" in MCPClient(serve(), user=root).discover()["capabilities"]

    server = MCPServer("whole-none", public=True)
    server.tool(read_only=True)(len_of)
    assert "resources" not in MCPClient(server, user=root).discover()["capabilities"]


def len_of(text: str) -> int:
    """Return how long a text is."""
    return len(text)
