"""Inlines: rows of other models that tools show and write with an object."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django import forms
from django.contrib import admin
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth.models import Group, Permission, User
from django.contrib.contenttypes.admin import GenericStackedInline
from django.contrib.contenttypes.models import ContentType
from django.forms.models import BaseInlineFormSet

from django_mcp.models import APIKey
from example_project.shop.models import Order, OrderLine, Product
from tests.support.library.models import Book
from tests.support.queries import captured_queries
from tests.unit.contrib.modeladmin.test_reading import read, refuse
from tests.unit.contrib.modeladmin.test_rules import replace
from tests.unit.contrib.modeladmin.test_writing import told

pytestmark = pytest.mark.django_db


class Lines(admin.TabularInline):
    model: Any = OrderLine
    extra = 2


class WithLines(admin.ModelAdmin):
    fields = ["number", "status", "note", "placed_at"]
    inlines = [Lines]


@pytest.fixture
def site(site: admin.AdminSite) -> admin.AdminSite:
    replace(site, Order, WithLines)
    return site


def with_inline(**attributes: Any) -> Any:
    inline = type("Own", (Lines,), attributes)
    return type("WithOwn", (WithLines,), {"inlines": [inline]})


def lines_of(order: Order) -> list[tuple[str, int]]:
    lines = order.lines.order_by("pk").values_list("product__sku", "quantity")
    return list(lines)


def make_products(*names: str) -> list[Product]:
    return [Product.objects.create(sku=each, name=each, price=1) for each in names]


def test_rows_are_shown_with_their_object(make_client: Any, root: User, orders: list[Order]):
    first, second = orders[0].lines.order_by("pk")

    shown = read(make_client(root), "get_order", id=orders[0].pk)

    assert shown["lines"] == [
        {
            "id": line.pk,
            "product": {"pk": line.product_id, "text": str(line.product)},
            "quantity": line.quantity,
            "unit_price": str(line.unit_price),
        }
        for line in (first, second)
    ]


def test_rows_are_changed_added_and_deleted_and_the_others_stay(
    make_client: Any, root: User, orders: list[Order]
):
    (order, *_others), (new, *_more) = orders, make_products("new", "kept")
    first, second = order.lines.order_by("pk")
    kept = OrderLine.objects.create(order=order, product=_more[0], quantity=7, unit_price=1)
    sent = [
        {"id": second.pk, "_delete": True},
        {"product": new.pk, "quantity": 3, "unit_price": "2.50"},
        {"id": first.pk, "quantity": 5},
    ]

    shown = read(make_client(root), "update_order", id=order.pk, lines=sent)

    assert lines_of(order) == [("p-0", 5), ("kept", 7), ("new", 3)]
    assert [line["quantity"] for line in shown["lines"]] == [5, 7, 3]
    first.refresh_from_db()
    kept.refresh_from_db()
    assert str(first.unit_price) == "0.00"
    assert kept.quantity == 7
    changes = json.loads(LogEntry.objects.get(action_flag=CHANGE).change_message)
    assert [(*each,) for each in changes] == [("added",), ("changed",), ("deleted",)]
    assert changes[1]["changed"]["fields"] == ["Quantity"]


def test_an_update_that_sends_the_rows_back_changes_none(
    make_client: Any, root: User, orders: list[Order]
):
    client = make_client(root)
    shown = read(client, "get_order", id=orders[0].pk)
    sent = [{**line, "product": line["product"]["pk"]} for line in shown["lines"]]

    assert read(client, "update_order", id=orders[0].pk, lines=sent) == shown
    assert LogEntry.objects.get().get_change_message() == "No fields changed."


def test_an_object_is_added_with_its_rows(make_client: Any, root: User, db: Any):
    (product,) = make_products("new")
    sent = [{"product": product.pk, "quantity": 3, "unit_price": 2}]

    made = read(
        make_client(root),
        "create_order",
        number="C-1",
        placed_at="2026-01-01T00:00:00Z",
        lines=sent,
    )

    assert lines_of(Order.objects.get(pk=made["id"])) == [("new", 3)]
    assert len(made["lines"]) == 1


def test_an_empty_row_is_refused_and_not_left_out(
    make_client: Any, root: User, orders: list[Order]
):
    error = refuse(make_client(root), "update_order", id=orders[0].pk, lines=[{}])

    assert "/lines/0/quantity: This field is required." in error


def test_errors_name_the_argument_and_nothing_is_written(
    make_client: Any, root: User, orders: list[Order]
):
    client, order = make_client(root), orders[0]
    first, second = order.lines.order_by("pk")
    sent = [{"id": first.pk, "quantity": 9}, {"id": second.pk, "product": 0}]

    error = refuse(client, "update_order", id=order.pk, number="B-3", lines=sent)

    assert "/lines/1/product: " in error
    assert "/number: " in error
    assert lines_of(order) == [("p-0", 1), ("p-1", 2)]
    error = refuse(
        client,
        "create_order",
        number="C-1",
        placed_at="2026-01-01T00:00:00Z",
        lines=[{"product": first.product_id, "quantity": 1}],
    )
    assert "/lines/0/unit_price: This field is required." in error
    assert not Order.objects.filter(number="C-1").exists()


def test_rows_of_another_object_are_not_found(make_client: Any, root: User, orders: list[Order]):
    client, foreign = make_client(root), orders[1].lines.order_by("pk")[0]

    for sent in ({"quantity": 9}, {"_delete": True}, {}):
        error = refuse(client, "update_order", id=orders[0].pk, lines=[{"id": foreign.pk, **sent}])
        assert "/lines/0/id: Not found." in error
    assert "/lines/0/id: Not found." in refuse(
        client, "update_order", id=orders[0].pk, lines=[{"id": 10**30}]
    )
    foreign.refresh_from_db()
    assert foreign.quantity == 1


def test_a_row_is_named_once(make_client: Any, root: User, orders: list[Order]):
    line = orders[0].lines.order_by("pk")[0]
    sent = [{"id": line.pk, "quantity": 2}, {"id": line.pk, "quantity": 3}]

    error = refuse(make_client(root), "update_order", id=orders[0].pk, lines=sent)

    assert "/lines/1/id: This row is named twice." in error


def test_rows_are_unique_together_with_those_that_stay(
    make_client: Any, root: User, orders: list[Order]
):
    product = orders[0].lines.order_by("pk")[0].product_id
    sent = [{"product": product, "quantity": 1, "unit_price": 1}]

    error = refuse(make_client(root), "update_order", id=orders[0].pk, lines=sent)

    assert "/lines/0" in error
    assert orders[0].lines.count() == 2


# -- rights


def test_an_inline_that_the_user_does_not_have_is_unknown(
    make_client: Any, make_staff: Any, orders: list[Order]
):
    client = make_client(make_staff("staff", "shop.view_order", "shop.change_order"))
    line = orders[0].lines.order_by("pk")[0]

    assert "lines" not in read(client, "get_order", id=orders[0].pk)
    assert "lines" not in read(client, "update_order", id=orders[0].pk, note="soon")
    for sent in ([], [{"id": line.pk, "quantity": 9}]):
        error = refuse(client, "update_order", id=orders[0].pk, lines=sent)
        assert "/lines: You cannot set this field." in error
    assert lines_of(orders[0]) == [("p-0", 1), ("p-1", 2)]


@pytest.mark.parametrize("verb", ["view", "add", "change", "delete"])
def test_the_permissions_of_the_inline_hold(
    make_client: Any, make_staff: Any, orders: list[Order], verb: str
):
    rights = ["shop.view_order", "shop.change_order", f"shop.{verb}_orderline", "shop.view_product"]
    client, order = make_client(make_staff("staff", *rights)), orders[0]
    (product,) = make_products("new")
    first, second = order.lines.order_by("pk")
    is_shown = verb in ("view", "change")
    attempts = {
        "change": {"id": first.pk, "quantity": 9},
        "delete": {"id": second.pk, "_delete": True},
        "add": {"product": product.pk, "quantity": 3, "unit_price": 1},
    }

    assert ("lines" in read(client, "get_order", id=order.pk)) == is_shown
    for name, row in attempts.items():
        # As on the page, who may not see rows cannot delete them.
        if name == verb and name != "delete":
            read(client, "update_order", id=order.pk, lines=[row])
        else:
            error = refuse(client, "update_order", id=order.pk, lines=[row])
            assert "/lines/0" in error
    changed = {"change": [("p-0", 9), ("p-1", 2)], "add": [("p-0", 1), ("p-1", 2), ("new", 3)]}
    assert lines_of(order) == changed.get(verb, [("p-0", 1), ("p-1", 2)])
    if verb == "view":
        same = [{"id": first.pk, "quantity": first.quantity}]
        read(client, "update_order", id=order.pk, lines=same)


def test_rows_that_give_rights_ask_the_user(
    make_client: Any, make_staff: Any, root: User, site: Any
):
    members = type("Members", (admin.TabularInline,), {"model": User.groups.through})
    site.register(Group, type("Groups", (admin.ModelAdmin,), {"inlines": [members]}))
    client = make_client(root, Group, capabilities={}, allow_sensitive=["permissions"])
    group, user = Group.objects.create(name="clerks"), make_staff("staff")
    sent = {"id": group.pk, "User_groups": [{"user": user.pk}]}

    question = read(client, "update_group", **sent)

    assert "User: staff" in question["message"]
    assert not user.groups.exists()
    shown = read(client, "update_group", **sent, confirmation=question["confirmation"])
    assert [row["user"]["text"] for row in shown["User_groups"]] == ["staff"]
    assert user.groups.exists()
    sent["User_groups"] = [{"id": shown["User_groups"][0]["id"], "_delete": True}]
    assert "confirmation" in read(client, "update_group", **sent)
    assert user.groups.exists()


class Granting(forms.ModelForm):
    """Has a field of its own that gives rights."""

    grants = forms.ModelMultipleChoiceField(Permission.objects.all(), required=False)


def test_a_new_row_whose_form_alone_gives_rights_asks_the_user(
    make_client: Any, root: User, site: Any, orders: list[Order]
):
    replace(site, Order, with_inline(form=Granting))
    client, (product,) = make_client(root, capabilities={}), make_products("new")
    row = {"product": product.pk, "quantity": 1, "unit_price": 1}
    sent = {
        "id": orders[0].pk,
        "lines": [{**row, "grants": [Permission.objects.order_by("pk")[0].pk]}],
    }

    question = read(client, "update_order", **sent)

    assert "grants: " in question["message"]
    assert orders[0].lines.count() == 2
    read(client, "update_order", **sent, confirmation=question["confirmation"])
    assert orders[0].lines.count() == 3
    orders[0].lines.all().delete()
    read(client, "update_order", id=orders[0].pk, lines=[row])
    assert orders[0].lines.count() == 1


class OfUser(forms.BaseInlineFormSet):
    """Knows the request, as its inline has put it there."""

    request: Any

    def get_queryset(self) -> Any:
        rows = super().get_queryset()
        return rows if self.request.user.is_superuser else rows.filter(quantity__lt=2)


def _make_formset_of_user(self: Any, request: Any, obj: Any = None, **options: Any) -> Any:
    formset = super(Lines, self).get_formset(request, obj, **options)
    formset.request = request
    return formset


def _make_formsets_of_user(self: Any, request: Any, obj: Any = None) -> Any:
    for formset, inline in super(WithLines, self).get_formsets_with_inlines(request, obj):
        formset.request = request
        yield formset, inline


@pytest.mark.parametrize("is_of_inline", [True, False])
def test_a_formset_that_the_site_makes_for_a_user_says_which_rows_are_shown(
    make_client: Any,
    make_staff: Any,
    root: User,
    site: Any,
    orders: list[Order],
    is_of_inline: bool,
):
    hook = {"get_formset": _make_formset_of_user} if is_of_inline else {}
    cls = with_inline(formset=OfUser, **hook)
    if not is_of_inline:
        cls.get_formsets_with_inlines = _make_formsets_of_user
    replace(site, Order, cls)
    rights = ["shop.view_order", "shop.view_orderline"]
    staff = make_staff("staff", *rights)

    of_root, of_staff = (
        read(make_client(user), "get_order", id=orders[0].pk)["lines"] for user in (root, staff)
    )

    assert [line["quantity"] for line in of_root] == [1, 2]
    assert [line["quantity"] for line in of_staff] == [1]


# -- rules of the formset


def test_attributes_that_the_site_sets_on_an_inline_for_a_user_decide_what_is_shown(
    make_client: Any, make_staff: Any, site: Any, root: User, orders: list[Order]
):
    class Small(BaseInlineFormSet):
        def get_queryset(self) -> Any:
            return super().get_queryset().filter(product__sku="p-0")

    class Personal(WithLines):
        def get_inline_instances(self, request: Any, obj: Any = None) -> Any:
            inlines: Any = super().get_inline_instances(request, obj)
            for inline in inlines:
                if not request.user.is_superuser:
                    inline.exclude, inline.formset = ["unit_price"], Small
            return inlines

    replace(site, Order, Personal)
    staff, order = make_staff("staff", "shop.view_order", "shop.view_orderline"), orders[0]

    (line,) = read(make_client(staff), "get_order", id=order.pk)["lines"]

    assert line["id"] == order.lines.get(product__sku="p-0").pk
    assert "unit_price" not in line
    of_root = read(make_client(root), "get_order", id=order.pk)["lines"]
    assert len(of_root) == 2
    assert all("unit_price" in each for each in of_root)


def test_an_object_keeps_as_many_rows_as_its_page_has(
    make_client: Any, site: Any, root: User, orders: list[Order]
):
    replace(site, Order, with_inline(min_num=2, max_num=2))
    client = make_client(root)
    line, (product,) = orders[0].lines.order_by("pk")[0], make_products("new")
    tools = {tool["name"]: tool for tool in client.list_tools()}
    create = tools["create_order"]["inputSchema"]

    assert create["properties"]["lines"]["minItems"] == 2
    assert "lines" in create["required"]
    error = refuse(
        client, "update_order", id=orders[0].pk, lines=[{"id": line.pk, "_delete": True}]
    )
    assert "/lines: At least 2 are needed." in error
    more = {"product": product.pk, "quantity": 1, "unit_price": 1}
    error = refuse(client, "update_order", id=orders[0].pk, lines=[more])
    assert "/lines: At most 2 are allowed." in error
    read(client, "update_order", id=orders[0].pk, lines=[more, {"id": line.pk, "_delete": True}])
    assert lines_of(orders[0]) == [("p-1", 2), ("new", 1)]


class AtMostTen(forms.BaseInlineFormSet):
    def clean(self) -> None:
        super().clean()
        kept = [form for form in self.forms if not form.cleaned_data.get("DELETE")]
        if sum(form.cleaned_data["quantity"] for form in kept) > 10:
            raise forms.ValidationError("No more than ten.")
        if self.instance.note == "none" and kept:
            raise forms.ValidationError("There must be none.")


def test_the_formset_judges_rows_that_are_sent_with_those_that_stay(
    make_client: Any, site: Any, root: User, orders: list[Order]
):
    replace(site, Order, with_inline(formset=AtMostTen))
    client, (first, second) = make_client(root), orders[0].lines.order_by("pk")

    error = refuse(client, "update_order", id=orders[0].pk, lines=[{"id": first.pk, "quantity": 9}])
    assert "/lines: No more than ten." in error
    read(client, "update_order", id=orders[0].pk, lines=[{"id": first.pk, "quantity": 8}])
    # The rule is about the object as well.
    error = refuse(client, "update_order", id=orders[0].pk, note="none")
    assert "There must be none." in error
    read(
        client,
        "update_order",
        id=orders[0].pk,
        note="none",
        lines=[{"id": each.pk, "_delete": True} for each in (first, second)],
    )
    assert lines_of(orders[0]) == []


def test_the_hooks_of_the_admin_save_the_rows(
    make_client: Any, site: Any, root: User, orders: list[Order]
):
    class Noting(WithLines):
        def save_formset(self, request: Any, form: Any, formset: Any, change: bool) -> None:
            for line in formset.save(commit=False):
                line.quantity += 100
                line.save()
            formset.save_m2m()

    replace(site, Order, Noting)
    line = orders[0].lines.order_by("pk")[0]

    read(make_client(root), "update_order", id=orders[0].pk, lines=[{"id": line.pk, "quantity": 5}])

    assert lines_of(orders[0]) == [("p-0", 105), ("p-1", 2)]


def test_the_hooks_of_the_admin_find_the_rows_in_the_data_of_the_request(
    make_client: Any, site: Any, root: User, orders: list[Order]
):
    sent: list[dict[str, str]] = []

    class Hooked(WithLines):
        def save_related(self, request: Any, form: Any, formsets: Any, change: bool) -> None:
            sent.append(request.POST.dict())
            super().save_related(request, form, formsets, change)

    replace(site, Order, Hooked)
    (order, *_others), (new,) = orders, make_products("new")
    first, second = order.lines.order_by("pk")
    lines = [
        {"id": second.pk, "_delete": True},
        {"product": new.pk, "quantity": 3, "unit_price": "2.50"},
    ]

    read(make_client(root), "update_order", id=order.pk, note="n", lines=lines)

    assert sent == [
        {
            "note": "n",
            "lines-TOTAL_FORMS": "3",
            "lines-INITIAL_FORMS": "2",
            "lines-0-id": str(first.pk),
            "lines-1-id": str(second.pk),
            "lines-1-DELETE": "on",
            "lines-2-product": str(new.pk),
            "lines-2-quantity": "3",
            "lines-2-unit_price": "2.50",
        }
    ]


def test_an_error_of_the_database_undoes_the_object_and_its_rows(
    make_client: Any, site: Any, root: User, orders: list[Order]
):
    class Breaking(WithLines):
        def save_formset(self, request: Any, form: Any, formset: Any, change: bool) -> None:
            super().save_formset(request, form, formset, change)
            Order.objects.create(number="B-3", placed_at=orders[0].placed_at)

    replace(site, Order, Breaking)
    line = orders[0].lines.order_by("pk")[0]

    error = refuse(
        make_client(root),
        "update_order",
        id=orders[0].pk,
        note="soon",
        lines=[{"id": line.pk, "quantity": 5}],
    )

    assert "conflicts" in error
    orders[0].refresh_from_db()
    assert orders[0].note != "soon"
    assert lines_of(orders[0]) == [("p-0", 1), ("p-1", 2)]


# -- kinds of inlines


def test_a_name_that_the_page_has_already_is_not_that_of_the_rows(
    make_client: Any, site: Any, root: User, orders: list[Order]
):
    class Counting(WithLines):
        readonly_fields = ["lines"]
        fields = [*WithLines.fields, "lines"]

        def lines(self, order: Order) -> int:
            return 2

    replace(site, Order, Counting)

    shown = read(make_client(root), "get_order", id=orders[0].pk)

    assert shown["lines"] == 2
    assert len(shown["lines_rows"]) == 2


def test_generic_inlines_are_shown_and_written(make_client: Any, site: Any, root: User):
    class Entries(GenericStackedInline):
        model = LogEntry
        ct_field, ct_fk_field = "content_type", "object_id"
        fields = ["user", "action_flag", "object_repr", "change_message"]

    replace(site, Book, type("WithEntries", (admin.ModelAdmin,), {"inlines": [Entries]}))
    client = make_client(root, Book)
    books = [Book.objects.create(isbn=isbn, title="Emma") for isbn in ("1", "2")]
    kind = ContentType.objects.get_for_model(Book)
    entries = [
        LogEntry.objects.create(
            user=root, action_flag=CHANGE, content_type=kind, object_id=book.pk, object_repr="old"
        )
        for book in books
    ]
    new = {"user": root.pk, "action_flag": 1, "object_repr": "new"}
    sent = [{"id": entries[0].pk, "object_repr": "changed"}, new]

    read(client, "update_book", isbn="1", logentry_set=sent)

    texts = (
        LogEntry.objects.filter(object_id="1").order_by("pk").values_list("object_repr", flat=True)
    )
    assert list(texts)[:2] == ["changed", "new"]
    error = refuse(client, "update_book", isbn="1", logentry_set=[{"id": entries[1].pk}])
    assert "/logentry_set/0/id: Not found." in error


def test_more_rows_cost_no_more_queries(make_client: Any, root: User, orders: list[Order]):
    client = make_client(root)
    counted = []
    for number in range(2):
        if number:
            for product in make_products(*"abcdef"):
                OrderLine.objects.create(order=orders[0], product=product, quantity=1, unit_price=1)
        with captured_queries() as shown:
            read(client, "get_order", id=orders[0].pk)
        with captured_queries() as written:
            line = orders[0].lines.order_by("pk")[0]
            sent = [{"id": line.pk, "quantity": 10 + number}]
            read(client, "update_order", id=orders[0].pk, lines=sent)
        counted.append((len(shown), len(written)))

    assert counted[0] == counted[1]


def test_inlines_of_secrets_are_left_out(make_client: Any, site: Any, root: User):
    keys = type("Keys", (admin.TabularInline,), {"model": APIKey})
    replace(site, User, type("WithKeys", (admin.ModelAdmin,), {"inlines": [keys]}))
    client = make_client(root, User)

    assert not {"api_keys", "apikey_set"} & set(read(client, "get_user", id=root.pk))
    assert "the inline of django_mcp.APIKey is left out: its app decides who gets in" in told(
        client
    )


def test_an_inline_that_is_only_looked_at_is_no_argument(
    make_client: Any, site: Any, root: User, orders: list[Order]
):
    def never(*_values: Any) -> bool:
        return False

    names = ("add", "change", "delete")
    replace(site, Order, with_inline(**{f"has_{name}_permission": never for name in names}))
    client = make_client(root)

    assert len(read(client, "get_order", id=orders[0].pk)["lines"]) == 2
    for tool in client.list_tools():
        assert "lines" not in tool["inputSchema"]["properties"]


class Few(Lines):
    max_num = 3

    def get_formset(self, request: Any, obj: Any = None, **kwargs: Any) -> Any:
        return super().get_formset(request, obj, absolute_max=3, **kwargs)


def test_an_object_with_more_rows_than_a_formset_takes_is_refused_before_they_are_loaded(
    site: admin.AdminSite, make_client: Any, root: User, orders: list[Order]
):
    replace(site, Order, type("WithFew", (WithLines,), {"inlines": [Few]}))
    client, order = make_client(root), orders[0]
    first, _second = order.lines.order_by("pk")
    sent = [{"id": first.pk, "quantity": 5}]
    others = make_products("third", "fourth", "fifth")
    OrderLine.objects.create(order=order, product=others[0], quantity=1, unit_price=1)
    read(client, "update_order", id=order.pk, lines=sent)
    for other in others[1:]:
        OrderLine.objects.create(order=order, product=other, quantity=1, unit_price=1)

    with captured_queries() as queries:
        error = refuse(client, "update_order", id=order.pk, lines=sent)

    assert "/lines: At most 3 are allowed." in error
    of_rows = [sql for sql in queries if 'FROM "shop_orderline"' in sql]
    assert of_rows
    assert all("LIMIT 4" in sql for sql in of_rows), of_rows
