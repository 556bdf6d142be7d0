"""Recursive unions and slow patterns in the models that generated tools validate data with."""

from __future__ import annotations

import re
import sys
from functools import partial
from typing import Annotated, Any, Literal

import pytest
from django import forms
from django.contrib import admin
from django.contrib.auth.models import User
from django.core.checks import run_checks
from django.core.validators import RegexValidator
from ninja import Form, NinjaAPI, Path, Query, Schema
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, create_model
from rest_framework import fields, serializers, viewsets
from rest_framework.response import Response

from django_mcp import MCPServer
from django_mcp.contrib.drf import viewset_tools
from django_mcp.contrib.modeladmin import admin_tools
from django_mcp.contrib.models import ModelTools
from django_mcp.contrib.ninja import operation_tools
from django_mcp.forms.pydantic_models import SlowValidation, check_models
from example_project.shop.models import Order
from tests.unit.contrib import pydantic_helpers

# Some checks of Django ask the database what it can do, once in a process.
pytestmark = pytest.mark.django_db


class Not(Schema):
    inner: And | Not


class And(Schema):
    inner: And | Not


Not.model_rebuild()
Tree = And | Not
ADAPTER: TypeAdapter[Any] = TypeAdapter(Tree)


class No(Schema):
    kind: Literal["no"]
    inner: Safe | None = None


class Yes(Schema):
    kind: Literal["yes"]
    inner: Safe | None = None


Safe = Annotated[No | Yes, Field(discriminator="kind")]
No.model_rebuild()
Yes.model_rebuild()


Deep: Any = int
for level in range(20):
    Deep = create_model(f"One{level}", inner=(Deep, ...)) | create_model(
        f"Two{level}", inner=(Deep, ...)
    )


class Holder(BaseModel):
    tree: Annotated[Any, AfterValidator(lambda value: ADAPTER.validate_json(value or b""))]


SLOW_PATTERN = re.compile("^(a+)+$")
SlowText = Annotated[str, Field(pattern=re.compile("^(a+)+$"))]
LINEAR: TypeAdapter[Any] = TypeAdapter(Annotated[str, Field(pattern="^(a+)+$")])


class Slow(Schema):
    text: SlowText


class SlowByItsConfig(BaseModel):
    model_config = ConfigDict(regex_engine="python-re")
    text: Annotated[str, Field(pattern="^(a+)+$")]


class Compiling(BaseModel):
    pattern: re.Pattern[str]


class WithSlow(BaseModel):
    inner: list[Slow | None]


SLOW: TypeAdapter[Any] = TypeAdapter(SlowText)


def problems(server: MCPServer) -> list[str]:
    found = [each for each in run_checks(tags=["django_mcp"]) if each.obj is server]
    told = (
        "forms of a recursive union",
        "forms of unions",
        "Python's `re`",
        "`re.Pattern`",
        "the pattern",
    )
    return [each.msg for each in found if any(text in each.msg for text in told)]


# -- Ninja


def body(request: Any, data: Tree) -> Any: ...
def listed(request: Any, data: list[Tree]) -> Any: ...
def filtered(request: Any, data: Query[Holder]) -> Any: ...
def sent(request: Any, data: Form[Holder]) -> Any: ...
def placed(request: Any, tree: Path[Holder]) -> Any: ...
def deep(request: Any, data: Deep) -> Any: ...
def safe(request: Any, data: Safe) -> Any: ...
def returned(request: Any) -> Any: ...
def slow(request: Any, data: Slow) -> Any: ...
def slow_by_config(request: Any, data: SlowByItsConfig) -> Any: ...
def compiling(request: Any, data: Query[Compiling]) -> Any: ...
def slow_query(request: Any, text: SlowText) -> Any: ...


OPERATIONS = [body, listed, filtered, sent, placed, deep, returned]
OPERATIONS += [slow, slow_by_config, compiling, slow_query]


@pytest.mark.parametrize("function", OPERATIONS)
def test_an_operation_with_a_model_that_may_take_very_long_is_no_tool(function: Any):
    api = NinjaAPI(urls_namespace=f"unions-{function.__name__}")
    path = "/ambiguous/{tree}" if function is placed else "/ambiguous"
    api.post(path, response=Tree if function is returned else None)(function)
    api.post("/safe")(safe)
    server = MCPServer("unions", public=True)

    assert [each.name for each in operation_tools(api, server=server)] == ["safe"]
    assert len(problems(server)) == 1


# -- fields


class ByAdapter:
    """Validates with an adapter that is an attribute, as third-party fields do."""

    def __init__(self, schema: Any) -> None:
        self.schema = schema

    def __call__(self, value: Any) -> None:
        TypeAdapter(self.schema).validate_python(value)


def by_global(value: Any) -> None:
    ADAPTER.validate_python(value)


def by_model(value: Any) -> None:
    def validate() -> None:
        Not.model_validate(value)

    validate()


def by_helper(value: Any) -> None:
    by_model(value)


def by_module(value: Any) -> None:
    pydantic_helpers.Tree.model_validate(value)


def by_closure(model: Any) -> Any:
    def validate(value: Any) -> None:
        model.model_validate(value)

    return validate


def by_slow_adapter(value: Any) -> None:
    SLOW.validate_python(value)


class OfWords(RegexValidator):
    regex = r"^((\w+)?-?)+$"


WORDS = re.compile(r"^(?:(?:\w+)\s*)+$")
NAMES = re.compile(r"^\w+(?: \w+)*(?:, (?:[A-Z]{1,3}\.)+)?$")


def by_pattern(value: Any) -> None:
    if WORDS.match(value) is None:
        raise ValueError


def check_safely(value: Any) -> None:
    TypeAdapter(Safe).validate_python(value)
    LINEAR.validate_python("a")
    NAMES.match("a")


VALIDATORS = [
    ByAdapter(Tree),
    ByAdapter(list[Tree]),
    ByAdapter(ADAPTER),
    by_global,
    by_model,
    by_helper,
    by_module,
    by_closure(And),
    partial(by_closure, And),
    And.model_validate,
    ByAdapter(Deep),
    ByAdapter(SlowText),
    ByAdapter(WithSlow),
    by_slow_adapter,
    by_closure(Compiling),
    SlowByItsConfig.model_validate,
    RegexValidator(r"^(a+)+$"),
    RegexValidator(re.compile(r"^(\w+\s?)*$")),
    OfWords(),
    by_pattern,
]


def make_views(**declared: fields.Field) -> Any:
    serializer = type("Sent", (serializers.Serializer,), declared)

    class Views(viewsets.ViewSet):
        serializer_class = serializer

        def create(self, request: Any) -> Response:
            raise NotImplementedError

    return Views


def register(view: Any, serializer: Any = None) -> tuple[int, int]:
    """Return the number of tools, and of the problems."""
    server = MCPServer("unions", public=True)
    options: Any = {} if serializer is None else {"serializers": {"create": serializer}}
    return len(viewset_tools(view, server=server, **options)), len(problems(server))


@pytest.mark.parametrize("validator", VALIDATORS)
def test_a_serializer_with_a_model_that_may_take_very_long_is_no_tool(validator: Any):
    ambiguous = fields.JSONField(validators=[validator])

    assert register(make_views(tree=ambiguous)) == (0, 1)
    assert register(make_views(trees=fields.ListField(child=ambiguous))) == (0, 1)
    assert register(make_views(tree=fields.JSONField(validators=[check_safely]))) == (1, 0)


def test_the_functions_of_serializers_and_their_fields_count():
    class TreeField(fields.JSONField):
        def to_internal_value(self, data: Any) -> Any:
            return by_helper(data)

    class Inner(serializers.Serializer):
        tree = TreeField()

    class Outer(serializers.Serializer):
        inner = Inner(many=True)

    class Whole(serializers.Serializer):
        name = fields.CharField()

        def validate(self, attrs: Any) -> Any:
            return ADAPTER.validate_python(attrs)

    class Kinds(serializers.BaseSerializer):
        kinds = {"whole": Whole}

    class Words(serializers.Serializer):
        words = fields.RegexField(r"^(\w+\s?)*$")

    for serializer in (Words, Inner, Outer, Outer(many=True), Whole, Kinds):
        assert register(make_views(), serializer) == (0, 1), serializer


def make_form(validator: Any) -> Any:
    class OrderForm(forms.ModelForm):
        tree = forms.JSONField(validators=[validator])

        class Meta:
            model = Order
            fields = ("note",)

    return OrderForm


def make_form_of_field() -> Any:
    class TreeField(forms.JSONField):
        def clean(self, value: Any) -> Any:
            return by_helper(value)

    class OrderForm(forms.ModelForm):
        tree = TreeField()

        class Meta:
            model = Order
            fields = ("note",)

    return OrderForm


def make_form_that_cleans() -> Any:
    class OrderForm(forms.ModelForm):
        class Meta:
            model = Order
            fields = ("note",)

        def clean_note(self) -> Any:
            return ADAPTER.validate_json(self.cleaned_data["note"])

    return OrderForm


class FormOfWords(forms.ModelForm):
    words = forms.RegexField(r"^(\w+\s?)*$")

    class Meta:
        model = Order
        fields = ("note",)


FORMS = [
    FormOfWords,
    *(make_form(each) for each in VALIDATORS),
    make_form_of_field(),
    make_form_that_cleans(),
]


@pytest.mark.parametrize("form", FORMS)
def test_a_form_with_a_model_that_may_take_very_long_gives_no_model_tool(form: Any):
    assert register_model_tools(form) == "is no tool"


def test_a_form_with_a_linear_model_gives_a_model_tool():
    assert register_model_tools(make_form(check_safely)) == "is a tool"


def register_model_tools(form: Any) -> str:
    options = {"model": Order, "fields": ["number", "note"], "everyone": True}
    more = {"writes": ["create"], "writable": None, "form": form}
    cls: Any = type("Made", (ModelTools,), {**options, **more})
    server = MCPServer("unions", public=True)
    made = cls.register(server=server)
    told = [each.text for each in made.find_faults()]
    if told:
        assert "form by form" in told[0] or "very long" in told[0], told
    return "is no tool" if told else "is a tool"


@pytest.mark.parametrize("form", FORMS)
def test_a_form_with_a_model_that_may_take_very_long_gives_no_admin_tool_that_writes(form: Any):
    site = admin.AdminSite("unions")
    site.register(
        Order, type("OrderAdmin", (admin.ModelAdmin,), {"form": form, "fields": ["note"]})
    )
    server = MCPServer("unions", public=True)

    found = [each.name for each in admin_tools(server=server, site=site, models=[Order])]

    assert found
    assert not [name for name in found if "create" in name or "update" in name or "add" in name]
    assert len(problems(server)) == 2


class CustomerAdmin(admin.ModelAdmin):
    def by_no_field(self, request: Any, rows: Any) -> None:
        by_pattern("words")


def test_the_admin_of_a_related_model_does_not_count():
    site = admin.AdminSite("unions")
    site.register(User, CustomerAdmin)
    site.register(Order)
    server = MCPServer("unions", public=True)

    found = {each.name for each in admin_tools(server=server, site=site, models=[Order])}

    assert {"create_order", "update_order"} <= found
    assert problems(server) == []


def test_a_pattern_that_django_compiles_later_counts_without_pydantic(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.delitem(sys.modules, "pydantic")

    with pytest.raises(SlowValidation, match="may take very long"):
        check_models([RegexValidator(r"^(b+)+$")])


def test_a_function_without_a_module_is_looked_into():
    def function(value: str) -> bool:
        return SLOW_PATTERN.match(value) is not None

    function.__module__ = None  # type: ignore[assignment]

    with pytest.raises(SlowValidation):
        check_models([function])


def test_what_an_object_would_load_is_not_asked_for():
    asked = []

    class Lazy:
        def __getattr__(self, name: str) -> Any:
            asked.append(name)
            raise ImportError(name)

    check_models([[Lazy()]])

    assert asked == []
