"""Integers of 64 bits in generated tools: digits are taken, and sent where clients would round."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from django import forms
from django.contrib import admin
from django.contrib.auth.models import User
from django.core.checks import run_checks
from django.core.management import call_command
from django.core.management.base import SystemCheckError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.test.utils import isolate_apps

from django_mcp import MCPServer
from django_mcp.contrib.modeladmin import admin_tools
from django_mcp.contrib.models import ModelTools
from django_mcp.forms.values import may_be_rounded
from django_mcp.test import MCPClient
from tests.support.client_schemas import violations
from tests.support.library.models import Book, Event, Loan, Sample, Shelf

BIG, NEXT = 2**63 - 1, 2**53
EXACT = 2**53 - 1

pytestmark = pytest.mark.django_db

_numbers = count()


class Events(ModelTools):
    model = Event
    fields = ("id", "cause", "others", "size", "level", "other_of__size")
    filters = ("id__in", "cause", "size__gte", "others")
    sortable_by = ("size",)
    writes = ("create", "update", "delete")
    writable = ("id", "cause", "others", "size", "level")
    related = "all"
    everyone = True

    def has_permission(self, user: Any, action: str) -> bool:
        return True


class JudgedEvents(Events):
    """Rows that relations lead to are read one by one."""

    related = "visible"
    everyone = False

    def get_queryset(self, user: Any) -> Any:
        return Event.objects.all()


class EventAdmin(admin.ModelAdmin):
    list_display = ["id", "cause", "size", "twice"]
    list_filter = ["size", "cause"]
    fields = ["id", "cause", "others", "size", "level"]

    def twice(self, event: Event) -> int:
        return event.size * 2


@pytest.fixture(params=["models", "judged", "admin"])
def source(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def server(source: str) -> MCPServer:
    server = MCPServer(f"events-{next(_numbers)}", public=True)
    if source == "admin":
        site = admin.AdminSite("events")
        site.register(Event, EventAdmin)
        admin_tools(server=server, site=site, models=[Event])
    else:
        (Events if source == "models" else JudgedEvents).register(server=server)
    return server


@pytest.fixture
def client(server: MCPServer) -> MCPClient:
    return MCPClient(server, user=User.objects.create_superuser("root"))


@pytest.fixture
def events() -> list[Event]:
    small = Event.objects.create(id=5, size=EXACT)
    big = Event.objects.create(id=BIG, cause=small, size=BIG)
    last = Event.objects.create(id=NEXT, cause=big, size=1)
    last.others.set([small, big])
    return [small, big, last]


def test_results_have_digits_where_clients_would_round(
    client: MCPClient, source: str, events: list[Event]
):
    found = client.call("get_event", id=NEXT).structured

    assert (found["id"], found["size"], found["level"]) == (str(NEXT), 1, 0)
    if source == "admin":
        assert found["cause"]["pk"] == str(BIG)
        assert [each["pk"] for each in found["others"]] == [5, str(BIG)]
    else:
        assert (found["cause"], found["others"]) == (str(BIG), [5, str(BIG)])
        assert client.call("get_event", id=5).structured["other_of"] == [{"size": 1}]
    assert client.call("get_event", id=5).structured["size"] == EXACT
    client.assert_conforms()


@pytest.mark.parametrize("form", [int, str])
def test_digits_are_taken_for_integers(
    client: MCPClient, source: str, events: list[Event], form: Any
):
    assert client.call("get_event", id=form(BIG)).structured["size"] == str(BIG)
    cause = client.call("search_events", cause=form(BIG)).structured["results"]
    assert [each["id"] for each in cause] == [str(NEXT)]
    if source != "admin":
        sizes = client.call("search_events", size__gte=form(BIG)).structured["results"]
        assert [each["id"] for each in sizes] == [str(BIG)]
        several = client.call("search_events", id__in=[form(BIG), 5]).structured["results"]
        assert len(several) == 2


@pytest.mark.parametrize("form", [int, str])
def test_digits_are_written(client: MCPClient, source: str, events: list[Event], form: Any):
    made = client.call(
        "create_event",
        id=form(BIG - 1),
        cause=form(BIG),
        others=[form(BIG)],
        size=form(BIG),
        level=3,
    )
    assert not made.is_error, made.text
    assert made.structured["id"] == str(BIG - 1)
    event = Event.objects.get(pk=BIG - 1)
    assert (event.cause_id, event.size, [each.pk for each in event.others.all()]) == (
        BIG,
        BIG,
        [BIG],
    )

    changed = client.call("update_event", id=form(BIG - 1), size=form(NEXT + 1))
    assert changed.structured["size"] == str(NEXT + 1)
    client.answer({"delete": True})
    done = client.call("delete_event", id=form(BIG - 1))
    assert not done.is_error, done.text
    assert not Event.objects.filter(pk=BIG - 1).exists()


@pytest.mark.parametrize("sent", [2**63, str(2**63), "1.5", "", " 1", "x", "9" * 41, "٣"])
def test_what_is_no_integer_of_64_bits_is_an_argument_error(
    client: MCPClient, events: list[Event], sent: Any
):
    for tool, arguments in (
        ("create_event", {"id": 7, "size": sent}),
        ("update_event", {"id": 5, "size": sent}),
        ("search_events", {"cause": sent}),
    ):
        found = client.call(tool, arguments)
        assert found.is_error
        assert found.text.startswith("Invalid arguments:"), found.text


def test_both_forms_are_published_for_fields_that_may_be_large_alone(
    client: MCPClient, source: str
):
    tools = {each["name"]: each for each in client.list_tools()}

    create = tools["create_event"]["inputSchema"]["properties"]
    for name in ("id", "cause", "size"):
        kinds = [each["type"] for each in create[name]["anyOf"]]
        assert kinds[:2] == ["integer", "string"], name
    assert create["level"]["type"] == "integer"
    get = tools["get_event"]
    assert [each["type"] for each in get["inputSchema"]["properties"]["id"]["anyOf"]] == [
        "integer",
        "string",
    ]
    assert get["outputSchema"]["properties"]["level"]["type"] == "integer"
    for tool in tools.values():
        assert violations(tool["inputSchema"]) == violations(tool["outputSchema"]) == []


def test_computed_columns_of_the_admin_have_digits(events: list[Event]):
    server, site = MCPServer("computed-integers", public=True), admin.AdminSite("events")
    site.register(Event, EventAdmin)
    admin_tools(server=server, site=site, models=[Event])
    client = MCPClient(server, user=User.objects.create_superuser("root"))

    rows = client.call("search_events").structured["results"]
    assert {each["twice"] for each in rows} == {2, str(2 * EXACT), str(2 * BIG)}


LARGE = MaxValueValidator(2**63 - 1)


@isolate_apps("tests.support.library")
def test_which_fields_may_be_rounded():
    class Kinds(models.Model):
        plain = models.IntegerField()
        big = models.BigIntegerField()
        positive = models.PositiveBigIntegerField()
        bounded = models.BigIntegerField(
            validators=[MinValueValidator(lambda: -5), MaxValueValidator(EXACT)]
        )
        below = models.BigIntegerField(validators=[MaxValueValidator(5)])
        counted = models.PositiveBigIntegerField(validators=[MaxValueValidator(EXACT)])
        chosen = models.BigIntegerField(choices=[(1, "one")])
        chosen_large = models.BigIntegerField(choices=[(2**60, "many")])
        to_event = models.ForeignKey(Event, on_delete=models.CASCADE)
        to_sample = models.ForeignKey(Sample, on_delete=models.CASCADE)

        class Meta:
            app_label = "library"

        def __str__(self) -> str:
            return "kinds"

    class Stamped(models.Model):
        id = models.BigAutoField(primary_key=True, validators=[LARGE])

        class Meta:
            app_label = "library"

        def __str__(self) -> str:
            return "stamped"

    rounded = {each.name for each in Kinds._meta.concrete_fields if may_be_rounded(each)}
    assert rounded == {"big", "positive", "below", "chosen_large", "to_event"}
    assert may_be_rounded(Stamped._meta.pk)
    assert not may_be_rounded(Loan._meta.pk)


def test_form_fields_with_large_limits_take_digits():
    from django_mcp.forms import form_schema

    class Asked(forms.Form):
        small = forms.IntegerField()
        limited = forms.IntegerField(max_value=EXACT)
        large = forms.IntegerField(max_value=EXACT + 1)
        low = forms.IntegerField(min_value=-(2**60))

    schema = form_schema(Asked)["properties"]
    assert [name for name in schema if "anyOf" in schema[name]] == ["large", "low"]


class Loans(ModelTools):
    model = Loan
    fields = ("id", "days")
    everyone = True


class ShelfAdmin(admin.ModelAdmin):
    list_display = ["name"]


def large_keys(databases: list[str] | None) -> list[str]:
    found = run_checks(databases=databases)
    return sorted(each.msg for each in found if each.id == "django_mcp.M007")


def test_the_check_finds_counted_keys_that_clients_round():
    server, site = MCPServer("keys", public=True), admin.AdminSite("keys")
    site.register(Shelf, ShelfAdmin)
    Loans.register(server=server)
    Events.register(server=server)
    admin_tools(server=server, site=site, models=[Shelf])
    owner = User.objects.create_user("ann")
    book = Book.objects.create(isbn="1", title="One")
    Event.objects.create(id=BIG)
    for key in (1, EXACT):
        Loan.objects.create(pk=key, book=book)
        Shelf.objects.create(pk=key, name=str(key), owner=owner)
    assert large_keys(["default"]) == []

    Loan.objects.create(pk=NEXT, book=book)
    Shelf.objects.create(pk=NEXT, name="next", owner=owner)
    told = "The largest key of {} is beyond 2**53, so clients in JavaScript round it."
    assert large_keys(["default"]) == [told.format("library.Loan"), told.format("library.Shelf")]
    assert large_keys(None) == large_keys([]) == []
    with pytest.raises(SystemCheckError, match=r"library\.Loan"):
        call_command("check", database=["default"], fail_level="WARNING")


@isolate_apps("tests.support.library")
def test_the_check_passes_over_a_model_without_a_table():
    class Unmade(models.Model):
        id = models.BigAutoField(primary_key=True)

        class Meta:
            app_label = "library"

        def __str__(self) -> str:
            return "unmade"

    class UnmadeTools(ModelTools):
        model = Unmade
        fields = ("id",)
        everyone = True

    server = MCPServer("unmade", public=True)
    UnmadeTools.register(server=server)

    assert large_keys(["default"]) == []
    assert Event.objects.count() == 0  # the transaction goes on
