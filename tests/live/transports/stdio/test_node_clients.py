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

from tests.support.backends import require
from tests.support.sites import ROOT, environment
from tests.support.stdio.process import SITE
from tests.support.stdio.shop import Shop

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
    require(shutil.which("npm"), "npm is not installed")


@pytest.fixture(scope="session")
def script(npm: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The script beside the client that it imports."""
    folder = tmp_path_factory.mktemp("node")
    (folder / "package.json").write_text('{"type": "module"}')
    node("npm", "install", "--silent", "--no-audit", "--no-fund", PACKAGE, cwd=folder)
    return Path(shutil.copy(SCRIPT, folder))


@pytest.mark.parametrize("mode", ["legacy", "auto", "2026-07-28"])
def test_the_typescript_client_does_everything(script: Path, shop: Shop, mode: str) -> None:
    """Lists, calls, answers a question, receives progress, cancels, and receives a resource update."""
    cancelled = shop.count_cancelled()
    output = node("node", str(script), mode, shop.number, *shop.command, env=dict(shop.env))
    seen: dict[str, Any] = json.loads(output.splitlines()[-1])
    assert "gift_wrap" in seen.pop("tools")
    assert shop.number in seen.pop("found")
    assert shop.number in seen.pop("asked")
    assert "is wrapped. stars: Yours" in seen.pop("wrapped")
    # This client drops notifications that arrive in one chunk with the response.
    assert seen.pop("rows") >= seen.pop("progress") > 1
    assert seen == {"left": "cancelled", "updated": "product://mug/stock", "last": "1.00 EUR"}
    shop.wait_for_cancelled(cancelled + 1)


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


UNABLE = {
    "progress": "tools/call of neither program shows any; it only keeps a call from timing out",
    "cancellation": "a call that runs cannot be given up: Ctrl-C ends the program, and its server "
    "with it. What can be is a question, and a task",
}
"""What the Inspector's programs cannot do, of what a client might."""


class Connected:
    """The Inspector's `mcpdo`, which stays connected to a server from one command to the next."""

    def __init__(self, folder: Path, shop: Shop, era: str) -> None:
        # Looked up once: npx takes seconds to find it.
        which = ("npx", "--yes", "--package", INSPECTOR, "--call", "command -v mcpdo")
        self._program = node(*which).strip()
        self._env = {
            **os.environ,
            "HOME": str(folder),
            "MCP_INSPECTOR_SECRET_STORE": "memory",
        }
        for line in self.run("private", raw=True).splitlines():
            name, _, value = line.removeprefix("export ").partition("=")
            self._env[name] = value.strip("'")
        config = folder / "mcp.json"
        entry = {"command": shop.command[0], "args": shop.command[1:], "env": dict(shop.env)}
        config.write_text(json.dumps({"mcpServers": {"shop": entry}}))
        self.era = self.run("connect", "shop", "--config", str(config), "--era", era)["protocolEra"]

    def _command(self, *arguments: str) -> list[str]:
        return [self._program, "--format", "json", *arguments]

    def run(self, *arguments: str, raw: bool = False) -> Any:
        found = node(*self._command(*arguments), env=self._env)
        return found if raw else json.loads(found)

    def use(self, *arguments: str) -> Any:
        return self.run("--connection", "shop", *arguments)

    def follow(self, uri: str) -> subprocess.Popen[str]:
        command = self._command("--connection", "shop", "resources/subscribe", uri)
        return subprocess.Popen(command, env=self._env, cwd=ROOT, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_the_connected_inspector_exercises_every_feature(
    tmp_path: Path, shop: Shop, era: str
) -> None:
    """It lists, calls, answers a question and cancels one, and receives a resource update."""
    inspector = Connected(tmp_path, shop, era)
    try:
        assert inspector.era == era
        assert "gift_wrap" in repr(inspector.use("tools/list"))
        found = inspector.use("tools/call", "find_orders", f"query:={json.dumps(shop.number)}")
        assert shop.number in repr(found)

        wrap = ("tools/call", "gift_wrap", f"number:={json.dumps(shop.number)}")
        asked = inspector.use(*wrap)["elicitationPending"]
        assert shop.number in asked["message"]
        answer = ("elicitation/respond", asked["elicitationId"])
        wrapped = inspector.use(*answer, 'paper:="stars"', 'note:="Yours"')
        assert "is wrapped. stars: Yours" in repr(wrapped)
        asked = inspector.use(*wrap)["elicitationPending"]
        given_up = inspector.use("elicitation/respond", asked["elicitationId"], "--cancel")
        assert "Nothing was wrapped" in repr(given_up)

        with inspector.follow("product://mug/stock") as following:
            try:
                _read_until(following, "subscribed")
                order = 'lines:=[{"sku":"mug","quantity":1}]'
                inspector.use("tools/call", "place_order", order)
                _read_until(following, "resources/updated")
            finally:
                following.terminate()
    finally:
        inspector.run("daemon", "stop")


def _read_until(process: subprocess.Popen[str], text: str) -> None:
    """Read lines until one contains the text; the test's own timeout ends the wait otherwise."""
    assert process.stdout is not None
    for line in process.stdout:
        if text in line:
            return
    pytest.fail(f"{text} was not heard of")
