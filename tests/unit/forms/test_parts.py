"""Fields of forms with named parts, as those for money and ranges, and fields for tags."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import jsonschema
import pytest
from django import forms
from django.contrib.auth.models import User
from django.contrib.postgres.fields import DecimalRangeField
from django.contrib.postgres.forms import DecimalRangeField as DecimalRangeFormField
from psycopg.types.range import Range

from django_mcp import ArgumentErrors
from django_mcp.contrib.models.schema import describe_field, read_value
from django_mcp.forms import bind_form, check_form, form_schema
from django_mcp.protocol.json import decode, encode


class MoneyField(forms.MultiValueField):
    """Has the parts and the path of that of django-money."""

    __module__ = "djmoney.forms.fields"

    def __init__(self, **options: Any) -> None:
        widget = forms.MultiWidget([forms.NumberInput, forms.Select])
        widget.decompress = lambda value: list(value or (None, None))  # type: ignore[method-assign]
        currencies = forms.ChoiceField(choices=[("EUR", "Euro"), ("USD", "Dollar")])
        super().__init__([forms.DecimalField(max_digits=6), currencies], widget=widget, **options)

    def compress(self, data_list: Any) -> Any:
        return tuple(data_list)


class TagField(forms.CharField):
    """Reads names in quotation marks, as that of django-taggit does."""

    __module__ = "taggit.forms"

    def clean(self, value: Any) -> Any:
        return [part.strip(' "') for part in super().clean(value).split('",')]


class PriceForm(forms.Form):
    price = MoneyField()
    span = DecimalRangeFormField(required=False)
    tags = TagField(required=False)


SCHEMA = form_schema(PriceForm)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"price": {"amount": "12.50", "currency": "EUR"}}, "12.50 EUR"),
        ({"price": {"amount": 3, "currency": "USD"}}, "3 USD"),
    ],
)
def test_money_is_an_object_of_two_described_parts(arguments: Any, expected: str):
    jsonschema.validate(arguments, SCHEMA)
    form = bind_form(PriceForm, arguments)
    check_form(form)

    amount, currency = form.cleaned_data["price"]
    assert f"{amount} {currency}" == expected
    price = SCHEMA["properties"]["price"]
    assert price["properties"]["currency"]["enum"] == ["EUR", "USD"]
    assert price["required"] == ["amount", "currency"]


def test_a_part_that_is_not_valid_is_an_error_of_the_field():
    with pytest.raises(ArgumentErrors) as error:
        check_form(bind_form(PriceForm, {"price": {"amount": "x", "currency": "EUR"}}))

    assert [problem.pointer for problem in error.value.problems] == ["/price"]


@pytest.mark.parametrize("bounds", ["[)", "[]", "(]", "()"])
def test_a_range_is_written_with_the_bounds_that_are_shown(bounds: str):
    field = DecimalRangeField(null=True)
    field.set_attributes_from_name("span")
    row = type("Row", (), {"span": Range(Decimal(1), None, bounds)})()

    shown = read_value(field)(row)
    arguments = {"price": {"amount": 1, "currency": "EUR"}, "span": shown}
    sent = decode(encode(arguments))
    jsonschema.validate(sent, SCHEMA)
    jsonschema.validate(sent["span"], describe_field(field, is_input=False))
    form = bind_form(PriceForm, sent)
    check_form(form)

    assert shown == {"lower": Decimal(1), "upper": None, "bounds": row.span.bounds}
    assert form.cleaned_data["span"] == row.span


def test_tags_are_a_list_of_names():
    tags = ["red", "dark blue, nearly black"]
    arguments = {"price": {"amount": 1, "currency": "EUR"}, "tags": tags}
    jsonschema.validate(arguments, SCHEMA)
    form = bind_form(PriceForm, arguments)
    check_form(form)

    assert form.cleaned_data["tags"] == tags


def test_a_tag_with_a_quotation_mark_is_refused_and_no_other_is_stored():
    arguments = {"price": {"amount": 1, "currency": "EUR"}, "tags": ['12" pipe']}

    with pytest.raises(ArgumentErrors) as error:
        check_form(bind_form(PriceForm, arguments))

    assert [problem.pointer for problem in error.value.problems] == ["/tags"]


def test_what_only_widgets_need_is_not_described():
    told = "The groups. Hold down “Control”, or “Command” on a Mac, to select more than one."

    class UserForm(forms.ModelForm):
        class Meta:
            model = User
            fields = ["groups"]
            help_texts = {"groups": told}

    assert str(form_schema(UserForm)["properties"]["groups"]["description"]) == "The groups."
