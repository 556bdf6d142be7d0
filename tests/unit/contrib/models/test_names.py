"""Related objects by name: first as keys, then by what callers are shown of those that they may choose."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from django.contrib.auth.models import Group, User

from django_mcp import MCPServer
from django_mcp.contrib.finders import RelationText
from django_mcp.contrib.models import ModelTools
from django_mcp.contrib.models.name_fields import find_name_fields
from django_mcp.registry.big_integers import or_digits
from django_mcp.test import MCPClient
from example_project.shop.models import Order, OrderLine, Product
from tests.support.library.models import Book, Loan, Shelf, Tag
from tests.support.queries import captured_queries
from tests.unit.contrib.models.conftest import START

pytestmark = pytest.mark.django_db


class Shelves(ModelTools):
    """Everybody sees their own."""

    model = Shelf
    fields = ["name"]

    def get_queryset(self, user: Any) -> Any:
        return Shelf.objects.filter(owner_id=user.pk)


class Tags(ModelTools):
    model = Tag
    fields = ["id", "name"]

    def get_queryset(self, user: Any) -> Any:
        return Tag.objects.exclude(name__startswith="hidden")


class Books(ModelTools):
    model = Book
    fields = ["isbn", "title", "shelf", "tags"]
    filters = ["shelf", "shelf__in"]
    writes = ["create", "update"]
    writable = ["isbn", "title", "shelf", "tags"]
    everyone = True
    version_field = ""


class Loans(ModelTools):
    """The key of a book is a text."""

    model = Loan
    fields = ["id", "days", "book"]
    filters = ["book"]
    writes = ["create"]
    everyone = True


@pytest.fixture
def client(server: MCPServer, ann: User) -> MCPClient:
    for cls in (Books, Shelves, Tags):
        cls.register(server=server)
    return MCPClient(server, user=ann, capabilities={})


@pytest.fixture
def shelves(ann: User, bob: User) -> list[Shelf]:
    names = [(ann, "poetry"), (bob, "novels"), (ann, "42")]
    return [Shelf.objects.create(owner=owner, name=name) for owner, name in names]


@pytest.fixture
def tags_by_name(monkeypatch: Any) -> None:
    """Give tags a natural key, which the database does not keep unique."""
    manager = Tag._default_manager
    monkeypatch.setattr(
        manager, "get_by_natural_key", lambda name: Tag.objects.get(name=name), raising=False
    )
    monkeypatch.setattr(Tag, "natural_key", lambda tag: (tag.name,), raising=False)


def create(client: MCPClient, **arguments: Any) -> Any:
    return client.call("create_book", isbn="1", title="Odes", **arguments)


def refused(result: Any) -> str:
    assert result.is_error
    assert not Book.objects.exists()
    return str(result.text)


def isbns(client: MCPClient, **filters: Any) -> list[str]:
    found = client.call("search_books", **filters)
    assert not found.is_error, found.text
    return [each["isbn"] for each in found.structured["results"]]


def describe(client: MCPClient, tool: str, argument: str) -> Any:
    (schema,) = (each["inputSchema"] for each in client.list_tools() if each["name"] == tool)
    return schema["properties"][argument]


def test_an_object_is_chosen_by_its_name(client: MCPClient, shelves: list[Shelf]):
    assert not create(client, shelf="poetry").is_error
    assert Book.objects.get().shelf == shelves[0]


def test_a_name_costs_one_query_and_a_key_none(client: MCPClient, shelves: list[Shelf]):
    with captured_queries() as by_key:
        assert not create(client, shelf=shelves[0].pk).is_error
    with captured_queries() as by_digits:
        client.call("create_book", isbn="2", title="Odes", shelf=str(shelves[0].pk))
    with captured_queries() as by_name:
        client.call("create_book", isbn="3", title="Odes", shelf="poetry")

    assert Book.objects.filter(shelf=shelves[0]).count() == 3
    assert len(by_digits) == len(by_key)
    assert len(by_name) == len(by_key) + 1


def test_a_key_comes_before_a_name(client: MCPClient, shelves: list[Shelf], ann: User):
    shelf = Shelf.objects.create(owner=ann, name=str(shelves[0].pk))

    create(client, shelf=shelf.name)
    assert Book.objects.get().shelf == shelves[0]


def test_digits_may_be_a_name(client: MCPClient, shelves: list[Shelf]):
    assert not Shelf.objects.filter(pk=42).exists()
    create(client, shelf="42")
    assert Book.objects.get().shelf == shelves[2]
    assert client.call("update_book", isbn="1", shelf=42).is_error


def test_digits_that_are_a_hidden_key_are_no_key(
    client: MCPClient, shelves: list[Shelf], ann: User
):
    Shelf.objects.filter(name="42").update(name=str(shelves[1].pk))

    create(client, shelf=str(shelves[1].pk))
    assert Book.objects.get().shelf == shelves[2]


def test_a_hidden_object_is_as_unknown_as_none(client: MCPClient, shelves: list[Shelf]):
    hidden = refused(create(client, shelf="novels"))
    unknown = refused(create(client, shelf="nothing"))

    assert hidden.replace("novels", "nothing") == unknown
    assert client.call("search_books", shelf="novels").text == (
        client.call("search_books", shelf="nothing").text.replace("nothing", "novels")
    )


@pytest.mark.parametrize(
    "name", ["Poetry", "poetry ", "", "x" * 10_000, "\0", "po\0etry", "9" * 30]
)
def test_other_texts_choose_nothing(client: MCPClient, shelves: list[Shelf], name: str):
    told = refused(create(client, shelf=name)) if name else ""
    assert len(told) < 500
    found = client.call("search_books", shelf=name)
    assert (found.is_error and len(found.text) < 500) or not found.structured["results"]


@pytest.mark.usefixtures("tags_by_name")
def test_the_members_of_a_relation_are_chosen_by_keys_and_names(client: MCPClient):
    tags = [Tag.objects.create(name=name) for name in ("old", "new", "hidden")]

    assert not create(client, tags=["new", str(tags[0].pk)]).is_error
    assert set(Book.objects.get().tags.all()) == {tags[0], tags[1]}
    Book.objects.get().tags.add(tags[2])
    assert not client.call("update_book", isbn="1", tags=["old"]).is_error
    assert set(Book.objects.get().tags.all()) == {tags[0], tags[2]}


@pytest.mark.usefixtures("tags_by_name")
def test_two_objects_of_one_name_are_listed(client: MCPClient):
    tags = [Tag.objects.create(name="old") for _ in range(2)]

    told = refused(create(client, tags=["old"]))
    assert all(str(tag.pk) in told for tag in tags)


@pytest.mark.usefixtures("tags_by_name")
def test_a_hidden_object_makes_no_name_ambiguous(client: MCPClient, monkeypatch: Any):
    tags = [Tag.objects.create(name="old") for _ in range(2)]
    monkeypatch.setattr(Tags, "get_queryset", lambda self, user: Tag.objects.filter(pk=tags[0].pk))

    assert not create(client, tags=["old"]).is_error
    assert list(Book.objects.get().tags.all()) == [tags[0]]


@pytest.mark.usefixtures("tags_by_name")
def test_an_error_lists_a_few_of_many(client: MCPClient):
    Tag.objects.bulk_create([Tag(name="old") for _ in range(200)])
    assert len(refused(create(client, tags=["old", "new"]))) < 500


def test_objects_are_found_by_names(client: MCPClient, shelves: list[Shelf]):
    for isbn, shelf in zip("12", (shelves[0], shelves[2]), strict=True):
        Book.objects.create(isbn=isbn, title="Odes", shelf=shelf)
    Book.objects.create(isbn="3", title="Odes", shelf=shelves[1])

    assert isbns(client, shelf="poetry") == ["1"]
    assert isbns(client, shelf="42") == ["2"]
    assert isbns(client, shelf=str(shelves[0].pk)) == ["1"]
    assert isbns(client, shelf__in=["poetry", shelves[2].pk, shelves[1].pk]) == ["1", "2"]
    with captured_queries() as by_key:
        isbns(client, shelf=shelves[0].pk)
    with captured_queries() as by_digits:
        isbns(client, shelf=str(shelves[0].pk))
    with captured_queries() as by_name:
        isbns(client, shelf="poetry")
    assert len(by_key) == len(by_digits) - 1 == len(by_name) - 1


def test_many_texts_cost_no_more_queries_than_one(client: MCPClient, shelves: list[Shelf]):
    Book.objects.create(isbn="1", title="Odes", shelf=shelves[2])
    selects = []
    for texts in (["42"], [*map(str, range(1000, 1090)), "42", "poetry"]):
        with captured_queries() as queries:
            assert isbns(client, shelf__in=texts) == ["1"]
        selects.append(sum(sql.count("SELECT") for sql in queries))

    assert selects[0] == selects[1]


def test_digits_that_are_neither_a_key_nor_a_name_find_nothing(
    client: MCPClient, shelves: list[Shelf]
):
    Book.objects.create(isbn="1", title="Odes", shelf=shelves[1])

    assert isbns(client, shelf__in=["4711", str(shelves[1].pk)]) == []
    assert isbns(client, shelf="4711") == isbns(client, shelf=str(shelves[1].pk)) == []


def test_a_field_that_is_not_shown_names_nothing(server: MCPServer, ann: User, shelves: Any):
    class Nameless(Shelves):
        fields = ["id"]

    for cls in (Books, Nameless):
        cls.register(server=server)
    client = MCPClient(server, user=ann, capabilities={})

    assert create(client, shelf="poetry").text == create(client, shelf="nothing").text
    assert "name" not in str(describe(client, "create_book", "shelf"))


def test_without_a_class_only_what_this_class_shows_is_a_name(
    server: MCPServer, ann: User, shelves: list[Shelf]
):
    class Shown(Books):
        fields = ["isbn", "shelf__name"]

    Books.register(server=server)
    Shown.register(server=server, prefix="shown_")
    client = MCPClient(server, user=ann, capabilities={})

    assert create(client, shelf="novels").is_error
    found = client.call("shown_create_book", isbn="1", title="Odes", shelf="novels")
    assert not found.is_error
    assert client.call("shown_search_books", shelf="novels").structured["results"]
    # No book of those that the caller sees leads to it.
    assert client.call("shown_search_books", shelf="poetry").is_error


def test_keys_that_are_texts_come_before_names(server: MCPServer, ann: User, monkeypatch: Any):
    manager = Book._default_manager
    monkeypatch.setattr(
        manager, "get_by_natural_key", lambda title: Book.objects.get(title=title), raising=False
    )
    Books.register(server=server)
    Loans.register(server=server)
    books = [Book.objects.create(isbn=n, title=title) for n, title in (("1", "Odes"), ("2", "11"))]
    Book.objects.create(isbn="11", title="Epodes")
    client = MCPClient(server, user=ann, capabilities={})

    for text in ("1", "Odes", "11"):
        assert not client.call("create_loan", days=1, book=text).is_error
    loans = list(Loan.objects.order_by("pk").values_list("book", flat=True))
    assert loans == ["1", "1", "11"]
    found = client.call("search_loans", book="Odes")
    assert [each["book"] for each in found.structured["results"]] == ["1", "1"]
    found = client.call("search_loans", book="11")
    assert [each["book"] for each in found.structured["results"]] == ["11"]
    assert books[1].pk == "2"


def test_an_argument_that_a_check_looks_at_takes_keys_alone(
    server: MCPServer, ann: User, shelves: list[Shelf]
):
    def check(user: Any, shelf: Any = None) -> bool:
        return shelf != shelves[0].pk

    Shelves.register(server=server)
    Books.register(server=server, check=check)
    client = MCPClient(server, user=ann, capabilities={})

    for text in ("poetry", shelves[0].pk, str(shelves[0].pk)):
        refused(create(client, shelf=text))
    assert client.call("search_books", shelf="poetry").is_error
    assert describe(client, "create_book", "shelf")["type"] == "integer"


def test_a_site_chooses_among_named_objects_as_among_others(
    server: MCPServer, ann: User, shelves: list[Shelf]
):
    class Limited(Books):
        def get_choices(self, user: Any, name: str, objects: Any) -> Any:
            return super().get_choices(user, name, objects).exclude(name="poetry")

    for cls in (Limited, Shelves):
        cls.register(server=server)
    client = MCPClient(server, user=ann, capabilities={})

    assert refused(create(client, shelf="poetry")).replace("poetry", "x") == refused(
        create(client, shelf="x")
    )


def test_the_description_names_the_tool_that_the_caller_sees(server: MCPServer, ann: User):
    class Closed(Shelves):
        def has_permission(self, user: Any, action: str) -> bool:
            return action == "get" or bool(user.is_staff)

    for cls in (Books, Closed):
        cls.register(server=server)
    staff = User.objects.create_user("boss", is_staff=True)

    told = describe(MCPClient(server, user=staff), "create_book", "shelf")["description"]
    assert told == "Key or name from search_shelves"
    told = describe(MCPClient(server, user=ann), "create_book", "shelf")["description"]
    assert told == "Key or name"
    assert "search_tags" not in str(describe(MCPClient(server, user=staff), "create_book", "tags"))


def test_a_filter_by_objects_says_what_it_takes(client: MCPClient):
    one, several = (describe(client, "search_books", name) for name in ("shelf", "shelf__in"))

    assert one["anyOf"] == several["items"]["anyOf"] == [{"type": "integer"}, {"type": "string"}]
    assert one["description"].endswith("Key or name from search_shelves")
    assert several["description"].endswith("Keys or name from search_shelves")


class OwnedShelves(ModelTools):
    """The owner is a user, who has a natural key."""

    model = Shelf
    fields = ["id", "name", "owner"]
    filters = ["owner", "owner__in", "owner__isnull"]
    writes = ["create", "update"]
    update_many = True
    writable = ["name", "owner"]
    everyone = True


class Members(ModelTools):
    """The groups of a user, who have a unique name."""

    model = User
    fields = ["id", "groups"]
    filters = ["groups", "groups__in"]
    writes = ["update"]
    writable = ["groups"]
    allow_sensitive = ["groups"]
    everyone = True


class Users(ModelTools):
    model = User
    fields = ["id", "username"]
    everyone = True


class Groups(ModelTools):
    model = Group
    fields = ["id", "name"]
    everyone = True


def kinds(schema: Any) -> list[str]:
    """Return the types that an argument takes, or those of its items; without null."""
    schema = schema.get("items", schema)
    return [each["type"] for each in schema.get("anyOf", [schema]) if each["type"] != "null"]


RELATIONS = [
    ("create_shelf", "owner"),
    ("update_shelf", "owner"),
    ("search_shelves", "owner"),
    ("search_shelves", "owner__in"),
    ("update_user", "groups"),
    ("search_users", "groups"),
    ("search_users", "groups__in"),
]


@pytest.mark.parametrize(("tool", "argument"), RELATIONS)
def test_an_argument_is_of_the_type_of_the_key_where_no_name_is_shown(
    server: MCPServer, ann: User, tool: str, argument: str
):
    OwnedShelves.register(server=server)
    Members.register(server=server)
    assert kinds(describe(MCPClient(server, user=ann), tool, argument)) == ["integer"]


@pytest.mark.parametrize(("tool", "argument"), RELATIONS)
def test_an_argument_takes_a_text_once_a_class_shows_the_name(
    server: MCPServer, ann: User, tool: str, argument: str
):
    for cls in (OwnedShelves, Members, Groups):
        cls.register(server=server)
    Users.register(server=server, prefix="named_")
    client = MCPClient(server, user=ann)
    assert kinds(describe(client, tool, argument)) == ["integer", "string"]


@pytest.mark.parametrize("has_names", [False, True])
def test_what_a_result_shows_of_a_relation_may_be_sent_back(
    server: MCPServer, ann: User, *, has_names: bool
):
    for cls in (OwnedShelves, Members, Books, Tags):
        cls.register(server=server)
    if has_names:
        Users.register(server=server, prefix="named_")
        Groups.register(server=server)
    client = MCPClient(server, user=ann, capabilities={})
    schemas = {each["name"]: each["inputSchema"] for each in client.list_tools()}

    def send(tool: str, **arguments: Any) -> Any:
        jsonschema.validate(arguments, schemas[tool])
        found = client.call(tool, arguments)
        assert not found.is_error, found.text
        return found.structured

    ann.groups.add(Group.objects.create(name="readers"))
    made = send("create_shelf", name="poetry", owner=ann.pk)
    assert send("update_shelf", id=made["id"], owner=made["owner"])["owner"] == ann.pk
    assert send("search_shelves", owner=made["owner"])["results"] == [made]
    assert send("search_shelves", owner__in=[made["owner"]])["results"] == [made]
    (member,) = send("search_users")["results"]
    assert send("update_user", **member) == member
    assert send("search_users", groups__in=member["groups"])["results"] == [member]
    tag = Tag.objects.create(name="old")
    book = send("create_book", isbn="1", title="Odes", shelf=made["id"], tags=[str(tag.pk)])
    assert send("update_book", isbn="1", shelf=book["shelf"], tags=book["tags"]) == book
    assert send("search_books", shelf__in=[book["shelf"]])["results"] == [book]


def test_a_large_key_is_published_as_it_is_shown(server: MCPServer):
    key = or_digits({"type": "integer"})
    text = RelationText(server, User, lambda: None, takes_names=True, key=key)
    named = {"anyOf": [{"type": "integer"}, {"type": "string"}, {"type": "null"}], "title": "Owner"}

    assert text.narrow(named) == {"anyOf": [*key["anyOf"], {"type": "null"}], "title": "Owner"}
    several = {"type": "array", "items": {"type": ["integer", "string"]}}
    assert text.copy(is_many=True).narrow(several) == {"type": "array", "items": key}


def test_secrets_and_choices_are_no_names():
    assert [field.name for field in find_name_fields(None, User)] == ["username"]
    assert [field.name for field in find_name_fields(None, Product)] == ["sku"]
    assert find_name_fields(None, OrderLine) == find_name_fields(None, Loan) == []


def test_a_customer_is_named_as_orders_show_it(server: MCPServer, staff: User, orders: Any):
    class Orders(ModelTools):
        model = Order
        fields = ["number", "customer__username"]
        filters = ["customer"]
        writes = ["create"]
        writable = ["number", "customer", "placed_at"]
        everyone = True

    Orders.register(server=server)
    client = MCPClient(server, user=staff, capabilities={})

    made = client.call("create_order", number="C-1", customer="ann", placed_at=START.isoformat())
    assert made.structured["customer"] == {"username": "ann"}
    found = client.call("search_orders", customer="bob").structured["results"]
    assert {each["number"] for each in found} == {"B-3", "B-4"}
    assert client.call("search_orders", customer="staff").is_error


def test_several_objects_are_found_by_a_name_and_changed_by_a_key(
    server: MCPServer, ann: User, shelves: list[Shelf]
):
    class Many(Books):
        update_many = True

    for cls in (Many, Shelves):
        cls.register(server=server)
    client = MCPClient(server, user=ann, capabilities={})
    for isbn, shelf in zip("12", (shelves[0], shelves[2]), strict=True):
        Book.objects.create(isbn=isbn, title="Odes", shelf=shelf)

    found, values = (describe(client, "update_many_books", each) for each in ("filters", "values"))
    assert "Key or name" in found["properties"]["shelf"]["description"]
    told = values["properties"]["shelf"]
    assert told["description"] == "From search_shelves"
    assert told["anyOf"][0] == {"type": "integer"}
    by_key = {"filters": {"shelf": "poetry"}, "values": {"shelf": shelves[2].pk}}
    by_name = {**by_key, "values": {"shelf": "42"}}
    for each in (by_name, by_key):
        asked = client.call("update_many_books", **each)
        if not asked.is_error:
            each["confirmation"] = asked.structured["confirmation"]
            asked = client.call("update_many_books", **each)
        assert asked.is_error == (each is by_name)
    assert set(Book.objects.values_list("shelf__name", flat=True)) == {"42"}


def test_several_objects_do_not_change_by_a_name_where_a_key_is_a_text(
    server: MCPServer, ann: User, monkeypatch: Any
):
    class Many(Loans):
        fields = ["id", "days", "book"]
        writes = ["update"]
        update_many = True
        version_field = ""

    manager = Book._default_manager
    monkeypatch.setattr(
        manager, "get_by_natural_key", lambda title: Book.objects.get(title=title), raising=False
    )
    Books.register(server=server)
    Many.register(server=server)
    Book.objects.create(isbn="1", title="Odes")
    book = Book.objects.create(isbn="2", title="Epodes")
    loan = Loan.objects.create(days=1, book=book)
    client = MCPClient(server, user=ann, capabilities={})

    for text, expected in (("Odes", "2"), ("1", "1")):
        call = {"ids": [loan.pk], "values": {"book": text}}
        asked = client.call("update_many_loans", **call).structured
        done = client.call("update_many_loans", **call, confirmation=asked["confirmation"])
        loan.refresh_from_db()
        assert (done.is_error, loan.book_id) == (expected == "2", expected)


class NamedTags(Tags):
    """The names of tags are not unique."""

    name_field = "name"


def make_named_client(*classes: type[ModelTools]) -> MCPClient:
    server = MCPServer("named", public=True)
    for cls in classes:
        cls.register(server=server)
    return MCPClient(server, user=User.objects.create_user("ann"))


def test_the_field_that_the_site_chose_names_objects():
    client = make_named_client(NamedTags, Books)
    tag = Tag.objects.create(name="odes")

    made = client.call("create_book", isbn="1", title="Odes", tags=["odes"])

    assert not made.is_error, made.text
    assert list(Book.objects.get().tags.all()) == [tag]


def test_two_objects_of_one_name_are_both_listed():
    client = make_named_client(NamedTags, Books)
    keys = [Tag.objects.create(name="odes").pk for _ in range(2)]

    made = client.call("create_book", isbn="1", title="Odes", tags=["odes"])

    assert made.is_error
    assert all(str(key) in made.text for key in keys)
    assert not Book.objects.exists()


def test_hidden_objects_are_not_found_by_the_chosen_field():
    client = make_named_client(NamedTags, Books)
    Tag.objects.create(name="hidden one")

    hidden = client.call("create_book", isbn="1", title="Odes", tags=["hidden one"])
    unknown = client.call("create_book", isbn="1", title="Odes", tags=["unknown on"])

    assert hidden.is_error
    assert hidden.text.replace("hidden one", "unknown on") == unknown.text


@pytest.mark.parametrize("name", ["id", "isbn", "nothing"])
def test_a_field_that_names_nothing_is_a_fault(name: str):
    server = MCPServer("named", public=True)
    cls: Any = type("Wrong", (Tags,), {"name_field": name})

    (fault,) = cls.register(server=server).find_faults()

    assert fault.id == "django_mcp.M012"
    assert name in fault.text
    assert server.registry.tools == {}


def test_a_class_that_names_objects_too_late_is_a_fault():
    server = MCPServer("named", public=True)
    Books.register(server=server)

    (fault,) = NamedTags.register(server=server).find_faults()

    assert "take objects of library.Tag by keys alone" in fault.text
