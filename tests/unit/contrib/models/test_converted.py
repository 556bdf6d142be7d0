"""Fields whose values are objects of their own, as those of packages for phone numbers, countries and selections."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from django import forms
from django.contrib.auth.models import User
from django.db import connection, models
from django.test.utils import isolate_apps
from django.utils import timezone

from django_mcp import MCPServer
from django_mcp.contrib.models import ModelTools
from django_mcp.contrib.models.schema import describe_field, read_value
from django_mcp.test import MCPClient

pytestmark = pytest.mark.django_db(transaction=True)


@dataclass(frozen=True)
class Phone:
    number: str

    def __str__(self) -> str:
        return f"call {self.number}"

    def __len__(self) -> int:
        return len(self.number)


class _PhoneDescriptor:
    """Makes an object of what is stored, as those of packages do."""

    def __init__(self, field: Any) -> None:
        self.field = field

    def __get__(self, instance: Any, owner: Any) -> Any:
        return self if instance is None else instance.__dict__[self.field.attname]

    def __set__(self, instance: Any, value: Any) -> None:
        is_made = value in (None, "") or isinstance(value, Phone)
        instance.__dict__[self.field.attname] = value if is_made else Phone(value)


class PhoneField(models.CharField):
    descriptor_class = _PhoneDescriptor

    def to_python(self, value: Any) -> Any:
        return value if isinstance(value, Phone) else super().to_python(value)

    def get_prep_value(self, value: Any) -> Any:
        return value.number if isinstance(value, Phone) else value

    def value_to_string(self, obj: Any) -> str:
        value: str = self.get_prep_value(self.value_from_object(obj))
        return value


class _Plain:
    """Has no other values than the class of Django."""

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        return value


class MailsField(models.TextField):
    """Has lists, and stores them as one text."""

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        return self.to_python(value)

    def to_python(self, value: Any) -> Any:
        return value.split(", ") if isinstance(value, str) else value

    def get_prep_value(self, value: Any) -> Any:
        return value if isinstance(value, str) else ", ".join(value)


class PlainMoment(_Plain, models.DateTimeField):
    pass


class PlainNumber(_Plain, models.BigIntegerField):
    pass


class PlainDecimal(_Plain, models.DecimalField):
    pass


class KeyedPhoneField(PhoneField):
    """Its text names the object."""

    def value_to_string(self, obj: Any) -> str:
        return f"{obj._meta.model_name} {obj.pk}: {super().value_to_string(obj)}"


class _Selection(list[str]):
    """A list with a method of its own."""


class SelectionField(models.CharField):
    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        return None if value is None else self.to_python(value)

    def to_python(self, value: Any) -> Any:
        if value is None or isinstance(value, list):
            return value
        return _Selection(filter(None, value.split(",")))

    def get_prep_value(self, value: Any) -> Any:
        return None if value is None else ",".join(value)

    def validate(self, value: Any, model_instance: Any) -> None:
        pass

    def formfield(self, **kwargs: Any) -> Any:
        return forms.MultipleChoiceField(
            choices=self.get_choices(include_blank=False), required=not self.blank
        )


@pytest.fixture
def model() -> Iterator[type[models.Model]]:
    with isolate_apps("tests.support.library"):

        class Contact(models.Model):
            name = models.CharField(max_length=20)
            phone = PhoneField(max_length=20, blank=True)
            mobile = PhoneField(max_length=20, null=True, blank=True)
            colors = SelectionField(max_length=20, choices=[("r", "Red"), ("g", "Green")])
            note = models.TextField(null=True, blank=True)  # noqa: DJ001
            is_open = models.BooleanField(null=True)
            settings = models.JSONField(default=dict, blank=True)
            factor = models.DecimalField(max_digits=20, decimal_places=10, default=0)
            document = models.FileField(blank=True)

            class Meta:
                app_label = "library"

            def __str__(self) -> str:
                return self.name

        with connection.schema_editor() as editor:
            editor.create_model(Contact)
        yield Contact
        with connection.schema_editor() as editor:
            editor.delete_model(Contact)


@pytest.fixture
def client(model: Any) -> MCPClient:
    class Contacts(ModelTools):
        fields = [
            "id", "name", "phone", "mobile", "colors", "note", "is_open", "settings", "factor", "document",
        ]  # fmt: skip
        filters = ["phone"]
        everyone = True
        writes = ["create", "update"]

    Contacts.model = model
    server = MCPServer("converted", public=True)
    assert Contacts.register(server=server).find_faults() == []
    return MCPClient(server, user=User.objects.create_user("ann"))


def read(client: MCPClient, tool: str, **arguments: Any) -> Any:
    result = client.call(tool, arguments)
    assert not result.is_error, result.text
    return result.structured


def test_objects_are_shown_in_the_form_that_their_field_stores(client: MCPClient, model: Any):
    made = model.objects.create(name="a", phone="123", colors=["r", "g"])

    shown = read(client, "get_contact", id=made.pk)

    assert shown == {
        "id": made.pk,
        "name": "a",
        "phone": "123",
        "mobile": None,
        "colors": ["r", "g"],
        "note": None,
        "is_open": None,
        "settings": {},
        "factor": "0.0000000000",
        "document": None,
    }
    assert read(client, "search_contacts", phone="123")["results"] == [shown]
    client.assert_conforms()


def test_the_values_of_classes_of_django_are_shown_as_they_show_them():
    with isolate_apps("tests.support.library"):

        class Plain(models.Model):
            at = PlainMoment()
            number = PlainNumber()
            factor = PlainDecimal(max_digits=20, decimal_places=10)
            phone = KeyedPhoneField(max_length=20)
            mails: Any = MailsField()

            class Meta:
                app_label = "library"

            def __str__(self) -> str:
                return ""

        at = datetime(2026, 1, 2, 3, tzinfo=UTC)
        row = Plain(pk=7, at=at, number=2**60, factor=Decimal("0E-10"), phone="123")
        row.mails = ["a@example.com", "b@example.com"]
        fields = {field.name: field for field in Plain._meta.fields}
        with timezone.override("Europe/Berlin"):
            shown = {name: read_value(field)(row) for name, field in fields.items()}

    assert shown["at"].isoformat() == "2026-01-02T04:00:00+01:00"
    assert shown["number"] == str(2**60)
    assert shown["factor"] == "0.0000000000"
    assert shown["phone"] == "plain 7: 123"
    assert shown["mails"] == "a@example.com, b@example.com"
    assert describe_field(fields["at"], is_input=False)["format"] == "date-time"
    assert describe_field(fields["factor"], is_input=False)["format"] == "decimal"


def test_an_object_takes_back_what_is_shown_of_it(client: MCPClient, model: Any):
    made = model.objects.create(name="a", phone="123", colors=["r"])
    # Its form would demand colors.
    bare = model.objects.create(name="b", colors=[])

    for pk in (made.pk, bare.pk):
        shown = read(client, "get_contact", id=pk)
        own = {name: value for name, value in shown.items() if name != "document"}
        assert read(client, "update_contact", id=pk, name=shown["name"]) == shown
        if pk == made.pk:
            assert read(client, "update_contact", **own) == shown


def test_null_and_empty_values_are_written_as_they_are_sent(client: MCPClient, model: Any):
    made = model.objects.create(name="a", colors=["r"], note="n", is_open=True, settings={"a": 1})

    nothing = read(
        client, "update_contact", id=made.pk, note=None, mobile=None, is_open=None, settings=[]
    )
    empty = read(client, "update_contact", id=made.pk, note="", settings={}, colors=["g"])

    assert (nothing["note"], nothing["is_open"], nothing["settings"]) == (None, None, [])
    assert (empty["note"], empty["settings"], empty["colors"]) == ("", {}, ["g"])
    assert model.objects.get().factor == Decimal(0)


def test_what_is_sent_is_validated_by_the_field(client: MCPClient):
    refused = client.call("create_contact", name="a", colors=["blue"])
    made = read(client, "create_contact", name="a", colors=["g"], phone="456", settings={})

    assert "colors" in refused.text
    assert (made["phone"], made["colors"], made["mobile"]) == ("456", ["g"], None)
