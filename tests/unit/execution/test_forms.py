"""Django forms as questions: the schema, and the validation of answers."""

from __future__ import annotations

import functools
from typing import Any

import pytest
from django import forms
from django.utils.translation import gettext, gettext_lazy, override

from django_mcp import Context, InputRequired, MCPServer, ask_form, ask_roots
from django_mcp.execution.threads import run_in_pool
from django_mcp.execution.values import MAX_CHOICES, make_django_form
from django_mcp.protocol.asks import FormError
from django_mcp.protocol.asks import check_form as check_flat
from django_mcp.registry.problems import ArgumentErrors
from example_project.shop.models import Product
from tests.support.databases import make_product, products
from tests.support.wire import V2026_07_28, WireClient


class Delivery(forms.Form):
    email = forms.EmailField(help_text="Where <b>we</b> write to.", max_length=40)
    day = forms.DateField(label=gettext_lazy("Date"), required=False)
    paper = forms.ChoiceField(choices=[("plain", "Plain"), ("More", [("stars", "Stars")])])
    extras = forms.MultipleChoiceField(choices=[(1, "Card"), (2, "Bow")], required=False)
    count = forms.IntegerField(min_value=1, max_value=9, initial=1)
    tip = forms.DecimalField(required=False, min_value=0)
    fast = forms.BooleanField(required=False, initial=True)
    token = forms.CharField(widget=forms.HiddenInput, initial="kept")
    fixed = forms.CharField(disabled=True, initial="always")

    def clean(self) -> dict[str, Any]:
        data: dict[str, Any] = super().clean() or {}
        if data.get("paper") == "stars" and data.get("count", 0) > 5:
            raise forms.ValidationError("There are only five star papers.")
        return data


class ProductForm(forms.ModelForm):
    class Meta:
        model = Product
        fields = ["sku", "name", "category", "price"]


RIGHT = {"email": "a@b.example", "paper": "stars", "count": 2}


def test_the_schema_matches_the_form():
    schema = make_django_form(Delivery).schema

    check_flat(schema)
    assert schema["required"] == ["email", "paper", "count"]
    assert schema["properties"] == {
        "email": {
            "type": "string",
            "format": "email",
            "maxLength": 40,
            "title": "Email",
            "description": "Where we write to.",
        },
        "day": {"type": "string", "format": "date", "title": "Date"},
        "paper": {
            "type": "string",
            "oneOf": [
                {"const": "plain", "title": "Plain"},
                {"const": "stars", "title": "Stars"},
            ],
            "title": "Paper",
        },
        "extras": {
            "type": "array",
            "items": {"anyOf": [{"const": "1", "title": "Card"}, {"const": "2", "title": "Bow"}]},
            "title": "Extras",
        },
        "count": {"type": "integer", "minimum": 1, "maximum": 9, "title": "Count", "default": 1},
        "tip": {"type": "number", "minimum": 0, "title": "Tip"},
        "fast": {"type": "boolean", "title": "Fast", "default": True},
    }


def test_an_answer_is_returned_as_a_bound_form():
    answer = make_django_form(Delivery).read(
        {**RIGHT, "extras": ["1"], "tip": 1.5, "fast": False, "day": "2026-03-02"}
    )

    cleaned = answer.cleaned_data
    assert (cleaned["extras"], str(cleaned["tip"]), cleaned["fast"]) == (["1"], "1.5", False)
    assert cleaned["day"].year == 2026
    assert (cleaned["token"], cleaned["fixed"]) == ("kept", "always")


@pytest.mark.parametrize(
    ("wrong", "where"),
    [
        ({"email": "nobody"}, "/email"),
        ({"count": 10}, "/count"),
        ({"count": 10**5000}, "/count"),
        ({"count": float("inf")}, "/count"),
        ({"count": {"a": 1}}, "/count"),
        ({"email": ["a@b.example"]}, "/email"),
        ({"fast": [["x"]]}, "/fast"),
        ({"extras": "1"}, "/extras"),
        ({"extras": ["9"]}, "/extras"),
        ({"paper": None}, "/paper"),
        ({"paper": "stars", "count": 6}, ""),
    ],
)
def test_the_form_validates_its_answers(wrong: dict[str, Any], where: str):
    with pytest.raises(ArgumentErrors) as caught:
        make_django_form(Delivery).read({**RIGHT, **wrong})

    assert [problem.pointer for problem in caught.value.problems] == [where]


@pytest.mark.parametrize("content", [None, [], "x", 5])
def test_an_answer_that_is_no_object_is_invalid(content: Any):
    with pytest.raises(ArgumentErrors):
        make_django_form(Delivery).read(content)


def test_a_user_cannot_set_fields_that_were_not_asked():
    answer = make_django_form(Delivery).read({**RIGHT, "token": "mine", "fixed": "mine"})

    assert answer.cleaned_data["token"] == "kept"
    assert answer.cleaned_data["fixed"] == "always"


@pytest.mark.parametrize(
    "field",
    [
        forms.CharField(widget=forms.PasswordInput),
        forms.FileField(),
        forms.JSONField(),
        forms.SplitDateTimeField(),
    ],
    ids=lambda field: type(field).__name__,
)
def test_password_and_file_fields_are_not_asked_for(field: forms.Field):
    form = type("Asked", (forms.Form,), {"field": field})

    with pytest.raises(FormError, match="'field'"):
        _ = make_django_form(form).schema


def test_a_field_with_too_many_choices_is_a_text_field():
    choices = [(number, str(number)) for number in range(MAX_CHOICES + 1)]
    form = type("Asked", (forms.Form,), {"field": forms.ChoiceField(choices=choices)})

    assert make_django_form(form).schema["properties"]["field"]["type"] == "string"
    assert "oneOf" not in make_django_form(form).schema["properties"]["field"]


@pytest.fixture
def server() -> MCPServer:
    server = MCPServer("forms")

    @server.tool
    def wrap(ctx: Context) -> str:
        answer = ctx.elicit("How?", Delivery)
        return f"{answer.data.cleaned_data['paper']}" if answer.is_accepted else answer.action

    @server.tool
    def add(ctx: Context) -> str:
        answer = ctx.elicit("Which?", functools.partial(ProductForm, initial={"name": "Mug"}))
        return f"added {answer.data.instance.sku}"

    @server.tool
    async def aadd(ctx: Context) -> str:
        answer = await ctx.aelicit("Which?", ProductForm)
        return f"added {answer.data.instance.sku}"

    @server.tool
    async def plan(ctx: Context) -> Any:
        if not ctx.is_resubmit:
            return InputRequired({"product": ask_form("Which?", ProductForm), "roots": ask_roots()})
        return sorted(ctx.input_responses)

    return server


META: dict[str, Any] = {
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}, "roots": {}}
}


async def ask(server: MCPServer, name: str, **more: Any) -> dict[str, Any]:
    client = WireClient(server, V2026_07_28)
    return await client.result("tools/call", {"name": name, "_meta": META, **more})


async def again(
    server: MCPServer, name: str, interim: dict[str, Any], content: dict[str, Any]
) -> dict[str, Any]:
    answers = {"question-1": {"action": "accept", "content": content}}
    return await ask(server, name, requestState=interim["requestState"], inputResponses=answers)


async def test_an_invalid_answer_is_asked_again_with_its_errors(
    server: MCPServer,
):
    first = await ask(server, "wrap")
    with override("de"):
        second = await again(server, "wrap", first, {**RIGHT, "email": "x", "count": 77})
        problem = gettext("Enter a valid email address.")

    message = second["inputRequests"]["question-1"]["params"]["message"]
    assert message.split("\n")[0] == "How?"
    # In which words depends on the installed apps: Django REST framework translates this one as well.
    assert f"- email: {problem}" in message
    assert problem != "Enter a valid email address."
    assert "- count: Dieser Wert muss kleiner oder gleich 9 sein." in message
    third = await again(server, "wrap", second, RIGHT)
    assert third["content"][0]["text"] == "stars"


@pytest.mark.parametrize("name", ["add", "aadd"])
async def test_a_model_form_queries_the_database(server: MCPServer, name: str, shop: None):
    """The queries run in a thread, for an asynchronous handler too."""
    first = await ask(server, name)
    fields = first["inputRequests"]["question-1"]["params"]["requestedSchema"]["properties"]
    assert fields["category"]["oneOf"][0].keys() == {"const", "title"}
    assert fields["name"].get("default") == ("Mug" if name == "add" else None)

    content = {"sku": "taken", "name": "Mug", "category": "office", "price": 3.5}
    second = await again(server, name, first, content)
    assert "- sku: " in second["inputRequests"]["question-1"]["params"]["message"]

    third = await again(server, name, second, {**content, "sku": "free"})
    assert third["content"][0]["text"] == "added free"


async def test_an_async_handler_controlling_rounds_may_use_a_form(server: MCPServer, shop: None):
    assert set((await ask(server, "plan"))["inputRequests"]) == {"product", "roots"}


@pytest.fixture
async def shop(databases: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from django.db import router

    monkeypatch.setattr(router, "db_for_read", lambda *_args, **_kwargs: "first")
    monkeypatch.setattr(router, "db_for_write", lambda *_args, **_kwargs: "first")
    await run_in_pool(lambda: make_product("taken"))
    assert await run_in_pool(products) == {"taken"}
