"""The pages for users outside the admin: consent, authorizations, and pages for URL elicitation."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlencode

import pytest
from playwright.async_api import Page, expect

from tests.live.browser.conftest import run_django, serving
from tests.live.browser.pages import AdminPages
from tests.support.sites import Running

ALLOWED = """
from datetime import timedelta
from django.contrib.auth import get_user_model
from django.utils import timezone
from oauth2_provider.models import get_access_token_model, get_application_model
admin = get_user_model().objects.get(username="admin")
client, _ = get_application_model().objects.update_or_create(
    client_id="desk", defaults={"name": "Desk", "client_type": "public", "registration_source": "dcr",
    "authorization_grant_type": "authorization-code", "redirect_uris": "http://127.0.0.1:9/back"})
get_access_token_model().objects.all().delete()
get_access_token_model().objects.create(
    user=admin, application=client, token="t", scope="shop", resource=["http://127.0.0.1/mcp"],
    expires=timezone.now() + timedelta(hours=1))
"""
CONSENT = "oauth/authorize/?" + urlencode(
    {
        "response_type": "code",
        "client_id": "desk",
        "redirect_uri": "http://127.0.0.1:9/back",
        "code_challenge": "c" * 43,
        "code_challenge_method": "S256",
        "state": "s",
        "scope": "shop",
    }
)
AUTHORIZED = "oauth/authorized/"
NONE = "orders/7/voucher/?elicitation=unknown"


@pytest.fixture(scope="module")
def site(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Serve the site with an authorization server."""
    folder = tmp_path_factory.mktemp("public")
    with serving(folder, workers=1, SHOP_OAUTH="1") as found:
        yield found


@pytest.fixture
async def visitor(admin: AdminPages, site: Running) -> AdminPages:
    """A browser with the signed-in user who authorized a client."""
    extra = {"SHOP_DATABASE": str(site.log.parent / "db.sqlite3"), "SHOP_OAUTH": "1"}
    run_django(extra, "shell", "-v", "0", "-c", ALLOWED)
    return admin


async def visit(admin: AdminPages, path: str) -> Page:
    await admin.page.goto(admin.root.replace("admin/", path))
    return admin.page


async def look_at(admin: AdminPages, heading: str) -> None:
    await expect(admin.page.get_by_role("heading", level=1)).to_contain_text(heading)
    await expect(admin.page.locator("header")).to_contain_text("admin")
    assert await admin.overhang() <= 0
    await admin.check()


@pytest.mark.parametrize(
    ("language", "scheme", "width"),
    [("en", "light", 1280), ("de", "dark", 390), ("ar", "light", 390)],
)
async def test_the_pages_are_readable(visitor: AdminPages, language: str, scheme: str, width: int):
    german = language == "de"
    page = visitor.page
    await page.set_viewport_size({"width": width, "height": 900})
    await page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    await page.set_extra_http_headers({"Accept-Language": language})
    await visit(visitor, CONSENT)
    await look_at(visitor, "Ihr Konto" if german else "use your account?")
    await expect(page.locator("html")).to_have_attribute(
        "dir", "rtl" if language == "ar" else "ltr"
    )
    await expect(page.locator("html")).to_have_attribute("lang", language)
    ground = await page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(255, 255, 255)") is (scheme == "light")
    await visit(visitor, AUTHORIZED)
    await look_at(visitor, "Was Sie erlaubt haben" if german else "What you have allowed")
    await expect(page.get_by_role("heading", name="Desk")).to_be_visible()
    response = await page.goto(visitor.root.replace("admin/", NONE))
    assert response is not None
    assert response.status == 404
    visitor.complaints.clear()
    await look_at(visitor, "nicht für Sie" if german else "not for you")


async def test_an_authorization_is_revoked(visitor: AdminPages):
    page = await visit(visitor, AUTHORIZED)
    await page.get_by_role("button", name="Revoke access Desk").click()

    await expect(page.get_by_role("status")).to_contain_text("Desk can no longer use your account.")
    await expect(page.locator("main")).to_contain_text("No client may use your account.")
    await visitor.check()


async def test_switching_accounts_returns_to_the_page(visitor: AdminPages):
    page = await visit(visitor, CONSENT)
    await page.get_by_role("button", name="Use another account").click()
    await page.fill("#id_username", "clerk")
    await page.fill("#id_password", "clerk")
    await page.press("#id_password", "Enter")

    await expect(page.locator("header")).to_contain_text("clerk")
    await expect(page.get_by_role("heading", level=1)).to_contain_text("Desk")
    await visitor.check()


async def test_the_endpoint_shows_a_page_to_a_person(visitor: AdminPages):
    page = await visit(visitor, "mcp")

    await expect(page.get_by_role("heading", level=1)).to_have_text("browser-site")
    await page.get_by_text("claude-code").click()
    await expect(page.locator("details[open] pre")).to_contain_text("/mcp")
    assert (
        await page.evaluate("getComputedStyle(document.querySelector('pre')).borderTopStyle")
        == "solid"
    )
    assert await visitor.overhang() <= 0
    # The refusal itself, which browsers report as a failure.
    [complaint] = visitor.complaints
    assert "400 (Bad Request)" in complaint
    visitor.complaints.clear()
    await visitor.check()


async def test_a_signed_in_user_copies_what_a_client_needs(visitor: AdminPages):
    page = await visit(visitor, "mcp/connect/")
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    box = page.locator("section", has_text="browser-site")
    await box.locator("summary", has_text="claude-code").click()
    await box.get_by_role("button", name="Copy claude-code").click()
    await expect(box.locator("details[open] [role=status]")).to_have_text("Copied.")

    copied = await page.evaluate("navigator.clipboard.readText()")
    assert f"http://{visitor.site.host}:" in copied
    assert "/mcp" in copied
    await look_at(visitor, "Connect")
