"""Values that a REST view or an operation would have to refuse one by one: one call cannot have many."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import django_filters
import pytest
from django.db import connection
from django.urls import path
from django_filters.rest_framework import DjangoFilterBackend
from ninja import NinjaAPI, Query, Schema
from rest_framework import serializers
from rest_framework.generics import CreateAPIView, ListAPIView

from django_mcp import MCPServer
from django_mcp.contrib.drf import viewset_tools
from django_mcp.contrib.ninja import operation_tools
from tests.support.library.models import Book, Shelf, Tag

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _same_thread(settings: Any) -> None:
    settings.DJANGO_MCP = {"SYNC_THREADS": 0}
    settings.ROOT_URLCONF = __name__


class Dates(serializers.Serializer[Any]):
    items = serializers.ListField(child=serializers.DateField())

    def create(self, validated_data: Any) -> Any:
        return validated_data


class AddDates(CreateAPIView[Any]):
    """Add dates."""

    serializer_class = Dates
    permission_classes = ()


class Item(Schema):
    when: datetime | date | Decimal | UUID


api = NinjaAPI(urls_namespace="large bodies")


@api.post("/numbers")
def add_numbers(request: Any, items: list[Decimal]) -> Any:
    """Add numbers."""
    return len(items)


@api.post("/any")
def add_any(request: Any, items: list[Item]) -> Any:
    """Add items of four forms."""
    return len(items)


@api.get("/tagged")
def tagged(request: Any, tags: Query[list[str]]) -> Any:
    """Find books with all of some tags."""
    found = Book.objects.all()
    for each in tags:
        found = found.filter(tags__name=each)
    return found.count()


urlpatterns = [path("dates", AddDates.as_view()), path("api/", api.urls)]


@pytest.mark.parametrize(
    ("tool", "argument", "item", "most"),
    [
        ("add_numbers", "body", "1", 49_999),
        # Each value is compared with four forms.
        ("add_any", "body", {"when": "2026-01-01"}, 6_249),
        ("dates_post", "items", "2026-01-01", 49_999),
    ],
)
def test_security_a_body_cannot_make_any_number_of_errors(
    tool: str, argument: str, item: Any, most: int
):
    server = MCPServer("large bodies", public=True, max_body_values=10**7)
    operation_tools(api, server=server)
    viewset_tools(AddDates, server=server, prefix="dates")

    refused = server.call_tool(tool, {argument: [item] * (most + 1)})
    taken = server.call_tool(tool, {argument: [item] * most})

    assert refused.is_error
    assert (refused.text or "").endswith(" values; send less at once.")
    assert not taken.is_error


class Related(serializers.Serializer[Any]):
    tags = serializers.PrimaryKeyRelatedField(queryset=Tag.objects.all(), many=True, required=False)
    shelves = serializers.ListField(
        child=serializers.SlugRelatedField(slug_field="name", queryset=Shelf.objects.all()),
        required=False,
    )

    def create(self, validated_data: Any) -> Any:
        return validated_data


class ShelfRow(serializers.ModelSerializer[Shelf]):
    class Meta:
        model = Shelf
        fields = ("name",)  # which is unique


class Rows(serializers.Serializer[Any]):
    rows = ShelfRow(many=True)


class AddRelated(AddDates):
    serializer_class = Related


class AddRows(AddDates):
    serializer_class = Rows


@pytest.mark.parametrize(
    ("view", "argument", "item", "most"),
    [
        (AddRelated, "tags", "5e4d3c2b-0000-4000-8000-000000000000", 4_999),
        (AddRelated, "shelves", "none", 4_999),
        (AddRows, "rows", {"name": "n"}, 2_499),
    ],
)
def test_security_a_body_cannot_make_any_number_of_queries(
    view: Any, argument: str, item: Any, most: int
):
    server = MCPServer("many queries", public=True, max_body_values=10**7)
    viewset_tools(view, server=server, prefix="added")

    refused = server.call_tool("added_post", {argument: [item] * (most + 1)})
    taken = server.call_tool("added_post", {argument: [item] * most})

    assert refused.text == "There are more than 5000 values; send less at once."
    assert "send less" not in str(taken.text)


def test_the_first_errors_of_a_view_are_told_and_the_rest_counted():
    server = MCPServer("errors", public=True)
    viewset_tools(AddDates, server=server, prefix="dates")

    lines = str(server.call_tool("dates_post", {"items": ["x"] * 1000}).text).split("\n")

    assert len(lines) == 51
    assert lines[49].startswith("items.49: ")
    assert lines[50] == "and 950 further problems"


class Tagged(django_filters.FilterSet):
    tags = django_filters.ModelMultipleChoiceFilter(queryset=Tag.objects.all(), conjoined=True)

    class Meta:
        model = Book
        fields: tuple[str, ...] = ()


class Books(ListAPIView[Book]):
    queryset = Book.objects.all()
    serializer_class = ShelfRow
    permission_classes = ()
    filter_backends = (DjangoFilterBackend,)
    filterset_class = Tagged


def test_security_a_filter_for_all_of_its_values_has_few_of_them():
    server = MCPServer("joins", public=True)
    viewset_tools(Books, server=server, prefix="books")
    tags = [str(Tag.objects.create(name=str(number)).pk) for number in range(21)]

    assert server.call_tool("books_get", {"tags": tags[:20]}).structured == {"results": []}
    assert "must have at most 20 items" in str(server.call_tool("books_get", {"tags": tags}).text)


def test_a_query_with_more_joins_than_a_database_has_is_an_argument_error():
    server = MCPServer("joins", public=True)
    operation_tools(api, server=server)

    found = server.call_tool("tagged", {"tags": ["a"] * 70})

    assert connection.vendor == "postgresql" or "Invalid arguments" in str(found.text)
