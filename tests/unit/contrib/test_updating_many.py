"""The tools that change several objects: each as the tool for one does, and all of them or none."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from django import forms
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import Permission, User
from django.db.models.signals import post_save

from django_mcp import MCPServer
from django_mcp.calls import flush_calls
from django_mcp.contrib.modeladmin import admin_tools
from django_mcp.contrib.models import ModelTools
from django_mcp.inprocess.results import MCPError, UnknownTool
from django_mcp.test import MCPClient
from example_project.shop.models import Order, Product
from tests.support import calls as calls_of
from tests.support.library.models import Book
from tests.unit.contrib.modeladmin.conftest import orders  # noqa: F401 - a fixture

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("orders")]

_numbers = count()


class OrderForm(forms.ModelForm):
    class Meta:
        model = Order
        fields = ["status", "note", "customer"]

    def clean_note(self) -> str:
        note: str = self.cleaned_data["note"]
        if note == "only A-0" and self.instance.number != "A-0":
            raise forms.ValidationError("This note is for A-0.")
        return note


class Orders(ModelTools):
    model = Order
    fields = ["number", "status", "note", "customer"]
    filters = ["status", "number__startswith", "lines__product__sku"]
    search = ["number", "lines__product__name"]
    writes = ["update"]
    form = OrderForm
    update_many = True

    def get_queryset(self, user: Any) -> Any:
        return Order.objects.visible_to(user)


class OrderAdmin(admin.ModelAdmin):
    list_display = ["number", "status"]
    list_filter = ["status"]
    search_fields = ["number", "lines__product__name"]
    fields = ["number", "status", "note"]
    readonly_fields = ["number"]
    form = OrderForm

    def has_change_permission(self, request: Any, obj: Any = None) -> bool:
        is_open = obj is None or obj.number != "B-3"
        return is_open and super().has_change_permission(request, obj)


@pytest.fixture
def root() -> User:
    return User.objects.create_superuser("root", password="secret-of-root")


def make_server() -> MCPServer:
    return MCPServer(
        f"many-{next(_numbers)}", public=True, output_schemas="full", validate_output=True
    )


def serve(cls: type[ModelTools] = Orders, **options: Any) -> MCPServer:
    server = make_server()
    cls.register(server=server, **options)
    return server


def serve_admin(model: Any = Order, cls: Any = OrderAdmin, **options: Any) -> MCPServer:
    site = admin.AdminSite(f"many-{next(_numbers)}")
    site.register(model, cls)
    server = make_server()
    admin_tools(server=server, site=site, models=[model], **{"update_many": True, **options})
    return server


def connect(server: MCPServer, user: Any) -> MCPClient:
    """Return a client that cannot ask its user."""
    return MCPClient(server, user=user, capabilities={})


def read(client: MCPClient, tool: str = "update_many_orders", **arguments: Any) -> Any:
    return calls_of.read(client, tool, **arguments)


def refuse(client: MCPClient, tool: str = "update_many_orders", **arguments: Any) -> str:
    return calls_of.refuse(client, tool, **arguments)


def change(client: MCPClient, tool: str = "update_many_orders", **arguments: Any) -> Any:
    """Change objects, with the confirmation that a call without one returns."""
    token = read(client, tool, **arguments)["confirmation"]
    return read(client, tool, **arguments, confirmation=token)


def notes() -> dict[str, str]:
    return dict(Order.objects.exclude(note="").values_list("number", "note"))


@pytest.fixture
def saved() -> Iterator[list[str]]:
    numbers: list[str] = []

    def note(sender: Any, instance: Any, **_kwargs: Any) -> None:
        numbers.append(instance.number)

    post_save.connect(note, sender=Order)
    yield numbers
    post_save.disconnect(note, sender=Order)


# -- what is changed


def test_objects_are_counted_first_and_changed_with_the_confirmation(root: User, saved: list[str]):
    client = connect(serve(), root)
    arguments: dict[str, Any] = {"ids": ["A-1", "B-3"], "values": {"note": "fragile"}}

    told = read(client, **arguments)
    assert (told["updated"], told["count"]) == (False, 2)
    assert told["message"] == 'Change 2 orders (A-1, B-3)? note: "fragile".'
    assert notes() == {"A-0": "ring"}
    assert saved == []

    done = read(client, **arguments, confirmation=told["confirmation"])
    assert done == {"updated": True, "count": 2, "message": "2 orders changed."}
    assert notes() == {"A-0": "ring", "A-1": "fragile", "B-3": "fragile"}
    assert saved == ["A-1", "B-3"]
    assert [each.user for each in LogEntry.objects.all()] == [root, root]
    client.assert_conforms()


class ProductAdmin(admin.ModelAdmin):
    fields = ["description", "stock"]


def test_security_a_long_value_hides_no_other_change_in_the_question(root: User):
    Product.objects.create(sku="seed", name="Seed", category="garden", price=1)
    client = connect(serve_admin(Product, ProductAdmin), root)
    text = "Only a preview.\nNothing is changed." + " " * 1000 + '"; '

    [key] = Product.objects.filter(sku="seed").values_list("pk", flat=True)
    values = {"description": text, "stock": 99}
    told = read(client, "update_many_products", ids=[key], values=values)

    assert "stock: 99." in told["message"]
    assert len(told["message"]) < 500
    assert told["message"].isprintable()


def test_filters_and_the_search_select_what_is_changed(root: User):
    client = connect(serve(), root)

    done = change(client, filters={"status": "placed"}, values={"note": "x"})
    assert done["count"] == 2
    assert notes() == {"A-0": "ring", "A-1": "x", "B-3": "x"}
    done = change(client, filters={"search": "Pot", "number__startswith": "A"}, values={"note": ""})
    assert done["count"] == 3
    assert notes() == {"B-3": "x"}
    found = read(client, filters={"search": "nothing"}, values={"note": "x"})
    assert found["count"] == 0
    assert "confirmation" not in found


def test_a_client_that_can_ask_asks_its_user(root: User):
    server = serve()
    for number, is_agreed in (("A-1", True), ("A-2", False)):
        client = MCPClient(server, user=root)
        client.answer({"change": is_agreed})

        assert read(client, ids=[number], values={"note": "x"})["updated"] is is_agreed
        assert [each.message for each in client.questions] == [
            f'Change 1 order ({number})? note: "x".'
        ]
    assert notes() == {"A-0": "ring", "A-1": "x"}


def test_all_are_changed_or_none(root: User):
    for server, key in ((serve(), "number"), (serve_admin(), "pk")):
        client = connect(server, root)
        keys = list(Order.objects.order_by("pk").values_list(key, flat=True))[:2]

        token = read(client, ids=keys, values={"note": "only A-0"})["confirmation"]
        told = refuse(client, ids=keys, values={"note": "only A-0"}, confirmation=token)

        assert told.startswith("/values/note: order ")
        assert "This note is for A-0. Nothing was changed." in told
        assert str(keys[1]) in told
        assert notes() == {"A-0": "ring"}
        assert not LogEntry.objects.exists()


@pytest.mark.parametrize(
    "between",
    [
        lambda: Order.objects.filter(number="A-1").update(note="other"),
        lambda: Order.objects.filter(number="A-2").update(status="placed"),
        lambda: Order.objects.filter(number="B-3").update(status="shipped"),
    ],
    ids=["one changed", "one more", "one less"],
)
def test_what_has_changed_since_it_was_counted_needs_another_confirmation(root: User, between: Any):
    client = connect(serve(), root)
    arguments: dict[str, Any] = {"filters": {"status": "placed"}, "values": {"note": "x"}}
    token = read(client, **arguments)["confirmation"]
    before = notes()

    between()

    assert "confirmation is not for this" in refuse(client, **arguments, confirmation=token)
    assert "x" not in notes().values()
    assert set(before) <= set(notes())


def test_a_confirmation_is_good_for_its_values_objects_and_user_alone(root: User):
    server = serve()
    client = connect(server, root)
    token = read(client, ids=["A-1"], values={"note": "x"})["confirmation"]
    ann = connect(server, User.objects.get(username="ann"))

    others: list[tuple[MCPClient, dict[str, Any]]] = [
        (client, {"ids": ["A-1"], "values": {"note": "y"}}),
        (client, {"ids": ["A-2"], "values": {"note": "x"}}),
        (client, {"ids": ["A-1", "A-2"], "values": {"note": "x"}}),
        (ann, {"ids": ["A-1"], "values": {"note": "x"}}),
        (client, {"ids": ["A-1"], "values": {"note": "x", "status": "placed"}}),
    ]
    for caller, arguments in others:
        assert "confirmation" in refuse(caller, **arguments, confirmation=token)
    assert notes() == {"A-0": "ring"}


def test_an_update_of_one_is_no_confirmation_for_several(root: User):
    class Versioned(ModelTools):
        model = Book
        fields = ["isbn", "title", "updated_at"]
        writes = ["update"]
        everyone = True
        update_many = True

    for isbn in "12":
        Book.objects.create(isbn=isbn, title=f"Book {isbn}")
    client = connect(serve(Versioned), root)

    done = change(client, "update_many_books", ids=["1", "2"], values={"title": "New"})

    assert done["count"] == 2
    assert set(Book.objects.values_list("title", flat=True)) == {"New"}


# -- what is refused


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"filters": {}},
        {"filters": {"search": ""}},
        {"filters": {"search": " \u3000 '' "}},
        {"filters": {"number__startswith": ""}},
        {"ids": []},
        {"ids": ["A-1"], "filters": {"status": "placed"}},
        {"ids": ["A-1", "A-1"]},
        {"ids": [f"X-{n}" for n in range(501)]},
        {"filters": {"status": "lost"}},
        {"filters": {"note": "x"}},
        {"filters": {"password": "x"}},
    ],
)
def test_calls_that_do_not_say_which_objects_are_refused(root: User, arguments: Any):
    for server in (serve(), serve_admin()):
        refuse(connect(server, root), **arguments, values={"note": "x"})
    assert notes() == {"A-0": "ring"}


@pytest.mark.parametrize("values", [{}, {"number": "X"}, {"status": "lost"}, {"password": "x"}])
def test_values_that_are_none_are_refused(root: User, values: Any):
    for server, key in ((serve(), "number"), (serve_admin(), "pk")):
        client = connect(server, root)
        keys = list(Order.objects.values_list(key, flat=True))
        refuse(client, ids=keys, values=values)


def test_501_objects_are_too_many():
    root = User.objects.create_superuser("root", password="secret-of-root")
    Product.objects.bulk_create(
        Product(sku=f"m-{n}", name="Many", category="garden", price=1) for n in range(501)
    )

    class Products(ModelTools):
        model = Product
        fields = ["sku", "name", "category"]
        filters = ["category"]
        writes = ["update"]
        everyone = True
        update_many = True

    client = connect(serve(Products), root)
    arguments: dict[str, Any] = {"filters": {"category": "garden"}, "values": {"name": "New"}}

    told = refuse(client, "update_many_products", **arguments)
    assert told == "/filters: selects more than 500 objects. Narrow it."
    Product.objects.get(sku="m-0").delete()
    assert read(client, "update_many_products", **arguments)["count"] == 500


def test_hidden_objects_are_unknown(root: User):
    server = serve()
    client = connect(server, User.objects.get(username="ann"))

    hidden = refuse(client, ids=["A-1", "B-3"], values={"note": "x"})
    assert hidden == refuse(client, ids=["A-1", "X-9"], values={"note": "x"})
    assert hidden == "/ids/1: Not found."
    assert read(client, filters={"status": "placed"}, values={"note": "x"})["count"] == 1


def test_the_check_of_the_tool_for_one_object_is_asked_about_each(root: User):
    def may_change(user: Any, number: str, note: str = "") -> bool:
        return number != "A-1" and note != "forbidden"

    server = serve(check=may_change, include=["update", "update_many"])
    client = connect(server, root)

    assert refuse(client, ids=["A-0", "A-1"], values={"note": "x"}) == "/ids/1: Not found."
    assert read(client, filters={"status": "placed"}, values={"note": "x"})["count"] == 1
    assert read(client, filters={"status": "placed"}, values={"note": "forbidden"})["count"] == 0


def test_the_admin_decides_about_each_object(root: User):
    client = connect(serve_admin(), root)
    keys = list(Order.objects.order_by("number").values_list("pk", flat=True))

    assert refuse(client, ids=keys, values={"note": "x"}) == "/ids/3: Not found."
    done = change(client, filters={"status": "placed"}, values={"note": "x"})
    assert done["count"] == 1
    assert notes() == {"A-0": "ring", "A-1": "x"}
    assert LogEntry.objects.get().object_repr == "A-1"
    client.assert_conforms()


def test_who_may_not_change_objects_has_no_such_tool(root: User):
    server = serve_admin()
    staff = User.objects.create_user("staff", is_staff=True)
    staff.user_permissions.add(Permission.objects.get(codename="view_order"))

    with pytest.raises(UnknownTool):
        connect(server, staff).call("update_many_orders", ids=[1], values={"note": "x"})
    with pytest.raises(UnknownTool):
        connect(serve(), None).call("update_many_orders", ids=["A-1"], values={"note": "x"})


def test_rights_are_not_given_to_several_users(root: User):
    server = serve_admin(User, UserAdmin)
    client = connect(server, root)
    tools = {tool["name"]: tool for tool in client.list_tools()}
    values = tools["update_many_users"]["inputSchema"]["properties"]["values"]["properties"]

    assert "first_name" in values
    assert not {"is_superuser", "is_staff", "groups", "user_permissions", "password"} & set(values)
    ann = User.objects.get(username="ann")
    refuse(client, "update_many_users", ids=[ann.pk], values={"is_superuser": True})
    done = change(client, "update_many_users", ids=[ann.pk], values={"first_name": "Ann"})
    assert done["count"] == 1


# -- which tool it is


def names(client: MCPClient) -> list[str]:
    return sorted(tool["name"] for tool in client.list_tools())


def test_there_is_no_tool_without_the_option(root: User):
    class Plain(Orders):
        update_many = False

    assert "update_many_orders" not in names(connect(serve(Plain), root))
    assert "update_many_orders" not in names(connect(serve(exclude=["update"]), root))
    assert "update_many_orders" not in names(connect(serve(exclude=["update_many"]), root))
    assert "update_many_orders" not in names(connect(serve_admin(update_many=False), root))
    assert "update_many_orders" not in names(connect(serve_admin(exclude=["update"]), root))


def test_the_option_needs_the_tool_for_one_object():
    class Wrong(Orders):
        writes = ["delete"]

    faults = Wrong.register(server=make_server()).find_faults()

    assert [each.id for each in faults] == ["django_mcp.M005"]


def test_one_compact_tool_changes_objects_of_all_models(root: User, calls: list[Any]):
    for server in (serve(style="compact"), serve_admin(style="compact")):
        client = connect(server, root)
        assert "update_many_objects" in names(client)
        assert "update_many_orders" not in names(client)
        arguments: dict[str, Any] = {
            "model": "shop.order",
            "filters": {"search": "A-1"},
            "values": {"note": "compact"},
        }

        assert change(client, "update_many_objects", **arguments)["count"] == 1
        assert notes()["A-1"] == "compact"
        described = read(client, "describe_model", model="shop.order", action="update_many")
        told = described["actions"]["update_many"]
        assert told["tool"] == "update_many_objects"
        assert "note" in told["arguments"]["properties"]["values"]["properties"]
        flush_calls()
        assert calls.count(("update_many_orders", "done")) == 2
        calls.clear()
        Order.objects.filter(number="A-1").update(note="")


def test_a_tool_of_its_own_can_be_throttled_by_its_name(root: User):
    server = serve(annotations={"update_many": {"throttle": "1/m"}})
    client = connect(server, root)

    assert read(client, ids=["A-1"], values={"note": "x"})["count"] == 1
    with pytest.raises(MCPError, match="Too many requests"):
        client.call("update_many_orders", ids=["A-1"], values={"note": "x"})
    assert read(client, "update_order", number="A-1", note="x")["note"] == "x"
