"""Columns through several relations: each object on the way is one that the user may see."""

from __future__ import annotations

from collections import UserList, deque
from typing import Any

import pytest
from django import forms
from django.contrib import admin
from django.contrib.auth.models import User
from django.db.models import (
    BooleanField,
    Case,
    Exists,
    ExpressionWrapper,
    F,
    OuterRef,
    Q,
    Subquery,
    Value,
    When,
)
from django.db.models.functions import Concat, Lower
from django.utils.html import format_html

from tests.support.library.models import Book, Loan, Shelf
from tests.unit.contrib.modeladmin.test_reading import read

SECRETS = ("top-shelf", "owner@example.com", "boss")
LIBRARY = ("library.view_book", "library.view_loan")


class WideLoans(admin.ModelAdmin):
    """Shows what is two and three relations away, in each way that the admin knows."""

    list_display = [
        "days",
        "book__title",
        "book__shelf",
        "book__shelf__name",
        "book__shelf__owner__email",
        "declared",
        "shelf",
        "shelves",
        "by_key",
    ]
    readonly_fields = ["book__shelf__owner__username"]
    fields = ["days", "book__shelf__owner__username"]

    @admin.display(ordering="book__shelf__owner__email")
    def declared(self, loan: Loan) -> str:
        shelf: Any = loan.book.shelf
        return format_html("<b>{}</b>", shelf.owner.email)

    def shelf(self, loan: Loan) -> Shelf | None:
        return loan.book.shelf

    def shelves(self, loan: Loan) -> Any:
        return Shelf.objects.filter(book=loan.book)

    def by_key(self, loan: Loan) -> Any:
        return {"shelf": loan.book.shelf, "days": loan.days}


@pytest.fixture
def loan(site: admin.AdminSite, db: None) -> Loan:
    site.unregister(Loan)
    site.register(Loan, WideLoans)
    owner = User.objects.create_user("boss", email="owner@example.com")
    shelf = Shelf.objects.create(name="top-shelf", owner=owner)
    book = Book.objects.create(isbn="1", title="A book", shelf=shelf)
    return Loan.objects.create(book=book)


def test_security_a_column_hides_what_is_beyond_an_object_that_its_admin_hides(
    make_client: Any, make_staff: Any, loan: Loan
) -> None:
    # The admin of shelves shows each user those of their own.
    client = make_client(make_staff("ann", *LIBRARY, "library.view_shelf", "auth.view_user"), Loan)

    [row] = read(client, "search_loans")["results"]

    assert row["book__title"] == "A book"
    assert not [each for each in SECRETS if each in str(row)]
    assert (row["shelf"], row["shelves"], row["by_key"]) == (None, [], {"days": 14, "shelf": None})
    assert not [each for each in SECRETS if each in str(read(client, "get_loan", id=loan.pk))]


def test_security_a_column_needs_the_view_permission_for_each_model_on_its_way(
    make_client: Any, make_staff: Any, loan: Loan
) -> None:
    ann = make_staff("ann", *LIBRARY, "library.view_shelf")
    Shelf.objects.update(owner=ann)
    User.objects.filter(pk=ann.pk).update(email="owner@example.com")
    client = make_client(ann, Loan)

    [row] = read(client, "search_loans")["results"]

    assert row["book__shelf__name"] == row["shelf"] == "top-shelf"
    assert row["book__shelf__owner__email"] is None
    assert row["declared"] is None
    found = read(client, "get_loan", id=loan.pk)
    assert found["book__shelf__owner__username"] is None


@pytest.mark.parametrize(
    ("hold", "hidden", "shown"),
    [
        (lambda shelf: {shelf: 1}, {}, {"top-shelf": 1}),
        (lambda shelf: [{(1, shelf): 2}], [{}], None),
        (lambda shelf: {1: shelf}.values(), [], ["top-shelf"]),
        (lambda shelf: {shelf: 1}.keys(), [], ["top-shelf"]),
        (lambda shelf: deque([shelf]), [], ["top-shelf"]),
        (lambda shelf: {"all": Shelf.objects.all()}, {"all": []}, {"all": ["top-shelf"]}),
        (lambda shelf: [Shelf.objects.filter(pk=shelf.pk)], [[]], [["top-shelf"]]),
        (lambda shelf: UserList([shelf]), [], ["top-shelf"]),
        (lambda shelf: {(Shelf.objects.all(),): 1}, {}, None),
        (lambda shelf: [Shelf(name="new"), shelf], ["new"], ["new", "top-shelf"]),
        (lambda shelf: {"a": Shelf(name="new"), "b": shelf}, {"a": "new", "b": None}, None),
    ],
    ids=[
        "key",
        "in-key",
        "values",
        "keys",
        "deque",
        "queryset-in-dict",
        "queryset-in-list",
        "sequence",
        "queryset-in-key",
        "unsaved",
        "unsaved-in-dict",
    ],
)
def test_security_objects_that_a_method_returns_are_judged_in_each_kind_of_container(
    make_client: Any,
    make_staff: Any,
    site: admin.AdminSite,
    loan: Loan,
    hold: Any,
    hidden: Any,
    shown: Any,
) -> None:
    def held(loan: Loan) -> Any:
        return hold(loan.book.shelf)

    site.unregister(Loan)
    site.register(Loan, type("Held", (admin.ModelAdmin,), {"list_display": ["days", held]}))
    ann = make_staff("ann", *LIBRARY, "library.view_shelf")
    client = make_client(ann, Loan)

    assert read(client, "search_loans")["results"] == [{"id": loan.pk, "days": 14, "held": hidden}]

    Shelf.objects.update(owner=ann)
    [row] = read(client, "search_loans")["results"]
    assert "top-shelf" in str(row["held"])
    assert shown is None or row["held"] == shown


OWNER = "book__shelf__owner__email"


@pytest.mark.parametrize(
    "order",
    [
        F(OWNER),
        F(OWNER).desc(nulls_last=True),
        Lower(OWNER),
        Concat("days", Value(" "), Lower(OWNER)),
        "book__shelf_id",
        "-book__shelf__owner_id",
        Case(When(book__shelf__owner__email="", then=1), default=2),
        ExpressionWrapper(~Q(days=1) & Q(book__shelf__owner__email=""), BooleanField()),
        Exists(User.objects.filter(pk=OuterRef("book__shelf__owner"))),
        Subquery(
            User.objects.filter(Q(email="x") | Q(pk=OuterRef("book__shelf__owner"))).values("pk")
        ),
    ],
    ids=[
        "F",
        "desc",
        "Lower",
        "Concat",
        "column",
        "column of a path",
        "Case",
        "ExpressionWrapper",
        "Exists",
        "Subquery",
    ],
)
def test_security_an_order_by_an_expression_or_a_key_counts_as_a_way(
    make_client: Any, make_staff: Any, site: admin.AdminSite, loan: Loan, order: Any
) -> None:
    @admin.display(ordering=order)
    def told(loan: Loan) -> str:
        shelf: Any = loan.book.shelf
        return f"{shelf.name} of {shelf.owner.email}"

    site.unregister(Loan)
    site.register(Loan, type("Told", (admin.ModelAdmin,), {"list_display": ["days", told]}))
    ann = make_staff("ann", *LIBRARY, "library.view_shelf", "auth.view_user")
    client = make_client(ann, Loan)

    assert read(client, "search_loans")["results"] == [{"id": loan.pk, "days": 14, "told": None}]

    Shelf.objects.update(owner=ann)
    [row] = read(client, "search_loans")["results"]
    assert row["told"] == "top-shelf of "


def test_a_column_shows_what_is_beyond_objects_that_the_user_may_see(
    make_client: Any, make_staff: Any, loan: Loan
) -> None:
    ann = make_staff("ann", *LIBRARY, "library.view_shelf", "auth.view_user")
    Shelf.objects.update(owner=ann)
    User.objects.filter(pk=ann.pk).update(email="owner@example.com")
    client = make_client(ann, Loan)

    [row] = read(client, "search_loans")["results"]

    assert row["book__shelf__owner__email"] == row["declared"] == "owner@example.com"
    assert row["shelves"] == ["top-shelf"]
    assert row["by_key"] == {"shelf": "top-shelf", "days": 14}
    assert read(client, "get_loan", id=loan.pk)["book__shelf__owner__username"] == "ann"


def test_a_column_through_several_relations_costs_no_query_for_each_row(
    make_client: Any,
    root: User,
    site: admin.AdminSite,
    loan: Loan,
    django_assert_max_num_queries: Any,
) -> None:
    site.unregister(Loan)
    site.register(
        Loan,
        type("Plain", (admin.ModelAdmin,), {"list_display": ["days", "book__shelf__owner__email"]}),
    )
    Shelf.objects.update(owner=root)
    for _ in range(5):
        Loan.objects.create(book=loan.book)
    client = make_client(root, Loan)
    read(client, "search_loans")

    # One for the rows, and one for the shelves that the user sees.
    with django_assert_max_num_queries(5):
        assert len(read(client, "search_loans")["results"]) == 6


def test_a_search_says_what_it_leaves_out_for_the_user(
    site: admin.AdminSite, make_client: Any, make_staff: Any, loan: Loan
):
    class SearchedLoans(admin.ModelAdmin):
        search_fields = ["book__title", "book__shelf__name"]

    site.unregister(Loan)
    site.register(Loan, SearchedLoans)
    some, all_ = (
        make_client(make_staff(str(n), *more), Loan)
        for n, more in enumerate((LIBRARY, (*LIBRARY, "library.view_shelf")))
    )

    left_out = "You may not search in book__shelf__name, so it was left out."
    assert read(some, "search_loans", search="A book")["note"] == left_out
    assert "note" not in read(all_, "search_loans", search="A book")
    assert read(some, "search_loans", search="nowhere")["note"] == (
        f"{left_out} Nothing found. The search looks in book__title, book__shelf__name, and all words must match."
    )


def test_a_search_still_looks_where_some_objects_are_hidden(
    site: admin.AdminSite, make_client: Any, make_staff: Any, loan: Loan
):
    """A column that the user may not search takes nothing from one of which they see some objects."""

    class SomeBooks(admin.ModelAdmin):
        def get_queryset(self, request: Any) -> Any:
            return super().get_queryset(request).exclude(title="Secret")

    class SearchedLoans(admin.ModelAdmin):
        search_fields = ["book__title", "book__shelf__name"]

    for model, made in ((Book, SomeBooks), (Loan, SearchedLoans)):
        site.unregister(model)
        site.register(model, made)
    Loan.objects.create(book=Book.objects.create(isbn="2", title="Secret", shelf=loan.book.shelf))
    client = make_client(make_staff("ann", *LIBRARY), Loan)

    found = read(client, "search_loans", search="A book")["results"]

    assert [row["id"] for row in found] == [loan.pk]
    assert read(client, "search_loans", search="Secret")["results"] == []
    assert read(client, "search_loans", search="top-shelf")["results"] == []


class NearForm(forms.ModelForm):
    """Has relations that the model does not have; a book is near to all shelves, until some are chosen."""

    near = forms.ModelMultipleChoiceField(Shelf.objects.order_by("name"), required=False)
    named = forms.ModelMultipleChoiceField(
        Shelf.objects.order_by("name"), to_field_name="name", required=False
    )
    first = forms.ModelChoiceField(Shelf.objects.all(), required=False)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        shelves = list(Shelf.objects.order_by("name"))
        self.initial.update(near=shelves, named=shelves, first=shelves[0].pk)

    def save(self, commit: bool = True) -> Any:
        names = [
            sorted(each.name for each in self.cleaned_data[name]) for name in ("near", "named")
        ]
        self.instance.title = str(names)
        return super().save(commit)

    class Meta:
        model = Book
        fields = ["place"]


class NearBooks(admin.ModelAdmin):
    form = NearForm


def test_security_a_relation_of_the_form_alone_leaves_out_and_keeps_hidden_objects(
    make_client: Any, make_staff: Any, site: admin.AdminSite
) -> None:
    site.unregister(Book)
    site.register(Book, NearBooks)
    ann = make_staff("ann", "library.change_book", "library.view_book", "library.view_shelf")
    Shelf.objects.create(name="a-secret", owner=User.objects.create_user("boss"))
    own, other = (Shelf.objects.create(name=name, owner=ann) for name in ("b-own", "c-own"))
    book = Book.objects.create(isbn="1", title="A book")
    client = make_client(ann, Book)

    shown = read(client, "get_book", isbn=book.pk)
    assert (shown["near"], shown["named"]) == ([own.pk, other.pk], ["b-own", "c-own"])
    assert shown.get("first") is None

    done = client.call("update_book", isbn=book.pk, near=[own.pk], named=["c-own"])
    assert not done.is_error, done.text
    book.refresh_from_db()
    assert book.title == "[['a-secret', 'b-own'], ['a-secret', 'c-own']]"

    client.call("update_book", isbn=book.pk, near=[])
    book.refresh_from_db()
    assert book.title == "[['a-secret'], ['a-secret', 'b-own', 'c-own']]"
