"""The pages of the shop's tools in a host, which are the pictures of the documentation."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth import get_user_model
from playwright.async_api import Browser, FrameLocator, Page, expect

from django_mcp import default_server
from django_mcp.test import AsyncMCPClient
from example_project.shop import sample
from example_project.shop.models import Order, Product
from tests.live.browser.app_host import HOST, Host
from tests.support.sites import ROOT

pytestmark = pytest.mark.django_db(transaction=True)

FIT = """([frame, width]) => {
    const size = log.filter(entry => entry[0] === 'size').at(-1)[1];
    frame.style.cssText = `border: 0; width: ${width}px; height: ${size.height}px`;
}"""


def fill() -> Any:
    """Load the sample with orders of a year, and return the user who runs the shop."""
    sample.load()
    product = Product.objects.get(sku="lamp")
    for month in range(11):
        order = Order.objects.create(
            number=f"2025-{month:04}",
            status=Order.Status.SHIPPED,
            placed_at=sample.FIRST_ORDER_AT - timedelta(days=31 * (month + 1)),
        )
        order.lines.create(
            product=product,
            quantity=2 + month * 7 % 5 + (11 - month) // 3,
            unit_price=product.price,
        )
    return get_user_model().objects.get(username="sam")


@pytest.fixture
async def page(browser: Browser) -> AsyncIterator[Page]:
    """A page of sharp pictures."""
    context = await browser.new_context(
        viewport={"width": 720, "height": 900}, device_scale_factor=2
    )
    yield await context.new_page()
    await context.close()


@pytest.fixture
async def host(page: Page) -> Host:
    user = await sync_to_async(fill)()
    return Host(page, AsyncMCPClient(default_server, user=user, capabilities=HOST))


async def take_picture(host: Host, name: str, tmp_path: Path, width: int = 680) -> None:
    """Take a picture of the page; it becomes the one in the documentation when WRITE_SCREENSHOTS is 1."""
    frame = host.page.locator("iframe")
    # Its height depends on its width.
    for _ in range(2):
        before = len(await host.sent("size"))
        await frame.evaluate("(frame, width) => (" + FIT + ")([frame, width])", width)
        await host.page.evaluate("() => new Promise(requestAnimationFrame)")
        await host.page.wait_for_timeout(0)
        if len(await host.sent("size")) == before:
            break
    is_written = os.environ.get("WRITE_SCREENSHOTS") == "1"
    folder = ROOT / "docs" / "images" if is_written else tmp_path
    await frame.screenshot(path=folder / f"{name}.png")


async def test_the_sales_are_a_chart(host: Host, tmp_path: Path):
    frame = await host.open("sales_by_month")

    await expect(frame.locator("canvas")).to_be_visible()
    await expect(frame.get_by_role("heading", name="Sales by month")).to_be_visible()
    await take_picture(host, "app_chart", tmp_path)


async def test_the_orders_are_a_table_with_cards(host: Host, tmp_path: Path):
    frame = await host.open("find_orders", {"query": "2026"}, theme="dark")

    await expect(frame.get_by_role("row")).to_have_count(5)
    await take_picture(host, "app_table", tmp_path)
    # With the keyboard: the browser may hit-test a frame that was resized for its picture at its old place.
    await frame.get_by_role("button", name="Show the order").first.press("Enter")
    await expect(frame.get_by_text("Garden spade")).to_be_visible()


async def test_a_card_is_written_in_a_form(host: Host, tmp_path: Path):
    frame = await host.open("open_write_card", {"number": "2026-0002"})
    await frame.get_by_label("Paper").select_option(label="Stars")
    await frame.get_by_role("textbox", name="Card").fill(
        "All the best for your birthday, from the whole family"
    )
    await frame.get_by_role("button").first.click()

    await expect(frame.get_by_text("The cards with stars hold 40 letters.")).to_be_visible()
    await take_picture(host, "app_form", tmp_path)
    await frame.get_by_role("textbox", name="Card").fill("All the best")
    await frame.get_by_role("textbox", name="Card").press("Enter")
    await expect(frame.locator("[data-mcp-status], [data-mcp-result]").first).to_be_visible()
    await expect_note(frame, "stars: All the best")


async def expect_note(frame: FrameLocator, note: str) -> None:
    await expect(frame.get_by_text(note).first).to_be_visible()


async def test_a_product_is_taken_out_after_a_confirmation(host: Host, tmp_path: Path):
    frame = await host.open("discontinue_product", {"sku": "kettle"})
    await expect(frame.get_by_role("button", name="Take out of the shop")).to_be_visible()
    await take_picture(host, "app_confirm", tmp_path)
    assert (await Product.objects.aget(sku="kettle")).stock == 12

    await frame.get_by_role("button", name="Take out of the shop").click()

    await expect(frame.get_by_role("button", name="Take out of the shop")).to_have_count(0)
    assert (await Product.objects.aget(sku="kettle")).stock == 0
