"""A Chromium, and the site of these tests served by two workers."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.async_api import Browser, BrowserContext, Page, async_playwright

from tests.live.browser.pages import AdminPages
from tests.support.backends import require
from tests.support.sites import ROOT, Running, environment, running

PACKAGE = "tests.support.site.browser"
NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
MAKE_USERS = """
from django.contrib.auth import get_user_model
users = get_user_model().objects
users.create_superuser("admin", password="admin")
users.create_user("clerk", password="clerk", is_staff=True)
"""


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of the browser; without one these tests are skipped, but fail on CI."""
    for name in NAMES:
        if (found := shutil.which(name)) is not None:
            return found
    require(None, f"there is no Chromium on PATH (looked for {', '.join(NAMES)})")
    raise AssertionError


def run_django(extra: Mapping[str, str], *command: str) -> None:
    subprocess.run(
        [sys.executable, "-m", "django", *command],
        cwd=ROOT,
        env=environment(PACKAGE, extra),
        check=True,
    )


@pytest.fixture(scope="session")
def run_in_site(site: Running) -> Callable[[str], None]:
    """Run Python in another process of the site, beside its workers."""
    extra = {"SHOP_DATABASE": str(site.log.parent / "db.sqlite3")}
    return lambda code: run_django(extra, "shell", "-v", "0", "-c", code)


@contextmanager
def serving(folder: Path, workers: int, **more: str) -> Iterator[Running]:
    """Serve the site with its own database; further arguments go to the environment."""
    extra = {"SHOP_DATABASE": str(folder / "db.sqlite3"), **more}
    for command in (["migrate", "-v", "0"], ["shell", "-v", "0", "-c", MAKE_USERS]):
        run_django(extra, *command)
    log = folder / "server.log"
    with running(PACKAGE, "uvicorn", log=log, workers=workers, extra=extra) as found:
        yield found


@pytest.fixture(scope="session")
def site(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with serving(tmp_path_factory.mktemp("browser"), workers=2) as found:
        yield found


@pytest.fixture
async def browser(chromium: str) -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield browser
        await browser.close()


@pytest.fixture
async def context(browser: Browser) -> AsyncIterator[BrowserContext]:
    context = await browser.new_context(viewport={"width": 1280, "height": 900})
    yield context
    await context.close()


@pytest.fixture
async def page(context: BrowserContext) -> Page:
    return await context.new_page()


@pytest.fixture
async def admin(page: Page, site: Running, tmp_path: Path) -> AdminPages:
    """The admin in a browser, with a superuser signed in."""
    pages = AdminPages(page, site, tmp_path)
    await pages.sign_in("admin")
    return pages
