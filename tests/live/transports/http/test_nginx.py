"""The nginx block of the deployment guide, with a real nginx before two real servers."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support import sites
from tests.support.backends import require
from tests.support.doc_blocks import blocks_of
from tests.support.nginx import nginx
from tests.support.wire import V2026_07_28, headers_for, message

SITE = "tests.conformance"
GUIDE = sites.ROOT / "docs" / "howto" / "deploy.md"
CALLS = 6


class Workers:
    """Two servers of the site at ports of their own, which can be restarted."""

    def __init__(self, folder: Path) -> None:
        self.ports = (sites.free_port(), sites.free_port())
        self._folder = folder
        self._running: dict[int, sites.Running] = {}

    def start(self, port: int) -> None:
        log = self._folder / f"{port}.log"
        command = sites.command(SITE, "uvicorn", host="127.0.0.1", port=port)
        with log.open("ab") as output:
            process = subprocess.Popen(
                command,
                cwd=sites.ROOT,
                env=sites.environment(SITE),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        running = sites.Running(host="127.0.0.1", port=port, process=process, log=log)
        self._running[port] = running
        sites.wait_until_it_listens(running)

    def stop(self, port: int) -> None:
        self._running.pop(port).stop()

    def stop_all(self) -> None:
        for port in list(self._running):
            self.stop(port)


def documented_blocks(ports: tuple[int, int]) -> tuple[str, str]:
    """Return the guide's upstream and location, with these ports."""
    (block,) = [each.text for each in blocks_of(GUIDE) if each.info == "nginx"]
    upstream, _, location = block.partition("\n\n")
    for documented, port in zip(("8001", "8002"), ports, strict=True):
        assert f"127.0.0.1:{documented}" in upstream
        upstream = re.sub(rf"\b{documented}\b", str(port), upstream)
    return upstream, location


@contextmanager
def documented_nginx(program: str, folder: Path, ports: tuple[int, int]) -> Iterator[str]:
    """Run nginx with the guide's blocks; yield the address of the endpoint behind it."""
    upstream, location = documented_blocks(ports)
    with nginx(program, folder, location, upstream=upstream) as running:
        yield running.url


@pytest.fixture(scope="module")
def program() -> str:
    """The path of nginx; without one these tests are skipped, but fail on CI."""
    found = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")
    require(found, "there is no nginx (Debian: apt-get install nginx)")
    assert found is not None
    return found


@pytest.fixture(scope="module")
def behind(program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Workers]]:
    folder = tmp_path_factory.mktemp("nginx")
    workers = Workers(folder)
    with ExitStack() as stack:
        stack.callback(workers.stop_all)
        for port in workers.ports:
            workers.start(port)
        yield stack.enter_context(documented_nginx(program, folder, workers.ports)), workers


def test_clients_cannot_spoof_the_address_used_for_limits(program: str, tmp_path: Path):
    class Echo(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = ", ".join(self.headers.get_all("x-forwarded-for", [])).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Echo) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            with documented_nginx(
                program, tmp_path, (server.server_port, server.server_port)
            ) as url:
                told = httpx.get(url, headers={"X-Forwarded-For": "203.0.113.9"}, timeout=60.0)
        finally:
            server.shutdown()

    assert told.text == "127.0.0.1"


def tool_call(name: str, **meta: Any) -> dict[str, Any]:
    return message(
        "tools/call", {"name": name, "arguments": {}, "_meta": meta}, revision=V2026_07_28
    )


def test_no_call_fails_during_a_rolling_restart(
    behind: tuple[str, Workers],
):
    url, workers = behind
    request = tool_call("test_simple_text")
    statuses = []

    with httpx.Client(timeout=60.0) as client:
        for port in workers.ports * 2:
            workers.stop(port)
            for _ in range(CALLS):
                found = client.post(url, json=request, headers=headers_for(request, V2026_07_28))
                statuses.append(found.status_code)
            workers.start(port)

    assert statuses == [200] * (CALLS * 4)


def test_events_pass_through_the_proxy(behind: tuple[str, Workers]):
    url, _ = behind
    request = tool_call("test_tool_with_progress", progressToken=1)

    with httpx.stream(
        "POST", url, json=request, headers=headers_for(request, V2026_07_28), timeout=60.0
    ) as response:
        data = [line[5:] for line in response.iter_lines() if line.startswith("data:")]
    methods = [json.loads(each).get("method") for each in data if each.strip()]

    assert response.headers["content-type"] == "text/event-stream"
    assert "notifications/progress" in methods
    assert methods[-1] is None
