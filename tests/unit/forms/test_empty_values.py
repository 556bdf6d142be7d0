"""Null, empty texts and empty JSON, which forms take for the same: what is written, refused and told as changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django import forms
from django.core.exceptions import ValidationError
from django.db import models
from django.test.utils import isolate_apps

from django_mcp import ArgumentErrors
from django_mcp.forms import bind_form, check_form, form_schema


class KeyedField(forms.JSONField):
    def clean(self, value: Any) -> Any:
        cleaned = super().clean(value)
        if "key" not in (cleaned or {}):
            raise ValidationError("There is no key.")
        return cleaned


class AutoField(forms.CharField):
    def clean(self, value: Any) -> Any:
        return super().clean(value) or "AUTO"


class Pair(forms.MultiValueField):
    def __init__(self, **options: Any) -> None:
        widget = forms.MultiWidget([forms.TextInput, forms.TextInput])
        super().__init__([forms.CharField(), forms.CharField()], widget=widget, **options)


@pytest.fixture
def form_class() -> Iterator[Any]:
    with isolate_apps("tests.support.library"):

        class Entry(models.Model):
            details = models.JSONField(default=dict, blank=True)
            options = models.JSONField(default=dict)
            code = models.CharField(max_length=9, null=True, blank=True)  # noqa: DJ001
            note = models.TextField(null=True, blank=True)  # noqa: DJ001

            class Meta:
                app_label = "library"

            def __str__(self) -> str:
                return ""

        class EntryForm(forms.ModelForm):
            details = KeyedField(required=False)
            code = AutoField(required=False)

            class Meta:
                model = Entry
                fields = ["details", "options", "code", "note"]

        yield EntryForm


VALID = {"details": {"key": 1}, "options": {"a": 1}}


def make(form_class: Any, **values: Any) -> Any:
    return form_class.Meta.model(**{**VALID, "code": "c", "note": "n", **values})


def write(form_class: Any, instance: Any, **arguments: Any) -> Any:
    form = bind_form(form_class, arguments, instance=instance, is_partial=instance is not None)
    check_form(form)
    return form


def refuse(form_class: Any, instance: Any, **arguments: Any) -> list[str]:
    with pytest.raises(ArgumentErrors) as raised:
        write(form_class, instance, **arguments)
    return [each.pointer for each in raised.value.problems]


@pytest.mark.parametrize("is_new", [True, False])
@pytest.mark.parametrize("empty", [{}, []])
def test_empty_json_is_validated_by_its_field(form_class: Any, is_new: bool, empty: Any):
    instance = None if is_new else make(form_class)

    assert refuse(form_class, instance, **{**VALID, "details": empty}) == ["/details"]
    assert refuse(form_class, instance, **{**VALID, "options": empty}) == ["/options"]


def test_a_required_field_takes_back_the_empty_value_that_is_stored(form_class: Any):
    form = write(form_class, make(form_class, options=[]), options=[])

    assert (form.instance.options, form.changed_data) == ([], [])
    assert refuse(form_class, make(form_class, options=[]), options={}) == ["/options"]


@pytest.mark.parametrize("is_new", [True, False])
@pytest.mark.parametrize("empty", [None, ""])
def test_a_field_may_fill_in_what_is_sent_empty(form_class: Any, is_new: bool, empty: Any):
    form = write(form_class, None if is_new else make(form_class), **{**VALID, "code": empty})

    assert form.instance.code == "AUTO"
    assert "code" in form.changed_data


@pytest.mark.parametrize(("stored", "sent"), [(None, ""), ("", None)])
def test_a_change_from_null_to_an_empty_text_is_told(form_class: Any, stored: Any, sent: Any):
    form = write(form_class, make(form_class, note=stored), note=sent)
    again = write(form_class, make(form_class, note=stored), note=stored)

    assert (form.instance.note, form.changed_data) == (sent, ["note"])
    assert (again.instance.note, again.changed_data) == (stored, [])


def test_an_update_of_several_parts_needs_all_of_them():
    class PairForm(forms.Form):
        pair = Pair()
        some = forms.MultipleChoiceField(choices=[("a", "A")])

    properties = form_schema(PairForm, is_partial=True)["properties"]

    assert (properties["pair"]["minItems"], properties["pair"]["maxItems"]) == (2, 2)
    assert "minItems" not in properties["some"]
