"""Related rows follow the classes of their models: by no argument does a user learn of a hidden one."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User

from django_mcp import MCPServer
from django_mcp.contrib.models import ModelTools
from django_mcp.test import MCPClient
from tests.support.library.models import Book, Loan, Shelf, Tag
from tests.support.queries import captured_queries

pytestmark = pytest.mark.django_db


class Shelves(ModelTools):
    """Everybody sees their own."""

    model = Shelf
    fields = ["name", "book__title"]
    sortable_by = ["name"]

    def get_queryset(self, user: Any) -> Any:
        return Shelf.objects.filter(owner_id=user.pk)


class Books(ModelTools):
    model = Book
    fields = ["isbn", "title", "shelf__name", "shelf__owner__username", "tags__name", "place"]
    filters = [
        "shelf",
        "shelf__in",
        "shelf__isnull",
        "shelf__id",
        "shelf__name",
        "shelf__name__isnull",
        "shelf__owner__username",
        "shelf__owner",
        "tags__name",
        "tags__isnull",
        "loans__days",
    ]
    search = ["title", "shelf__name", "tags__name"]
    sortable_by = ["title", "shelf__name"]
    ordering = ["-shelf__name"]
    everyone = True


class Keys(ModelTools):
    """Shows relations as keys."""

    model = Book
    fields = ["isbn", "shelf", "tags"]
    sortable_by = ["shelf"]
    writes = ["create", "update"]
    writable = ["isbn", "title", "shelf", "tags"]
    everyone = True


class Tags(ModelTools):
    model = Tag
    fields = ["name"]

    def get_queryset(self, user: Any) -> Any:
        return Tag.objects.exclude(name__startswith="hidden")


class Loans(ModelTools):
    model = Loan
    fields = ["id", "days", "book__title", "book__shelf__name"]
    filters = ["book__shelf__name", "book__title"]
    search = ["book__shelf__name"]
    everyone = True


@pytest.fixture
def ann() -> User:
    return User.objects.create_user("ann")


@pytest.fixture
def shelves(ann: User) -> list[Shelf]:
    """One of ann and one of bob, each with a book, and a book on none."""
    bob = User.objects.create_user("bob")
    found = [Shelf.objects.create(name=f"of {each}", owner=each) for each in (ann, bob)]
    for number, shelf in enumerate([*found, None]):
        book = Book.objects.create(
            isbn=str(number), title=f"Book {number}", shelf=shelf, place=None
        )
        book.loans.create(days=number + 1)
        book.tags.set([Tag.objects.create(name=f"{kind} {number}") for kind in ("open", "hidden")])
    return found


def make_client(user: User, *classes: type[ModelTools]) -> MCPClient:
    server = MCPServer("related", public=True)
    for each in classes:
        each.register(server=server, prefix="key_" if each is Keys else "")
    return MCPClient(server, user=user)


@pytest.fixture
def client(ann: User, shelves: list[Shelf]) -> MCPClient:
    # What decides about the shelves comes last, as in apps that are loaded in any order.
    return make_client(ann, Books, Keys, Loans, Tags, Shelves)


def found(client: MCPClient, tool: str = "search_books", **arguments: Any) -> list[str]:
    result = client.call(tool, **arguments)
    assert not result.is_error, result.text
    return sorted(each["isbn"] for each in result.structured["results"])


def test_security_values_of_related_rows_are_those_that_their_class_shows(client: MCPClient):
    own, foreign, without = (client.call("get_book", isbn=n).structured for n in "012")
    listed = client.call("search_books", ordering="title").structured["results"]

    # The class of shelves does not show their owners.
    assert own["shelf"] == {"name": "of ann"}
    assert foreign["shelf"] is without["shelf"] is None
    assert [each["name"] for each in foreign["tags"]] == ["open 1"]
    assert listed == [own, foreign, without]
    client.assert_conforms()


def test_a_search_says_what_it_leaves_out_for_the_user(client: MCPClient, ann: User):
    class Closed(Shelves):
        def has_permission(self, user: Any, action: str) -> bool:
            return False

    closed = make_client(ann, Books, Closed)
    left_out = "You may not search in shelf__name, so it was left out."

    assert closed.call("search_books", search="Book 1").structured["note"] == left_out
    assert closed.call("search_books", search="nowhere").structured["note"] == (
        f"{left_out} Nothing found. The search looks in title, shelf__name, tags__name, and all words must match."
    )
    assert "note" not in closed.call("search_books").structured
    assert "note" not in client.call("search_books", search="Book 1").structured
    assert client.call("search_books", search="nowhere").structured["note"].startswith("Nothing")


def test_security_each_relation_on_the_way_is_asked(client: MCPClient, shelves: list[Shelf]):
    loans = client.call("search_loans").structured["results"]

    assert [each["book"] for each in loans] == [
        # The class of books shows the shelf, and the class of shelves shows its name.
        {"title": "Book 0", "shelf": {"name": "of ann"}},
        {"title": "Book 1", "shelf": None},
        {"title": "Book 2", "shelf": None},
    ]
    for arguments, days in (
        ({"book__shelf__name": "of bob"}, []),
        ({"book__shelf__name": "of ann"}, [1]),
        ({"search": "bob"}, []),
        ({"search": "ann"}, [1]),
        ({"book__title": "Book 1"}, [2]),
    ):
        page = client.call("search_loans", count=True, **arguments).structured
        assert [each["days"] for each in page["results"]] == days
        assert page["count"] == len(days)
    client.assert_conforms()


def test_security_a_resource_shows_no_hidden_row(client: MCPClient):
    text = client.read("book://1").text

    assert "Book 1" in text
    assert "bob" not in text
    assert "hidden" not in text


def test_security_keys_of_hidden_rows_are_neither_shown_nor_taken(
    client: MCPClient, shelves: list[Shelf]
):
    own, foreign = (client.call("key_get_book", isbn=n).structured for n in "01")

    assert own["shelf"] == shelves[0].pk
    assert foreign["shelf"] is None
    assert len(foreign["tags"]) == 1
    assert client.call("key_search_books", ordering="shelf").is_error
    assert client.call("key_update_book", isbn="0", shelf=shelves[1].pk).is_error
    made = client.call("key_update_book", isbn="1", title="Other").structured
    assert made == foreign
    # The update has kept what its user does not see.
    book = Book.objects.get(isbn="1")
    assert (book.shelf, book.tags.count()) == (shelves[1], 2)
    client.assert_conforms()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"shelf__name": "of bob"}, ""),
        ({"shelf__name": "of ann"}, "0"),
        ({"shelf__name__isnull": True}, "12"),
        ({"shelf__name__isnull": False}, "0"),
        ({"shelf__isnull": True}, "12"),
        ({"shelf__isnull": False}, "0"),
        ({"search": "bob"}, ""),
        ({"search": "ann"}, "0"),
        ({"search": "hidden"}, ""),
        ({"search": "open"}, "012"),
        ({"search": "Book bob"}, ""),
        ({"tags__name": "hidden 1"}, ""),
        ({"tags__name": "open 1"}, "1"),
        ({"tags__isnull": True}, ""),
        ({"tags__isnull": False}, "012"),
        # The class of shelves shows no owners, to nobody.
        ({"shelf__owner__username": "bob"}, ""),
        ({"shelf__owner__username": "ann"}, ""),
        # All see all loans.
        ({"loans__days": 2}, "1"),
    ],
)
def test_security_no_filter_and_no_word_tells_of_hidden_rows(
    client: MCPClient, arguments: Any, expected: str
):
    assert found(client, **arguments) == list(expected)
    assert client.call("search_books", count=True, **arguments).structured["count"] == len(expected)


def test_security_no_key_in_a_filter_tells_of_hidden_rows(client: MCPClient, shelves: list[Shelf]):
    own, foreign = (each.pk for each in shelves)

    for name in ("shelf", "shelf__id"):
        for key, expected in ((own, ["0"]), (foreign, [])):
            arguments: Any = {name: key}
            assert found(client, **arguments) == expected
    assert found(client, shelf__in=[own, foreign, foreign + 1]) == ["0"]
    assert found(client, shelf__owner=User.objects.get(username="bob").pk) == []


def test_security_only_tags_that_are_all_hidden_are_none(client: MCPClient):
    Tag.objects.filter(name="open 2").delete()

    assert client.call("get_book", isbn="2").structured["tags"] == []
    assert found(client, tags__isnull=True) == ["2"]


def test_security_no_order_and_no_cursor_tells_of_hidden_rows(client: MCPClient):
    told = client.call("search_books", ordering="shelf__name")
    page = client.call("search_books", limit=1).structured

    assert told.is_error
    assert "/ordering" in told.text
    # The order of the class leads through shelves, so the order is that of the keys.
    assert [each["isbn"] for each in page["results"]] == ["0"]
    assert [each["isbn"] for each in client.call("search_books").structured["results"]] == [
        "0",
        "1",
        "2",
    ]
    assert found(client, limit=1, cursor=page["next_cursor"]) == ["1"]


def test_security_hidden_rows_do_not_count_among_those_that_are_cut(
    client: MCPClient, ann: User, shelves: list[Shelf]
):
    book = Book.objects.get(isbn="2")
    hidden = Tag.objects.bulk_create(Tag(name=f"hidden-{number:03}") for number in range(105))
    book.tags.set([*hidden, Tag.objects.create(name="open one")])

    shown = client.call("get_book", isbn="2").structured

    assert shown["tags"] == [{"name": "open one"}]
    assert "truncated" not in shown


def test_security_who_may_not_use_a_class_sees_none_of_its_rows(ann: User, shelves: Any):
    class Guarded(Shelves):
        everyone = True

        def get_queryset(self, user: Any) -> Any:
            return Shelf.objects.all()

        def has_permission(self, user: Any, action: str) -> bool:
            return bool(user.is_staff)

    class Permitted(Guarded):
        permission = "library.view_shelf"

        def has_permission(self, user: Any, action: str) -> bool:
            return True

    class Wrong(Guarded):
        fields = ["no such field"]

        def has_permission(self, user: Any, action: str) -> bool:
            return True

    class Later(Guarded):
        def has_permission(self, user: Any, action: str) -> Any:
            return user.ahas_perm("library.view_shelf")

    for each in (Guarded, Permitted, Wrong, Later):
        client = make_client(ann, Books, each)
        assert client.call("get_book", isbn="0").structured["shelf"] is None
        assert found(client, shelf__name="of ann") == []
        assert found(client, shelf__isnull=True) == ["0", "1", "2"]


def test_security_a_field_is_shown_of_the_rows_of_the_class_that_shows_it(ann: User, shelves: Any):
    class Names(ModelTools):
        model = Shelf
        fields = ["name"]
        everyone = True

    class Owners(Shelves):
        fields = ["name", "owner__username"]

    server = MCPServer("related", public=True)
    Books.register(server=server)
    Names.register(server=server, prefix="all_")
    Owners.register(server=server)
    client = MCPClient(server, user=ann)

    own, foreign = (client.call("get_book", isbn=n).structured for n in "01")

    assert own["shelf"] == {"name": "of ann", "owner": {"username": "ann"}}
    assert foreign["shelf"] == {"name": "of bob"}
    assert found(client, shelf__owner__username="bob") == []
    assert found(client, shelf__owner__username="ann") == ["0"]
    assert found(client, shelf__name="of bob") == ["1"]


def test_security_a_field_that_a_class_masks_is_left_out(ann: User, shelves: Any):
    class Masked(ModelTools):
        model = Shelf
        fields = ["id", "name"]
        everyone = True

        def name(self, shelf: Shelf) -> str:
            return "***"

    client = make_client(ann, Books, Masked)

    assert client.call("get_book", isbn="0").structured["shelf"] == {}
    assert found(client, shelf__name="of ann") == []
    assert found(client, search="ann") == []


def test_a_class_may_show_all_related_rows(ann: User, shelves: list[Shelf]):
    class All(Books):
        related = "all"

    client = make_client(ann, All, Shelves, Tags)
    shown = client.call("get_book", isbn="1").structured

    assert shown["shelf"] == {"name": "of bob", "owner": {"username": "bob"}}
    assert len(shown["tags"]) == 2
    assert found(client, shelf__name="of bob") == ["1"]
    assert not client.call("search_books", ordering="shelf__name").is_error

    class Odd(Books):
        related = "none"

    (fault,) = Odd.register(server=MCPServer("odd", public=True)).find_faults()
    assert (fault.id, fault.text) == ("django_mcp.M003", "related is 'none'")


def test_a_model_without_a_class_shows_what_it_is_asked_for(ann: User, shelves: list[Shelf]):
    client = make_client(ann, Books)

    assert client.call("get_book", isbn="1").structured["shelf"] == {
        "name": "of bob",
        "owner": {"username": "bob"},
    }
    assert not client.call("search_books", ordering="shelf__name").is_error


def test_only_classes_that_decide_cost_a_query_and_only_one(ann: User, shelves: list[Shelf]):
    class AllTags(Tags):
        everyone = True
        get_queryset = ModelTools.get_queryset

    counts = []
    for classes in ((Books,), (Books, AllTags), (Books, AllTags, Shelves)):
        client = make_client(ann, *classes)
        with captured_queries() as queries:
            client.call("search_books", ordering="title")
        counts.append(len(queries))

    assert counts == [2, 2, 3]
