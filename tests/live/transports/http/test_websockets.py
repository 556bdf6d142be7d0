"""Unexpected WebSocket upgrades, which MCP does not use, behind real servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.http.rawhttp import connect, head
from tests.support.sites import running

UPGRADE = {
    "Host": "localhost",
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}


@pytest.mark.parametrize("server", ["uvicorn", "daphne"])
async def test_a_websocket_upgrade_is_refused_and_leaves_no_traceback(server: str, tmp_path: Path):
    log = tmp_path / "log"
    statuses = []
    extra = {"TEST_SESSION_STORE": "memory"}
    with running("tests.support.site.push", server, log=log, extra=extra) as site:
        for path in ("/mcp", "/nowhere"):
            async with connect(site.host, site.port) as client:
                statuses.append((await client.ask(head("GET", path, UPGRADE))).status)

    assert statuses == [403, 403]
    assert "Traceback" not in log.read_text()
