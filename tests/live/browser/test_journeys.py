"""Journeys over several pages: from a spike to its session, and from a new key to a connected client."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.types import Implementation
from playwright.async_api import expect

from django_mcp.protocol.json import decode
from tests.live.browser.pages import AdminPages

SPIKE = """
import uuid
from datetime import timedelta
from django.utils import timezone
from django_mcp.models import CallRecord, ErrorGroup, Session
now = timezone.now()
ErrorGroup.objects.update_or_create(
    fingerprint="5" * 32,
    defaults=dict(
        server="browser-site", method="tools/call", name="greet", outcome="fault", kind="fault",
        error="KeyError", calls=30, first_seen_at=now - timedelta(seconds=30), last_seen_at=now))
Session.objects.all().delete()
session = Session.objects.create(
    digest=uuid.uuid4().hex, server="browser-site", revision="2025-11-25", client_name="desktop",
    client_version="1.2", expires_at=now + timedelta(hours=1))
CallRecord.objects.bulk_create(
    CallRecord(
        started_at=now - timedelta(seconds=at), minute=int(now.timestamp() - at) // 60, duration_ms=5,
        step=36, server="browser-site", method="tools/call", name="greet", outcome="fault",
        reference="0123456789ab", error="KeyError", fingerprint="5" * 32, revision="2025-11-25", session=session.pk.hex)
    for at in range(30))
"""

PAGES = (
    "session/live/",
    "disabledentry/",
    "callrecord/charts/",
    "callrecord/",
    "errorgroup/",
    "task/",
    "session/",
    "disabledentry/connect/",
)


async def test_a_spike_leads_to_ending_its_session(
    admin: AdminPages, run_in_site: Callable[[str], None]
):
    run_in_site(SPIKE)
    page = admin.page
    await admin.open("callrecord/charts/")
    row = page.locator("#mcp-names tbody tr", has_text="greet")
    await row.locator("a").last.click()
    await expect(page.locator("#result_list .mcp-fault").first).to_be_visible()
    await (
        page.locator("#result_list tbody tr", has_text="0123456789ab").first.locator("th a").click()
    )
    await expect(page.locator("#content")).to_contain_text("KeyError")
    await page.get_by_role("link", name="Session", exact=True).click()
    await page.get_by_role("button", name="End", exact=True).click()
    await page.get_by_role("button", name="End the selected sessions").click()
    await expect(page.locator(".messagelist")).to_contain_text("1 session was ended.")

    await page.locator(".mcp-tabs").get_by_role("link", name="Errors", exact=True).click()
    await expect(page.locator("#result_list tbody tr", has_text="KeyError")).to_contain_text(
        "greet"
    )
    await admin.check(".mcp-page", ".mcp-tabs")


async def test_a_new_key_leads_to_a_connected_client(admin: AdminPages):
    page = admin.page
    await admin.open("apikey/add/")
    await page.fill("#id_name", "for travel")
    await page.fill("#id_user", "admin")
    await page.select_option("#id_lifetime", "30")
    await page.check("#id_is_restricted")
    await page.locator("#id_tools_from option[value=whisper]").dblclick()
    await page.locator("[name=_save]").click()
    key = await page.get_by_label("API key", exact=True).input_value()
    await expect(page.get_by_text(f"--header 'Authorization: Bearer {key}'")).to_have_count(
        await page.locator(".mcp-page section").count()
    )
    box = page.locator("section", has_text="With a key")
    await box.locator("summary", has_text="cursor").click()
    shown = await box.locator("details[open] pre").text_content()
    [entry] = decode((shown or "").encode())["mcpServers"].values()
    link = await box.get_by_role("link", name="Install in cursor").get_attribute("href")
    installed = parse_qs(urlsplit(link or "").query)
    assert decode(b64decode(installed["config"][0])) == entry
    await admin.check(".mcp-page", ".mcp-tabs")

    async with (
        httpx2.AsyncClient(headers=entry["headers"]) as http,
        streamable_http_client(entry["url"], http_client=http) as (read, write, *_),
        ClientSession(
            read, write, client_info=Implementation(name="laptop", version="7")
        ) as client,
    ):
        await client.initialize()
        assert [each.name for each in (await client.list_tools()).tools] == ["whisper"]
        await admin.open("session/live/")
        row = page.locator("#mcp-sessions tbody tr", has_text="laptop 7")
        await expect(row).to_contain_text("admin")
        await row.get_by_role("link").click()
        await page.locator(".mcp-tabs").get_by_role("link", name="API keys").click()
        await page.locator("#result_list").get_by_role("link", name="for travel").click()
        await page.locator(".mcp-about").get_by_role("link", name="Sessions").click()
        await expect(page.locator("#result_list tbody tr", has_text="laptop 7")).to_have_count(1)


@pytest.mark.parametrize("width", [390, 1280, 1920])
async def test_every_page_fits_the_viewport(
    admin: AdminPages, run_in_site: Callable[[str], None], width: int
):
    run_in_site(SPIKE)
    await admin.page.set_viewport_size({"width": width, "height": 900})
    for path in PAGES:
        await admin.open(path)
        await expect(admin.page.locator(".mcp-tabs a[aria-current]")).to_have_count(1)
        assert await admin.overhang() <= 0, path
        await admin.check(".mcp-tabs")


@pytest.mark.parametrize("look", ["dark", "forced"])
async def test_the_pages_are_readable_in_dark_and_forced_colours(
    admin: AdminPages, run_in_site: Callable[[str], None], look: str
):
    run_in_site(SPIKE)
    if look == "dark":
        await admin.page.emulate_media(color_scheme="dark")
    else:
        await admin.page.emulate_media(forced_colors="active")
    for path in ("session/live/", "errorgroup/", "disabledentry/"):
        await admin.open(path)
        await admin.check(".mcp-page", ".mcp-tabs")


@pytest.mark.parametrize(
    ("language", "direction", "tab"), [("de", "ltr", "Fehler"), ("ar", "rtl", "Errors")]
)
async def test_the_pages_use_the_language_and_its_direction(
    admin: AdminPages, run_in_site: Callable[[str], None], language: str, direction: str, tab: str
):
    run_in_site(SPIKE)
    page = admin.page
    await page.set_extra_http_headers({"Accept-Language": language})
    for path in PAGES:
        await admin.open(path)
        await expect(page.locator("html")).to_have_attribute("dir", direction)
        await expect(page.locator("html")).to_have_attribute("lang", language)
        await expect(page.locator(".mcp-tabs")).to_contain_text(tab)
        assert await admin.overhang() <= 0, path
        await admin.check(
            ".mcp-tabs", *([".mcp-page"] if await page.locator(".mcp-page").count() else [])
        )
    await admin.open("apikey/add/")
    await page.fill("#id_name", "laptop")
    await page.fill("#id_user", "admin")
    await page.locator("[name=_save]").click()
    await expect(page.locator(".mcp-page section").first).to_be_visible()
    assert await admin.overhang() <= 0
    await admin.check(".mcp-page", ".mcp-tabs")
