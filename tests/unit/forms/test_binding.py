"""Forms bound to arguments: unchanged values, validation, and all errors at once."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django import forms
from django.contrib.admin.widgets import AdminSplitDateTime
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.utils.translation import override

from django_mcp import ArgumentErrors
from django_mcp.forms import bind_form, check_form
from example_project.shop.models import Order, OrderLine, Product
from tests.support.library.models import Book, Sample, Tag

pytestmark = pytest.mark.django_db


class OrderForm(forms.ModelForm):
    class Meta:
        model = Order
        fields = ["number", "status", "note", "placed_at", "customer"]

    def clean(self) -> Any:
        data = super().clean() or {}
        if data.get("note") == data.get("number"):
            raise ValidationError("The note must say more than the number.")
        return data


class LineForm(forms.ModelForm):
    class Meta:
        model = OrderLine
        fields = ["order", "product", "quantity", "unit_price"]


class RequiredMembers(forms.ModelMultipleChoiceField):
    def __init__(self, queryset: Any, **options: Any) -> None:
        super().__init__(queryset, **{**options, "required": True})


def errors(form: Any) -> list[tuple[str, str]]:
    with pytest.raises(ArgumentErrors) as raised:
        check_form(form)
    return [(each.pointer, each.message) for each in raised.value.problems]


def save(form: Any) -> Any:
    check_form(form)
    return form.save()


def test_no_members_are_taken_back_by_a_form_that_asks_for_some():
    book = Book.objects.create(isbn="1", title="T")
    tagged = Book.objects.create(isbn="2", title="U")
    tagged.tags.add(Tag.objects.create(name="t"))
    form_class = forms.modelform_factory(
        Book, fields=["title", "tags"], field_classes={"tags": RequiredMembers}
    )

    save(bind_form(form_class, {"tags": []}, instance=book, is_partial=True))
    for changed in (tagged, None):
        arguments = {"title": "Valid", "tags": []}
        form = bind_form(form_class, arguments, instance=changed, is_partial=changed is not None)
        assert [pointer for pointer, _text in errors(form)] == ["/tags"]


def test_an_update_changes_only_the_named_fields(orders: list[Order]):
    order = orders[0]

    form = bind_form(OrderForm, {"note": "ring"}, instance=order, is_partial=True)
    save(form)

    found = Order.objects.get(pk=order.pk)
    assert (found.note, found.number, found.customer) == ("ring", "A-0", orders[0].customer)
    assert found.placed_at == orders[0].placed_at
    assert form.changed_data == ["note"]


def test_constraints_and_clean_see_fields_an_update_omits(orders: list[Order]):
    first, second = orders[0].lines.order_by("pk")

    taken = bind_form(LineForm, {"product": second.product_id}, instance=first, is_partial=True)
    assert errors(taken) == [("", "Order line with this Order and Product already exists.")]
    short = bind_form(OrderForm, {"note": "A-0"}, instance=orders[0], is_partial=True)
    assert errors(short) == [("", "The note must say more than the number.")]


def test_errors_are_all_returned_at_once_by_field(orders: list[Order]):
    form = bind_form(
        OrderForm, {"number": "A-0", "status": "lost", "placed_at": "soon", "customer": 10**9}
    )

    assert [pointer for pointer, _message in errors(form)] == [
        "/status", "/placed_at", "/customer", "/number",
    ]  # fmt: skip


def test_a_new_object_has_the_defaults_of_its_model():
    order = save(bind_form(OrderForm, {"placed_at": "2026-02-01T10:00:00.123456+02:00"}))

    assert order.status == "placed"
    assert order.number.startswith("20")
    assert order.placed_at == datetime(2026, 2, 1, 8, 0, 0, 123456, tzinfo=UTC)


def test_null_clears_and_a_kept_relation_skips_limit_choices_to(orders: list[Order], ann: User):
    none = lambda _name, rows: rows.none()  # noqa: E731

    kept = bind_form(OrderForm, {"note": "x"}, instance=orders[0], is_partial=True, limit=none)
    assert save(kept).customer == ann
    refused = bind_form(OrderForm, {"customer": ann.pk}, instance=orders[0], limit=none)
    assert (
        "/customer",
        "Select a valid choice. That choice is not one of the available choices.",
    ) in (errors(refused))
    cleared = bind_form(OrderForm, {"customer": None}, instance=orders[0], is_partial=True)
    assert save(cleared).customer is None


class Everything(forms.Form):
    day = forms.DateField(input_formats=["%d.%m.%Y"], required=False)
    at = forms.TimeField(required=False)
    moment = forms.DateTimeField(required=False)
    split = forms.SplitDateTimeField(required=False, widget=AdminSplitDateTime)
    lasts = forms.DurationField(required=False)
    price = forms.DecimalField(localize=True, required=False)
    ratio = forms.FloatField(localize=True, required=False)
    count = forms.IntegerField(required=False)
    extra = forms.JSONField(required=False)
    agreed = forms.BooleanField(required=False)
    maybe = forms.NullBooleanField(required=False)
    tags = forms.MultipleChoiceField(choices=[("a", "A"), ("b", "B")], required=False)
    hidden = forms.CharField(widget=forms.HiddenInput, initial="mine")
    fixed = forms.CharField(disabled=True, initial="fixed")


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("day", "2026-02-01", date(2026, 2, 1)),
        ("at", "12:30:00", time(12, 30)),
        ("moment", "2026-02-01T10:00:00Z", datetime(2026, 2, 1, 10, tzinfo=UTC)),
        ("split", "2026-02-01T10:00:00Z", datetime(2026, 2, 1, 10, tzinfo=UTC)),
        ("lasts", "P1D", timedelta(days=1)),
        ("price", "1234.5", Decimal("1234.5")),
        ("price", 1.5, Decimal("1.5")),
        ("ratio", 1.5, 1.5),
        ("count", 3, 3),
        ("extra", {"a": [1, "b"]}, {"a": [1, "b"]}),
        ("extra", "text", "text"),
        ("agreed", True, True),
        ("agreed", False, False),
        ("maybe", None, None),
        ("tags", ["a", "b"], ["a", "b"]),
    ],
)
def test_values_are_parsed_as_json_in_every_language(name: str, value: Any, expected: Any):
    with override("de"):
        form = bind_form(Everything, {name: value})
        check_form(form)

    assert form.cleaned_data[name] == expected


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("count", 10**5000),
        ("count", 10**40),
        ("ratio", 10**400),
        ("price", 10**5000),
        ("price", "9" * 5000 + "x"),
        ("price", "NaN"),
        ("price", "sNaN"),
        ("extra", {"a": ["b\0"]}),
        ("extra", {"a\0": 1}),
        ("tags", ["a\0"]),
        ("tags", "a"),
        ("tags", [["a"]]),
        ("day", "2026-02-31"),
        ("day", "today"),
        ("at", "25:00:00"),
        ("split", "soon"),
        ("moment", ["x"]),
        ("count", {}),
    ],
    ids=lambda value: repr(value)[:20] if isinstance(value, str) else type(value).__name__,
)
def test_an_invalid_value_is_an_error_of_its_field(name: str, value: Any):
    found = errors(bind_form(Everything, {name: value}))

    assert [pointer for pointer, _message in found] == [f"/{name}"]


@pytest.mark.parametrize(("name", "kept"), [("hidden", "mine"), ("fixed", "fixed")])
def test_a_field_that_callers_cannot_fill_in_is_refused(name: str, kept: Any):
    with pytest.raises(ArgumentErrors, match=f"/{name}: You cannot set this field."):
        bind_form(Everything, {name: "yours"})
    form = bind_form(Everything, {})
    form.is_valid()
    assert form.cleaned_data[name] == kept


def test_text_with_a_null_character_finds_no_object():
    class Chosen(forms.Form):
        sku = forms.ModelChoiceField(Product.objects.all(), to_field_name="sku")

    assert errors(bind_form(Chosen, {"sku": "a\0"})) == [
        ("/sku", "Null characters are not allowed.")
    ]


def test_a_form_may_access_its_data():
    class Curious(forms.Form):
        prefix = "p"
        tags = forms.MultipleChoiceField(choices=[("a", "A"), ("b", "B")])

        def clean(self) -> Any:
            data: Any = self.data
            self.seen = data.getlist("p-tags")

    form: Any = bind_form(Curious, {"tags": ["a", "b"]})
    check_form(form)

    assert form.seen == ["a", "b"]


def test_many_to_many_is_kept_or_replaced(ann: User):
    from django.contrib.auth.models import Group

    groups = [Group.objects.create(name=name) for name in "xy"]
    ann.groups.set(groups)
    form: Any = forms.modelform_factory(User, fields=["username", "groups"])

    save(bind_form(form, {"username": "anna"}, instance=ann, is_partial=True))
    assert ann.groups.count() == 2
    save(bind_form(form, {"groups": [groups[0].pk]}, instance=ann, is_partial=True))
    assert list(ann.groups.all()) == groups[:1]


class ModesField(forms.JSONField):
    def validate(self, value: Any) -> None:
        super().validate(value)
        if value is not None and "mode" not in value:
            raise ValidationError("A mode is missing.")


class ModesForm(forms.ModelForm):
    data = ModesField(required=False)  # type: ignore[assignment]

    class Meta:
        model = Sample
        fields = ["data"]


@pytest.mark.parametrize("value", [{}, [], {"x": 1}])
def test_a_rule_of_the_site_is_asked_about_empty_values_of_json(value: Any):
    sample = Sample.objects.create(code="a", data={"mode": 1})

    form = bind_form(ModesForm, {"data": value}, instance=sample, is_partial=True)

    assert errors(form) == [("/data", "A mode is missing.")]
