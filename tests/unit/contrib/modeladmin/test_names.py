"""Related objects by name in the tools of the admin, as far as their own admin shows the name to the user."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import Group, User
from django.core.exceptions import ImproperlyConfigured

from django_mcp import MCPServer
from django_mcp.contrib.modeladmin import admin_tools
from django_mcp.contrib.tool_search import tool_search
from django_mcp.test import MCPClient
from example_project.shop.models import Order, OrderLine, Product
from tests.support.library.models import Book, Shelf, Tag
from tests.support.queries import captured_queries
from tests.unit.contrib.modeladmin.conftest import START, Books, Orders, StatusFilter
from tests.unit.contrib.modeladmin.test_rules import replace

pytestmark = pytest.mark.django_db

BOOK = {"isbn": "1", "title": "Odes"}
ALL_OF_BOOKS = ["library.add_book", "library.change_book", "library.view_book"]


@pytest.fixture
def staff(make_staff: Callable[..., User]) -> User:
    return make_staff("staff", *ALL_OF_BOOKS, "library.view_shelf")


@pytest.fixture
def shelves(staff: User, root: User) -> list[Shelf]:
    """The first is the staff's; their admin hides the others."""
    owners = [(staff, "poetry"), (root, "novels"), (staff, "42")]
    return [Shelf.objects.create(owner=owner, name=name) for owner, name in owners]


def refused(result: Any) -> str:
    assert result.is_error
    assert not Book.objects.exists()
    return str(result.text)


def describe(client: MCPClient, tool: str, argument: str) -> Any:
    (schema,) = (each["inputSchema"] for each in client.list_tools() if each["name"] == tool)
    return schema["properties"][argument]


def test_an_object_is_chosen_by_its_name_for_one_query(
    make_client: Any, staff: User, shelves: list[Shelf]
):
    client = make_client(staff, Book)
    client.call("create_book", isbn="first", title="Odes")  # what is read once
    counts = []
    for isbn, shelf in enumerate((shelves[0].pk, str(shelves[0].pk), "poetry")):
        with captured_queries() as queries:
            made = client.call("create_book", isbn=str(isbn), title="Odes", shelf=shelf)
        assert not made.is_error, made.text
        counts.append(len(queries))

    assert Book.objects.filter(shelf=shelves[0]).count() == 3
    assert counts == [counts[0], counts[0], counts[0] + 1]


def test_a_hidden_object_is_as_unknown_as_none(make_client: Any, staff: User, shelves: list[Shelf]):
    client = make_client(staff, Book)

    hidden = refused(client.call("create_book", **BOOK, shelf="novels"))
    assert hidden.replace("novels", "x") == refused(client.call("create_book", **BOOK, shelf="x"))


def test_a_name_that_the_user_is_not_shown_is_none(
    make_client: Any, make_staff: Callable[..., User], shelves: list[Shelf], site: Any
):
    class ByUser(admin.ModelAdmin):
        list_display = ["id"]

        def get_fields(self, request: Any, obj: Any = None) -> Any:
            return ["owner", "name"] if request.user.username == "knows" else ["owner"]

    replace(site, Shelf, ByUser)
    users = {
        name: make_staff(name, *ALL_OF_BOOKS, *shelf)
        for name, shelf in {
            "knows": ["library.view_shelf"],
            "sees": ["library.view_shelf"],
            "nothing": [],
        }.items()
    }

    for name in ("sees", "nothing"):
        refused(make_client(users[name], Book).call("create_book", **BOOK, shelf="poetry"))
    assert (
        not make_client(users["knows"], Book).call("create_book", **BOOK, shelf="poetry").is_error
    )


def test_objects_without_an_admin_have_no_names(
    make_client: Any, staff: User, shelves: list[Shelf], site: admin.AdminSite
):
    site.unregister(Shelf)
    client = make_client(staff, Book)

    for tool in ("create_book", "update_book"):
        shelf = describe(client, tool, "shelf")
        kinds = [each["type"] for each in shelf.get("anyOf", [shelf])]
        assert kinds in (["integer"], ["integer", "null"])
    refused(client.call("create_book", **BOOK, shelf="poetry"))
    assert not client.call("create_book", **BOOK, shelf=shelves[1].pk).is_error


def test_rules_of_the_site_see_the_key(
    make_client: Any, staff: User, shelves: list[Shelf], site: admin.AdminSite
):
    forbidden = str(shelves[0].pk)

    class Guarded(Books):
        def has_add_permission(self, request: Any) -> bool:
            return request.POST.get("shelf") != forbidden

        def has_change_permission(self, request: Any, obj: Any = None) -> bool:
            return request.POST.get("shelf") != forbidden

    replace(site, Book, Guarded)
    client = make_client(staff, Book)

    for shelf in ("poetry", shelves[0].pk, forbidden):
        refused(client.call("create_book", **BOOK, shelf=shelf))
    assert not client.call("create_book", **BOOK, shelf="42").is_error
    assert client.call("update_book", isbn="1", shelf="poetry", if_unmodified=None).is_error
    assert Book.objects.get().shelf == shelves[2]


def test_a_rule_about_the_object_is_asked_as_it_was(
    make_client: Any, staff: User, root: User, site: admin.AdminSite
):
    class OnlyOwn(admin.ModelAdmin):
        fields = ["name", "owner"]

        def has_change_permission(self, request: Any, obj: Any = None) -> bool:
            return obj is None or obj.owner_id == request.user.pk

    replace(site, Shelf, OnlyOwn)
    shelf = Shelf.objects.create(name="poetry", owner=root)
    client = make_client(root, Shelf)

    assert not client.call("update_shelf", id=shelf.pk, owner="staff").is_error
    shelf.refresh_from_db()
    assert shelf.owner == staff


def test_rows_of_inlines_take_names(make_client: Any, root: User, site: admin.AdminSite):
    class Lines(admin.TabularInline):
        model = OrderLine

    class WithLines(admin.ModelAdmin):
        fields = ["number", "placed_at"]
        inlines = [Lines]

    class Products(admin.ModelAdmin):
        list_display = ["sku"]

    replace(site, Order, WithLines)
    replace(site, Product, Products)
    product = Product.objects.create(sku="pot", name="Pot", price=1)
    client = make_client(root, Order)
    order = {"number": "A-1", "placed_at": START.isoformat()}
    line = {"quantity": 1, "unit_price": 1}

    wrong = client.call("create_order", **order, lines=[{**line, "product": "pan"}])
    assert wrong.is_error
    assert "/lines/0/product" in wrong.text
    made = client.call("create_order", **order, lines=[{**line, "product": "pot"}])
    assert not made.is_error, made.text
    assert OrderLine.objects.get().product == product


def test_a_confirmation_is_for_the_named_object(
    make_client: Any, root: User, site: admin.AdminSite
):
    class Groups(admin.ModelAdmin):
        list_display = ["name"]

    site.register(Group, Groups)
    user = User.objects.create_user("ann", is_staff=True)
    first = Group.objects.create(name="editors")
    client = make_client(root, User, capabilities={})
    asked = client.call("update_user", id=user.pk, groups=["editors"])
    confirmation = asked.structured["confirmation"]

    Group.objects.filter(pk=first.pk).update(name="writers")
    second = Group.objects.create(name="editors")
    again = client.call("update_user", id=user.pk, groups=["editors"], confirmation=confirmation)
    assert again.is_error
    assert not user.groups.exists()
    asked = client.call("update_user", id=user.pk, groups=["editors"])
    done = client.call(
        "update_user",
        id=user.pk,
        groups=["editors"],
        confirmation=asked.structured["confirmation"],
    )
    assert not done.is_error, done.text
    assert list(user.groups.all()) == [second]


def test_a_filter_takes_a_name(make_client: Any, root: User, orders: list[Order]):
    client = make_client(root, Order)
    counts = []
    ann = orders[0].customer_id
    for customer in (ann, str(ann), "ann"):
        with captured_queries() as queries:
            found = client.call("search_orders", customer=customer)
        numbers = [each["number"] for each in found.structured["results"]]
        assert numbers == ["A-0", "A-1", "A-2"]
        counts.append(len(queries))

    assert counts == [counts[0], counts[0] + 1, counts[0] + 1]
    assert client.call("search_orders", customer="nobody").is_error


def test_a_filter_tells_nothing_of_hidden_objects(
    make_client: Any, make_staff: Callable[..., User], orders: list[Order]
):
    client = make_client(make_staff("staff", "shop.view_order"), Order)

    told = [client.call("search_orders", customer=name).text for name in ("ann", "nobody")]
    assert told[0].replace("ann", "nobody") == told[1]


def test_a_filter_whose_values_a_rule_judges_takes_keys_alone(
    make_client: Any, root: User, orders: list[Order], site: admin.AdminSite
):
    class Judging(type(site.get_model_admin(Order))):  # type: ignore[misc]
        def lookup_allowed(self, lookup: str, value: Any, request: Any = None) -> bool:
            return str(value) != str(orders[0].customer_id)

    replace(site, Order, Judging)
    client = make_client(root, Order)

    for customer in ("ann", orders[0].customer_id):
        assert client.call("search_orders", customer=customer).is_error
    assert not client.call("search_orders", customer=orders[4].customer_id).is_error


def test_descriptions_say_what_a_relation_takes(
    make_client: Any, staff: User, root: User, site: admin.AdminSite, server: MCPServer
):
    make_client(root, Book, Shelf)

    told = describe(MCPClient(server, user=root), "create_book", "shelf")
    assert told["description"] == "Key or name from search_shelves"
    staff.user_permissions.clear()
    seen = make_client(User.objects.get(pk=root.pk), Book)
    assert "search_tags" not in str(describe(seen, "create_book", "tags"))


def test_filters_have_the_labels_of_choices(make_client: Any, root: User, site: admin.AdminSite):
    class Labelled(StatusFilter):
        def lookups(self, request: Any, model_admin: Any) -> Any:
            return [("open", "Still open"), ("done", "done - and paid"), ("lost", "Lost")]

    class Filtered(Orders):
        list_filter = [Labelled]

    replace(site, Order, Filtered)
    told = describe(make_client(root, Order), "search_orders", "state")["description"]
    assert told == "open: Still open. done - and paid."


def test_help_texts_are_told_once_in_a_list(make_client: Any, make_staff: Any, root: User):
    def told(client: MCPClient, tool: str) -> Any:
        return describe(client, tool, "customer")["description"]

    whole = "Empty for a guest's order. Key or username from search_users."
    client = make_client(root, Order, User)
    assert told(client, "create_order") == whole
    assert told(client, "update_order") == "Key or username from search_users"
    changer = make_staff("changer", "shop.change_order", "shop.view_order", "auth.view_user")
    assert told(make_client(changer), "update_order") == whole


@pytest.mark.parametrize("style", ["compact", "single"])
def test_a_tool_that_is_read_alone_has_all_of_its_help_texts(
    make_client: Any, root: User, server: MCPServer, style: str
):
    client = make_client(root, Order, User, style=style)
    if style == "compact":
        told = client.call("describe_model", model="shop.order", action="update").text
    else:
        tool_search(server)
        told = client.call("find_tools", query="update order", limit=1).text

    assert "Empty for a guest's order." in told


def test_values_are_taken_in_every_form_though_the_list_has_one(
    make_client: Any, root: User, shelves: list[Shelf]
):
    client = make_client(root, Book, Shelf)
    schema = describe(client, "create_book", "shelf")

    kinds = [each["type"] for each in schema["anyOf"]]
    assert kinds == ["integer", "string"]
    for isbn, shelf in enumerate((shelves[1].pk, str(shelves[1].pk), "novels", None)):
        made = client.call("create_book", isbn=str(isbn), title="Odes", shelf=shelf)
        assert not made.is_error, made.text
    refused = client.call("create_book", isbn="9", title="Odes", shelf=1, colour="red")
    assert refused.is_error
    assert "colour" in refused.text


def test_compact_tools_say_what_a_relation_takes(make_client: Any, root: User):
    client = make_client(root, Book, Shelf, style="compact")

    told = client.call("describe_model", model="library.book", action="create").structured
    shelf = told["actions"]["create"]["arguments"]["properties"]["values"]["properties"]["shelf"]
    assert shelf["description"] == "Key or name from search_objects of library.shelf"


def test_several_objects_are_found_by_a_name_and_changed_by_a_key(
    make_client: Any, root: User, orders: list[Order]
):
    client = make_client(root, Order, User, update_many=True, capabilities={})
    call: dict[str, Any] = {"filters": {"customer": "ann"}, "values": {"customer": "root"}}

    told = describe(client, "update_many_orders", "values")["properties"]["customer"]
    assert told["description"] == "Empty for a guest's order. From search_users."
    for customer in ("root", root.pk):
        call["values"] = {"customer": customer}
        asked = client.call("update_many_orders", **call)
        if not asked.is_error:
            told = asked.structured["confirmation"]
            asked = client.call("update_many_orders", **call, confirmation=told)
        assert asked.is_error == (customer == "root"), asked.text
    assert Order.objects.filter(customer=root).count() == 3


def test_a_field_that_the_site_chose_names_objects(root: User, site: Any):
    server = MCPServer("named", public=True)
    labels = ["library.book", "library.tag"]
    admin_tools(server=server, site=site, models=labels, name_fields={"library.tag": "name"})
    tag = Tag.objects.create(name="odes")

    made = MCPClient(server, user=root).call("create_book", isbn="1", title="Odes", tags=["odes"])

    assert not made.is_error, made.text
    assert list(Book.objects.get().tags.all()) == [tag]


@pytest.mark.parametrize(
    ("name_fields", "told"),
    [
        ({"library.nothing": "name"}, "library.nothing"),
        ({"library.tag": "id"}, "no text that may name objects"),
        ({"library.tag": "title"}, "no field of library.Tag"),
    ],
)
def test_a_field_that_names_nothing_is_refused(site: Any, name_fields: Any, told: str):
    server = MCPServer("named", public=True)

    with pytest.raises(ImproperlyConfigured, match=told):
        admin_tools(server=server, site=site, models=["library.book"], name_fields=name_fields)
