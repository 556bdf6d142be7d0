"""The create and update tools: their effects, validation and permissions."""

from __future__ import annotations

import gc
from typing import Any

import pytest
from django import forms
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import AnonymousUser, Permission, User
from django.contrib.contenttypes.models import ContentType
from django.db.models import Count, QuerySet

from django_mcp import MCPServer
from django_mcp.contrib.models import ModelTools
from django_mcp.protocol.revisions import REVISIONS
from django_mcp.test import MCPClient
from example_project.shop.models import Order, OrderLine
from tests.support.library.models import Book, Shelf, Tag
from tests.support.queries import captured_queries
from tests.support.spellings import UUID_SPELLINGS
from tests.unit.contrib.models.conftest import Orders

pytestmark = pytest.mark.django_db


class Shelves(ModelTools):
    model = Shelf
    fields = ["id", "name"]
    writes = ["create"]

    def get_queryset(self, user: Any) -> Any:
        return Shelf.objects.filter(owner_id=user.pk)

    def save_model(self, user: Any, instance: Any, form: Any, change: bool) -> None:
        instance.owner = user
        super().save_model(user, instance, form, change)


class Books(ModelTools):
    model = Book
    fields = ["isbn", "title", "shelf", "place", "tags", "updated_at"]
    writes = ["create", "update"]
    everyone = True


class Tags(ModelTools):
    model = Tag
    fields = ["id", "name"]
    filters = ["id"]
    writes = ["update", "delete"]
    everyone = True


class EditedOrders(Orders):
    fields = [*Orders.fields, "note"]
    writes = ["update", "create"]
    writable = ["number", "note", "status", "placed_at", "customer"]


@pytest.fixture
def client(server: MCPServer, orders: list[Order], ann: User) -> MCPClient:
    EditedOrders.register(server=server)
    return MCPClient(server, user=ann)


@pytest.fixture
def library(server: MCPServer, ann: User) -> MCPClient:
    Books.register(server=server)
    Shelves.register(server=server)
    return MCPClient(server, user=ann)


def problems(client: MCPClient, tool: str, **arguments: Any) -> list[str]:
    found = client.call(tool, **arguments)
    assert found.is_error, found.structured
    return found.text.splitlines()


def write(client: MCPClient, tool: str, **arguments: Any) -> Any:
    found = client.call(tool, **arguments)
    assert not found.is_error, found.text
    return found.structured


def update_book(client: MCPClient, isbn: str, **arguments: Any) -> Any:
    seen = client.call("get_book", isbn=isbn).structured["updated_at"]
    return client.call("update_book", isbn=isbn, if_unmodified=seen, **arguments)


# -- available tools


def test_writes_must_be_enabled_explicitly(server: MCPServer):
    Orders.register(server=server)

    assert set(server.registry.tools) == {"search_orders", "get_order"}


def test_the_tools_describe_their_arguments(client: MCPClient):
    tools = {tool["name"]: tool for tool in client.list_tools()}
    update, create = tools["update_order"], tools["create_order"]

    assert update["inputSchema"]["required"] == ["number"]
    assert set(update["inputSchema"]["properties"]) == {
        "number", "note", "status", "placed_at", "customer",
    }  # fmt: skip
    assert create["inputSchema"]["required"] == ["placed_at"]
    said = {
        tool["title"]: {hint for hint, value in tool["annotations"].items() if value is True}
        for tool in (create, update)
    }
    assert said == {
        "Create order": set(),
        "Update order": {"destructiveHint", "idempotentHint"},
    }
    shown = tools["get_order"]["outputSchema"]
    assert update["outputSchema"]["properties"] == shown["properties"]


@pytest.mark.parametrize("revision", sorted(each.name for each in REVISIONS))
def test_the_tools_conform_in_every_revision(
    server: MCPServer, orders: list[Order], ann: User, revision: str
):
    EditedOrders.register(server=server)
    client = MCPClient(server, user=ann, revision=revision)

    write(client, "update_order", number="A-0", note="ring")
    write(client, "create_order", placed_at="2026-01-01T00:00:00Z", customer=ann.pk)

    client.assert_conforms()


def test_writing_requires_a_logged_in_user(client: MCPClient):
    client.force_login(AnonymousUser())

    client.assert_hidden("update_order", "create_order")
    client.assert_visible("search_orders", "get_order")


def test_the_site_can_restrict_an_action(server: MCPServer, orders: Any, ann: User):
    class Guarded(EditedOrders):
        def has_permission(self, user: Any, action: str) -> bool:
            return user.is_staff or action == "get"

    Guarded.register(server=server)
    client = MCPClient(server, user=ann)

    client.assert_visible("get_order")
    client.assert_hidden("search_orders", "update_order", "create_order")


def test_options_apply_to_writes(server: MCPServer, orders: list[Order], ann: User):
    EditedOrders.register(
        server=server,
        exclude=["create"],
        names={"update": "edit"},
        check=lambda user, number="": number != "A-1",
    )
    client = MCPClient(server, user=ann)

    assert set(server.registry.tools) == {"search_orders", "get_order", "edit"}
    assert problems(client, "edit", number="A-1", note="x") == ["Not found."]
    assert write(client, "edit", number="A-0", note="x")["note"] == "x"


@pytest.mark.parametrize("spell", UUID_SPELLINGS)
def test_security_a_check_gets_a_key_as_the_model_has_it(server: MCPServer, ann: User, spell: Any):
    kept, free = (Tag.objects.create(name=name) for name in ("kept", "free"))
    Tags.register(server=server, check=lambda user, id=None: id != kept.pk)
    client = MCPClient(server, user=ann)
    client.answer({"delete": True})

    for tool, arguments in (("get_tag", {}), ("update_tag", {"name": "new"}), ("delete_tag", {})):
        assert problems(client, tool, id=spell(kept.pk), **arguments) == ["Not found."]
    assert problems(client, "search_tags", id=spell(kept.pk)) == ["Not found."]
    assert Tag.objects.get(pk=kept.pk).name == "kept"
    assert write(client, "search_tags", id=spell(free.pk))["results"][0]["name"] == "free"
    assert write(client, "update_tag", id=spell(free.pk), name="new")["name"] == "new"
    assert write(client, "delete_tag", id=spell(free.pk))["deleted"] is True


def test_a_key_that_no_object_can_have_reaches_no_check(server: MCPServer, ann: User):
    asked: list[Any] = []

    def note(user: User, id: Any = None) -> bool:
        asked.append(id)
        return True

    Tags.register(server=server, check=note)

    assert problems(MCPClient(server, user=ann), "get_tag", id="none") == ["Not found."]
    assert asked == []


# -- updates


def test_an_update_changes_the_named_fields_and_returns_the_object(client: MCPClient):
    before = client.call("get_order", number="A-0").structured

    after = write(client, "update_order", number="A-0", note="ring", status="cancelled")

    assert after == {**before, "note": "ring", "status": "cancelled"}
    assert client.call("get_order", number="A-0").structured == after


def test_writes_are_recorded_in_the_admin_history(client: MCPClient, ann: User):
    write(client, "update_order", number="A-0", note="ring")
    write(client, "create_order", placed_at="2026-01-01T00:00:00Z", customer=ann.pk)

    added, changed = LogEntry.objects.order_by("-pk")
    assert (changed.user, changed.object_repr) == (ann, "A-0")
    assert changed.get_change_message() == "Changed Note."
    assert added.is_addition()


def test_an_update_that_changes_nothing_leaves_no_line_in_the_history(client: MCPClient):
    write(client, "update_order", number="A-0", note="ring")
    write(client, "update_order", number="A-0", note="ring")
    write(client, "update_order", number="A-0")

    assert LogEntry.objects.count() == 1


def test_updating_anothers_object_looks_like_updating_a_missing_one(client: MCPClient):
    assert problems(client, "update_order", number="B-3", note="x") == ["Order not found."]
    assert problems(client, "update_order", number="X-9", note="x") == ["Order not found."]
    assert Order.objects.get(number="B-3").note == ""


def test_an_update_cannot_take_an_object_away_from_its_user(client: MCPClient, bob: User):
    told = problems(client, "update_order", number="A-0", customer=bob.pk)

    assert told[1:] == ["- (arguments): You could not see the result, so nothing was written."]
    assert Order.objects.get(number="A-0").customer != bob
    assert not LogEntry.objects.exists()


@pytest.mark.parametrize(
    ("arguments", "pointers"),
    [
        ({"status": "lost"}, ["/status"]),
        ({"note": "x" * 201, "status": "lost"}, ["/note", "/status"]),
        ({"note": "a\0"}, ["/note"]),
        ({"total": 1}, ["/total"]),
        ({"id": 1}, ["/id"]),
        ({"pk": 1}, ["/pk"]),
        ({"customer": 10**9}, ["/customer"]),
        ({"customer": 10**40}, ["/customer"]),
        ({"placed_at": "soon"}, ["/placed_at"]),
        ({"placed_at": None}, ["/placed_at"]),
        ({"lines": []}, ["/lines"]),
    ],
)
def test_unknown_and_invalid_fields_are_errors_by_field(
    client: MCPClient, arguments: Any, pointers: list[str]
):
    told = problems(client, "update_order", number="A-0", **arguments)

    assert told[0] == "Invalid arguments:"
    assert [line.split(":")[0].removeprefix("- ") for line in told[1:]] == pointers


def test_an_update_needs_one_lock_one_write_and_one_read(client: MCPClient):
    ContentType.objects.get_for_model(Order)
    # Servers of other tests follow changes of orders until they are collected.
    gc.collect()
    with captured_queries() as queries:
        write(client, "update_order", number="A-0", note="ring")

    own = [sql for sql in queries if "SAVEPOINT" not in sql]
    texts = [text.split(" ", 1)[0] for text in own]
    # The lock; the kept customer, the number and the customer as the model judges them; the write, the
    # history; the result with its lines.
    assert [text for text in texts if text != "SELECT"] == ["UPDATE", "INSERT"]
    assert len(texts) <= 9, "\n".join(own[5:])


# -- new objects


@pytest.mark.parametrize(
    "rows",
    [
        Order.objects.filter(customer__username="ann"),
        Order.objects.filter(lines__quantity__gt=0, customer__username="ann"),
        Order.objects.filter(lines__quantity__gt=0, customer__username="ann").distinct(),
        Order.objects.annotate(n=Count("lines")).filter(n=2, customer__username="ann"),
        Order.objects.filter(pk__in=Order.objects.filter(customer__username="ann").values("pk")),
        Order.objects.filter(number__in=["A-0", "A-1"]).only("status").select_related("customer"),
        Order.objects.filter(number__startswith="A").extra(select={"one": "1"}),
    ],
)
def test_an_update_finds_its_object_in_any_queryset(
    server: MCPServer, orders: list[Order], ann: User, rows: QuerySet[Order]
):
    class Filtered(EditedOrders):
        def get_queryset(self, user: Any) -> Any:
            return rows.all()

    Filtered.register(server=server)
    client = MCPClient(server, user=ann)

    assert write(client, "update_order", number="A-0", note="ring")["note"] == "ring"
    assert problems(client, "update_order", number="B-3", note="ring") == ["Order not found."]
    assert list(Order.objects.filter(note="ring")) == [orders[0]]


def test_an_object_can_only_be_created_for_its_user(client: MCPClient, ann: User, bob: User):
    made = write(client, "create_order", placed_at="2026-01-01T00:00:00Z", customer=ann.pk)
    told = problems(client, "create_order", placed_at="2026-01-01T00:00:00Z", customer=bob.pk)

    assert made["customer"] == {"username": "ann"}
    assert "You could not see the result" in told[1]
    assert bob.orders.count() == 2


def test_a_unique_violation_is_reported(client: MCPClient, ann: User):
    told = problems(
        client, "create_order", placed_at="2026-01-01T00:00:00Z", customer=ann.pk, number="A-0"
    )

    assert told == ["Invalid arguments:", "- /number: Order with this Number already exists."]


def test_the_site_can_set_fields_without_an_argument(library: MCPClient, ann: User):
    write(library, "create_shelf", name="novels")

    assert Shelf.objects.get().owner == ann


# -- versions


def test_an_update_names_the_version_it_is_based_on(library: MCPClient):
    made = write(library, "create_book", isbn="1", title="Emma")
    (tool,) = (each for each in library.list_tools() if each["name"] == "update_book")
    assert tool["inputSchema"]["required"] == ["isbn", "if_unmodified"]

    first = write(
        library, "update_book", isbn="1", title="Emma 2", if_unmodified=made["updated_at"]
    )
    stale = problems(
        library, "update_book", isbn="1", title="Emma 3", if_unmodified=made["updated_at"]
    )

    assert stale == ["This was changed in the meantime, so nothing was written. Read it again."]
    assert library.call("get_book", isbn="1").structured == first
    wrong = problems(library, "update_book", isbn="1", title="x", if_unmodified="soon")
    assert "/if_unmodified" in wrong[1]


def test_a_version_is_optional(server: MCPServer, orders: Any, ann: User):
    class Versioned(EditedOrders):
        version_field = "placed_at"

    class Free(Books):
        version_field = ""

    Versioned.register(server=server)
    Free.register(server=server)
    client = MCPClient(server, user=ann)
    Book.objects.create(isbn="1", title="Emma")

    assert "if_unmodified" in problems(client, "update_order", number="A-0", note="x")[1]
    seen = client.call("get_order", number="A-0").structured["placed_at"]
    write(client, "update_order", number="A-0", note="x", if_unmodified=seen)
    write(client, "update_book", isbn="1", title="Emma 2")


# -- constraints and the model's own rules


def test_model_validation_applies(library: MCPClient, ann: User):
    shelf = Shelf.objects.create(name="novels", owner=ann)
    Book.objects.create(isbn="1", title="Emma", shelf=shelf, place=1)
    Book.objects.create(isbn="2", title="Ulysses", shelf=shelf, place=2)

    assert update_book(library, "2", place=1).text.splitlines()[1:] == [
        "- (arguments): Constraint “library_one_book_at_a_place” is violated."
    ]
    assert "- /title: Ensure this value has at least 2" in update_book(library, "2", title="x").text
    assert update_book(library, "2", shelf=None).text.splitlines()[1:] == [
        "- /place: A place needs a shelf."
    ]
    assert "library_no_secret" in update_book(library, "2", title="secret").text
    assert not update_book(library, "2", shelf=None, place=None).is_error


def test_constraints_apply_when_a_form_lacks_some_of_their_fields(server: MCPServer, ann: User):
    class Placed(Books):
        version_field = ""
        writable = ["place"]

    Placed.register(server=server)
    shelf = Shelf.objects.create(name="novels", owner=ann)
    for n in (1, 2):
        Book.objects.create(isbn=str(n), title="Emma", shelf=shelf, place=n)

    told = problems(MCPClient(server, user=ann), "update_book", isbn="2", place=1)

    assert told[1:] == ["- (arguments): Constraint “library_one_book_at_a_place” is violated."]


def test_a_conditional_constraint_ignores_removed_rows(library: MCPClient, ann: User):
    shelf = Shelf.objects.create(name="novels", owner=ann)
    Book.objects.create(
        isbn="1", title="Emma", shelf=shelf, place=1, removed_at="2026-01-01T00:00Z"
    )
    Book.objects.create(isbn="2", title="Ulysses", shelf=shelf, place=2)

    assert not update_book(library, "2", place=1).is_error


def test_a_removed_row_is_not_found(library: MCPClient):
    Book.objects.create(isbn="1", title="Emma", removed_at="2026-01-01T00:00Z")

    found = library.call("update_book", isbn="1", title="x", if_unmodified="2026-01-01T00:00:00Z")

    assert found.text == "Book not found."


def test_security_a_new_object_does_not_overwrite_a_removed_one(library: MCPClient):
    Book.objects.create(isbn="1", title="Gone", removed_at="2026-01-01T00:00:00Z")

    found = library.call("create_book", isbn="1", title="New")

    assert "/isbn: Book with this ISBN already exists." in found.text
    assert Book.everything.get().title == "Gone"


def test_a_conflict_found_only_by_the_database_is_reported(server: MCPServer, ann: User):
    class Racing(forms.ModelForm):
        class Meta:
            model = Shelf
            fields = ["name"]

        def _post_clean(self) -> None:
            super()._post_clean()  # type: ignore[misc]
            Shelf.objects.create(name=self.instance.name, owner=ann)

    class Raced(Shelves):
        form = Racing

    Raced.register(server=server)

    told = problems(MCPClient(server, user=ann), "create_shelf", name="novels")

    assert told[1:] == ["- /name: Shelf with this Name already exists."]


def test_an_error_raised_only_by_the_database_is_logged(
    server: MCPServer, ann: User, caplog: pytest.LogCaptureFixture
):
    class Ownerless(Shelves):
        def save_model(self, user: Any, instance: Any, form: Any, change: bool) -> None:
            instance.save()

    Ownerless.register(server=server)

    told = problems(MCPClient(server, user=ann), "create_shelf", name="novels")

    assert told[1:] == ["- (arguments): The database requires a value that is missing."]
    assert "The database refused to write a shelf" in caplog.text


# -- related objects


def test_objects_of_other_users_cannot_be_chosen(library: MCPClient, ann: User, bob: User):
    Book.objects.create(isbn="1", title="Emma")
    own, foreign = (Shelf.objects.create(name=each.username, owner=each) for each in (ann, bob))

    refused = update_book(library, "1", shelf=foreign.pk).text
    assert refused == update_book(library, "1", shelf=10**6).text
    assert "- /shelf: Select a valid choice." in refused
    assert not update_book(library, "1", shelf=own.pk).is_error


def test_security_the_other_classs_permission_applies(server: MCPServer, ann: User):
    Books.register(server=server)
    Shelves.register(server=server, permission="library.view_shelf")
    client = MCPClient(server, user=ann)
    Book.objects.create(isbn="1", title="Emma")
    own = Shelf.objects.create(name="ann", owner=ann)

    assert "- /shelf: Select a valid choice." in update_book(client, "1", shelf=own.pk).text
    ann.user_permissions.add(Permission.objects.get(codename="view_shelf"))
    client.force_login(User.objects.get(pk=ann.pk))
    assert not update_book(client, "1", shelf=own.pk).is_error


def test_an_unnamed_relation_stays_even_if_it_cannot_be_chosen(library: MCPClient, bob: User):
    foreign = Shelf.objects.create(name="bob", owner=bob)
    Book.objects.create(isbn="1", title="Emma", shelf=foreign)

    assert not update_book(library, "1", title="Emma 2").is_error
    assert Book.objects.get().shelf == foreign


def test_many_to_many_is_written_by_keys(library: MCPClient):
    Book.objects.create(isbn="1", title="Emma")
    tag = Tag.objects.create(name="classic")

    update_book(library, "1", tags=[str(tag.pk)])
    update_book(library, "1", title="Emma 2")

    assert list(Book.objects.get().tags.all()) == [tag]
    assert "/tags" in update_book(library, "1", tags=["x"]).text
    assert "/tags" in update_book(library, "1", tags=[str(tag.pk)] * 1001).text


# -- forms of the site


def test_security_an_update_keeps_related_objects_the_user_cannot_choose(
    server: MCPServer, ann: User
):
    class SomeTags(ModelTools):
        model = Tag
        fields = ["id", "name"]

        def get_queryset(self, user: Any) -> Any:
            return Tag.objects.exclude(name="hidden")

    class Tagged(Books):
        fields = ["isbn", "title"]
        writable = ["tags"]
        writes = ["update"]

    SomeTags.register(server=server)
    Tagged.register(server=server)
    hidden, seen, other = (Tag.objects.create(name=name) for name in ("hidden", "seen", "other"))
    book = Book.objects.create(isbn="1", title="One")
    book.tags.set([hidden, seen])
    client = MCPClient(server, user=ann)

    assert not client.call("update_book", isbn="1", tags=[str(other.pk)]).is_error
    assert {each.name for each in book.tags.all()} == {"hidden", "other"}
    assert "/tags" in client.call("update_book", isbn="1", tags=[str(hidden.pk)]).text


class NoteForm(forms.ModelForm):
    shout = forms.BooleanField(required=False)

    class Meta:
        model = Order
        fields = ["note"]

    def __init__(self, *args: Any, user: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.user = user

    def clean(self) -> Any:
        data = super().clean() or {}
        if data.get("shout"):
            data["note"] = f"{self.user}: {data['note'].upper()}"
        return data


def test_a_form_of_the_site_writes(server: MCPServer, orders: list[Order], ann: User):
    class Noted(Orders):
        fields = ["number", "note"]
        sortable_by = ["note"]
        writes = ["update"]
        form = NoteForm

        def get_form_kwargs(self, user: Any) -> dict[str, Any]:
            return {"user": user}

    Noted.register(server=server)

    shown = write(
        MCPClient(server, user=ann), "update_order", number="A-0", note="ring", shout=True
    )

    assert shown == {"number": "A-0", "note": "ann: RING"}


class ForAnn(NoteForm):
    """Has fewer fields for others than ann."""

    def __init__(self, *args: Any, user: Any, **kwargs: Any) -> None:
        super().__init__(*args, user=user, **kwargs)
        if user.username != "ann":
            del self.fields["shout"]


def test_a_field_that_the_form_lacks_for_a_user_is_refused(
    server: MCPServer, orders: list[Order], ann: User, bob: User
):
    class Noted(ModelTools):
        model = Order
        everyone = True
        fields = ["number", "note"]
        writes = ["update"]
        form = ForAnn

        def get_form_kwargs(self, user: Any) -> dict[str, Any]:
            return {"user": user}

    Noted.register(server=server)
    sent = {"number": "A-0", "note": "ring"}

    assert write(MCPClient(server, user=ann), "update_order", shout=True, **sent)
    found = MCPClient(server, user=bob).call("update_order", shout=True, **sent)
    assert "/shout: You cannot set this field." in found.text
    assert not write(MCPClient(server, user=bob), "update_order", **sent).get("shout")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"writes": ["remove"]}, "writes names 'remove'"),
        ({"writes": ["update"], "fields": ["lines__id"]}, "there is no field to write"),
        ({"writes": ["update"], "writable": ["nummer"]}, "writable: Unknown field(s) (nummer)"),
        ({"writes": ["update"], "form": forms.Form}, "form is no ModelForm of shop.Order"),
        (
            {"writes": ["update"], "form": forms.modelform_factory(OrderLine, fields=["order"])},
            "form is no ModelForm of shop.Order",
        ),
        (
            {"writes": ["update"], "version_field": "note"},
            "version_field names 'note', which is not a field among fields",
        ),
    ],
)
def test_wrong_options_are_faults(server: MCPServer, options: Any, text: str):
    cls: Any = type("Made", (ModelTools,), {"model": Order, "fields": ["number"], **options})
    cls.everyone = True

    (fault,) = cls.register(server=server).find_faults()

    assert (fault.id, fault.text[: len(text)]) == ("django_mcp.M005", text)
    assert server.registry.tools == {}


def test_a_secret_must_be_made_writable_explicitly(server: MCPServer):
    class Users(ModelTools):
        model = User
        fields = ["username"]
        writable = ["password"]
        writes = ["update"]
        everyone = True

    (fault,) = Users.register(server=server).find_faults()

    assert fault.id == "django_mcp.M002"


class OwnAccount(ModelTools):
    model = User
    fields = ["id", "username", "is_superuser", "is_staff", "groups", "user_permissions"]
    writes = ["update"]
    update_many = True

    def get_queryset(self, user: Any) -> Any:
        return User.objects.filter(pk=user.pk)


def test_security_fields_that_give_rights_are_written_only_if_they_are_named(
    server: MCPServer, ann: User
):
    OwnAccount.register(server=server)
    client = MCPClient(server=server, user=ann)

    refused = client.call("update_user", id=ann.pk, username="anna", is_superuser=True)
    done = client.call("update_user", id=ann.pk, username="anna")

    ann.refresh_from_db()
    assert refused.is_error
    assert done.structured["username"] == "anna"
    assert done.structured["is_superuser"] is False
    assert not ann.is_superuser
    many = server.registry.tools["update_many_users"]
    assert list(many.input_schema["properties"]["values"]["properties"]) == ["username"]


def test_a_field_that_gives_rights_is_written_if_writable_names_it(server: MCPServer, ann: User):
    class Accounts(OwnAccount):
        writable = ["username", "is_staff"]

    Accounts.register(server=server)
    client = MCPClient(server=server, user=ann)

    assert client.call("update_user", id=ann.pk, is_staff=True).structured["is_staff"] is True
