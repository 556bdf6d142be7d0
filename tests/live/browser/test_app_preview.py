"""The preview of a tool's page in the catalogue, in a browser."""

from __future__ import annotations

import re
from urllib.parse import urljoin

import pytest
from playwright.async_api import Frame, FrameLocator, Route, expect

from tests.live.browser.pages import AXE, AdminPages, until
from tests.support.site.browser.hostile import SCRIPT

# What the page of these tests tries and its sandbox refuses, which browsers report.
EXPECTED = ("a.example", "/admin/", "sandbox", "cookie")


async def open_preview(admin: AdminPages, tool: str = "sales", **query: str) -> FrameLocator:
    await admin.open_entry(tool, server="paged", **query)
    return admin.page.frame_locator("#mcp-preview iframe")


async def call_tool(admin: AdminPages, month: str = "May") -> None:
    await admin.page.locator("[data-name=month]").fill(month)
    await admin.page.get_by_role("button", name="Call").click()


def frame_of(admin: AdminPages) -> Frame:
    [inner] = [frame for frame in admin.page.frames if frame.parent_frame is not None]
    return inner


@pytest.mark.parametrize("revision", ["2026-07-28", "2025-11-25"])
async def test_a_page_shows_the_result_of_a_call(admin: AdminPages, revision: str):
    frame = await open_preview(admin, revision=revision)
    await expect(admin.page.locator("#mcp-preview-status")).to_have_text(
        "The page has started. Call the tool to give it a result."
    )

    await call_tool(admin)

    await expect(frame.get_by_role("heading")).to_have_text("Sales in May")
    await expect(frame.locator(".row")).to_have_text([SCRIPT, "{{ 7 }}"])
    await expect(admin.page.locator("#mcp-preview-status")).to_have_text(
        "The page has got the result of the call."
    )
    await admin.assert_inert()


async def test_a_page_calls_tools_as_the_operator(admin: AdminPages):
    frame = await open_preview(admin)

    await frame.get_by_role("button", name="More").press("Enter")

    await expect(frame.locator("#more")).to_have_text("more for admin")


async def test_a_page_is_previewed_as_a_user_from_the_list_of_users(admin: AdminPages):
    await open_preview(admin)
    async with admin.page.expect_popup() as opened:
        await admin.page.get_by_role("link", name="Lookup").click()
    users = await opened.value
    async with users.expect_event("close"):
        await users.get_by_role("link", name="clerk").click()
    await expect(admin.page.get_by_label("As this user (primary key)")).not_to_have_value("")
    await admin.page.get_by_role("button", name="Preview").click()
    frame = admin.page.frame_locator("#mcp-preview iframe")
    await expect(admin.page.locator("#mcp-preview")).to_contain_text("run as clerk")
    await call_tool(admin)
    await expect(frame.get_by_role("heading")).to_have_text("Sales in May")

    await frame.get_by_role("button", name="More").click()
    await expect(frame.locator("#more")).to_have_text("more for clerk")
    await frame.get_by_role("button", name="Sell").click()

    await expect(frame.get_by_role("status")).to_contain_text(
        "only tools that read can be called, and “sell” may write"
    )
    await admin.screenshot("preview-as-user")
    admin.complaints[:] = [
        each for each in admin.complaints if not any(part in each for part in EXPECTED)
    ]
    await admin.check("#mcp-preview")


@pytest.mark.parametrize(
    ("button", "told"),
    [("Think", "Unknown tool: thoughts"), ("Ask", "The tool asks a question")],
)
@pytest.mark.parametrize("revision", ["2026-07-28", "2025-11-25"])
async def test_a_call_that_a_host_would_not_make_is_refused(
    admin: AdminPages, button: str, told: str, revision: str
):
    frame = await open_preview(admin, revision=revision)

    await frame.get_by_role("button", name=button).click()

    await expect(frame.get_by_role("status")).to_contain_text(told)


async def test_a_page_reaches_nothing_of_the_admin(admin: AdminPages):
    frame = await open_preview(admin)

    await expect(frame.locator("#reached")).to_have_text(
        "refused refused refused refused undefined"
    )
    await admin.page.get_by_text("Messages between the page and the host").click()
    log = admin.page.locator("#mcp-preview-log")
    await expect(log.get_by_text("Method not found")).to_have_count(2)
    assert "django_mcp_entry" not in admin.page.url
    assert admin.page.url.startswith(admin.root)
    await admin.assert_inert()
    assert [each for each in admin.complaints if not any(part in each for part in EXPECTED)] == []


async def test_a_document_that_takes_the_place_of_a_page_is_not_taken_for_it(admin: AdminPages):
    await open_preview(admin)
    status = admin.page.locator("#mcp-preview-status")
    await expect(status).to_contain_text("The page has started")

    await frame_of(admin).evaluate("location.replace('/static/django_mcp/admin/elements.js')")

    await expect(status).to_contain_text("The page has left for another address")
    await expect(admin.page.locator("#mcp-preview iframe")).to_have_count(0)
    await admin.page.get_by_label("Theme").select_option("dark")
    await admin.page.get_by_role("button", name="Load again").click()
    await expect(status).to_contain_text("The page has started")
    await admin.assert_inert()


async def test_a_page_in_a_window_of_its_own_reaches_nothing_either(admin: AdminPages):
    await open_preview(admin)
    url = await admin.page.locator("#mcp-preview iframe").get_attribute("src")

    response = await admin.page.goto(urljoin(admin.root, str(url)))

    assert response is not None
    policy = response.headers["content-security-policy"]
    assert policy.startswith(
        "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline';"
    )
    assert "frame-ancestors 'self'" in policy
    assert await admin.page.evaluate("origin") == "null"


async def test_a_link_is_shown_and_not_followed(admin: AdminPages):
    frame = await open_preview(admin)

    await frame.get_by_role("link", name="All sales").click()

    await expect(admin.page.locator("#mcp-preview-status")).to_have_text(
        "The page asks to open: https://shop.example/sales"
    )
    assert len(admin.page.context.pages) == 1


async def test_theme_width_and_height_can_be_changed(admin: AdminPages):
    frame = await open_preview(admin)
    await call_tool(admin)
    await expect(frame.locator(".row")).to_have_count(2)
    place = admin.page.locator("#mcp-preview iframe")
    body = frame.locator("body")
    await expect(body).to_have_css("color", "rgb(31, 35, 40)")

    await admin.page.get_by_label("Theme").select_option("dark")
    await admin.page.get_by_label("Width").select_option("320")

    await expect(body).to_have_css("color", "rgb(240, 243, 246)")
    await expect(place).to_have_css("width", "320px")
    # Browsers do not lay out what is out of sight.
    await place.scroll_into_view_if_needed()
    inner = "document.documentElement.getBoundingClientRect().height"

    async def fits() -> bool:
        wanted = await frame_of(admin).evaluate(inner)
        return abs(await place.evaluate("each => each.clientHeight") - wanted) < 2

    await until(fits)
    await admin.page.get_by_label("Width").select_option("900")
    await expect(place).to_have_css("width", "900px")


async def test_the_messages_are_listed_and_bounded(admin: AdminPages):
    frame = await open_preview(admin)
    await call_tool(admin)
    await expect(frame.locator(".row")).to_have_count(2)
    await admin.page.get_by_text("Messages between the page and the host").click()
    log = admin.page.locator("#mcp-preview-log")
    for text in (
        "Page: ui/initialize",
        "Host: Answer",
        "Page: ui/notifications/initialized",
        "Host: ui/notifications/tool-input",
        "Host: ui/notifications/tool-result",
        "Page: ui/notifications/size-changed",
    ):
        await expect(log.get_by_role("heading", name=text, exact=True).first).to_be_visible()

    await frame_of(admin).evaluate("for (let each = 0; each < 300; each++) mcp.log('info', each)")

    await expect(log.locator("li").last).to_contain_text("299")
    await expect(log.locator("li")).to_have_count(200)


async def test_a_page_that_does_not_start_is_told(admin: AdminPages):
    await open_preview(admin, "silent")

    await expect(admin.page.locator("#mcp-preview-status")).to_contain_text(
        "The page has loaded, but not started (ui/initialize)"
    )


async def test_a_site_that_forbids_frames_is_told(admin: AdminPages):
    async def forbid(route: Route) -> None:
        response = await route.fetch()
        policy = response.headers["content-security-policy"].replace("frame-src 'self'; ", "")
        headers = {**response.headers, "content-security-policy": policy}
        await route.fulfill(response=response, headers=headers)

    await admin.page.route("**/disabledentry/entry/**", forbid)
    await open_preview(admin)

    await expect(admin.page.locator("#mcp-preview-status")).to_have_text(
        "The Content-Security-Policy of this site forbids the frame. Allow frame-src 'self' in the admin."
    )


async def test_other_entries_have_no_preview(admin: AdminPages):
    await admin.open_entry("more", server="paged")

    await expect(admin.page.get_by_role("heading", name=re.compile("Try it"))).to_have_count(1)
    await expect(admin.page.locator("#mcp-preview")).to_have_count(0)
    await admin.check()


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_the_preview_is_accessible(admin: AdminPages, theme: str):
    frame = await open_preview(admin)
    await admin.page.get_by_label("Theme").select_option(theme)
    await call_tool(admin)
    await expect(frame.locator(".row")).to_have_count(2)
    await admin.page.get_by_text("Messages between the page and the host").click()

    await admin.screenshot(f"preview-{theme}")
    admin.complaints.clear()
    await admin.check("#mcp-preview")
    inner = frame_of(admin)
    await inner.evaluate(AXE.read_text())
    assert (
        await inner.evaluate("axe.run().then((found) => found.violations.map((each) => each.id))")
        == []
    )
