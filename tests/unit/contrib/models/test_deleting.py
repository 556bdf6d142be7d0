"""The delete tool: it lists cascades, asks the user, or else needs a confirmation."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User

from django_mcp import MCPServer
from django_mcp.contrib.models import ModelTools
from django_mcp.protocol.revisions import REVISIONS
from django_mcp.test import MCPClient
from example_project.shop.models import Order, Product
from tests.support.library.models import Book, Loan, Reminder, Shelf
from tests.unit.contrib.models.conftest import Orders

pytestmark = pytest.mark.django_db

QUESTION = 'Delete order "A-0"? This cannot be undone. This also deletes: 2 order lines.'


class DeletedOrders(Orders):
    writes = ["delete"]


@pytest.fixture
def client(server: MCPServer, orders: list[Order], ann: User) -> MCPClient:
    DeletedOrders.register(server=server)
    return MCPClient(server, user=ann, capabilities={})


@pytest.fixture
def asked(client: MCPClient, ann: User) -> MCPClient:
    return MCPClient(client.server, user=ann)


def delete(client: MCPClient, **arguments: Any) -> Any:
    found = client.call("delete_order", **arguments)
    assert not found.is_error, found.text
    return found.structured


@pytest.mark.parametrize("revision", sorted(each.name for each in REVISIONS))
def test_the_user_is_asked_if_the_client_supports_elicitation(
    client: MCPClient, ann: User, revision: str
):
    asked = MCPClient(client.server, user=ann, revision=revision)
    if revision < "2025-06-18":
        told = json.loads(asked.call("delete_order", number="A-0").text)
        assert (told["deleted"], told["message"]) == (False, QUESTION)
        return
    asked.answer({"delete": True})

    done = delete(asked, number="A-0")

    assert [each.message for each in asked.questions] == [QUESTION]
    assert done["deleted"] is True
    assert done["falls"] == [{"what": "order lines", "count": 2}]
    assert not Order.objects.filter(number="A-0").exists()
    entry = LogEntry.objects.get()
    assert (entry.user, entry.object_repr, entry.is_deletion()) == (ann, "A-0", True)
    asked.assert_conforms()


@pytest.mark.parametrize("answer", [False, None, {"delete": False}])
def test_nothing_is_deleted_unless_the_user_agrees(asked: MCPClient, answer: Any):
    asked.answer(answer)

    done = delete(asked, number="A-0")

    assert done["deleted"] is False
    assert Order.objects.filter(number="A-0").exists()
    assert not LogEntry.objects.exists()


def test_a_client_that_cannot_ask_confirms_by_a_second_call(client: MCPClient):
    told = delete(client, number="A-0")
    assert (told["deleted"], told["message"]) == (False, QUESTION)
    assert Order.objects.filter(number="A-0").exists()

    done = delete(client, number="A-0", confirmation=told["confirmation"])

    assert done["deleted"] is True
    assert not Order.objects.filter(number="A-0").exists()


def refuse(client: MCPClient, **arguments: Any) -> str:
    found = client.call("delete_order", **arguments)
    assert found.is_error
    return found.text


def test_a_confirmation_is_bound_to_user_object_and_state(client: MCPClient, staff: User):
    confirmation = delete(client, number="A-0")["confirmation"]
    wrong = "The confirmation is not for this"

    assert wrong in refuse(client, number="A-1", confirmation=confirmation)
    assert wrong in refuse(client, number="A-0", confirmation=confirmation[:-1] + "x")
    assert wrong in refuse(client, number="A-0", confirmation="x")
    assert "/confirmation" in refuse(client, number="A-0", confirmation="x" * 501)
    other = MCPClient(client.server, user=staff, capabilities={})
    assert wrong in refuse(other, number="A-0", confirmation=confirmation)
    Order.objects.get(number="A-0").lines.all()[0].delete()
    assert wrong in refuse(client, number="A-0", confirmation=confirmation)
    confirmation = delete(client, number="A-0")["confirmation"]
    Order.objects.filter(number="A-0").update(note="needed")
    assert wrong in refuse(client, number="A-0", confirmation=confirmation)
    assert Order.objects.count() == 5


def test_a_confirmation_does_not_replace_the_users_answer(client: MCPClient, asked: MCPClient):
    confirmation = delete(client, number="A-0")["confirmation"]
    asked.answer(False)

    assert delete(asked, number="A-0", confirmation=confirmation)["deleted"] is False
    assert Order.objects.filter(number="A-0").exists()


def test_the_user_is_asked_again_if_more_objects_would_be_deleted(
    asked: MCPClient, orders: list[Order]
):
    def agree(key: str, question: Any) -> Any:
        if len(asked.questions) == 1:
            orders[0].lines.all()[0].delete()
        return {"delete": True}

    asked.answer(agree)

    assert delete(asked, number="A-0")["falls"] == [{"what": "order line", "count": 1}]
    assert len(asked.questions) == 2


def test_another_users_object_looks_like_a_missing_one(client: MCPClient):
    assert refuse(client, number="B-3") == refuse(client, number="X-9") == "Order not found."


def test_protected_objects_are_not_deleted(server: MCPServer, orders: list[Order], staff: User):
    class Products(ModelTools):
        model = Product
        fields = ["sku"]
        everyone = True
        writes = ["delete"]

    Products.register(server=server)

    found = MCPClient(server, user=staff).call("delete_product", sku="p-0")

    assert found.text == (
        'product "p-0" cannot be deleted, because other objects refer to it: 5 order lines.'
    )
    assert Product.objects.count() == 2


class Books(ModelTools):
    model = Book
    fields = ["isbn"]
    everyone = True
    writes = ["delete"]

    def delete_model(self, user: Any, instance: Any) -> None:
        instance.removed_at = "2026-01-01T00:00Z"
        instance.save()


def test_all_cascade_levels_are_counted_and_deletion_can_be_customized(
    server: MCPServer, ann: User
):
    Books.register(server=server)
    shelf = Shelf.objects.create(name="novels", owner=ann)
    book = Book.objects.create(isbn="1", title="Emma", shelf=shelf)
    for _ in range(2):
        Reminder.objects.create(loan=Loan.objects.create(book=book), text="late")
    client = MCPClient(server, user=ann)
    client.answer(True)
    client.answer({"delete": True})

    done = client.call("delete_book", isbn="1").structured

    assert done["falls"] == [{"what": "loans", "count": 2}, {"what": "reminders", "count": 2}]
    assert Book.everything.get().removed_at is not None
    assert client.call("delete_book", isbn="1").text == "Book not found."
