"""Calling from the page of a tool: what is asked before, how arguments are entered, and what is done with results."""

from __future__ import annotations

from pathlib import Path

from playwright.async_api import expect

from tests.live.browser.pages import AdminPages
from tests.live.browser.test_trying import field, send
from tests.support.site.browser.mcp import PNG


async def test_a_destructive_tool_asks_and_chooses_nothing_by_itself(admin: AdminPages):
    await admin.open_entry("erase")
    everywhere = field(admin, "everywhere").locator("option:checked")
    await expect(everywhere).to_have_text("– please choose –")
    await send(admin)
    complaints = admin.page.locator("#mcp-arguments .mcp-error")
    await expect(complaints).to_have_count(2)
    await expect(field(admin, "everywhere")).to_be_focused()
    await field(admin, "name").fill("all")
    await field(admin, "everywhere").select_option("No")
    await field(admin, "count").fill("3")
    await send(admin)
    dialog = admin.page.get_by_role("dialog", name="Call")
    await expect(dialog).to_contain_text("erase")
    await expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
    await admin.check("#mcp-sure")
    await dialog.get_by_role("button", name="Cancel").click()
    await expect(admin.page.locator("#mcp-wire li")).to_have_count(0)
    await send(admin)
    await admin.confirm()

    await expect(admin.page.locator("#mcp-result")).to_contain_text("('all', False, 3)")


async def test_arguments_are_edited_as_json_and_as_a_form(admin: AdminPages):
    page = admin.page
    await admin.open_entry("greet")
    await field(admin, "times").fill("2")
    await page.get_by_role("button", name="Edit as JSON").click()
    text = page.get_by_label("Arguments (as JSON)")
    await expect(text).to_have_value('{\n  "name": "",\n  "times": 2\n}')
    await text.fill('{"name": "Ann", "times": ')
    await send(admin)
    await expect(page.locator("#mcp-arguments .mcp-error")).to_contain_text("This is not JSON:")
    await admin.check()
    await text.fill('{"name": "Ann", "times": 3}')
    await expect(await send(admin)).to_contain_text("Hello, Ann! Hello, Ann! Hello, Ann!")
    await page.get_by_role("button", name="Edit as a form").click()

    await expect(field(admin, "name")).to_have_value("Ann")
    await expect(field(admin, "times")).to_have_value("3")


async def test_previous_calls_of_this_browser_are_loaded(admin: AdminPages):
    await admin.open_entry("greet")
    for name in ("Ann", "Bob"):
        await field(admin, "name").fill(name)
        await expect(await send(admin)).to_contain_text(f"Hello, {name}!")
    await admin.page.reload()
    previous = admin.page.get_by_label("Previous calls")
    await expect(previous.locator("option")).to_have_count(3)
    await previous.select_option(index=2)
    await expect(field(admin, "name")).to_have_value("Ann")
    await admin.check()
    await admin.open_entry("measure")

    await expect(previous).to_be_hidden()


async def test_the_json_of_a_result_is_shown_once_and_formatted(admin: AdminPages):
    await admin.open_entry("climb")
    await field(admin, "steps").fill("2")
    result = await send(admin)

    await expect(result.locator("pre")).to_have_count(1)
    await expect(result.locator("pre")).to_have_text('{\n  "steps": 2\n}')
    await admin.open_entry("greet")
    await field(admin, "name").fill("Ann")
    await expect((await send(admin)).locator("pre")).to_have_text(["Hello, Ann!"])


async def test_a_file_in_a_result_is_saved(admin: AdminPages, tmp_path: Path):
    await admin.open_entry("site://logo", "resources")
    result = await send(admin)
    async with admin.page.expect_download() as saving:
        await result.get_by_role("button", name="Save as a file").click()
    download = await saving.value
    await download.save_as(tmp_path / "saved")

    assert download.suggested_filename == "logo.png"
    assert (tmp_path / "saved").read_bytes() == PNG
    assert admin.complaints == []


async def test_a_tool_that_is_a_task_is_called_and_asks(admin: AdminPages):
    await admin.open_entry("export_all")
    await send(admin)
    await field(admin, "rows").fill("7")
    await admin.page.get_by_role("button", name="Answer").click()

    await expect(admin.page.locator("#mcp-result pre")).to_have_text('{\n  "exported": 7\n}')
    await expect(admin.page.locator("#mcp-status")).to_contain_text("Done in")


async def test_stopping_a_task_cancels_it(admin: AdminPages):
    await admin.open_entry("export_all")
    await send(admin)
    await expect(field(admin, "rows")).to_be_visible()
    await admin.page.get_by_role("button", name="Stop").click()

    await expect(admin.page.locator("#mcp-status")).to_contain_text("The task is cancelled.")
    await admin.open("task/")
    await expect(admin.page.locator("#result_list tbody tr").first).to_contain_text("cancelled")
