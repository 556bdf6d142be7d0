"""The commands and programs that Connect shows do what they say."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from django_mcp import MCPServer
from django_mcp.endpoints.client_config import ways_to_connect
from tests.support.backends import require
from tests.support.sites import ROOT, Running, environment, running

PACKAGE = "tests.support.site.browser"
LIMIT_S = 60


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("site")
    extra = {"SHOP_DATABASE": str(folder / "db.sqlite3")}
    subprocess.run(
        [sys.executable, "-m", "django", "migrate", "-v", "0"],
        cwd=ROOT,
        env=environment(PACKAGE, extra),
        check=True,
    )
    with running(PACKAGE, "uvicorn", log=folder / "server.log", extra=extra) as found:
        yield found


@pytest.mark.parametrize("authorization", [None, "Bearer <your key>"])
@pytest.mark.parametrize("program", ["curl", "Python"])
def test_a_program_lists_the_tools(
    site: Running, program: str, authorization: str | None, tmp_path: Path
):
    """The site is public, and reads no key."""
    require(shutil.which("curl"), "curl is not installed")
    server = MCPServer("shown", public=True)
    texts = {each.client: each.text for each in ways_to_connect(server, site.url, authorization)}
    command = ["sh", "-c"] if program == "curl" else [sys.executable, "-c"]

    done = subprocess.run(
        [*command, texts[program]],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )

    assert "greet" in done.stdout
