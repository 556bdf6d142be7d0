"""The dashboard and the collector of the guide: what they name is exported."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import yaml

from django_mcp.protocol.errors import invalid_request
from django_mcp.server.exchange.exchange import refusal_reply
from django_mcp.server.exchange.session import Session
from django_mcp.server.streams.stream import PushStream, StreamKind
from django_mcp.telemetry.metrics import Metrics
from tests.support.doc_blocks import ROOT, blocks_of
from tests.support.server.tasks import Modern
from tests.support.telemetry import find_metrics
from tests.support.wire import V2026_07_28, RecordingSink, WireClient
from tests.unit.telemetry.conftest import make_server

GUIDE = ROOT / "docs" / "howto" / "telemetry.md"
DASHBOARD = ROOT / "docs" / "dashboards" / "django_mcp.json"

_NAME = re.compile(r"\b(?:mcp|django_mcp)_\w+")
_MATCHERS = re.compile(r"\{(.*?)\}")
_LABELS = re.compile(r"\bby \((.*?)\)")


def to_prometheus(metric: Any) -> Iterator[str]:
    """Yield the names of a metric, as the exporter of the collector for Prometheus writes them."""
    name = metric.name.replace(".", "_")
    name += {"s": "_seconds", "By": "_bytes"}.get(metric.unit, "")
    kind = type(metric.data).__name__
    if kind == "Histogram":
        yield from (f"{name}_{suffix}" for suffix in ("bucket", "count", "sum"))
    else:
        yield f"{name}_total" if kind == "Sum" and metric.data.is_monotonic else name


async def export_everything(native: Any) -> dict[str, Any]:
    """Have each instrument export something, and return the metrics by name."""
    native.DJANGO_MCP = {**native.DJANGO_MCP, "TASK_STORE": "memory", "SYNC_THREADS": 2}
    server = make_server()

    @server.tool(task="allowed")
    def report() -> str:
        return "done"

    client = Modern(server)
    await client.until(await client.create("report"), "completed")
    for name in ("find_orders", "refuse", "unknown"):
        await WireClient(server, V2026_07_28).send("tools/call", {"name": name})
    observer = Metrics()
    observer.refused(server.name, refusal_reply(invalid_request("No"), 400))
    observer.signed_in(server.name, "accepted")
    session = Session(
        revision=V2026_07_28, key="a", server_name=server.name, principal_key=None, opened_s=1.0
    )
    observer.session_closed(session)
    stream = PushStream(
        kind=StreamKind.STDIO, server_name=server.name, sink=RecordingSink(), principal=None
    )
    server.engine.hub.streams[stream.id] = stream
    try:
        observer.stream_closed(stream)
        return find_metrics()
    finally:
        del server.engine.hub.streams[stream.id]


def read_queries() -> list[str]:
    dashboard = json.loads(DASHBOARD.read_text())
    found = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    return found + [
        variable["query"]["query"]
        for variable in dashboard["templating"]["list"]
        if variable["type"] == "query"
    ]


async def test_the_dashboard_queries_what_is_exported(native: Any):
    exported = await export_everything(native)
    names = {name for metric in exported.values() for name in to_prometheus(metric)}
    labels = {
        key.replace(".", "_")
        for metric in exported.values()
        for point in metric.data.data_points
        for key in point.attributes
    } | {"le"}

    asked_names, asked_labels = set(), set()
    for query in read_queries():
        for listed in _LABELS.findall(query):
            asked_labels |= {label.strip() for label in listed.split(",")}
        for matchers in _MATCHERS.findall(query):
            asked_labels |= {re.split(r"[=!]", each)[0].strip() for each in matchers.split(", ")}
        bare = _LABELS.sub("", _MATCHERS.sub("", query))
        found = _NAME.findall(bare)
        if query.startswith("label_values("):
            asked_labels.add(found.pop())
        assert found, query
        asked_names |= set(found)

    assert asked_names - names == set()
    assert asked_labels - labels == set()
    # Each metric is on it.
    shown = {metric.name for metric in exported.values() if asked_names & {*to_prometheus(metric)}}
    own = {name for name in exported if name.startswith(("mcp.", "django_mcp."))}
    assert own - shown == set()


async def test_the_guide_lists_each_metric_and_attribute(native: Any):
    exported = await export_everything(native)
    text = GUIDE.read_text()

    for metric in exported.values():
        if metric.name.startswith(("mcp.", "django_mcp.")):
            assert f"`{metric.name}`" in text
            for point in metric.data.data_points:
                for key in point.attributes:
                    assert f"`{key}`" in text


def test_the_pipelines_of_the_collector_are_whole():
    [block] = [block for block in blocks_of(GUIDE) if block.info == "yaml collector.yaml"]

    found = yaml.safe_load(block.text)

    used: dict[str, set[str]] = {"receivers": set(), "processors": set(), "exporters": set()}
    assert set(found["service"]["pipelines"]) == {"metrics", "traces"}
    for pipeline in found["service"]["pipelines"].values():
        assert set(pipeline) == set(used)
        for kind, names in pipeline.items():
            assert names
            used[kind] |= set(names)
    for kind, names in used.items():
        assert names == set(found[kind])
