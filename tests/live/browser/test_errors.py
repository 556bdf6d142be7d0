"""An operator finds an error, resolves it, and sees it again, in a browser."""

from __future__ import annotations

from collections.abc import Callable

from playwright.async_api import expect

from tests.live.browser.pages import AdminPages

FAIL = """
import time
from django_mcp.calls import RecordedCall
from django_mcp.calls.call import Failed
from django_mcp.calls.rows import insert
from django_mcp.calls.traces import Frame, Part, Trace
from django_mcp.servers import default_server
text = "<b>No plant</b>"
frame = Frame("/srv/shop/mcp.py", 12, "greet")
trace = Trace(error="shop.Gone", place="shop.mcp.greet", message=text,
    parts=(Part("shop.Gone", text, (frame,), ""),))
failed = Failed(kind="fault", error="shop.Gone", place="shop.mcp.greet", trace=trace)
insert([
    RecordedCall(
        server=default_server, started_at=time.time(), duration_s=0.01, method="tools/call", name="greet",
        outcome="fault", reference="", user_id=None, principal="", revision="2025-11-25",
        client_name="desktop", client_version="1", arguments="", error="Gone",
        fingerprint="5" * 32, failed=failed)
    for _ in range(3)
])
"""
FORGET = """
from django_mcp.models import ErrorGroup
ErrorGroup.objects.all().delete()
"""


async def test_an_operator_resolves_an_error_and_sees_it_again(
    admin: AdminPages, run_in_site: Callable[[str], None]
):
    run_in_site(FORGET)
    run_in_site(FAIL)
    page, rows = admin.page, admin.page.locator("#result_list tbody tr")
    await admin.open("errorgroup/")
    await expect(rows).to_have_count(1)
    await expect(rows.locator(".mcp-spark")).to_be_visible()
    await admin.check("#result_list", ".mcp-tabs")
    await rows.locator("th a").click()
    await expect(page.locator("pre.mcp-code").last).to_contain_text(
        'File "/srv/shop/mcp.py", line 12, in greet'
    )
    await expect(page.locator("#mcp-clients + thead + tbody")).to_contain_text("desktop")
    await admin.check(".mcp-page", ".mcp-tabs")

    await page.get_by_role("button", name="Resolve").click()
    await expect(page.locator(".messagelist")).to_contain_text("1 error was resolved.")
    await expect(page.get_by_role("button", name="Open again")).to_be_visible()
    await page.reload()
    await admin.open("errorgroup/")
    await expect(rows).to_have_count(0)

    run_in_site(FAIL)
    await admin.open("errorgroup/")
    await expect(rows).to_contain_text("seen again")
    run_in_site(FORGET)
