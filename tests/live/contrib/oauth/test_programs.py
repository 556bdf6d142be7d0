"""Real programs sign in, refresh in two processes at once, and go on after a restart of the site, without another visit."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support import sites
from tests.support.backends import require
from tests.support.oauth.browser import SITE, Browser
from tests.support.oauth.played import call

LIMIT_S = 180.0
CLIENT = "@modelcontextprotocol/client@2.4.0"
REMOTE = "mcp-remote@0.15.1"
AUTHORIZATION_URL = re.compile(r"http\S*response_type=code\S*")
SCRIPT = Path(__file__).with_name("sign_in.mjs")


class Site:
    """The shop at one port, where it can be started again."""

    def __init__(self, folder: Path, server: str) -> None:
        self.port = sites.free_port()
        self.url = f"http://127.0.0.1:{self.port}/mcp"
        self.database = folder / "db.sqlite3"
        self._extra = {"SHOP_DATABASE": str(self.database)}
        self._command = sites.command(SITE, server, host="127.0.0.1", port=self.port)
        self._log = folder / "site.log"
        self._running: sites.Running | None = None
        self._run([sys.executable, "manage.py", "demo", "--prepare"])

    def _run(self, command: list[str]) -> None:
        subprocess.run(
            command, cwd=sites.ROOT, env=sites.environment(SITE, self._extra), check=True
        )

    def start(self) -> None:
        with self._log.open("ab") as output:
            process = subprocess.Popen(
                self._command,
                cwd=sites.ROOT,
                env=sites.environment(SITE, self._extra),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self._running = sites.Running(
            host="127.0.0.1", port=self.port, process=process, log=self._log
        )
        sites.wait_until_it_listens(self._running)

    def stop(self) -> None:
        if self._running is not None:
            self._running.stop()

    def expire(self, token: str) -> None:
        """Let all access tokens expire, and wait until the site has noticed it of one."""
        with closing(sqlite3.connect(self.database)) as connection, connection:
            connection.execute("UPDATE oauth2_provider_accesstoken SET expires = '2020-01-01'")
        deadline = time.monotonic() + LIMIT_S
        while call(self.url, token).status_code != 401:
            assert time.monotonic() < deadline

    def count_pairs(self) -> int:
        """Return how many refresh tokens can be used."""
        with closing(sqlite3.connect(self.database)) as connection:
            count = "SELECT count(*) FROM oauth2_provider_refreshtoken WHERE revoked IS NULL"
            return int(connection.execute(count).fetchone()[0])


@pytest.fixture(params=["uvicorn", "wsgi"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    found = Site(tmp_path, request.param)
    found.start()
    yield found
    found.stop()


class Program:
    """A process that answers each line with one of its own; a person is at its side for the first."""

    def __init__(self, process: subprocess.Popen[str], *, person: Browser | None) -> None:
        self._process = process
        self._person = person
        self.visits = 0

    def wait(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the program has ended"
        told: dict[str, Any] = json.loads(line)
        if "visit" not in told:
            return told
        assert self._person is not None, "the program sends its person to sign in again"
        self.visits += 1
        self.tell(self._person.arrive(told["visit"]))
        return self.wait()

    def tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def find_orders(self) -> str:
        return self._ask("call")

    def expire(self) -> str:
        """Let the token expire by the clock of the program."""
        return self._ask("expire")

    def _ask(self, line: str) -> str:
        self.tell(line)
        return str(self.wait()["text"])


@contextmanager
def program(command: list[str], *, person: Browser | None = None) -> Iterator[Program]:
    process = subprocess.Popen(
        command, cwd=sites.ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        found = Program(process, person=person)
        assert found.wait() == {"ready": True}
        yield found
    finally:
        process.kill()
        process.communicate()


Start = Callable[[str, Path], list[str]]


@pytest.fixture(scope="session")
def typescript(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The script beside the client that it imports."""
    folder = install(tmp_path_factory, CLIENT)
    return Path(shutil.copy(SCRIPT, folder))


def install(factory: pytest.TempPathFactory, package: str) -> Path:
    npm = shutil.which("npm")
    require(npm, "npm is not installed")
    folder = factory.mktemp("node")
    (folder / "package.json").write_text('{"type": "module"}')
    command = [str(npm), "install", "--silent", "--no-audit", "--no-fund", package]
    subprocess.run(command, cwd=folder, check=True, timeout=LIMIT_S)
    return folder


@pytest.fixture(params=["python", "typescript legacy", "typescript 2026-07-28"])
def start(request: pytest.FixtureRequest) -> Start:
    language, _, mode = request.param.partition(" ")
    if language == "python":
        return lambda url, file: [
            sys.executable,
            "-m",
            "tests.support.oauth.program",
            url,
            str(file),
        ]
    script = request.getfixturevalue("typescript")
    return lambda url, file: ["node", str(script), url, str(file), mode]


def test_an_official_client_stays_signed_in(site: Site, start: Start, tmp_path: Path):
    file = tmp_path / "credentials.json"
    command = start(site.url, file)
    person = Browser()
    with ExitStack() as stack:
        first = stack.enter_context(program(command, person=person))
        assert first.visits == 1
        # It has the tokens of the first.
        second = stack.enter_context(program(command))
        both = [first, second]
        tokens = json.loads(file.read_text())["tokens"]
        assert all("ada" in each.find_orders() for each in both)
        assert site.count_pairs() == 1

        # Before the site lets them expire: a stream that ends then is opened again by the client.
        assert all(each.expire() == "expired" for each in both)
        site.expire(tokens["access_token"])
        with ThreadPoolExecutor(2) as pool:
            found = list(pool.map(Program.find_orders, both))

        assert all("ada" in text for text in found)
        # Each of them has refreshed with the one token that both had.
        assert site.count_pairs() == 2

        site.stop()
        site.start()
        assert all("ada" in each.find_orders() for each in both)
        assert first.visits == 1
        assert site.count_pairs() == 2


class Remote:
    """`mcp-remote` as a desktop program starts it, by messages on its standard input and output.

    Whatever address it shows to its person is visited.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._last_id = 0
        self.visits = 0
        self.shown: list[str] = []
        self.follower = threading.Thread(target=self._follow)
        self.follower.start()

    def _follow(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.shown.append(line)
            found = AUTHORIZATION_URL.search(line)
            if found is not None:
                self.visits += 1
                httpx.get(Browser().arrive(found[0]), timeout=LIMIT_S)

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        self._last_id += 1
        self._send({"id": self._last_id, "method": method, "params": params})
        assert self._process.stdout is not None
        for line in self._process.stdout:
            message: dict[str, Any] = json.loads(line)
            if message.get("id") == self._last_id and "method" not in message:
                return message
        raise AssertionError("".join(self.shown))

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self._process.stdin.flush()

    def begin(self) -> None:
        about = {"name": "tests", "version": "1"}
        self.ask("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=about)
        self._send({"method": "notifications/initialized"})

    def find_orders(self) -> str:
        answer = self.ask("tools/call", name="find_orders", arguments={})
        assert "result" in answer, (answer, "".join(self.shown))
        return str(answer["result"]["content"][0]["text"])


@pytest.fixture(scope="session")
def mcp_remote(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command of the program."""
    folder = install(tmp_path_factory, REMOTE)
    return ["node", str(folder / "node_modules" / "mcp-remote" / "dist" / "proxy.js")]


@contextmanager
def remote(command: list[str], url: str, folder: Path) -> Iterator[Remote]:
    process = subprocess.Popen(
        [*command, url, "--auth-timeout", str(int(LIMIT_S))],
        # The test visits what is shown, and no browser does.
        env={**os.environ, "MCP_REMOTE_CONFIG_DIR": str(folder), "BROWSER": "true"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        found = Remote(process)
        try:
            yield found
        finally:
            process.kill()
            found.follower.join()


def test_mcp_remote_stays_signed_in(site: Site, mcp_remote: list[str], tmp_path: Path):
    folder = tmp_path / "credentials"
    with ExitStack() as stack:
        first = stack.enter_context(remote(mcp_remote, site.url, folder))
        first.begin()
        assert "ada" in first.find_orders()
        second = stack.enter_context(remote(mcp_remote, site.url, folder))
        second.begin()
        assert "ada" in second.find_orders()
        assert (first.visits, second.visits) == (1, 0)

        (kept,) = folder.rglob("*_tokens.json")
        site.expire(json.loads(kept.read_text())["access_token"])
        # Not at once: each writes the file that both read, and takes one that is half written for none.
        assert "ada" in first.find_orders()
        assert "ada" in second.find_orders()
        site.stop()
        site.start()
        assert "ada" in first.find_orders()
        assert "ada" in second.find_orders()
        assert (first.visits, second.visits) == (1, 0)
