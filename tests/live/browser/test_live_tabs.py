"""Several tabs of the live page in one browser."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.async_api import BrowserContext, Page, Request, expect

from tests.live.browser.pages import AdminPages, until

TABS = 8
"""More than a browser has connections to a site."""

START = """
from django_mcp.models import Session
Session.objects.all().delete()
"""
ONE_MORE = """
import uuid
from datetime import timedelta
from django.utils import timezone
from django_mcp.models import Session
Session.objects.create(
    digest=uuid.uuid4().hex, server="browser-site", revision="2025-11-25", client_name="kettle",
    client_version="1", expires_at=timezone.now() + timedelta(hours=1))
"""

HIDE = """isHidden => {
    Object.defineProperty(document, "hidden", {configurable: true, get: () => isHidden});
    document.dispatchEvent(new Event("visibilitychange"));
}"""
"""A headless browser says of all its tabs that they are seen."""


@contextmanager
def feeds_of(context: BrowserContext) -> Iterator[dict[Page, set[Request]]]:
    """Yield the feeds that are open, by their tab."""
    found: dict[Page, set[Request]] = {}

    def begin(request: Request) -> None:
        if "/live/feed/" in request.url:
            found.setdefault(request.frame.page, set()).add(request)

    def end(request: Request) -> None:
        for requests in found.values():
            requests.discard(request)

    handlers: dict[Any, Any] = {"request": begin, "requestfinished": end, "requestfailed": end}
    for event, handler in handlers.items():
        context.on(event, handler)
    yield found
    for event, handler in handlers.items():
        context.remove_listener(event, handler)


def leaders(feeds: dict[Page, set[Request]]) -> list[Page]:
    return [page for page, requests in feeds.items() if requests and not page.is_closed()]


@pytest.fixture
async def feeds(context: BrowserContext) -> AsyncIterator[dict[Page, set[Request]]]:
    with feeds_of(context) as found:
        yield found


async def open_tabs(admin: AdminPages, count: int = TABS, query: str = "") -> list[Page]:
    tabs = [await admin.page.context.new_page() for _ in range(count)]
    for tab in tabs:
        await tab.goto(f"{admin.root}django_mcp/session/live/{query}", wait_until="commit")
    return tabs


async def see_session(tabs: list[Page]) -> None:
    for tab in tabs:
        await expect(tab.locator("#mcp-sessions tbody tr", has_text="kettle 1")).to_have_count(1)


async def test_tabs_share_one_feed_and_an_ordinary_page_still_loads(
    admin: AdminPages,
    run_in_site: Callable[[str], None],
    feeds: dict[Page, set[Request]],
):
    run_in_site(START)
    tabs = await open_tabs(admin)
    await admin.open("disabledentry/connect/")
    await expect(admin.page.locator(".mcp-tabs")).to_be_visible()
    for tab in tabs:
        await tab.wait_for_selector("#mcp-live[data-at]")
    assert len(leaders(feeds)) == 1

    run_in_site(ONE_MORE)
    await see_session(tabs)


async def test_another_tab_takes_over_when_the_one_with_the_feed_closes(
    admin: AdminPages,
    run_in_site: Callable[[str], None],
    feeds: dict[Page, set[Request]],
):
    run_in_site(START)
    tabs = await open_tabs(admin, 3)
    for tab in tabs:
        await tab.wait_for_selector("#mcp-live[data-at]")
    (leader,) = leaders(feeds)
    await leader.close()
    tabs.remove(leader)

    async def has_other() -> bool:
        return len(leaders(feeds)) == 1

    await until(has_other)
    run_in_site(ONE_MORE)
    await see_session(tabs)


async def test_a_hidden_tab_lets_its_feed_go_until_it_is_seen_again(
    admin: AdminPages,
    run_in_site: Callable[[str], None],
    feeds: dict[Page, set[Request]],
):
    run_in_site(START)
    tabs = await open_tabs(admin, 2)
    for tab in tabs:
        await tab.wait_for_selector("#mcp-live[data-at]")
    (leader,) = leaders(feeds)
    (other,) = (tab for tab in tabs if tab is not leader)
    await leader.evaluate(HIDE, True)

    async def has_gone_over() -> bool:
        return leaders(feeds) == [other]

    await until(has_gone_over)
    await other.evaluate(HIDE, True)

    async def has_none() -> bool:
        return not leaders(feeds)

    await until(has_none)
    run_in_site(ONE_MORE)
    await leader.evaluate(HIDE, False)
    await see_session([leader])
    await expect(other.locator("#mcp-sessions tbody tr")).to_have_count(0)


async def test_without_locks_a_hidden_tab_has_no_feed(
    admin: AdminPages,
    run_in_site: Callable[[str], None],
    feeds: dict[Page, set[Request]],
):
    run_in_site(START)
    await admin.page.context.add_init_script(
        "Object.defineProperty(Navigator.prototype, 'locks', {value: undefined})"
    )
    tabs = await open_tabs(admin, 2)
    for tab in tabs:
        await tab.wait_for_selector("#mcp-live[data-at]")
    assert len(leaders(feeds)) == 2
    await tabs[0].evaluate(HIDE, True)

    async def has_one() -> bool:
        return leaders(feeds) == [tabs[1]]

    await until(has_one)


async def test_tabs_that_show_something_else_ask_for_it(
    admin: AdminPages,
    run_in_site: Callable[[str], None],
    feeds: dict[Page, set[Request]],
):
    run_in_site(START)
    await open_tabs(admin, 1)
    (other,) = await open_tabs(admin, 1, "?client=nobody")
    (same,) = await open_tabs(admin, 1)
    run_in_site(ONE_MORE)

    await see_session([same])
    async with other.expect_response("**/live/data/?client=nobody"):
        pass
    await expect(other.locator("#mcp-sessions tbody tr")).to_have_count(0)
    assert len(leaders(feeds)) == 1


async def test_the_filter_is_in_the_url(admin: AdminPages, run_in_site: Callable[[str], None]):
    run_in_site(START + ONE_MORE)
    await admin.open("session/live/")
    await admin.page.fill("#mcp-look-client", "nobody")
    await admin.page.get_by_role("button", name="Show").click()
    await expect(admin.page.locator("#mcp-sessions .mcp-count")).to_have_text("(0)")
    assert admin.page.url.endswith("/live/?client=nobody")
    await admin.page.reload()

    await expect(admin.page.locator("#mcp-look-client")).to_have_value("nobody")
    await expect(admin.page.locator("#mcp-sessions .mcp-count")).to_have_text("(0)")
