"""One function decides for every tool, the resource, its completion and the choices of forms."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User

from django_mcp import MCPServer
from django_mcp.contrib.models import ModelTools
from django_mcp.inprocess import MCPError
from django_mcp.test import MCPClient
from tests.support.library.models import Book, Shelf

pytestmark = pytest.mark.django_db

ACTIONS = {"search", "get", "create", "update", "delete"}
TOOLS = {
    "search": "search_shelves",
    "get": "get_shelf",
    "create": "create_shelf",
    "update": "update_shelf",
    "delete": "delete_shelf",
}


class Shelves(ModelTools):
    model = Shelf
    fields = ["id", "name"]
    writes = ["create", "update", "delete"]
    _allowed: frozenset[str] = frozenset()

    def get_queryset(self, user: Any) -> Any:
        return Shelf.objects.filter(owner_id=user.pk)

    def has_permission(self, user: Any, action: str) -> bool:
        return action in self._allowed

    def save_model(self, user: Any, instance: Any, form: Any, change: bool) -> None:
        instance.owner = user
        instance.save()


class Books(ModelTools):
    model = Book
    fields = ["isbn", "shelf"]
    writes = ["update"]
    everyone = True
    version_field = ""


def make(server: MCPServer, user: User, allowed: set[str]) -> MCPClient:
    cls: Any = type("Allowed", (Shelves,), {"_allowed": frozenset(allowed)})
    cls.register(server=server)
    return MCPClient(server, user=user, capabilities={})


def arguments(action: str, shelf: Shelf) -> dict[str, Any]:
    if action == "search":
        return {}
    if action == "create":
        return {"name": "new"}
    return {"id": shelf.pk, **({"name": "x"} if action == "update" else {})}


@pytest.mark.parametrize("action", sorted(ACTIONS))
def test_each_action_has_its_own_permission(server: MCPServer, ann: User, action: str):
    shelf = Shelf.objects.create(name="ann", owner=ann)
    client = make(server, ann, ACTIONS - {action})

    client.assert_hidden(TOOLS[action])
    with pytest.raises(MCPError, match="Unknown tool"):
        client.call(TOOLS[action], **arguments(action, shelf))
    for other in sorted(ACTIONS - {action}):
        found = client.call(TOOLS[other], **arguments(other, shelf))
        # A write returns the written object even if the user may not read it.
        assert not found.is_error, found.text


@pytest.mark.parametrize("action", ["get", "update", "delete"])
def test_another_users_object_is_unknown_to_each_action(
    server: MCPServer, ann: User, bob: User, action: str
):
    foreign = Shelf.objects.create(name="bob", owner=bob)
    client = make(server, ann, ACTIONS)

    found = client.call(TOOLS[action], **arguments(action, foreign))

    assert (found.is_error, found.text) == (True, "Shelf not found.")
    assert Shelf.objects.get().name == "bob"


def test_without_get_permission_an_object_cannot_be_read_or_chosen(server: MCPServer, ann: User):
    shelf = Shelf.objects.create(name="ann", owner=ann)
    Book.objects.create(isbn="1", title="Emma")
    client = make(server, ann, {"search", "update"})
    Books.register(server=server)

    assert [each["name"] for each in client.list_resource_templates()] == ["book"]
    with pytest.raises(MCPError):
        client.read(f"shelf://{shelf.pk}")
    with pytest.raises(MCPError):
        client.complete("shelf://{id}", "id", "")
    assert "/shelf" in client.call("update_book", isbn="1", shelf=shelf.pk).text


def test_no_argument_reaches_a_secret_of_a_related_object(server: MCPServer, ann: User):
    Shelf.objects.create(name="ann", owner=ann)
    client = make(server, ann, ACTIONS)

    for name in ("owner__password__startswith", "owner__password", "owner"):
        for action in ("search", "create", "update"):
            shelf = Shelf.objects.get(name="ann")
            found = client.call(TOOLS[action], **arguments(action, shelf), **{name: "a"})
            assert found.text.splitlines()[1].startswith(f"- /{name}:")


@pytest.mark.parametrize(
    ("make", "fault"),
    [
        (lambda rows: rows.order_by("pk")[:10], "returned a slice"),
        (lambda rows: rows.union(rows), "returned a union"),
        (lambda rows: rows.values("name"), "returned rows without objects"),
        (lambda rows: rows.values_list("pk", flat=True), "returned rows without objects"),
        (list, "returned an object of list"),
    ],
)
def test_what_no_search_can_filter_is_an_error_that_names_its_function(
    server: MCPServer,
    ann: User,
    caplog: pytest.LogCaptureFixture,
    make: Any,
    fault: str,
):
    class Cut(ModelTools):
        model = Shelf
        fields = ["id", "name"]

        def get_queryset(self, user: Any) -> Any:
            return make(Shelf.objects.all())

    Cut.register(server=server)

    assert MCPClient(server, user=ann, capabilities={}).call("search_shelves").is_error

    assert "Cut.get_queryset (" in caplog.text
    assert fault in caplog.text
    assert "Cannot reorder" not in caplog.text
