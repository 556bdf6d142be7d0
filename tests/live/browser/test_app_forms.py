"""Forms as apps: filled in, sent and refused in a host."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from django import forms
from playwright.async_api import FrameLocator, Page, expect

from django_mcp import MCPServer, ToolError
from django_mcp.extensions.apps import App, ArgumentsForm
from django_mcp.test import AsyncMCPClient
from tests.live.browser.app_host import HOST, SANDBOXES, Host
from tests.live.browser.pages import AXE


class OrderForm(forms.Form):
    """All sorts of fields."""

    quantity = forms.IntegerField(min_value=1, max_value=99, help_text="Pieces of it")
    name = forms.CharField(max_length=20, min_length=2, label="Your name")
    note = forms.CharField(widget=forms.Textarea(attrs={"rows": 3}), required=False)
    price = forms.DecimalField(max_digits=6, decimal_places=2, required=False)
    day = forms.DateField(required=False)
    moment = forms.SplitDateTimeField(required=False)
    colour = forms.ChoiceField(choices=[("", "-"), ("r", "Red"), ("b", "Blue")], required=False)
    size = forms.ChoiceField(
        choices=[("s", "Small"), ("l", "Large")], widget=forms.RadioSelect, required=False
    )
    extras = forms.MultipleChoiceField(
        choices=[("w", "Wrapped"), ("c", "Card")],
        widget=forms.CheckboxSelectMultiple,
        required=False,
    )
    tags = forms.MultipleChoiceField(choices=[("x", "X"), ("y", "Y"), ("z", "Z")], required=False)
    is_gift = forms.BooleanField(required=False)
    details = forms.JSONField(required=False)
    basket = forms.CharField(widget=forms.HiddenInput, initial="b-1", required=False)

    def clean_basket(self) -> Any:
        if self.cleaned_data["basket"] != "b-1":
            raise forms.ValidationError("There is no such basket.")
        return self.cleaned_data["basket"]

    def clean(self) -> None:
        if self.cleaned_data.get("name") == "nobody":
            raise forms.ValidationError("Nobody orders nothing.")


class Calls:
    """The forms that arrived, and what holds back the answers."""

    def __init__(self) -> None:
        self.cleaned: list[dict[str, Any]] = []
        self.answers = asyncio.Event()
        self.answers.set()


@pytest.fixture
def calls() -> Calls:
    return Calls()


@pytest.fixture
def client(calls: Calls) -> AsyncMCPClient:
    server = MCPServer("forms", public=True)

    @server.tool(app=App(form=OrderForm, initial=lambda _user: {"name": "<b>{{ 7 }}</script>"}))
    async def order(form: OrderForm) -> dict[str, Any]:
        """Order it."""
        await calls.answers.wait()
        calls.cleaned.append(form.cleaned_data)
        if form.cleaned_data["name"] == "trouble":
            raise ToolError("The shop is closed.")
        return {"number": "<i>7</i>", "total": 30}

    @server.tool(read_only=True)
    async def get_item(number: int) -> dict[str, Any]:
        """Get an item."""
        return {"number": number, "title": "Tea", "stock": 3, "kind": "new", "version": 4}

    change = ArgumentsForm(keys=["number"], read="get_item", sources={"if_version": "version"})

    @server.tool(app=App(form=change))
    async def update_item(
        number: int,
        if_version: int,
        title: str = "",
        stock: int | None = None,
        data: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Change an item."""
        calls.cleaned.append({"number": number, "if": if_version, "stock": stock, "data": data})
        return {"stock": stock}

    return AsyncMCPClient(server, capabilities=HOST)


@pytest.fixture
def host(page: Page, client: AsyncMCPClient) -> Host:
    return Host(page, client)


def send(frame: FrameLocator) -> Any:
    return frame.get_by_role("button", name="Send")


@pytest.mark.parametrize("sandbox", SANDBOXES)
async def test_a_form_is_filled_in_and_sent_by_a_click(host: Host, calls: Calls, sandbox: str):
    frame = await host.open("open_order", sandbox=sandbox)
    await expect(frame.get_by_label("Your name")).to_have_value("<b>{{ 7 }}</script>")
    await frame.get_by_label("Quantity").fill("5")
    await frame.get_by_label("Your name").fill("Ann")
    await frame.get_by_label("Note").fill("One\nTwo")
    await frame.get_by_label("Price").fill("1.5")
    await frame.get_by_label("Day").fill("2026-05-01")
    await frame.get_by_label("Moment").fill("2026-05-01T10:30")
    await frame.get_by_label("Colour").select_option("Blue")
    await frame.get_by_label("Large").check()
    await frame.get_by_label("Wrapped").check()
    await frame.get_by_label("Card").check()
    await frame.get_by_label("Tags").select_option(["X", "Z"])
    await frame.get_by_label("Is gift").check()
    await frame.get_by_label("Details").fill('{"a": [1]}')

    await send(frame).click()

    await expect(frame.get_by_text("This was sent.")).to_be_visible()
    await expect(frame.locator("dd").first).to_have_text("<i>7</i>")
    await expect(send(frame)).to_be_hidden()
    [cleaned] = calls.cleaned
    assert cleaned.pop("moment").isoformat().startswith("2026-05-01T10:30")
    assert str(cleaned.pop("price")) == "1.5"
    assert str(cleaned.pop("day")) == "2026-05-01"
    assert cleaned == {
        "quantity": 5,
        "name": "Ann",
        "note": "One\nTwo",
        "colour": "b",
        "size": "l",
        "extras": ["w", "c"],
        "tags": ["x", "z"],
        "is_gift": True,
        "details": {"a": [1]},
        "basket": "b-1",
    }


@pytest.mark.parametrize("sandbox", SANDBOXES)
async def test_enter_sends_it_once_and_errors_come_by_field(host: Host, calls: Calls, sandbox: str):
    frame = await host.open("open_order", sandbox=sandbox)
    await frame.get_by_label("Quantity").fill("0")
    await frame.get_by_label("Your name").fill("A")

    await frame.get_by_label("Your name").press("Enter")

    quantity = frame.get_by_label("Quantity")
    await expect(quantity).to_be_focused()
    await expect(quantity).to_have_attribute("aria-invalid", "true")
    await expect(quantity).to_have_accessible_description(
        "Pieces of it Ensure this value is greater than or equal to 1."
    )
    await expect(frame.locator("[data-mcp-field=name] [data-mcp-error]")).to_have_text(
        "Ensure this value has at least 2 characters (it has 1)."
    )
    assert len(await host.sent("call")) == 1
    assert calls.cleaned == []
    await quantity.fill("3")
    await frame.get_by_label("Your name").fill("Ann")
    await quantity.press("Enter")
    await expect(frame.get_by_text("This was sent.")).to_be_visible()
    await expect(frame.locator("[aria-invalid]")).to_have_count(0)


async def test_enter_in_a_text_of_several_lines_is_a_new_line(host: Host):
    frame = await host.open("open_order")

    await frame.get_by_label("Note").press("Enter")

    await expect(frame.get_by_label("Note")).to_have_value("\n")
    assert await host.sent("call") == []


@pytest.mark.parametrize(
    ("name", "told"),
    [("nobody", "Nobody orders nothing."), ("trouble", "The shop is closed.")],
)
async def test_what_concerns_no_field_is_told_above(host: Host, name: str, told: str):
    frame = await host.open("open_order")
    await frame.get_by_label("Quantity").fill("3")
    await frame.get_by_label("Your name").fill(name)

    await send(frame).click()

    errors = frame.locator("[data-mcp-errors]")
    await expect(errors).to_have_text(told)
    await expect(errors).to_be_focused()
    await expect(send(frame)).to_be_enabled()


async def test_a_changed_hidden_field_is_refused(host: Host, calls: Calls):
    frame = await host.open("open_order")
    await frame.get_by_label("Quantity").fill("3")
    await frame.get_by_label("Your name").fill("Ann")
    await frame.locator("[name=basket]").evaluate("(input) => { input.value = 'b-2' }")

    await send(frame).click()

    await expect(frame.locator("[data-mcp-errors]")).to_have_text(
        "basket: There is no such basket."
    )
    assert calls.cleaned == []


async def test_a_value_that_is_no_json_is_not_sent(host: Host):
    frame = await host.open("open_order")
    await frame.get_by_label("Details").fill("{")

    await send(frame).click()

    await expect(frame.get_by_label("Details")).to_have_accessible_description(
        "Enter a valid JSON."
    )
    await expect(frame.get_by_label("Details")).to_be_focused()
    assert await host.sent("call") == []


async def test_it_is_sent_once_while_there_is_no_answer(host: Host, calls: Calls):
    calls.answers.clear()
    frame = await host.open("open_order")
    await frame.locator("[data-mcp-form]").evaluate("(form) => { form.dataset.mcpLateS = '0.1' }")
    await frame.get_by_label("Quantity").fill("3")
    await frame.get_by_label("Your name").fill("Ann")

    await send(frame).click()
    await expect(send(frame)).to_be_disabled()
    await frame.get_by_label("Your name").press("Enter")

    status = frame.locator("[data-mcp-status]")
    await expect(status).to_contain_text("There is no answer yet.")
    await expect(status).to_have_attribute("data-state", "error")
    assert len(await host.sent("call")) == 1
    calls.answers.set()
    await expect(frame.get_by_text("This was sent.")).to_be_visible()
    await expect(status).to_be_empty()


async def test_a_form_can_be_shown_again(host: Host, calls: Calls):
    frame = await host.open("open_order")
    await frame.get_by_label("Quantity").fill("3")
    await frame.get_by_label("Your name").fill("Ann")
    await send(frame).click()

    await frame.get_by_role("button", name="Show the form again").click()

    await expect(frame.get_by_label("Quantity")).to_be_focused()
    await expect(frame.get_by_label("Quantity")).to_have_value("")
    await expect(send(frame)).to_be_visible()


async def test_the_form_of_a_change_sends_what_is_changed(host: Host, calls: Calls):
    frame = await host.open("open_update_item", arguments={"number": 7})
    await expect(frame.get_by_label("Title")).to_have_value("Tea")
    await frame.get_by_label("Stock").fill("12")

    await send(frame).click()

    await expect(frame.get_by_text("This was sent.")).to_be_visible()
    [sent] = await host.sent("call")
    assert sent["arguments"] == {"number": 7, "if_version": 4, "stock": 12}
    assert calls.cleaned == [{"number": 7, "if": 4, "stock": 12, "data": None}]


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_a_form_is_accessible(host: Host, theme: str):
    frame = await host.open("open_order", theme=theme)
    await frame.get_by_label("Quantity").fill("0")
    await send(frame).click()
    await expect(frame.get_by_label("Quantity")).to_be_focused()

    assert await find_violations(host) == []
    await frame.get_by_label("Quantity").fill("3")
    await frame.get_by_label("Your name").fill("Ann")
    await send(frame).click()
    await expect(frame.get_by_text("This was sent.")).to_be_visible()
    assert await find_violations(host) == []


async def find_violations(host: Host) -> Any:
    [inner] = [each for each in host.page.frames if each.parent_frame is not None]
    await inner.evaluate(AXE.read_text())
    return await inner.evaluate(
        "axe.run().then((found) => found.violations.map((each) => [each.id, each.nodes.map((n) => n.html)]))"
    )


@pytest.mark.parametrize("width", [320, 900])
@pytest.mark.parametrize("direction", ["ltr", "rtl"])
async def test_a_form_fits_any_width_and_direction(host: Host, width: int, direction: str):
    frame = await host.open("open_order")
    await host.page.locator("iframe").evaluate("(frame, width) => { frame.width = width }", width)
    await frame.locator("html").evaluate("(root, dir) => { root.dir = dir }", direction)
    await frame.get_by_label("Quantity").fill("0")
    await send(frame).click()
    await expect(frame.get_by_label("Quantity")).to_be_focused()

    overflow = await frame.locator("html").evaluate("(root) => root.scrollWidth - root.clientWidth")

    assert overflow == 0


async def test_a_form_works_by_the_keyboard(host: Host, calls: Calls):
    frame = await host.open("open_order")
    await frame.get_by_label("Quantity").focus()
    keyboard = host.page.keyboard
    await keyboard.type("4")
    await keyboard.press("Tab")
    await keyboard.press("ControlOrMeta+A")
    await keyboard.type("Ann")
    await keyboard.press("Enter")

    await expect(frame.get_by_text("This was sent.")).to_be_visible()
    await expect(frame.locator("[data-mcp-done]")).to_be_focused()
    assert calls.cleaned[0]["quantity"] == 4
