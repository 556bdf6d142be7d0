"""The tools that read: their results, the admin's rules, and invalid arguments."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth.models import AnonymousUser, User
from django.contrib.contenttypes.fields import GenericRelation
from django.contrib.contenttypes.models import ContentType
from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured
from django.db import models
from django.test.utils import isolate_apps

from django_mcp import MCPServer
from django_mcp.contrib.modeladmin import admin_tools
from django_mcp.protocol.revisions import REVISIONS
from django_mcp.registry.problems import RegistrationError
from django_mcp.test import MCPClient
from example_project.shop.models import Order, OrderLine
from tests.support.library.models import Book, Loan, Sample, Shelf, Tag
from tests.support.queries import captured_queries
from tests.unit.contrib.modeladmin.conftest import Orders, OwnOrders

pytestmark = pytest.mark.django_db


def read(client: MCPClient, tool: str, **arguments: Any) -> Any:
    found = client.call(tool, **arguments)
    assert not found.is_error, found.text
    return found.structured


def numbers(client: MCPClient, **arguments: Any) -> list[str]:
    return [each["number"] for each in read(client, "search_orders", **arguments)["results"]]


def refuse(client: MCPClient, tool: str, **arguments: Any) -> str:
    found = client.call(tool, **arguments)
    assert found.is_error, found.structured
    return found.text


# -- tools and results


def test_a_row_has_the_columns_of_the_list(make_client: Any, root: User, orders: list[Order]):
    client = make_client(root)

    first = read(client, "search_orders")["results"][0]

    ann = orders[0].customer
    assert ann is not None
    assert first == {
        "id": orders[0].pk,
        "number": "A-0",
        "customer": {"pk": ann.pk, "text": "ann"},
        "status": "shipped",
        "lines": 2,
    }


def test_an_object_has_the_fields_of_its_page(make_client: Any, root: User, orders: list[Order]):
    found = read(make_client(root), "get_order", id=orders[0].pk)

    assert list(found) == ["id", "number", "customer", "status", "note", "placed_at", "lines"]
    assert found["placed_at"] == "2026-01-01T12:00:00Z"


@pytest.mark.parametrize("revision", sorted(each.name for each in REVISIONS))
def test_the_tools_conform_in_every_revision(
    make_client: Any, root: User, orders: list[Order], revision: str
):
    client = MCPClient(make_client(root, Order, User).server, user=root, revision=revision)

    client.call("search_orders", search="pot", count=True)
    client.call("get_order", id=orders[0].pk)
    client.call("get_user", id=root.pk)

    client.assert_conforms()


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ({"search": "b-"}, ["B-3", "B-4"]),
        ({"search": "pot"}, ["A-0", "A-1", "A-2", "B-3", "B-4"]),
        ({"search": '"pot 1" a-1'}, ["A-1"]),
        ({"status": "placed"}, ["A-1", "B-3"]),
        ({"state": "open"}, ["A-1", "B-3"]),
        ({"placed_at__gte": "2026-01-04T00:00:00Z"}, ["B-3", "B-4"]),
        ({"placed_at__lt": "2026-01-02T00:00:00Z"}, ["A-0"]),
        ({"note__isempty": False}, ["A-0"]),
        ({"customer": None}, []),
        ({"ordering": "-number", "limit": 2}, ["B-4", "B-3"]),
    ],
)
def test_a_search_accepts_the_filters_of_the_changelist(
    make_client: Any, root: User, orders: list[Order], arguments: Any, found: list[str]
):
    assert numbers(make_client(root), **arguments) == found


def test_pages_follow_one_another(make_client: Any, root: User, orders: list[Order]):
    client = make_client(root)
    first = read(client, "search_orders", limit=3, count=True)
    second = read(client, "search_orders", limit=3, cursor=first["next_cursor"])

    assert first["count"] == 5
    assert [each["number"] for each in second["results"]] == ["B-3", "B-4"]
    assert second["next_cursor"] is None


def test_pages_of_an_unordered_list_are_stable(make_client: Any, root: User):
    for n in range(3):
        Tag.objects.create(name=f"tag {n}")
    client = make_client(root, Tag)

    first = read(client, "search_tags", limit=2)
    second = read(client, "search_tags", limit=2, cursor=first["next_cursor"])

    seen = {each["text"] for each in [*first["results"], *second["results"]]}
    assert seen == {"tag 0", "tag 1", "tag 2"}


# -- permissions


def test_tools_require_staff_status_and_a_permission(
    make_client: Any, make_staff: Any, orders: list[Order]
):
    viewer = make_staff("viewer", "shop.view_order")
    client = make_client(viewer)

    client.assert_visible("search_orders", "get_order")
    for other in (AnonymousUser(), User.objects.get(username="ann"), make_staff("none")):
        client.force_login(other)
        client.assert_hidden("search_orders", "get_order")
    viewer.is_staff = False
    viewer.save()
    client.force_login(viewer)
    client.assert_hidden("search_orders", "get_order")
    viewer.is_staff, viewer.is_active = True, False
    viewer.save()
    client.force_login(viewer)
    client.assert_hidden("search_orders", "get_order")


def test_security_view_permission_applies_to_each_object(
    make_client: Any, site: Any, make_staff: Any, orders: list[Order]
):
    class Picky(Orders):
        def has_view_permission(self, request: Any, obj: Any = None) -> bool:
            return obj is None or obj.number.startswith("B")

    site.unregister(Order)
    site.register(Order, Picky)
    client = make_client(make_staff("viewer"))

    client.assert_hidden("search_orders", "get_order")  # without the permission for the module
    site.get_model_admin(Order).has_module_permission = lambda request: True
    client.assert_visible("search_orders", "get_order")
    assert numbers(client) == ["B-3", "B-4"]
    assert refuse(client, "get_order", id=orders[0].pk) == refuse(client, "get_order", id=10**6)
    assert read(client, "get_order", id=orders[3].pk)["number"] == "B-3"
    assert "/count" in refuse(client, "search_orders", count=True)


@pytest.mark.parametrize("limit", [1, 2, 4])
def test_security_pages_and_cursors_skip_hidden_rows(
    make_client: Any, site: Any, root: User, orders: list[Order], limit: int
):
    class Picky(Orders):
        def has_view_permission(self, request: Any, obj: Any = None) -> bool:
            return obj is None or obj.number in ("A-1", "B-4")

        def has_change_permission(self, request: Any, obj: Any = None) -> bool:
            return False

    site.unregister(Order)
    site.register(Order, Picky)
    client = make_client(root)
    found: list[str] = []
    cursor: dict[str, Any] = {}

    while cursor != {"cursor": None}:
        page = read(client, "search_orders", limit=limit, **cursor)
        found += [each["number"] for each in page["results"]]
        cursor = {"cursor": page["next_cursor"]}
        payload = (page["next_cursor"] or "").partition(":")[0]
        held = base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)).decode()
        assert not [number for number in ("A-0", "A-2", "B-3") if number in held]

    assert found == ["A-1", "B-4"]


def test_two_users_see_their_own_querysets(
    make_client: Any, site: Any, make_staff: Any, orders: list[Order]
):
    site.unregister(Order)
    site.register(Order, OwnOrders)
    viewers = [make_staff(name, "shop.view_order") for name in ("cid", "dan")]
    for order, viewer in zip(orders, viewers, strict=False):
        order.customer = viewer
        order.save()
    client = make_client(viewers[0])

    assert numbers(client) == ["A-0"]
    assert numbers(client, search="A-") == ["A-0"]
    assert read(client, "search_orders", count=True)["count"] == 1
    unknown = refuse(client, "get_order", id=10**6)
    assert refuse(client, "get_order", id=orders[1].pk) == unknown
    client.force_login(viewers[1])
    assert numbers(client) == ["A-1"]


def test_a_cursor_is_bound_to_one_user_and_search(
    make_client: Any, make_staff: Any, root: User, orders: list[Order]
):
    client = make_client(root)
    cursor = read(client, "search_orders", limit=2)["next_cursor"]

    for wrong in (cursor + "x", cursor[:-1], "x"):
        assert "not a cursor" in refuse(client, "search_orders", cursor=wrong)
    assert "not a cursor" in refuse(client, "search_orders", cursor=cursor, status="placed")
    client.force_login(make_staff("viewer", "shop.view_order"))
    assert "not a cursor" in refuse(client, "search_orders", cursor=cursor)


def test_security_related_objects_require_the_view_permission(
    make_client: Any, make_staff: Any, root: User, orders: list[Order]
):
    viewer = make_staff("viewer", "shop.view_order")
    client = make_client(viewer)
    ann = orders[0].customer
    assert ann is not None

    assert read(client, "get_order", id=orders[0].pk)["customer"] == {"pk": ann.pk, "text": None}
    assert read(client, "search_orders")["results"][0]["customer"]["text"] is None
    assert numbers(client, customer=ann.pk) == []
    client.force_login(root)
    assert numbers(client, customer=ann.pk) == ["A-0", "A-1", "A-2"]


def test_related_objects_come_from_the_other_admins_queryset(make_client: Any, make_staff: Any):
    everything = ["library.view_book", "library.view_shelf", "library.view_loan"]
    ann, bob = make_staff("ann", *everything), make_staff("bob", *everything)
    for user in (ann, bob):
        shelf = Shelf.objects.create(name=f"of {user}", owner=user)
        book = Book.objects.create(isbn=user.username, title=f"Book of {user}", shelf=shelf)
        Loan.objects.create(book=book)
    client = make_client(ann, Book, Loan)

    rows = read(client, "search_books")["results"]

    assert [each["shelf"]["text"] for each in rows] == [None, "of ann"]
    client.force_login(make_staff("cid", "library.view_loan"))
    loans = read(client, "search_loans")["results"]
    assert [(each["book"]["text"], each["book__title"]) for each in loans] == [(None, None)] * 2


def test_security_ordering_reveals_nothing_about_related_objects(
    make_client: Any, site: Any, make_staff: Any, root: User
):
    class Ordered(admin.ModelAdmin):
        list_display = ["id", "book__title"]
        ordering = ["book__title"]

    site.unregister(Loan)
    site.register(Loan, Ordered)
    for title in ("First", "Aft"):
        Loan.objects.create(book=Book.objects.create(isbn=title, title=title))
    first, second = Loan.objects.order_by("pk").values_list("pk", flat=True)
    client = make_client(root, Loan)

    def keys(**arguments: Any) -> list[int]:
        return [each["id"] for each in read(client, "search_loans", **arguments)["results"]]

    assert keys() == [second, first]
    assert keys(ordering="-book__title") == [first, second]
    client.force_login(make_staff("cid", "library.view_loan"))
    assert keys(ordering="id") == [first, second]
    assert "/ordering" in refuse(client, "search_loans", ordering="book__title")
    Book.objects.filter(title="Aft").update(title="Zett")
    before = keys()
    Book.objects.filter(title="Zett").update(title="Aft")
    assert keys() == before


def test_security_models_with_object_permissions_cannot_be_ordered_by(
    make_client: Any, site: Any, root: User
):
    class Ordered(admin.ModelAdmin):
        list_display = ["isbn", "shelf__name"]

    site.unregister(Book)
    site.register(Book, Ordered)

    assert "/ordering" in refuse(make_client(root, Book), "search_books", ordering="shelf__name")


def test_methods_that_look_at_relations_of_the_object_are_described(
    make_client: Any, site: Any, root: User
):
    class OfStored(admin.ModelAdmin):
        def get_fieldsets(self, request: Any, obj: Any = None) -> Any:
            return [(None, {"fields": ["label", "note"] if obj.tags.exists() else ["label"]})]

        def has_add_permission(self, request: Any) -> bool:
            return False

    site.register(Sample, OfStored)
    sample = Sample.objects.create(code="a", label="A")
    client = make_client(root, Sample)

    assert read(client, "get_sample", id=sample.pk)["label"] == "A"
    assert read(client, "update_sample", id=sample.pk, label="B")["label"] == "B"


# -- secrets


def test_passwords_are_neither_shown_nor_searched(make_client: Any, site: Any, root: User):
    class Users(admin.ModelAdmin):
        list_display = ["username", "password"]
        list_filter = ["password", "is_staff", "groups"]
        search_fields = ["password"]
        ordering = ["password"]

    site.unregister(User)
    site.register(User, Users)
    client = make_client(root, User)

    text = client.call("search_users").text + client.call("get_user", id=root.pk).text
    assert root.password not in text
    assert "password" not in text
    (tool,) = [each for each in client.list_tools() if each["name"] == "search_users"]
    arguments = set(tool["inputSchema"]["properties"])
    assert arguments == {"is_staff", "groups", "ordering", "limit", "cursor", "count", "fields"}


def test_the_admin_of_users_shows_no_password(make_client: Any, root: User):
    found = read(make_client(root, User), "get_user", id=root.pk)

    assert found["username"] == "root"
    assert "password" not in found


# -- bad input


@pytest.mark.parametrize(
    "arguments",
    [
        {"customer__password__startswith": "x"},
        {"customer__username": "ann"},
        {"ordering": "placed_at"},
        {"ordering": "customer__password"},
        {"limit": -1},
        {"limit": 10**9},
        {"status": "lost"},
        {"state": "lost"},
        {"placed_at__gte": "soon"},
        {"search": "x" * 300},
        {"search": "x " * 50},
        {"search": "a\0b"},
        {"cursor": "x" * 5000},
    ],
)
def test_filters_not_offered_by_the_changelist_are_rejected(
    make_client: Any, root: User, orders: list[Order], arguments: Any
):
    assert refuse(make_client(root), "search_orders", **arguments)


@pytest.mark.parametrize("key", [-1, 0, 10**30])
def test_an_impossible_primary_key_is_not_found(
    make_client: Any, root: User, orders: Any, key: int
):
    client = make_client(root)

    assert refuse(client, "get_order", id=key) == refuse(client, "get_order", id=10**6)


def test_filters_and_columns_depend_on_the_user(
    make_client: Any, site: Any, make_staff: Any, root: User, orders: list[Order]
):
    class Some(Orders):
        def get_list_filter(self, request: Any) -> Any:
            return ["status"] if request.user.is_superuser else []

        def get_list_display(self, request: Any) -> Any:
            return ["number", "status"] if request.user.is_superuser else ["number"]

        def get_fields(self, request: Any, obj: Any = None) -> Any:
            return ["number", "note"] if request.user.is_superuser else ["number"]

    site.unregister(Order)
    site.register(Order, Some)
    client = make_client(root)
    assert numbers(client, status="placed", ordering="-status") == ["B-3", "A-1"]
    assert set(read(client, "get_order", id=orders[0].pk)) == {"id", "number", "note"}

    client.force_login(make_staff("viewer", "shop.view_order"))

    assert "/status" in refuse(client, "search_orders", status="placed")
    assert "/ordering" in refuse(client, "search_orders", ordering="status")
    assert set(read(client, "search_orders")["results"][0]) == {"id", "number"}
    assert set(read(client, "get_order", id=orders[0].pk)) == {"id", "number"}


# -- queries


def selects(queries: list[str]) -> int:
    """Return how many queries there were without that of the test client, which loads the user."""
    return len([sql for sql in queries if sql.startswith("SELECT")]) - 1


@pytest.mark.parametrize(("tool", "arguments"), [("search_orders", {}), ("get_order", {"id": 0})])
def test_a_search_needs_one_query(
    make_client: Any, root: User, orders: list[Order], tool: str, arguments: Any
):
    client = make_client(root)
    if arguments:
        arguments = {"id": orders[0].pk}
    client.call(tool, **arguments)

    with captured_queries() as queries:
        read(client, tool, **arguments)

    assert selects(queries) == 1


def test_a_to_many_relation_costs_one_more_query(make_client: Any, root: User):
    tags = [Tag.objects.create(name=f"tag {n}") for n in range(3)]
    book = Book.objects.create(
        isbn="1", title="One", shelf=Shelf.objects.create(name="a", owner=root)
    )
    book.tags.set(tags)
    client = make_client(root, Book)
    read(client, "get_book", isbn="1")

    with captured_queries() as queries:
        found = read(client, "get_book", isbn="1")

    assert len(found["tags"]) == 3
    # The shelf's own admin narrows what this user sees of shelves.
    assert selects(queries) == 3


def test_a_relation_is_read_whose_manager_leaves_out_repeated_rows(
    make_client: Any, root: User, monkeypatch: pytest.MonkeyPatch
):
    """If Django cut such a query for each object, it would number the rows, and none would be repeated."""
    distinct = Distinct()
    distinct.model = Tag
    monkeypatch.setitem(vars(Tag._meta), "default_manager", distinct)
    book = Book.objects.create(isbn="1", title="One")
    book.tags.set([Tag.objects.create(name=f"tag {n}") for n in range(3)])
    for _ in range(2):
        Loan.objects.create(book=book)

    found = read(make_client(root, Book), "get_book", isbn="1")

    assert [each["text"] for each in found["tags"]] == ["tag 0", "tag 1", "tag 2"]


class Distinct(models.Manager[Tag]):
    def get_queryset(self) -> models.QuerySet[Tag]:
        rows = super().get_queryset().order_by("name")
        return rows.filter(book__loans__days__gt=0).distinct()


@isolate_apps("tests.support.library")
def test_a_generic_relation_is_read(make_client: Any, site: admin.AdminSite, root: User):
    class LoggedShelf(Shelf):
        log = GenericRelation(LogEntry)

        class Meta:
            proxy = True
            app_label = "library"

    class LoggedShelves(admin.ModelAdmin):
        fields = ["name", "log"]
        readonly_fields = ["log"]

    site.register(LoggedShelf, LoggedShelves)
    site.register(LogEntry)
    shelves = [Shelf.objects.create(name=name, owner=root) for name in ("a", "b")]
    for number in range(3):
        LogEntry.objects.create(
            user=root,
            content_type=ContentType.objects.get_for_model(Shelf),
            object_id=str(shelves[0].pk),
            object_repr=f"entry {number}",
            action_flag=CHANGE,
        )
    client = make_client(root, LoggedShelf)

    found = [read(client, "get_logged_shelf", id=each.pk)["log"] for each in shelves]

    assert [len(each) for each in found] == [3, 0]


def test_permissions_of_users_are_loaded_at_once(make_client: Any, root: User, make_staff: Any):
    clerk = make_staff("clerk", "shop.view_order", "shop.add_order", "shop.view_product")
    client = make_client(root, User)

    with captured_queries() as queries:
        found = read(client, "get_user", id=clerk.pk)

    assert len(found["user_permissions"]) == 3
    assert selects(queries) == 3


# -- options


def test_options_apply_to_one_model_or_to_all(server: MCPServer, site: Any, root: User):
    found = admin_tools(
        server=server,
        site=site,
        models=["shop.order", Tag],
        actions=False,
        exclude=["library.tag.get", "create", "update", "delete"],
        prefix="admin_",
        names={"shop.order.search": "find_orders"},
        descriptions={"search": "Look around."},
        annotations={"shop.order.get": {"title": "Order"}},
        max_results=7,
    )

    assert [entry.name for entry in found] == [
        "admin_find_orders",
        "admin_get_order",
        "admin_search_tags",
    ]
    tools = {each["name"]: each for each in MCPClient(server, user=root).list_tools()}
    assert tools["admin_search_tags"]["description"] == "Look around."
    assert tools["admin_get_order"]["title"] == "Order"
    assert tools["admin_search_tags"]["inputSchema"]["properties"]["limit"]["maximum"] == 7


@pytest.mark.parametrize("excluded", ["delete", "shop.order.delete"])
def test_to_exclude_deletions_excludes_that_of_several_objects(
    server: MCPServer, site: Any, excluded: str
):
    found = admin_tools(server=server, site=site, models=["shop.order"], exclude=[excluded])

    assert [entry.name for entry in found if "delete" in entry.name] == []


def test_a_site_can_define_which_tools_are_listed(
    make_client: Any, make_staff: Any, orders: list[Order]
):
    viewer = make_staff("viewer", "shop.view_order")
    client = make_client(viewer, listed_if=lambda user: user.username != "viewer")
    client.assert_hidden("search_orders")

    client.force_login(make_staff("none"))
    client.assert_visible("search_orders")
    assert numbers(client) == []


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"models": ["shop.nothing"]}, "there is no model 'shop.nothing'"),
        ({"models": ["shop.ordr"]}, r"no model 'shop.ordr'. Did you mean 'shop.order'\?"),
        ({"models": ["order"]}, "there is no model 'order'"),
        ({"models": [admin.ModelAdmin]}, "takes models or labels such as 'shop.order', not <class"),
        (
            {"site": "admin", "models": "__all__"},
            "takes an AdminSite, such as django.contrib.admin.site, not 'admin'",
        ),
        ({"models": "shop.order"}, "models="),
        ({"models": ["shop.order"], "include": ["find"]}, "no action 'find', which include="),
        (
            {"models": "__all__", "exclude": ["shop.ordr"]},
            r"no model 'shop.ordr', which exclude= names. Did you mean 'shop.order'\?$",
        ),
        ({"models": [Order], "exclude": ["shop.product"]}, "models= has no model 'shop.product'"),
        ({"models": ["shop.order"], "names": {"serch": "x"}}, r"Did you mean 'search'\?"),
        ({"models": ["shop.order"], "names": {"shop.tag.get": "x"}}, "no action 'shop.tag.get'"),
    ],
)
def test_options_with_unknown_names_are_rejected(
    server: MCPServer, site: Any, options: Any, told: str
):
    with pytest.raises(ImproperlyConfigured, match=told):
        admin_tools(**{"server": server, "site": site, **options})


def test_all_models_of_a_site(server: MCPServer, site: Any):
    admin_tools(server=server, site=site, models="__all__", exclude=["library.Shelf"])

    tools = set(server.registry.tools)
    assert {"shop_search_orders", "auth_get_user", "library_search_tags"} <= tools
    assert not [name for name in tools if "shel" in name]


@isolate_apps("tests.support.library")
def test_no_model_of_a_site_stops_the_others(server: MCPServer, site: Any):
    class SameTag(Tag):
        class Meta:
            proxy = True
            app_label = "library"
            verbose_name, verbose_name_plural = "tag", "tags"

    class Umlaut(Tag):
        class Meta:
            proxy = True
            app_label = "library"
            verbose_name, verbose_name_plural = "Übersicht", "Übersichten"

    class Broken(Shelf):
        class Meta:
            proxy = True
            app_label = "library"

    class BrokenAdmin(admin.ModelAdmin):
        def get_list_display(self, request: Any) -> Any:
            raise RuntimeError("needs a browser")

    site.register(SameTag)
    site.register(Umlaut)
    site.register(Broken, BrokenAdmin)

    admin_tools(server=server, site=site, models="__all__", include=["search", "get"])

    tools = set(server.registry.tools)
    assert {"library_search_tags", "library_search_umlauts", "library_get_umlaut"} <= tools
    told = [each.msg for each in run_checks(tags=["django_mcp"]) if each.obj is server]
    assert any("of library.SameTag is no tool: " in message for message in told)
    assert any("of library.Broken is no tool: " in message for message in told)
    with pytest.raises(RegistrationError):
        admin_tools(server=server, site=site, models=[Tag, SameTag], prefix="own_")


def test_what_the_text_of_a_row_reads_is_loaded_once(
    make_client: Any, root: User, site: Any, orders: list[Order]
):
    class Lines(admin.ModelAdmin):
        list_display = ["__str__", "number"]

        def number(self, line: OrderLine) -> str:
            customer = line.order.customer
            return f"{line.order.number} {customer and customer.username}"

    site.register(OrderLine, Lines)
    client = make_client(root, OrderLine)
    counted = []
    for limit in (3, 10):
        with captured_queries() as queries:
            rows = read(client, "search_order_lines", limit=limit)["results"]
        assert len(rows) == limit
        counted.append(len(queries))

    assert counted[0] == counted[1]


@pytest.mark.parametrize("given", [(Order,), ("shop.order",), ()])
def test_the_models_are_given_by_name(server: MCPServer, given: Any):
    with pytest.raises(ImproperlyConfigured, match=r'models=\["shop.order"\]'):
        admin_tools(*given, server=server)
