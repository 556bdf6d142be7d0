"""Objects as resources: reading, completion, and notifications of changes."""

from __future__ import annotations

import gc
import json
import weakref
from typing import Any
from urllib.parse import quote

import pytest
from django.contrib.auth.models import User
from django.test import TestCase
from django.utils import timezone

from django_mcp import MCPServer
from django_mcp.contrib.models import ModelTools, notify_changed
from django_mcp.inprocess import MCPError
from django_mcp.protocol.revisions import REVISIONS
from django_mcp.test import MCPClient
from example_project.shop.models import Order, OrderLine
from tests.support.library.models import Book, Shelf, Tag
from tests.support.spellings import UUID_SPELLINGS
from tests.unit.contrib.models.conftest import Orders

pytestmark = pytest.mark.django_db


@pytest.fixture
def client(server: MCPServer, orders: list[Order], ann: User) -> MCPClient:
    Orders.register(server=server)
    return MCPClient(server, user=ann)


class Books(ModelTools):
    model = Book
    fields = ["isbn", "title", "tags__name"]
    everyone = True


class Shelves(ModelTools):
    model = Shelf
    fields = ["id", "name"]
    everyone = True


class Tags(ModelTools):
    model = Tag
    fields = ["id", "name"]
    everyone = True


# -- reading


def read(client: MCPClient, uri: str) -> Any:
    return json.loads(client.read(uri).text)


@pytest.mark.parametrize("revision", sorted(each.name for each in REVISIONS))
def test_an_object_is_a_resource(server: MCPServer, orders: Any, ann: User, revision: str):
    Orders.register(server=server)
    client = MCPClient(server, user=ann, revision=revision)

    (template,) = client.list_resource_templates()
    assert template["uriTemplate"] == "order://{number}"
    assert template["name"] == "order"
    assert template["mimeType"] == "application/json"
    shown = read(client, "order://A-0")
    assert shown == client.call("get_order", number="A-0").structured or revision < "2025-06-18"
    assert shown["number"] == "A-0"
    client.assert_conforms()


def test_another_users_object_looks_like_a_missing_one(client: MCPClient):
    told = []
    for uri in ("order://B-3", "order://X-9", "order://%00", "order://999999999999999999999"):
        with pytest.raises(MCPError) as raised:
            client.read(uri)
        told.append((raised.value.code, raised.value.message.replace(uri, "")))

    assert len(set(told)) == 1


def test_the_key_is_escaped_in_a_uri(server: MCPServer, ann: User):
    Books.register(server=server)
    Book.objects.create(isbn="b ü", title="Emma")

    assert read(MCPClient(server, user=ann), "book://b%20%C3%BC")["title"] == "Emma"


def test_options_apply_to_the_resource(server: MCPServer, orders: Any, ann: User):
    class Asked(Orders):
        uri = "shop://orders/{number}"

    Asked.register(server=server, check=lambda user, number="": number != "A-1" and user == ann)
    Orders.register(server=server, prefix="my_")
    Orders.register(server=server, prefix="no_", exclude=["resource"])
    Orders.register(server=server, prefix="p_", permission="shop.view_order")
    client = MCPClient(server, user=ann)

    assert [each["uriTemplate"] for each in client.list_resource_templates()] == [
        "shop://orders/{number}",
        "my-order://{number}",
    ]
    assert read(client, "shop://orders/A-0")["number"] == "A-0"
    for hidden in ("shop://orders/A-1", "p-order://A-0"):
        with pytest.raises(MCPError):
            client.read(hidden)


def test_the_site_can_restrict_reading(server: MCPServer, orders: Any, ann: User, staff: User):
    class Guarded(Orders):
        def has_permission(self, user: Any, action: str) -> bool:
            return bool(user.is_staff)

    Guarded.register(server=server)

    assert MCPClient(server, user=ann).list_resource_templates() == []
    assert read(MCPClient(server, user=staff), "order://A-0")["number"] == "A-0"


# -- completion


def complete(client: MCPClient, uri: str, name: str, value: str) -> list[str]:
    return list(client.complete(uri, name, value).values)


def test_keys_of_the_users_objects_are_completed(client: MCPClient, staff: User):
    assert complete(client, "order://{number}", "number", "A") == ["A-0", "A-1", "A-2"]
    assert complete(client, "order://{number}", "number", "B") == []
    assert complete(client, "order://{number}", "number", "%") == []
    assert complete(client, "order://{number}", "number", "A\0") == []
    client.force_login(staff)
    assert complete(client, "order://{number}", "number", "B-") == ["B-3", "B-4"]


def test_security_only_keys_that_the_check_allows_are_completed(
    server: MCPServer, orders: Any, ann: User
):
    Orders.register(server=server, check=lambda user, number="": number != "A-1" and user == ann)

    found = complete(MCPClient(server, user=ann), "order://{number}", "number", "A")
    assert found == ["A-0", "A-2"]


def test_security_an_asynchronous_check_allows_nothing(server: MCPServer, orders: Any, ann: User):
    async def check(user: Any, number: str = "") -> bool:
        return False

    Orders.register(server=server, check=check, include=["resource"])

    with pytest.raises(MCPError):
        MCPClient(server, user=ann).read("order://A-0")


def test_numbers_and_other_keys_are_completed(server: MCPServer, ann: User):
    Shelves.register(server=server)
    Tags.register(server=server)
    client = MCPClient(server, user=ann)
    shelf = Shelf.objects.create(name="novels", owner=ann)
    tag = Tag.objects.create(name="old")

    assert complete(client, "shelf://{id}", "id", str(shelf.pk)[0]) == [str(shelf.pk)]
    assert complete(client, "shelf://{id}", "id", "x") == []
    assert complete(client, "tag://{id}", "id", "") == [str(tag.pk)]
    assert complete(client, "tag://{id}", "id", str(tag.pk)) == [str(tag.pk)]
    assert complete(client, "tag://{id}", "id", "x") == []


@pytest.mark.parametrize("spell", UUID_SPELLINGS)
def test_security_a_check_gets_a_key_as_the_model_has_it(server: MCPServer, ann: User, spell: Any):
    kept, free = (Tag.objects.create(name=name) for name in ("kept", "free"))
    Tags.register(server=server, check=lambda user, id=None: id != kept.pk)
    client = MCPClient(server, user=ann)

    assert read(client, f"tag://{quote(spell(free.pk))}")["name"] == "free"
    with pytest.raises(MCPError):
        client.read(f"tag://{quote(spell(kept.pk))}")
    assert complete(client, "tag://{id}", "id", spell(free.pk)) == [str(free.pk)]
    assert complete(client, "tag://{id}", "id", spell(kept.pk)) == []


def test_a_key_that_no_object_can_have_reaches_no_check(
    server: MCPServer, ann: User, caplog: pytest.LogCaptureFixture
):
    asked: list[Any] = []

    def note(user: User, id: Any = None) -> bool:
        asked.append(id)
        return True

    Tags.register(server=server, check=note)

    with pytest.raises(MCPError, match="not found"):
        MCPClient(server, user=ann).read("tag://none")
    assert (asked, caplog.records) == ([], [])


# -- changes


def changed(client: MCPClient, uris: list[str], change: Any) -> list[str]:
    with client.subscribe(*uris) as changes:
        with TestCase.captureOnCommitCallbacks(execute=True):
            change()
        # The first is awaited for as long as a busy machine may take; only then is there a limit on more.
        heard = [changes.next(timeout_s=30)["params"]["uri"]]
        try:
            while True:
                heard.append(changes.next(timeout_s=0.2)["params"]["uri"])
        except TimeoutError:
            return heard


@pytest.mark.parametrize("revision", sorted(each.name for each in REVISIONS)[1:])
def test_a_change_notifies_clients_that_may_view_the_object(
    client: MCPClient, orders: list[Order], ann: User, revision: str
):
    client = MCPClient(client.server, user=ann, revision=revision)

    assert changed(client, ["order://A-0"], orders[0].save) == ["order://A-0"]


def test_a_change_of_anothers_object_sends_no_notification(
    client: MCPClient, orders: list[Order], ann: User
):
    def change() -> None:
        orders[3].save()
        orders[0].save()

    moved = orders[0]
    uris = ["order://A-0", "order://A-1"]
    assert changed(client, uris, change) == ["order://A-0"]
    with client.subscribe("order://A-0") as changes:
        with TestCase.captureOnCommitCallbacks(execute=True):
            moved.customer = orders[3].customer
            moved.save()
        with pytest.raises(TimeoutError):
            changes.next(timeout_s=0.1)


def test_a_change_of_a_line_notifies_about_its_order(client: MCPClient, orders: list[Order]):
    uris = ["order://A-0", "order://A-1"]

    assert changed(client, uris, orders[0].lines.all()[0].save) == ["order://A-0"]
    assert changed(client, uris, orders[1].lines.all()[0].delete) == ["order://A-1"]


def test_a_change_of_members_notifies_about_the_object(server: MCPServer, ann: User):
    Books.register(server=server)
    client = MCPClient(server, user=ann)
    book = Book.objects.create(isbn="1", title="Emma")
    tag = Tag.objects.create(name="old")

    assert changed(client, ["book://1"], lambda: book.tags.add(tag)) == ["book://1"]
    assert changed(client, ["book://1"], lambda: tag.book_set.remove(book)) == ["book://1"]


def test_deleting_a_public_object_sends_a_notification(server: MCPServer, ann: User):
    class Open(Shelves):
        uri = "open://{id}"

    class Closed(Shelves):
        uri = "closed://{id}"

        def get_queryset(self, user: Any) -> Any:
            return Shelf.objects.all()

    first, second = (Shelf.objects.create(name=name, owner=ann) for name in ("old", "new"))
    for cls, options in ((Open, {}), (Closed, {"prefix": "closed_"})):
        cls.register(server=server, **options)
    Shelves.register(server=server, prefix="asked_", check=lambda user, id=0: id != second.pk)
    client = MCPClient(server, user=ann)
    uris = [f"{scheme}://{first.pk}" for scheme in ("asked-shelf", "closed", "open")]

    def delete() -> None:
        Shelf.objects.all().delete()

    told = changed(client, [*uris, f"open://{second.pk}"], delete)
    assert sorted(told) == sorted([uris[0], uris[2], f"open://{second.pk}"])
    with pytest.raises(MCPError, match="not found"):
        client.read(uris[2])
    client.assert_conforms()


def test_rows_outside_the_default_manager_send_no_notification(server: MCPServer, ann: User):
    Books.register(server=server)
    Book.objects.create(isbn="1", title="Emma")
    removed = Book.objects.create(isbn="2", title="Persuasion", removed_at=timezone.now())

    def change() -> None:
        removed.save()
        Book.objects.get(isbn="1").save()

    assert changed(MCPClient(server, user=ann), ["book://1", "book://2"], change) == ["book://1"]


def test_the_site_can_notify_about_changes_without_signals(client: MCPClient, orders: list[Order]):
    rows = Order.objects.filter(pk__in=[orders[0].pk, orders[3].pk])

    def update() -> None:
        rows.update(note="x")
        notify_changed(rows)

    def update_some() -> None:
        notify_changed([orders[0]])
        notify_changed([])
        notify_changed(OrderLine.objects.all())

    assert changed(client, ["order://A-0"], update) == ["order://A-0"]
    assert changed(client, ["order://A-0"], update_some) == ["order://A-0"]


def test_a_rollback_sends_no_notification(client: MCPClient, orders: list[Order]):
    with client.subscribe("order://A-0") as changes:
        with TestCase.captureOnCommitCallbacks(execute=False):
            orders[0].save()
        with pytest.raises(TimeoutError):
            changes.next(timeout_s=0.1)


@pytest.mark.slow
def test_a_collected_server_releases_its_signal_handlers():
    server = MCPServer("gone", public=True)
    follower = weakref.ref(Shelves.register(server=server).live)
    assert follower() is not None

    del server
    gc.collect()
    gc.collect()  # of what only the server held

    assert follower() is None
