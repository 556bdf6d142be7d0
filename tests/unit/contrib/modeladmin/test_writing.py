"""The tools that write: their effects, validation and permissions."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from django import forms
from django.contrib import admin, messages
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.core.checks import run_checks
from django.db import models
from django.http import HttpResponse, HttpResponseRedirect
from django.test.utils import isolate_apps

from django_mcp.protocol.revisions import REVISIONS
from django_mcp.test import MCPClient
from example_project.shop.models import Order, OrderLine, Product
from tests.support.library.models import Book, Event, Loan, Shelf, Tag
from tests.support.spellings import UUID_SPELLINGS
from tests.unit.contrib.modeladmin.conftest import Books, Orders, OwnOrders
from tests.unit.contrib.modeladmin.test_reading import read, refuse
from tests.unit.contrib.modeladmin.test_rules import replace

pytestmark = pytest.mark.django_db


class AllOrders(Orders):
    fields = ["number", "customer", "status", "note", "placed_at"]
    readonly_fields = []


class AllBooks(Books):
    fields = [*Books.fields, "removed_at"]


@pytest.fixture
def site(site: admin.AdminSite) -> admin.AdminSite:
    for model, cls in ((Order, AllOrders), (Book, AllBooks)):
        site.unregister(model)
        site.register(model, cls)
    return site


def told(client: MCPClient) -> str:
    """Return the system check messages about the tools of a client's server."""
    found = run_checks(tags=["django_mcp"])
    return "\n".join(each.msg for each in found if each.obj is client.server)


# -- add and change


def test_an_object_is_added_as_in_the_admin(make_client: Any, root: User, orders: list[Order]):
    client = make_client(root)

    made = read(client, "create_order", number="C-1", placed_at="2026-02-01T00:00:00Z")

    order = Order.objects.get(pk=made["id"])
    assert (order.number, order.status, made["number"]) == ("C-1", "placed", "C-1")
    entry = LogEntry.objects.get()
    assert (entry.user, entry.object_repr, entry.is_addition()) == (root, "C-1", True)


def test_an_object_that_save_model_does_not_save_is_an_error(
    make_client: Any, site: Any, root: User, orders: list[Order], caplog: pytest.LogCaptureFixture
):
    class Forgetful(AllOrders):
        def save_model(self, request: Any, obj: Any, form: Any, change: bool) -> None:
            if form.cleaned_data["note"]:
                self.message_user(request, "We are closed.", messages.ERROR)

    replace(site, Order, Forgetful)
    client = make_client(root)
    values = {"number": "C-1", "placed_at": "2026-02-01T00:00:00Z"}

    for note, answer in (
        ("", "The order was not saved."),
        ("x", "The order was not saved. We are closed."),
    ):
        result = client.call("create_order", note=note, **values)
        assert (result.is_error, result.text) == (True, answer)

    assert "Forgetful.save_model() has not saved the new order" in caplog.text
    assert not LogEntry.objects.exists()


def test_a_change_keeps_unnamed_fields(make_client: Any, root: User, orders: list[Order]):
    client = make_client(root)

    done = read(client, "update_order", id=orders[0].pk, status="cancelled")

    order = Order.objects.get(pk=orders[0].pk)
    assert (order.status, order.note, order.customer) == ("cancelled", "ring", orders[0].customer)
    assert done["status"] == "cancelled"
    entry = LogEntry.objects.get()
    assert json.loads(entry.change_message) == [{"changed": {"fields": ["Status"]}}]


def test_the_hooks_of_the_admin_run(make_client: Any, site: Any, root: User, orders: list[Order]):
    class Hooked(AllOrders):
        def get_form(
            self, request: Any, obj: Any = None, change: bool = False, **kwargs: Any
        ) -> Any:
            made = super().get_form(request, obj, change, **kwargs)
            made.base_fields["note"].required = True
            return made

        def get_changeform_initial_data(self, request: Any) -> Any:
            return {"note": "new"}

        def save_model(self, request: Any, obj: Any, form: Any, change: bool) -> None:
            obj.note += f" by {request.user}"
            super().save_model(request, obj, form, change)

    site.unregister(Order)
    site.register(Order, Hooked)
    client = make_client(root)

    made = read(client, "create_order", placed_at="2026-02-01T00:00:00Z", note="x")

    assert made["note"] == "x by root"
    assert "/note" in refuse(client, "update_order", id=orders[0].pk, note="")


def test_a_split_datetime_field_can_be_changed_or_omitted(
    make_client: Any, root: User, orders: list[Order]
):
    client = make_client(root, Order, User, Book)

    made = read(client, "create_book", isbn="1", title="One", removed_at=None)
    assert made["title"] == "One"
    assert not read(client, "create_book", isbn="2", title="Two").get("removed_at")
    done = read(client, "update_order", id=orders[0].pk, placed_at="2026-05-01T14:00:00+02:00")
    assert done["placed_at"] == "2026-05-01T12:00:00Z"
    assert read(client, "update_user", id=root.pk, last_login=None)["last_login"] is None
    entry = LogEntry.objects.get(object_repr="A-0")
    assert json.loads(entry.change_message) == [{"changed": {"fields": ["Placed at"]}}]
    for wrong in ("soon", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"):
        assert "/placed_at: " in refuse(client, "update_order", id=orders[0].pk, placed_at=wrong)


def test_security_a_new_object_does_not_overwrite_a_hidden_one(make_client: Any, root: User):
    Book.objects.create(isbn="1", title="Gone", removed_at="2026-01-01T00:00:00Z")

    text = refuse(make_client(root, Book), "create_book", isbn="1", title="New")

    assert "/isbn: Book with this ISBN already exists." in text
    assert Book.everything.get().title == "Gone"


def test_errors_come_by_field(make_client: Any, root: User, orders: list[Order]):
    client = make_client(root)

    text = refuse(
        client, "create_order", number="A-0", placed_at="2026-02-01T00:00:00Z", customer=10**6
    )

    assert "/number: Order with this Number already exists." in text
    assert "/customer: Select a valid choice." in text
    assert not LogEntry.objects.exists()


def test_database_errors_are_reported(make_client: Any, site: Any, root: User):
    class Places(admin.ModelAdmin):
        fields = ["isbn", "title", "place"]

    shelf = Shelf.objects.create(name="a", owner=root)
    Book.objects.create(isbn="1", title="One", shelf=shelf, place=1)
    Book.objects.create(isbn="2", title="Two", shelf=shelf, place=2)
    site.unregister(Book)
    site.register(Book, Places)

    text = refuse(make_client(root, Book), "update_book", isbn="2", place=1)

    assert "a value is already in use" in text


@pytest.mark.parametrize("revision", sorted(each.name for each in REVISIONS))
def test_the_tools_conform_in_every_revision(
    make_client: Any, root: User, orders: list[Order], revision: str
):
    client = MCPClient(make_client(root).server, user=root, revision=revision)

    read_or_text = client.call("update_order", id=orders[0].pk, status="cancelled")
    client.call("ship_orders", ids=[orders[0].pk])

    assert not read_or_text.is_error
    client.assert_conforms()


# -- read-only fields


class WithLoans(Books):
    inlines = [type("Inline", (admin.TabularInline,), {"model": Loan, "extra": 0, "min_num": 1})]


class SomeLoans(forms.BaseInlineFormSet):
    def clean(self) -> None:
        super().clean()
        if not any(form.has_changed() for form in self.forms):
            raise forms.ValidationError("Lend it at least once.")


class WithSomeLoans(Books):
    inlines = [type("Inline", (admin.TabularInline,), {"model": Loan, "formset": SomeLoans})]


class WithLoansOfStaff(WithLoans):
    def get_inlines(self, request: Any, obj: Any) -> Any:
        return [] if request.user.is_superuser else super().get_inlines(request, obj)


class WithOptionalLoans(Books):
    inlines = [type("Inline", (admin.TabularInline,), {"model": Loan})]


class WithReceipt(forms.ModelForm):
    receipt = forms.FileField()

    class Meta:
        model = Loan
        fields = ["days"]


class WithLoansAndReceipts(Books):
    inlines = [
        type(
            "Inline",
            (admin.TabularInline,),
            {"model": Loan, "extra": 0, "min_num": 1, "form": WithReceipt},
        )
    ]


def test_what_needs_rows_that_no_tool_adds_is_not_added(make_client: Any, site: Any, root: User):
    replace(site, Book, WithLoansAndReceipts)
    client = make_client(root, Book)

    assert "create_book" not in [tool["name"] for tool in client.list_tools()]
    found = told(client)
    assert "its page requires rows of loans, which no tool adds" in found
    assert "no tool adds rows of loans: the field 'receipt' requires a file" in found


@pytest.mark.parametrize(
    ("cls", "told"),
    [
        (WithSomeLoans, "loans: Lend it at least once."),
        (WithLoansOfStaff, "loans: At least 1 are needed."),
    ],
)
def test_the_inlines_of_the_page_decide_whether_an_object_is_added(
    make_client: Any, make_staff: Any, site: Any, cls: Any, told: str
):
    replace(site, Book, cls)
    verbs = ("view", "add", "change")
    staff = make_staff("staff", *(f"library.{v}_{m}" for v in verbs for m in ("book", "loan")))
    client = make_client(staff, Book)

    assert told in refuse(client, "create_book", isbn="1", title="Emma")
    assert not Book.objects.exists()


def test_an_object_with_optional_inlines_is_added(make_client: Any, site: Any, root: User):
    replace(site, Book, WithOptionalLoans)

    read(make_client(root, Book), "create_book", isbn="1", title="Emma")

    assert Book.objects.get().loans.count() == 0


class Lending(forms.ModelForm):
    lend = forms.BooleanField(required=False)

    class Meta:
        model = Book
        fields = ["isbn", "title"]


class WithLending(admin.ModelAdmin):
    form: Any = Lending

    def lend(self, book: Book) -> str:
        Loan.objects.create(book=book)
        return "lent"

    def save_model(self, request: Any, obj: Any, form: Any, change: Any) -> None:
        super().save_model(request, obj, form, change)
        if form.cleaned_data["lend"]:
            self.lend(obj)


class WithLendingByUser(WithLending):
    def get_fields(self, request: Any, obj: Any = None) -> Any:
        return ["isbn", "title", "lend"]


class LendingWhenMade(forms.ModelForm):
    class Meta:
        model = Book
        fields = ["isbn", "title"]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["lend"] = forms.BooleanField(required=False)


class WithLendingWhenMade(WithLendingByUser):
    form = LendingWhenMade

    def get_form(self, request: Any, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        return super().get_form(
            request, obj, change=change, **{**kwargs, "fields": ["isbn", "title"]}
        )


@pytest.mark.parametrize("cls", [WithLending, WithLendingByUser])
def test_a_field_of_the_form_alone_runs_no_method_of_its_name(
    make_client: Any, site: Any, root: User, cls: Any
):
    replace(site, Book, cls)
    client = make_client(root, Book)
    Book.objects.create(isbn="1", title="Emma")

    assert read(client, "get_book", isbn="1") == {"isbn": "1", "title": "Emma"}
    read(client, "update_book", isbn="1", title="Emma, again")
    assert not Loan.objects.exists()
    read(client, "update_book", isbn="1", lend=True)
    assert Loan.objects.count() == 1


def test_a_field_that_a_form_gets_when_it_is_made_runs_no_method(
    make_client: Any, site: Any, root: User
):
    replace(site, Book, WithLendingWhenMade)
    Book.objects.create(isbn="1", title="Emma")

    found = read(make_client(root, Book), "get_book", isbn="1")
    assert found == {"isbn": "1", "title": "Emma"}
    assert not Loan.objects.exists()


def test_readonly_and_excluded_fields_are_no_arguments(
    make_client: Any, site: Any, root: User, orders: list[Order]
):
    class Some(admin.ModelAdmin):
        exclude = ["customer"]
        readonly_fields = ["number", "placed_at"]

    site.unregister(Order)
    site.register(Order, Some)
    client = make_client(root)

    (tool,) = [each for each in client.list_tools() if each["name"] == "update_order"]
    assert set(tool["inputSchema"]["properties"]) == {"id", "status", "note"}
    assert refuse(client, "update_order", id=orders[0].pk, number="X")
    assert refuse(client, "update_order", id=orders[0].pk, customer=None)
    assert "customer" not in read(client, "get_order", id=orders[0].pk)


def test_a_field_that_is_readonly_for_one_user_is_rejected(
    make_client: Any, site: Any, make_staff: Any, root: User, orders: list[Order]
):
    class Some(AllOrders):
        def get_readonly_fields(self, request: Any, obj: Any = None) -> Any:
            return [] if request.user.is_superuser else ["number"]

    site.unregister(Order)
    site.register(Order, Some)
    client = make_client(root)
    read(client, "update_order", id=orders[0].pk, number="A-00")
    client.force_login(make_staff("clerk", "shop.change_order"))

    assert "/number: You cannot set" in refuse(client, "update_order", id=orders[0].pk, number="X")
    assert read(client, "update_order", id=orders[0].pk, note="x")["number"] == "A-00"


def test_passwords_are_not_set(make_client: Any, root: User):
    client = make_client(root, User)
    password = root.password

    assert refuse(client, "update_user", id=root.pk, password="secret-of-none")
    read(client, "update_user", id=root.pk, first_name="Root")

    root.refresh_from_db()
    assert (root.first_name, root.password) == ("Root", password)


def test_a_form_that_needs_a_secret_has_no_tool(make_client: Any, site: Any, root: User):
    class Form(forms.ModelForm):
        pin = forms.CharField()

        class Meta:
            model = Shelf
            fields = ["name"]

    class Some(admin.ModelAdmin):
        form = Form

    site.unregister(Shelf)
    site.register(Shelf, Some)
    client = make_client(root, Shelf)

    assert "create_shelf" not in client.server.registry.tools
    assert "'pin' is required and looks like a secret" in told(client)


# -- security holes of a comparable package


def test_security_view_permission_does_not_allow_writing(
    make_client: Any, make_staff: Any, orders: list[Order]
):
    client = make_client(make_staff("viewer", "shop.view_order"))

    client.assert_visible("search_orders", "get_order")
    client.assert_hidden("create_order", "update_order", "delete_order", "ship_orders")


def test_security_change_permission_applies_to_each_object(
    make_client: Any, site: Any, make_staff: Any, orders: list[Order]
):
    class Picky(AllOrders):
        def has_change_permission(self, request: Any, obj: Any = None) -> bool:
            return obj is None or obj.number.startswith("B")

    site.unregister(Order)
    site.register(Order, Picky)
    client = make_client(make_staff("clerk", "shop.view_order"))

    unknown = refuse(client, "update_order", id=10**6, note="x")
    assert refuse(client, "update_order", id=orders[0].pk, note="x") == unknown
    assert read(client, "update_order", id=orders[3].pk, note="x")["note"] == "x"


def test_security_delete_permission_applies_to_each_object(
    make_client: Any, site: Any, make_staff: Any, orders: list[Order]
):
    class Picky(AllOrders):
        def has_delete_permission(self, request: Any, obj: Any = None) -> bool:
            return obj is None or obj.number.startswith("B")

    site.unregister(Order)
    site.register(Order, Picky)
    client = make_client(make_staff("clerk", "shop.view_order"), capabilities={})

    unknown = refuse(client, "delete_order", id=10**6)
    assert refuse(client, "delete_order", id=orders[0].pk) == unknown
    assert read(client, "delete_order", id=orders[3].pk)["deleted"] is False
    assert "/id/1: Not found." in refuse(client, "delete_order", id=[orders[3].pk, orders[0].pk])


def test_security_bulk_actions_require_change_permission_on_each_object(
    make_client: Any, site: Any, make_staff: Any, orders: list[Order]
):
    class Picky(AllOrders):
        def has_change_permission(self, request: Any, obj: Any = None) -> bool:
            return obj is None or obj.number.startswith("B")

    site.unregister(Order)
    site.register(Order, Picky)
    client = make_client(make_staff("clerk", "shop.view_order"))

    text = refuse(client, "ship_orders", ids=[orders[3].pk, orders[1].pk, 10**6])

    assert text.splitlines()[1:] == ["- /ids/1: Not found.", "- /ids/2: Not found."]
    assert Order.objects.filter(status="shipped").count() == 3
    assert read(client, "ship_orders", ids=[orders[3].pk])["messages"] == [
        {"level": "info", "text": "1 shipped."}
    ]


def test_security_only_viewable_related_objects_can_be_chosen(
    make_client: Any, make_staff: Any, root: User
):
    clerk = make_staff("clerk", "library.view_shelf", "library.change_book")
    own, other = (Shelf.objects.create(name=str(user), owner=user) for user in (clerk, root))
    hidden = Shelf.objects.create(name="hidden", owner=root)
    Book.objects.create(isbn="1", title="One", shelf=other)
    client = make_client(clerk, Book)
    seen = read(client, "get_book", isbn="1")
    assert seen["shelf"] == {"pk": other.pk, "text": None}

    def update(**arguments: Any) -> Any:
        seen = read(client, "get_book", isbn="1")["updated_at"]
        return client.call("update_book", isbn="1", if_unmodified=seen, **arguments)

    assert update(shelf=hidden.pk).text == update(shelf=10**6).text
    assert not update(shelf=other.pk).is_error  # which is shown, and stays
    assert not update(title="Uno").is_error  # the shelf stays
    assert Book.objects.get().shelf == other
    assert update(shelf=own.pk).structured["shelf"]["text"] == "clerk"
    client.force_login(make_staff("none", "library.change_book"))
    assert update(shelf=other.pk).is_error


class PublicTags(admin.ModelAdmin):
    def get_queryset(self, request: Any) -> Any:
        return super().get_queryset(request).filter(name="public")


def test_security_hidden_members_are_not_found_by_guessing_all_keys(
    make_client: Any, site: admin.AdminSite, make_staff: Any
):
    site.unregister(Tag)
    site.register(Tag, PublicTags)
    public, member, other = (Tag.objects.create(name=name) for name in ("public", "a", "b"))
    book = Book.objects.create(isbn="1", title="One")
    book.tags.set([public, member])
    client = make_client(make_staff("clerk", "library.view_tag", "library.change_book"), Book)

    def update(*tags: Tag) -> Any:
        seen = read(client, "get_book", isbn="1")
        assert [each["text"] for each in seen["tags"]] == ["public"]
        keys = [str(tag.pk) for tag in tags]
        return client.call("update_book", isbn="1", tags=keys, if_unmodified=seen["updated_at"])

    guesses = [update(public, tag) for tag in (member, other)]

    assert all(guess.is_error for guess in guesses)
    assert guesses[0].text.replace(str(member.pk), "") == guesses[1].text.replace(str(other.pk), "")
    assert not update(public).is_error  # what is shown is taken back
    assert set(book.tags.all()) == {public, member}


def test_two_users_write_only_their_own_querysets(
    make_client: Any, site: Any, make_staff: Any, orders: list[Order]
):
    site.unregister(Order)
    site.register(Order, OwnOrders)
    everything = [f"shop.{kind}_order" for kind in ("view", "change", "delete", "add")]
    clerk = make_staff("clerk", *everything)
    Order.objects.filter(number="A-0").update(customer=clerk)
    client = make_client(clerk, capabilities={})
    mine, foreign = orders[0].pk, orders[1].pk

    for tool, unknown in (("update_order", 10**6), ("delete_order", 10**6)):
        assert refuse(client, tool, id=foreign) == refuse(client, tool, id=unknown)
    assert "/ids/1" in refuse(client, "ship_orders", ids=[mine, foreign])
    assert "/id/0" in refuse(client, "delete_order", id=[foreign])
    assert not read(client, "update_order", id=mine, note="x").get("error")


# -- stale data


def test_a_stale_change_is_rejected(make_client: Any, root: User):
    Book.objects.create(isbn="1", title="One")
    client = make_client(root, Book)
    seen = read(client, "get_book", isbn="1")["updated_at"]
    read(client, "update_book", isbn="1", title="Uno", if_unmodified=seen)

    assert "changed in the meantime" in refuse(
        client, "update_book", isbn="1", title="Eins", if_unmodified=seen
    )
    assert "if_unmodified" in refuse(client, "update_book", isbn="1", title="Eins")
    assert "/if_unmodified" in refuse(client, "update_book", isbn="1", if_unmodified="x")
    assert Book.objects.get().title == "Uno"


# -- delete

QUESTION = 'Delete order "A-0"? This cannot be undone. This also deletes: 2 order lines.'


def test_the_user_is_asked_before_a_deletion(make_client: Any, root: User, orders: list[Order]):
    client = make_client(root)
    client.answer({"delete": True})

    done = read(client, "delete_order", id=orders[0].pk)

    assert [each.message for each in client.questions] == [QUESTION]
    assert done["deleted"] is True
    assert not Order.objects.filter(number="A-0").exists()
    entry = LogEntry.objects.get()
    assert (entry.user, entry.object_repr, entry.is_deletion()) == (root, "A-0", True)


def test_nothing_is_deleted_unless_the_user_agrees(
    make_client: Any, root: User, orders: list[Order]
):
    client = make_client(root)
    client.answer({"delete": False}, False)

    assert read(client, "delete_order", id=orders[0].pk)["deleted"] is False
    assert read(client, "delete_order", id=[orders[0].pk])["deleted"] is False
    assert Order.objects.count() == 5


def test_a_client_that_cannot_ask_confirms_by_a_second_call(
    make_client: Any, root: User, orders: list[Order]
):
    client = make_client(root, capabilities={})
    told = read(client, "delete_order", id=orders[0].pk)
    assert (told["deleted"], told["message"]) == (False, QUESTION)
    confirmation = told["confirmation"]

    assert "not for this" in refuse(
        client, "delete_order", id=orders[1].pk, confirmation=confirmation
    )
    Order.objects.filter(pk=orders[0].pk).update(note="changed")
    assert "not for this" in refuse(
        client, "delete_order", id=orders[0].pk, confirmation=confirmation
    )
    confirmation = read(client, "delete_order", id=orders[0].pk)["confirmation"]
    done = read(client, "delete_order", id=orders[0].pk, confirmation=confirmation)
    assert done["deleted"] is True


def test_cascade_deleted_objects_require_their_own_permission(
    make_client: Any, site: Any, make_staff: Any, orders: list[Order]
):
    Book.objects.create(isbn="1", title="One")
    Loan.objects.create(book_id="1")
    client = make_client(
        make_staff("clerk", "library.view_book", "library.delete_book"), Book, capabilities={}
    )

    assert "you must not delete: loan" in refuse(client, "delete_book", isbn="1")


def test_protected_objects_are_not_deleted(make_client: Any, root: User, orders: list[Order]):
    client = make_client(root, Product, capabilities={})

    text = refuse(client, "delete_product", id=Product.objects.all()[0].pk)

    assert "cannot be deleted, because other objects refer to it" in text


# -- actions


def test_several_objects_are_deleted_after_the_user_agrees(
    make_client: Any, root: User, orders: list[Order]
):
    client = make_client(root)
    client.answer({"delete": True})

    done = read(client, "delete_order", id=[orders[0].pk, orders[1].pk])

    assert done["message"] == "2 orders was deleted."
    assert done["falls"] == [{"what": "order lines", "count": 4}]
    assert Order.objects.count() == 3
    assert OrderLine.objects.count() == 6
    assert LogEntry.objects.count() == 2


@pytest.mark.parametrize("has_action", [False, True])
def test_only_an_admin_that_offers_the_action_deletes_several_at_once(
    make_client: Any, site: Any, root: User, orders: list[Order], has_action: bool
):
    class Without(AllOrders):
        def get_actions(self, request: Any) -> Any:
            actions = super().get_actions(request)
            if not has_action or request.user == root:
                del actions["delete_selected"]
            return actions

    site.unregister(Order)
    site.register(Order, Without)
    client = make_client(root)

    text = refuse(client, "delete_order", id=[orders[0].pk, orders[1].pk])

    assert ("/id/1: Not found." in text) is has_action
    assert Order.objects.count() == 5


@pytest.mark.parametrize(
    "ids", [[], [1, 1], ["x"], list(range(101)), [10**40], None, [None], {"a": 1}]
)
def test_the_selection_is_bounded(make_client: Any, root: User, orders: list[Order], ids: Any):
    assert refuse(make_client(root), "ship_orders", ids=ids)


def test_actions_return_what_a_tool_can_show(
    make_client: Any, site: Any, root: User, orders: list[Order]
):
    class Some(AllOrders):
        actions = ["page", "export", "go_on"]

        def page(self, request: Any, queryset: Any) -> Any:
            queryset.update(note="lost")
            return HttpResponse("<p>Sure?</p>")

        def export(self, request: Any, queryset: Any) -> Any:
            text = "\n".join(order.number for order in queryset)
            return HttpResponse(text, content_type="text/csv")

        def go_on(self, request: Any, queryset: Any) -> Any:
            return HttpResponseRedirect("/next/")

    site.unregister(Order)
    site.register(Order, Some)
    client = make_client(root)
    ids = [orders[0].pk, orders[3].pk]

    assert "cannot be shown here" in refuse(client, "page_orders", ids=ids)
    assert not Order.objects.filter(note="lost").exists()
    assert read(client, "export_orders", ids=ids)["content"] == "A-0\nB-3"
    gone_on = read(client, "go_on_orders", ids=ids)
    assert (gone_on["done"], gone_on["redirect_url"]) == (False, "/next/")


def test_an_action_requires_that_the_admin_offers_it(
    make_client: Any, site: Any, make_staff: Any, root: User, orders: list[Order]
):
    class Some(AllOrders):
        def get_actions(self, request: Any) -> Any:
            found = super().get_actions(request)
            return found if request.user.is_superuser else {}

    site.unregister(Order)
    site.register(Order, Some)
    client = make_client(make_staff("clerk", "shop.change_order"))

    client.assert_visible("update_order")
    client.assert_hidden("ship_orders", "delete_order")
    client.force_login(root)
    client.assert_visible("ship_orders")


def test_only_the_named_actions_become_tools(make_client: Any, root: User, orders: list[Order]):
    client = make_client(root, actions=["ship"], exclude=["delete"])

    client.assert_visible("ship_orders")
    assert not {"delete_selected_orders", "delete_order"} & set(client.server.registry.tools)


def test_an_admin_that_needs_a_browser_has_no_tools(make_client: Any, site: Any, root: User):
    class Some(admin.ModelAdmin):
        def get_list_display(self, request: Any) -> Any:
            return request.resolver_match.nothing

    site.unregister(Order)
    site.register(Order, Some)
    client = make_client(root, Order, Product)

    assert "search_orders" not in client.server.registry.tools
    client.assert_visible("search_products")
    assert "Some of shop.Order is no tool: it cannot be described" in told(client)


# -- forms that do more


class Placing(forms.ModelForm):
    """Has a field and choices of its own, and saves as the forms of trees do."""

    position = forms.ChoiceField(required=False)

    class Meta:
        model = Order
        fields = ["number", "placed_at"]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        position: Any = self.fields["position"]
        position.choices = [("first", "First"), ("last", "Last")]
        if not self.instance._state.adding:
            self.initial["position"] = self.instance.note or "last"

    def save(self, commit: bool = True) -> Any:
        self.instance.note = self.cleaned_data["position"]
        self.instance.save()
        return super().save(commit)


class Places(admin.ModelAdmin):
    form = Placing


def test_what_only_the_form_knows_is_shown_and_kept(make_client: Any, site: Any, root: User):
    replace(site, Order, Places)
    client = make_client(root)

    made = read(
        client, "create_order", number="A", placed_at="2026-01-01T00:00:00Z", position="first"
    )

    assert made["position"] == "first"
    assert read(client, "update_order", id=made["id"], number="B")["position"] == "first"
    assert read(client, "get_order", id=made["id"]) == {**made, "number": "B"}
    assert Order.objects.get().note == "first"


def test_a_field_of_the_form_that_the_page_leaves_out_is_not_shown(
    make_client: Any, make_staff: Any, site: Any, root: User, orders: list[Order]
):
    class PlacesOfRoot(Places):
        def get_fieldsets(self, request: Any, obj: Any = None) -> Any:
            further = ["position"] if request.user.is_superuser else []
            return [(None, {"fields": ["number", "placed_at", *further]})]

    Order.objects.update(note="last")
    replace(site, Order, PlacesOfRoot)
    staff = make_staff("staff", "shop.view_order", "shop.change_order")

    assert read(make_client(root), "get_order", id=orders[0].pk)["position"] == "last"
    assert "position" not in read(make_client(staff), "get_order", id=orders[0].pk)
    changed = read(make_client(staff), "update_order", id=orders[0].pk, number="B")
    assert changed["number"] == "B"
    assert "position" not in changed


def test_a_form_keeps_the_hidden_objects_that_it_starts_with(
    make_client: Any, make_staff: Any, site: Any, orders: list[Order]
):
    class Buying(forms.ModelForm):
        buyer = forms.ModelChoiceField(User.objects.all())

        class Meta:
            model = Order
            fields = ["number", "buyer"]

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.initial["buyer"] = self.instance.customer_id

        def clean(self) -> Any:
            self.instance.customer = self.cleaned_data.get("buyer")
            return super().clean()

    replace(site, Order, type("Buyers", (admin.ModelAdmin,), {"form": Buying}))
    client = make_client(make_staff("staff", "shop.view_order", "shop.change_order"))
    first, other = orders[0], orders[4]

    assert read(client, "update_order", id=first.pk, number="B")["number"] == "B"
    first.refresh_from_db()
    assert first.customer is not None
    assert first.customer.username == "ann"
    error = refuse(client, "update_order", id=first.pk, buyer=other.customer_id)
    assert "/buyer: Select a valid choice" in error


def test_an_error_lists_the_choices_of_the_bound_form(make_client: Any, site: Any, root: User):
    replace(site, Order, Places)
    sent = {"number": "A", "placed_at": "2026-01-01T00:00:00Z", "position": "up"}

    error = refuse(make_client(root), "create_order", **sent)

    assert "/position: " in error
    assert "Choose one of: first, last." in error


def test_an_object_that_exists_is_not_added_by_a_form_that_saves(
    make_client: Any, site: Any, root: User
):
    class Saving(forms.ModelForm):
        def save(self, commit: bool = True) -> Any:
            self.instance.save()
            return super().save(commit)

    replace(site, Book, type("SavingBooks", (admin.ModelAdmin,), {"form": Saving}))
    client = make_client(root, Book)
    Book.objects.create(isbn="1", title="Emma")

    assert "already exists" in refuse(client, "create_book", isbn="1", title="Persuasion")
    assert Book.objects.get().title == "Emma"
    read(client, "create_book", isbn="2", title="Persuasion")
    assert Book.objects.count() == 2


def test_who_may_not_change_an_object_is_not_shown_its_form(
    make_client: Any, make_staff: Any, site: Any, orders: list[Order]
):
    replace(site, Order, Places)
    client = make_client(make_staff("staff", "shop.view_order"))

    assert "position" not in read(client, "get_order", id=orders[0].pk)


@pytest.mark.parametrize("takes_all", [False, True])
def test_a_check_is_asked_about_each_object_of_a_list(
    make_client: Any, root: User, orders: list[Order], takes_all: bool
):
    kept = [orders[1].pk]

    def is_free(user: User, id: int | None = None) -> bool:
        return id not in kept

    def is_free_of_all(ctx: Any, **arguments: Any) -> bool:
        return ctx.user == root and arguments.get("id") not in kept

    client = make_client(root, check=is_free_of_all if takes_all else is_free)
    client.answer({"delete": True})

    for tool, name in (("delete_order", "id"), ("ship_orders", "ids")):
        for keys in ([orders[1].pk], [orders[0].pk, orders[1].pk]):
            assert refuse(client, tool, **{name: keys}) == "Not found."
    assert refuse(client, "delete_order", id=orders[1].pk) == "Not found."
    orders[1].refresh_from_db()
    assert orders[1].status != "shipped"

    assert read(client, "ship_orders", ids=[orders[3].pk])["done"] is True
    assert read(client, "delete_order", id=[orders[0].pk, orders[2].pk])["deleted"] is True
    assert Order.objects.count() == 3


@pytest.mark.parametrize("spell", UUID_SPELLINGS)
def test_security_a_check_gets_a_key_as_the_model_has_it(
    make_client: Any, site: Any, root: User, spell: Any
):
    class Tags(admin.ModelAdmin):
        actions = ["mark"]

        @admin.action(description="Mark")
        def mark(self, request: Any, queryset: Any) -> None:
            queryset.update(name="marked")

    replace(site, Tag, Tags)
    kept, free = (Tag.objects.create(name=name) for name in ("kept", "free"))
    client = make_client(root, Tag, check=lambda user, id=None: id != kept.pk)
    client.answer({"delete": True})

    for tool, arguments in (
        ("get_tag", {"id": spell(kept.pk)}),
        ("update_tag", {"id": spell(kept.pk), "name": "new"}),
        ("delete_tag", {"id": spell(kept.pk)}),
        ("delete_tag", {"id": [str(free.pk), spell(kept.pk)]}),
        ("mark_tags", {"ids": [spell(kept.pk)]}),
    ):
        assert refuse(client, tool, **arguments) == "Not found."
    assert Tag.objects.get(pk=kept.pk).name == "kept"
    assert read(client, "update_tag", id=spell(free.pk), name="new")["name"] == "new"
    assert read(client, "mark_tags", ids=[spell(free.pk)])["done"] is True
    assert read(client, "delete_tag", id=[spell(free.pk)])["deleted"] is True


def test_a_key_that_no_object_can_have_reaches_no_check(make_client: Any, root: User):
    asked: list[Any] = []

    def note(user: User, id: Any = None) -> bool:
        asked.append(id)
        return True

    client = make_client(root, Tag, check=note)
    tag = Tag.objects.create(name="old")

    assert refuse(client, "get_tag", id="none") == "Not found."
    told = refuse(client, "delete_tag", id=["none", str(tag.pk)])
    assert told == "Invalid arguments:\n- /id/0: Not found."
    assert asked == [tag.pk]


@isolate_apps("tests.support.library")
def test_security_decimal_and_large_keys_are_converted_for_a_check(
    make_client: Any, site: Any, root: User
):
    class Price(models.Model):  # noqa: DJ008
        amount = models.DecimalField(primary_key=True, max_digits=8, decimal_places=2)

        class Meta:
            app_label = "library"

    asked: list[Any] = []

    def note(user: User, amount: Any = None, id: Any = None) -> bool:
        asked.append(id if amount is None else amount)
        return False

    site.register([Price, Event])
    client = make_client(root, Price, Event, check=note)

    for amount in ("1.50", "01.50", "15e-1", " 1.50"):
        assert refuse(client, "get_price", amount=amount) == "Not found."
    for key in (2**60, str(2**60), 2.0**60):
        assert refuse(client, "get_event", id=key) == "Not found."
    assert asked == [Decimal("1.5")] * 4 + [2**60] * 3
    assert {type(each) for each in asked} == {Decimal, int}


def test_a_check_that_looks_at_no_object_stays_as_it_is(
    make_client: Any, root: User, orders: list[Order]
):
    def is_small(user: User, ids: Any = ()) -> bool:
        return len(ids) < 2

    client = make_client(root, check=is_small)

    assert refuse(client, "ship_orders", ids=[orders[0].pk, orders[1].pk]) == "Not found."
    assert read(client, "ship_orders", ids=[orders[0].pk])["done"] is True
