"""Regular expressions of clients, which can keep a database busy."""

from __future__ import annotations

from typing import Annotated, Any

import django_filters
import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.core.checks import run_checks
from django.utils import timezone
from django_filters.rest_framework import DjangoFilterBackend
from drf_spectacular.utils import OpenApiParameter, extend_schema
from ninja import FilterLookup, FilterSchema, Form, NinjaAPI, Query, Schema
from pydantic import Field
from rest_framework import filters, permissions, serializers, viewsets
from rest_framework.pagination import LimitOffsetPagination

from django_mcp import MCPServer
from django_mcp.contrib.drf import viewset_tools
from django_mcp.contrib.modeladmin import admin_tools
from django_mcp.contrib.ninja import operation_tools
from example_project.shop.models import Order

pytestmark = pytest.mark.django_db


def parameters(server: MCPServer, tool: str) -> set[str]:
    user = User(username="ada", pk=1, is_staff=True, is_superuser=True)
    [found] = [each for each in server.list_tools(user=user) if each["name"] == tool]
    return set(found["inputSchema"]["properties"])


def problems(server: MCPServer) -> list[str]:
    return [each.msg for each in run_checks(tags=["django_mcp"]) if each.obj is server]


class Serializer(serializers.ModelSerializer[Order]):
    class Meta:
        model = Order
        fields = ("number", "note")


class Filters(django_filters.FilterSet):
    matching = django_filters.CharFilter(field_name="note", lookup_expr="iregex")
    chosen = django_filters.LookupChoiceFilter(field_name="note", lookup_choices=["exact", "regex"])
    any_lookup = django_filters.LookupChoiceFilter(field_name="note")
    plain = django_filters.LookupChoiceFilter(field_name="note", lookup_choices=[("exact", "Is")])

    class Meta:
        model = Order
        fields = ("status",)


class Views(viewsets.ReadOnlyModelViewSet[Order]):
    queryset = Order.objects.all()
    serializer_class = Serializer
    permission_classes = (permissions.IsAuthenticated,)
    filter_backends = (filters.SearchFilter, DjangoFilterBackend)
    filterset_class = Filters
    search_fields: tuple[str, ...] = ("number", "=note")


@pytest.mark.parametrize("field", ["$note", "note__iregex", "customer__username__regex"])
def test_a_rest_view_takes_no_regular_expressions(field: str):
    server = MCPServer("patterns", public=True)
    viewset_tools(Views, server=server, prefix="plain", actions=["list"])
    searching = type("Searching", (Views,), {"search_fields": ("number", field)})
    viewset_tools(searching, server=server, prefix="patterns", actions=["list"])

    found = {"status", "plain", "plain_lookup"}
    assert found | {"search"} <= parameters(server, "plain_list")
    assert parameters(server, "patterns_list") == parameters(server, "plain_list") - {"search"}
    told = [each.partition("leaves out: ")[2] for each in problems(server)]
    assert told == ["matching, chosen, any_lookup.", "search, matching, chosen, any_lookup."]


class Described(Views):
    search_fields = ("$number",)

    @extend_schema(
        parameters=[
            OpenApiParameter("search"),
            OpenApiParameter("matching", description="A pattern."),
        ]
    )
    def list(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        return super().list(request, *args, **kwargs)


class DescribedLimits(Described):
    search_fields = ("number",)
    pagination_class = type("Pages", (LimitOffsetPagination,), {"default_limit": 5})

    @extend_schema(
        parameters=[
            OpenApiParameter("search", description="Words."),
            OpenApiParameter("limit", int),
        ]
    )
    def list(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        return super().list(request, *args, **kwargs)


def test_a_description_brings_back_no_regular_expression():
    server = MCPServer("patterns", public=True)
    viewset_tools(Described, server=server, prefix="described", actions=["list"])
    query = {"list": {"matching": {"type": "string"}}}
    viewset_tools(Described, server=server, prefix="named", actions=["list"], query=query)

    for name in ("described_list", "named_list"):
        assert not parameters(server, name) & {"search", "matching"}


def test_a_description_removes_no_limit():
    server = MCPServer("patterns", public=True)
    viewset_tools(DescribedLimits, server=server, prefix="described", actions=["list"])

    user = User.objects.create_user("ada")
    for arguments in ({"search": "a" * 201}, {"limit": 101}):
        result = server.call_tool("described_list", arguments, user=user)
        assert result.is_error
        assert "200" in str(result.content) or "100" in str(result.content)


class Filtering(FilterSchema):
    name: str | None = None
    customer__username__iregex: str | None = None
    matching: Annotated[str | None, FilterLookup(["number", "__regex"])] = None
    old: str | None = Field(None, json_schema_extra={"q": "number__regex"})


class Requiring(FilterSchema):
    note__regex: str


def listed(request: Any, filters: Query[Filtering]) -> Any: ...
def required(request: Any, filters: Query[Requiring]) -> Any: ...


@pytest.mark.parametrize("has_internals", [True, False])
def test_an_operation_takes_no_regular_expressions_of_a_filter_schema(
    monkeypatch: pytest.MonkeyPatch, *, has_internals: bool
):
    for name in (
        () if has_internals else [each for each in vars(FilterSchema) if each[:5] == "_get_"]
    ):
        # Another version of Ninja may have others.
        monkeypatch.delattr(FilterSchema, name)
    api = NinjaAPI(urls_namespace=f"patterns-{has_internals}")
    for function in (listed, required):
        api.get(f"/{function.__name__}")(function)
    server = MCPServer("patterns", public=True)

    assert [each.name for each in operation_tools(api, server=server)] == ["listed"]
    assert parameters(server, "listed") == {"name", "limit", "cursor"}
    told = problems(server)
    assert "leaves out: customer__username__iregex, matching, old." in told[0]
    assert "it requires the regular expression 'note__regex'" in told[1]


class Inside(Schema):
    filters: Filtering
    more: list[int] = []


class Recursive(FilterSchema):
    name: str | None = None
    name__regex: str | None = None
    inner: Recursive | None = None


def in_body(request: Any, filters: Filtering) -> Any: ...
def in_query_below(request: Any, inside: Query[Inside]) -> Any: ...
def in_query_or_not(request: Any, filters: Query[Filtering | None] = None) -> Any: ...
def in_form(request: Any, filters: Form[Filtering]) -> Any: ...
def in_form_below(request: Any, inside: Form[Inside]) -> Any: ...
def beside_others(request: Any, filters: Filtering, other: Requiring) -> Any: ...
def below(request: Any, inside: Inside) -> Any: ...
def several(request: Any, filters: list[Filtering]) -> Any: ...
def may_lack(request: Any, filters: Filtering | None = None) -> Any: ...
def by_name(request: Any, filters: dict[str, list[Filtering]]) -> Any: ...
def recursive(request: Any, filters: Recursive) -> Any: ...
def required_in_body(request: Any, filters: Requiring) -> Any: ...


@pytest.mark.parametrize(
    ("function", "left"),
    [
        (in_body, {"name"}),
        (in_query_below, {"name", "more"}),
        (in_form, {"name"}),
        (in_form_below, {"name", "more"}),
    ],
)
def test_a_body_takes_no_regular_expressions_of_a_filter_schema(function: Any, left: set[str]):
    api = NinjaAPI(urls_namespace=f"bodies-{function.__name__}")
    api.post("/sent")(function)
    server = MCPServer("patterns", public=True)
    operation_tools(api, server=server)

    assert parameters(server, function.__name__) == left
    assert "leaves out: customer__username__iregex, matching, old." in problems(server)[0]
    result = server.call_tool(function.__name__, {"matching": "(a+)+$"})
    assert "matching" in str(result.content)
    assert result.is_error


@pytest.mark.parametrize(
    "function",
    [
        beside_others,
        below,
        several,
        may_lack,
        by_name,
        recursive,
        required_in_body,
        in_query_or_not,
    ],
)
def test_an_operation_with_a_regular_expression_inside_of_an_argument_is_no_tool(function: Any):
    api = NinjaAPI(urls_namespace=f"inside-{function.__name__}")
    api.post("/sent")(function)
    server = MCPServer("patterns", public=True)

    assert operation_tools(api, server=server) == []
    (told,) = problems(server)
    assert "regular expression" in told


def test_an_admin_that_searches_for_regular_expressions_has_no_search():
    site = admin.AdminSite("patterns")
    fields = {"search_fields": ["number", "note__iregex"]}
    site.register(Order, type("OrderAdmin", (admin.ModelAdmin,), fields))
    server = MCPServer("patterns", public=True)
    admin_tools(server=server, site=site, models=[Order])

    assert "search" not in parameters(server, "search_orders")
    assert "search_fields has a regular expression" in problems(server)[0]


def test_a_regular_expression_that_is_none_is_an_error_of_the_arguments():
    def found(request: Any, text: str) -> Any:
        return list(Order.objects.filter(note__regex=text).values_list("number"))

    ada = User.objects.create_user("ada")
    Order.objects.create(number="1", customer=ada, note="a", placed_at=timezone.now())
    api = NinjaAPI(urls_namespace="no-pattern")
    api.get("/found")(found)
    server = MCPServer("patterns", public=True)
    operation_tools(api, server=server)

    result = server.call_tool("found", {"text": "["}, user=ada)

    assert result.is_error
    assert "The database cannot take a value" in result.raw["content"][0]["text"]
