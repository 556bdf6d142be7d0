"""Extreme values of clients: they end as errors about arguments, whatever makes the tools, and fill no log."""

from __future__ import annotations

import logging
from decimal import Decimal
from typing import Any
from urllib.parse import quote

import pytest
from django import forms
from django.contrib.auth.models import User
from django.db import IntegrityError, ProgrammingError
from rest_framework import permissions, serializers, viewsets
from rest_framework.response import Response

from django_mcp import MCPServer
from django_mcp.contrib.drf import viewset_tools
from django_mcp.contrib.models import ModelTools
from django_mcp.forms.values import tell_refusal
from django_mcp.inprocess import UnknownResource
from tests.support.library.models import Sample
from tests.support.library.tools import make_server

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def server() -> MCPServer:
    return make_server("values")


@pytest.fixture
def root() -> User:
    return User.objects.create_superuser("root")


@pytest.fixture
def sample() -> Sample:
    return Sample.objects.create(code="one")


def refuse(server: MCPServer, user: Any, tool: str, **arguments: Any) -> str:
    found = server.call_tool(tool, arguments, user=user)
    assert found.is_error, found.raw
    assert "Internal error" not in found.text
    assert found.text.startswith("Invalid arguments:"), found.text
    return found.text


EXTREMES = [
    ("took", "999999999 23:59:59"),
    ("took__gt", "P999999999D"),
    ("price", "1e4000"),
    ("price__in", ["1", "1e999999"]),
    ("weight", 2**63),
    ("level__lte", -(2**70)),
    ("address", "300.1.1.1"),
    ("moment__gte", "0001-01-01T00:00:00+14:00"),
    ("moment__year", 9999),
    ("data__a__b__gt", [1]),
    ("data__has_key", ["a"]),
    ("data", {"a": "b\0"}),
    ("note", "a\0b"),
    ("id__lt", 2**64),
]


@pytest.mark.parametrize(("name", "value"), EXTREMES)
def test_an_extreme_value_of_a_filter_is_an_error_about_its_argument(
    server: MCPServer, root: User, sample: Sample, name: str, value: Any
):
    assert f"/{name}" in refuse(server, root, "search_samples", **{name: value})


@pytest.mark.parametrize("tool", ["create_sample", "admin_create_sample"])
@pytest.mark.parametrize(
    ("name", "value"),
    [("took", "999999999 23:59:59"), ("size", 2**63), ("owner", 2**63), ("tags", ["x\0"])],
)
def test_an_extreme_value_of_a_form_is_an_error_about_its_argument(
    server: MCPServer, root: User, tool: str, name: str, value: Any
):
    assert f"/{name}" in refuse(server, root, tool, code="new", **{name: value})
    assert not Sample.objects.exists()


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("admin_search_samples", {"took": "999999999 23:59:59"}),
        ("admin_search_samples", {"weight": 2**64}),
        ("rest_list", {"weight": 2**64}),
        ("rest_create", {"code": "new", "took": "999999999 23:59:59"}),
        ("ninja_list_samples", {"took": "P999999999D"}),
        ("ninja_list_samples", {"owner_id": 10**400}),
        ("ninja_find_by_weight", {"weight": 2**63}),
        ("ninja_find_by_weight", {"weight": 1, "level": 2**63}),
        ("ninja_create_sample", {"code": "one"}),
        ("ninja_create_sample", {"code": "new", "clock": "12:00Z"}),
    ],
)
def test_a_value_that_only_the_database_refuses_is_an_argument_error(
    server: MCPServer, root: User, sample: Sample, tool: str, arguments: dict[str, Any]
):
    found = server.call_tool(tool, arguments, user=root)

    assert "Internal error" not in found.text


def test_an_object_with_an_impossible_key_is_not_found(server: MCPServer, root: User):
    for key in (2**63 - 1, -1):
        assert "not found" in server.call_tool("get_part", {"id": key}, user=root).text
    assert "/id" in refuse(server, root, "get_part", id=2**64)
    for text in ("9" * 60_000, "x\0", "-1"):
        with pytest.raises(UnknownResource):
            server.read_resource(f"part://{quote(text)}", user=root)


@pytest.mark.parametrize(
    ("uri", "name"), [("part://{id}", "id"), ("tag://{id}", "id"), ("sample://{code}", "code")]
)
@pytest.mark.parametrize("value", ["x" * 60_000, "9" * 60_000, "a\0", "'"])
def test_an_extreme_text_is_completed_to_nothing(
    server: MCPServer, root: User, sample: Sample, uri: str, name: str, value: str
):
    assert server.complete(uri, name, value, user=root).values == []


def test_a_refused_value_is_one_short_line_of_the_log(
    server: MCPServer, root: User, sample: Sample, caplog: pytest.LogCaptureFixture
):
    with caplog.at_level(logging.INFO, "django_mcp"):
        refuse(server, root, "ninja_create_sample", code="one")

    (record,) = caplog.records
    assert (record.levelname, record.exc_info) == ("WARNING", None)
    assert "UNIQUE" in record.getMessage().upper()


def test_generated_tools_keep_their_limits_where_arguments_are_not_validated(root: User):
    Sample.objects.bulk_create(Sample(code=f"s-{number}") for number in range(120))
    server = make_server("unchecked", validate_input=False)

    for tool in ("search_samples", "admin_search_samples", "rest_list", "ninja_list_samples"):
        assert "/limit" in refuse(server, root, tool, limit=110)
    refuse(server, root, "search_samples", ordering="owner__password")
    refuse(server, root, "search_samples", note="x", unknown="x")


def test_null_of_a_field_without_a_form_in_json_is_null(
    server: MCPServer, root: User, sample: Sample
):
    found = server.call_tool("get_sample", {"code": "one"}, user=root).structured

    assert (found["address"], found["price"]) == (None, "0.00")


def test_values_at_the_edge_of_a_column_find_rows(server: MCPServer, root: User, sample: Sample):
    Sample.objects.update(price=Decimal("999999.99"), weight=2**63 - 1, address="::1")

    for given in ({"price": "999999.99"}, {"weight": 2**63 - 1}, {"address": "0:0::1"}):
        found = server.call_tool("search_samples", given, user=root)
        assert not found.is_error, found.text
        assert len(found.structured["results"]) == 1, given


class Halves(forms.CharField):
    def to_python(self, value: Any) -> Any:
        return None if value in (None, "") else int(value) // 2


class HalfField(serializers.Field):
    def to_internal_value(self, data: Any) -> int:
        return int(data) // 2


class NamedField(serializers.Field):
    def to_internal_value(self, data: Any) -> str:
        return str(data["name"].strip())


def fail(value: Any) -> None:
    raise ValueError("a fault of the site")


class SampleForm(forms.ModelForm):
    half = Halves(required=False)
    failing = forms.CharField(required=False, validators=[fail])

    class Meta:
        model = Sample
        fields = ("code",)


class Sent(serializers.Serializer[Any]):
    link = serializers.HyperlinkedRelatedField(
        queryset=User.objects.all(), view_name="users", required=False
    )
    half = HalfField(required=False)
    named = NamedField(required=False)
    failing = serializers.ListField(child=serializers.CharField(validators=[fail]), required=False)


class Views(viewsets.ViewSet):
    permission_classes = (permissions.IsAuthenticated,)
    serializer_class = Sent

    def create(self, request: Any) -> Response:
        sent = Sent(data=request.data)
        sent.is_valid(raise_exception=True)
        return Response({"half": sent.validated_data.get("half")})

    def list(self, request: Any) -> Response:
        found = Sample.objects.filter(took=request.query_params["took"])
        return Response({"count": found.count()})


def test_a_value_that_a_field_fails_to_convert_is_an_argument_error(root: User):
    server = MCPServer("conversions", public=True)
    viewset_tools(Views, server=server, prefix="sent", query={"list": {"took": {"type": "string"}}})
    options = {"model": Sample, "fields": ["id"], "writes": ["create"], "form": SampleForm}
    made: Any = type("Made", (ModelTools,), {**options, "everyone": True})
    made.register(server=server)

    values: Any = [("link", "http://[::1"), ("half", "x"), ("half", [1])]
    values += [("named", {}), ("named", {"name": 1})]
    for name, value in values:
        assert "Enter a valid value" in refuse(server, root, "sent_create", **{name: value})
    assert "Enter a valid value" in refuse(server, root, "create_sample", code="c", half="x")
    refuse(server, root, "sent_list", took="x")
    # Other errors are no fault of the client.
    failing: Any = [("sent_create", ["x"], {}), ("create_sample", "x", {"code": "c"})]
    for tool, value, others in failing:
        found = server.call_tool(tool, {"failing": value, **others}, user=root)
        assert "Internal error" in found.text


class DriverError(Exception):
    """Has the state of an error of PostgreSQL."""

    def __init__(self, sqlstate: str) -> None:
        self.sqlstate = sqlstate


class State(serializers.Serializer[Any]):
    state = serializers.CharField()


class Refusing(viewsets.ViewSet):
    """Its database refuses the statement, as PostgreSQL does with a number for a column of ranges."""

    permission_classes = (permissions.IsAuthenticated,)
    serializer_class = State

    def create(self, request: Any) -> Response:
        raise ProgrammingError("refused") from DriverError(request.data["state"])


def test_a_value_of_another_type_than_the_column_is_an_argument_error(root: User):
    server = MCPServer("types", public=True)
    viewset_tools(Refusing, server=server, prefix="sent", actions=["create"])

    refuse(server, root, "sent_create", state="42804")
    syntax_error = server.call_tool("sent_create", {"state": "42601"}, user=root)
    assert "Internal error" in syntax_error.text


@pytest.mark.parametrize(
    ("code", "args", "is_missing"),
    [
        ("23502", ['null value in column "owner_id" of relation "shelf"'], True),
        ("23505", ["duplicate key value violates unique constraint"], False),
        (None, ["NOT NULL constraint failed: shelf.owner_id"], True),
        (None, ["UNIQUE constraint failed: shelf.name"], False),
        (None, [1048, "Column 'owner_id' cannot be null"], True),
        (None, [1062, "Duplicate entry"], False),
    ],
)
def test_each_database_tells_a_missing_value(code: str | None, args: list[Any], is_missing: bool):
    class Refused(Exception):
        sqlstate = code

    error = IntegrityError(*args)
    error.__cause__ = Refused()

    assert ("requires a value that is missing" in tell_refusal(error)) == is_missing
