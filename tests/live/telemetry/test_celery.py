"""The run of a task in a Celery worker is exported, and links to its call in the web process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.celery_site import CAPABILITIES, request, until_it_is, working
from tests.support.wire import META

pytestmark = pytest.mark.services

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def read_spans(folder: Path, name: str) -> list[dict[str, Any]]:
    lines = [line for file in folder.glob("spans-*") for line in file.read_text().splitlines()]
    return [span for span in map(json.loads, lines) if span["name"] == name]


async def test_a_run_in_a_worker_links_to_the_call_in_the_web_process(
    postgres: tuple[str, int], redis_url: str, tmp_path: Path
):
    with working(tmp_path, redis_url, TASKS_TELEMETRY="native") as site, site.web() as web:
        meta = {META + "clientCapabilities": CAPABILITIES, "traceparent": PARENT}
        made = await request(web, "tools/call", name="where", arguments={}, _meta=meta)
        task = await until_it_is(web, made["taskId"], "completed")
        ran_at = task["result"]["structuredContent"]
        web_at = web.process.pid
        # Each process has ended, and so has exported what it has.

    [call] = read_spans(tmp_path, "tools/call where")
    [run] = read_spans(tmp_path, "execute_tool where")
    assert (tmp_path / f"spans-{ran_at}").exists()
    assert ran_at != web_at
    assert call["parent_id"] == f"0x{PARENT[36:52]}"
    assert call["attributes"]["django_mcp.outcome"] == "task"
    assert run["attributes"]["django_mcp.outcome"] == "done"
    assert run["parent_id"] is None
    assert run["context"]["trace_id"] != call["context"]["trace_id"]
    linked = [link["context"] for link in run["links"]]
    assert [(each["trace_id"], each["span_id"]) for each in linked] == [
        (call["context"]["trace_id"], call["context"]["span_id"])
    ]
