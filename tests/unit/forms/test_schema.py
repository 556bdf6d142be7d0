"""The JSON Schema of a form: what callers may send, and what they have to."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from django import forms
from django.contrib.auth.forms import UserCreationForm
from django.contrib.auth.models import User
from django.utils.translation import gettext_lazy, override

from django_mcp.forms import FormProblem, form_schema
from example_project.shop.models import Order, OrderLine, Product


def properties(form: Any, **options: Any) -> dict[str, Any]:
    found: dict[str, Any] = form_schema(form, **options)["properties"]
    return found


class OrderForm(forms.ModelForm):
    gift = forms.BooleanField(required=False, help_text="Wrap <b>it</b>.")
    size = forms.TypedChoiceField(choices=[(1, "Small"), (2, "Large")], coerce=int)

    class Meta:
        model = Order
        fields = ["number", "status", "note", "placed_at", "customer"]


class LineForm(forms.ModelForm):
    class Meta:
        model = OrderLine
        fields = ["order", "product", "quantity", "unit_price"]


def test_the_schema_is_built_without_queries():
    found = properties(OrderForm)

    assert found["status"]["enum"] == ["placed", "shipped", "cancelled"]
    assert found["status"]["default"] == "placed"
    assert found["note"] == {"type": "string", "title": "Note", "maxLength": 200}
    assert found["placed_at"] == {"type": "string", "format": "date-time", "title": "Placed at"}
    assert found["customer"]["type"] == ["integer", "null"]
    assert found["gift"]["description"] == "Wrap it."
    assert found["size"]["enum"] == [1, 2]
    assert properties(LineForm)["quantity"] == {
        "type": "integer",
        "title": "Quantity",
        "minimum": 0,
    }
    assert properties(LineForm)["unit_price"]["type"] == ["string", "number"]


def test_a_field_with_a_default_is_not_required():
    assert form_schema(OrderForm)["required"] == ["placed_at", "size"]


def test_an_update_requires_no_field_since_the_form_of_an_object_starts_with_values():
    assert "required" not in form_schema(OrderForm, is_partial=True)


def test_a_partial_and_an_instance_are_forms_too():
    assert form_schema(partial(OrderForm, initial={"note": "x"})) == form_schema(OrderForm)
    form = OrderForm()
    del form.fields["size"]

    assert "size" not in properties(form)


def test_texts_are_translated_for_each_client():
    class Labelled(forms.Form):
        yes = forms.CharField(label=gettext_lazy("Yes"))

    title = properties(Labelled)["yes"]["title"]

    with override("de"):
        assert str(title) == "Ja"
    with override("en"):
        assert str(title) == "Yes"


def test_hidden_and_disabled_fields_and_files_are_left_out():
    class Guarded(forms.Form):
        name = forms.CharField()
        owner = forms.CharField(widget=forms.HiddenInput, initial="me")
        fixed = forms.CharField(disabled=True)
        photo = forms.FileField(required=False)

    assert set(properties(Guarded)) == {"name"}
    assert set(properties(Guarded, exclude=["name"])) == set()


@pytest.mark.parametrize(
    ("field", "text"),
    [
        (forms.FileField(), "the field 'x' requires a file"),
        (forms.CharField(widget=forms.PasswordInput), "the field 'x' requires a password"),
        (forms.CharField(widget=forms.HiddenInput), "the field 'x' is required and hidden"),
    ],
)
def test_a_field_that_arguments_cannot_set_is_reported(field: forms.Field, text: str):
    form: Any = type("Made", (forms.Form,), {"x": field})

    with pytest.raises(FormProblem, match=text) as raised:
        form_schema(form)
    assert raised.value.hint


def test_passwords_are_accepted_only_explicitly():
    class Login(forms.Form):
        password = forms.CharField(widget=forms.PasswordInput, required=False)

    assert properties(Login) == {}
    assert set(properties(Login, allow_sensitive=["password"])) == {"password"}
    with pytest.raises(FormProblem, match="requires a password"):
        form_schema(UserCreationForm)


def test_callable_choices_are_not_evaluated():
    class Chosen(forms.Form):
        one = forms.ChoiceField(choices=lambda: pytest.fail("was called"))
        several = forms.MultipleChoiceField(choices=[("a", "A"), ("b", "B")])
        users = forms.ModelMultipleChoiceField(User.objects.all(), required=False)
        sku = forms.ModelChoiceField(Product.objects.all(), to_field_name="sku")

    found = properties(Chosen)

    assert found["one"] == {"type": "string", "title": "One"}
    assert found["several"]["items"] == {"enum": ["a", "b"], "enumNames": ["A", "B"]}
    assert found["several"]["minItems"] == 1
    assert found["users"]["items"] == {"type": "integer"}
    assert found["sku"] == {"type": "string", "title": "Sku"}
