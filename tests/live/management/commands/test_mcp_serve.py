"""`manage.py mcp_serve`: a standalone server on its own port."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from django_mcp.protocol.json import decode, encode
from tests.support.sites import free_port
from tests.support.wire import V2024_11_05, V2026_07_28, headers_for, message

ROOT = Path(__file__).parents[4]
LIMIT_S = 120.0


@contextmanager
def serving(
    server: str,
    folder: Path,
    *options: str,
    hides: str = "",
    settings: str = "tests.settings",
) -> Iterator[tuple[int, Path]]:
    """Run the command while the block lasts, without the packages named in `hides`."""
    if hides:
        (folder / "sitecustomize.py").write_text(
            "import sys, importlib.util\n"
            "found = importlib.util.find_spec\n"
            f"hides = {hides.split()!r}\n"
            "importlib.util.find_spec = lambda name, *a: None if name in hides else found(name, *a)\n"
        )
    port = free_port()
    command = [sys.executable, "-m", "django", "mcp_serve", "--server", server, "--port", str(port)]
    command += options
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={
                **os.environ,
                "DJANGO_SETTINGS_MODULE": settings,
                "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)]),
            },
            stdout=output,
            stderr=output,
        )
    try:
        wait_until_it_listens(process, port, log)
        yield port, log
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(LIMIT_S)


def wait_until_it_listens(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text()
        try:
            socket.create_connection(("127.0.0.1", port), 0.5).close()
            return
        except OSError:
            time.sleep(0.05)
    pytest.fail(f"nothing listens: {log.read_text()}")


def ask(port: int, method: str, path: str, host: str = "127.0.0.1") -> tuple[int, bytes]:
    request = message("tools/list", revision=V2026_07_28)
    connection = http.client.HTTPConnection(host, port, timeout=LIMIT_S)
    body = encode(request) if method == "POST" else None
    connection.request(method, path, body, headers_for(request, V2026_07_28) if body else {})
    response = connection.getresponse()
    try:
        return response.status, response.read()
    finally:
        connection.close()


def names_in(body: bytes) -> set[str]:
    return {tool["name"] for tool in decode(body)["result"]["tools"]}


@pytest.mark.parametrize("hides", ["", "uvicorn"], ids=["uvicorn", "daphne"])
def test_a_single_server_is_served_standalone(tmp_path: Path, hides: str):
    with serving("storefront", tmp_path, hides=hides) as (port, log):
        status, body = ask(port, "POST", "/mcp")
        health = ask(port, "GET", "/mcp/health")
        others = {ask(port, "GET", path)[0] for path in ("/", "/staff/mcp", "/admin/")}

    assert status == 200, body
    assert "search_products" in names_in(body)
    assert health == (200, b'{"status":"ok"}')
    assert others == {404}
    assert f"MCP server 'storefront' at http://127.0.0.1:{port}/mcp" in log.read_text()


@pytest.mark.parametrize("hides", ["", "uvicorn"], ids=["uvicorn", "daphne"])
def test_one_server_listens_on_several_addresses(tmp_path: Path, hides: str):
    hosts = ("127.0.0.1", "127.0.0.2")
    options = [part for host in (*hosts, hosts[0]) for part in ("--host", host)]
    with serving("shop-staff", tmp_path, *options, hides=hides) as (port, log):
        found = [ask(port, "GET", "/mcp/health", host)[0] for host in hosts]

    assert found == [200, 200]
    urls = ", ".join(f"http://{host}:{port}/mcp" for host in hosts)
    assert f"MCP server 'shop-staff' at {urls}" in log.read_text()


def test_http_sse_is_served_standalone_if_enabled(tmp_path: Path):
    (tmp_path / "legacy_settings.py").write_text(
        "from tests.settings import *\nDJANGO_MCP = {**DJANGO_MCP, 'LEGACY_SSE': True}\n"
    )
    with serving("shop-staff", tmp_path, settings="legacy_settings") as (port, _):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
        connection.request("GET", "/sse", headers={"accept": "text/event-stream"})
        stream = connection.getresponse()
        opened = (stream.readline(), stream.readline())
        messages = opened[1].removeprefix(b"data: ").strip().decode()
        stream.readline()
        posting = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
        hello = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {}}
        body = encode(message("initialize", hello, revision=V2024_11_05))
        posting.request("POST", messages, body, {"content-type": "application/json"})
        status = posting.getresponse().status
        told = next(line for line in stream if line.startswith(b"data: "))
        posting.close()
        connection.close()

    assert opened[0].strip() == b"event: endpoint"
    assert messages.startswith("/messages?")
    assert status == 202
    assert decode(told.removeprefix(b"data: "))["result"]["protocolVersion"] == "2024-11-05"
