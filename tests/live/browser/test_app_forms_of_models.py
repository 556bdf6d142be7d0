"""Ready-made forms of generated tools, with a field of each kind, in a host."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from playwright.async_api import FrameLocator, Page, expect

from django_mcp import MCPServer
from django_mcp.contrib.models import ModelTools
from django_mcp.extensions.apps import App, ArgumentsForm
from django_mcp.extensions.apps.site.forms import register_opening_tool
from django_mcp.test import AsyncMCPClient
from tests.live.browser.app_host import HOST, Host
from tests.support.library.models import Sample, Tag

pytestmark = pytest.mark.django_db(transaction=True)


class Samples(ModelTools):
    model = Sample
    fields = [
        "id", "code", "label", "note", "mail", "level", "ratio", "price", "is_open", "is_known", "day", "moment",
        "clock", "took", "address", "uid", "data", "kind", "tags",
    ]  # fmt: skip
    writable = fields[1:]
    writes = ["create", "update"]
    everyone = True


@pytest.fixture
async def host(page: Page, db: None) -> Host:
    server = MCPServer("samples", public=True)
    Samples.register(server=server)
    tools = server.registry.tools
    register_opening_tool(server, tools["create_sample"], App(form=ArgumentsForm()))
    change = App(form=ArgumentsForm(keys=["id"], read="get_sample"))
    register_opening_tool(server, tools["update_sample"], change)
    user = await User.objects.acreate_superuser("root")
    return Host(page, AsyncMCPClient(server, capabilities=HOST, user=user))


async def send(frame: FrameLocator) -> None:
    await frame.get_by_role("button", name="Send").click()
    await expect(frame.get_by_text("This was sent.")).to_be_visible()


async def test_an_object_is_created(host: Host):
    tag = await Tag.objects.acreate(name="red")
    frame = await host.open("open_create_sample")
    await expect(frame.get_by_label("Price")).to_have_value("0")
    await frame.get_by_label("Code").fill("s-1")
    await frame.get_by_label("Label").fill("First")
    await frame.get_by_label("Mail").fill("ann@example.com")
    await frame.get_by_label("Level").fill("-3")
    await frame.get_by_label("Ratio").fill("0.5")
    await frame.get_by_label("Price").fill("9.50")
    await frame.get_by_label("Is open").select_option("No")
    await frame.get_by_label("Is known").select_option("Yes")
    await frame.get_by_label("Day").fill("2026-05-01")
    await frame.get_by_label("Moment").fill("2026-05-01T10:30")
    await frame.get_by_label("Clock").fill("10:30")
    await frame.get_by_label("Took").fill("00:20:00")
    await frame.get_by_label("Address").fill("10.0.0.1")
    await frame.get_by_label("Uid").fill("7d7f3bd2-5c1c-4f2c-9d41-0d0d7a2b6a3e")
    await frame.get_by_label("Data").fill('{"a": 1}')
    await frame.get_by_label("Kind").select_option(label="B")
    await frame.get_by_label("Tags").fill(f'["{tag.pk}"]')

    await send(frame)

    made = await Sample.objects.aget()
    assert (made.code, made.label, made.mail, made.level, made.ratio) == (
        "s-1",
        "First",
        "ann@example.com",
        -3,
        0.5,
    )
    assert str(made.price) == "9.50"
    assert (made.is_open, made.is_known, made.kind, made.data) == (False, True, "b", {"a": 1})
    assert [str(made.day), str(made.clock), str(made.took)] == ["2026-05-01", "10:30:00", "0:20:00"]
    assert made.moment is not None
    assert [each.pk async for each in made.tags.all()] == [tag.pk]


async def test_only_what_is_changed_is_sent(host: Host):
    made = await Sample.objects.acreate(
        code="s-1", label="First", is_known=True, day="2026-05-01", data={"a": [1]}
    )
    frame = await host.open("open_update_sample", arguments={"id": made.pk})
    await expect(frame.get_by_label("Label")).to_have_value("First")
    await expect(frame.get_by_label("Day")).to_have_value("2026-05-01")
    await expect(frame.get_by_label("Data")).to_have_value('{"a":[1]}')
    await frame.get_by_label("Label").fill("")
    await frame.get_by_label("Day").fill("")
    await frame.get_by_label("Is known").select_option("---------")

    await send(frame)

    [sent] = await host.sent("call")
    assert sent["arguments"] == {"id": made.pk, "label": "", "day": None, "is_known": None}
    await made.arefresh_from_db()
    assert (made.label, made.day, made.is_known, made.data) == ("", None, None, {"a": [1]})


async def test_errors_come_by_field(host: Host):
    await Sample.objects.acreate(code="s-1")
    frame = await host.open("open_create_sample")
    await frame.get_by_label("Code").fill("s-1")
    await frame.get_by_label("Mail").fill("nobody")

    await frame.get_by_role("button", name="Send").click()

    await expect(frame.get_by_label("Code")).to_be_focused()
    await expect(frame.get_by_label("Code")).to_have_accessible_description(
        "Sample with this Code already exists."
    )
    await expect(frame.get_by_label("Mail")).to_have_attribute("aria-invalid", "true")
