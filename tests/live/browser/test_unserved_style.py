"""The consent page on a site that serves no static files and has a strict policy."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from urllib.parse import urlencode

import httpx
import pytest
from playwright.async_api import Page, Response, expect

from tests.support.oauth.browser import PASSWORD, SITE
from tests.support.sites import ROOT, Running, environment, running

REDIRECT = "http://127.0.0.1:9/back"


@pytest.fixture
def client_id(site: Running) -> str:
    client = {"redirect_uris": [REDIRECT], "token_endpoint_auth_method": "none"}
    registered = httpx.post(
        f"http://{site.host}:{site.port}/oauth/register/", json=client, timeout=30
    )
    return str(registered.json()["client_id"])


@pytest.fixture(scope="module")
def site(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("unserved")
    extra = {
        "SHOP_DATABASE": str(folder / "db.sqlite3"),
        "DJANGO_SETTINGS_MODULE": f"{SITE}.strict_settings",
    }
    prepare = [sys.executable, "manage.py", "demo", "--prepare"]
    subprocess.run(prepare, cwd=ROOT, env=environment(SITE, extra), check=True)
    with running(SITE, "uvicorn", log=folder / "log", extra=extra) as found:
        yield found


async def test_the_consent_page_is_styled(page: Page, site: Running, client_id: str):
    root = f"http://{site.host}:{site.port}"
    query = {
        "response_type": "code",
        "client_id": client_id,
        "redirect_uri": REDIRECT,
        "code_challenge": "c" * 43,
        "code_challenge_method": "S256",
        "scope": "shop",
    }
    complaints: list[str] = []
    styles: list[Response] = []

    await page.goto(f"{root}/oauth/authorize/?{urlencode(query)}")
    await page.fill("#id_username", "ada")
    await page.fill("#id_password", PASSWORD)
    page.on("console", lambda said: complaints.append(f"{said.text} {said.location['url']}"))
    page.on("response", lambda got: styles.append(got) if got.url.endswith(".css") else None)
    await page.press("#id_password", "Enter")

    await expect(page.get_by_role("button", name="Allow")).to_have_css("border-radius", "6px")
    await expect(page.locator("body")).to_have_css("max-width", "544px")
    # Browsers look for an icon of their own accord.
    assert [each for each in complaints if not each.endswith("/favicon.ico")] == []
    assert [each.status for each in styles] == [200]
    assert "immutable" in styles[0].headers["cache-control"]
