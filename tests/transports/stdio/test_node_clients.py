"""The official TypeScript client and the Inspector drive `mcp_stdio`; both need Node."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.sites import ROOT, environment
from tests.transports.stdio.process import PROGRAM, SITE

PACKAGE = "@modelcontextprotocol/client@2.4.0"
INSPECTOR = "@modelcontextprotocol/inspector@2.12.0"
LIMIT_S = 180
SCRIPT = Path(__file__).with_name("drive.mjs")


def node(*command: str, env: dict[str, str] | None = None, cwd: Path = ROOT) -> str:
    done = subprocess.run(
        command, env=env, cwd=cwd, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="session", autouse=True)
def npm() -> None:
    if shutil.which("npm") is None:
        if os.environ.get("CI") == "true":
            pytest.fail("npm is not installed, and CI must not skip its tests")
        pytest.skip("npm is not installed")


@pytest.fixture(scope="session")
def script(npm: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The script beside the client that it imports."""
    folder = tmp_path_factory.mktemp("node")
    (folder / "package.json").write_text('{"type": "module"}')
    node("npm", "install", "--silent", "--no-audit", "--no-fund", PACKAGE, cwd=folder)
    return Path(shutil.copy(SCRIPT, folder))


@pytest.mark.parametrize("mode", ["legacy", "auto", "2026-07-28"])
def test_the_typescript_client_does_everything(script: Path, mode: str) -> None:
    output = node("node", str(script), mode, *PROGRAM, env=environment(SITE))
    seen: dict[str, Any] = json.loads(output.splitlines()[-1])
    assert "aecho" in seen.pop("tools")
    assert "True" in seen.pop("confirmed")
    assert seen == {
        "called": "hello",
        "progress": [1, 2, 3],
        "left": "cancelled",
        "updated": "stock://a",
        "last": "bye",
    }


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (("--method", "tools/list"), "look_for_cancellation"),
        (
            ("--method", "tools/call", "--tool-name", "aecho", "--tool-arg", "text=hello"),
            "hello",
        ),
        (("--method", "resources/read", "--uri", "stock://a"), "stock://a"),
    ],
    ids=["list", "call", "read"],
)
def test_the_inspector_lists_calls_and_reads(
    tmp_path: Path, arguments: tuple[str, ...], shown: str
) -> None:
    """By the configuration that `mcp_config` prints."""
    printed = subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), "mcp_config", "--client", "inspector"],
        env={**environment(SITE), "PYTHONUNBUFFERED": "1"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    config = tmp_path / "mcp.json"
    config.write_text(printed[printed.index("{") :])
    how = ("--cli", "--config", str(config), "--server", "pipes")
    assert shown in node("npx", "--yes", INSPECTOR, *how, *arguments, "--format", "json", "-q")
