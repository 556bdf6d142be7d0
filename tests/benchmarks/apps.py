"""Measure what the page of a tool costs: `python -m tests.benchmarks.apps`.

The ASGI application is called in process, one request after the other. The table tells the processor time of one
request, the median of the batches and their quartiles. The cases take turns, batch by batch.

    python -m tests.benchmarks.apps [--batches 60] [--calls 50]
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from tests.benchmarks.messages import MODERN, MODERN_META, call, request

SMALL, LARGE = "bench/small.html", "bench/large.html"
TEMPLATES = {
    SMALL: "{% load mcp_apps %}{% mcp_app title='A' %}<div data-mcp-result></div>{% endmcp_app %}",
    LARGE: "{% load mcp_apps %}{% mcp_app title='A' %}"
    + "<p>A row of a page.</p>\n" * 41_000
    + "{% endmcp_app %}",
    "bench/part.html": "<p>A part.</p>",
}
HOST = {
    "io.modelcontextprotocol/clientCapabilities": {
        "extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}
    }
}

Act = Callable[[], Awaitable[Any]]


def main() -> None:
    batches, calls = read_options("apps")
    asyncio.run(_measure(batches, calls))


def read_options(name: str) -> tuple[int, int]:
    """Prepare the site of a benchmark, and return how many batches of how many calls were asked for."""
    parser = argparse.ArgumentParser(prog=f"python -m tests.benchmarks.{name}")
    parser.add_argument("--batches", type=int, default=60)
    parser.add_argument("--calls", type=int, default=50, help="of each batch")
    options = parser.parse_args()
    from tests.benchmarks.database import prepare

    prepare()
    return options.batches, options.calls


async def measure(acts: Mapping[str, Act], batches: int, calls: int) -> dict[str, list[float]]:
    """Print the microseconds of each act, and return those of its batches."""
    spent: dict[str, list[float]] = {name: [] for name in acts}
    for act in acts.values():
        await spend(act, calls)
    for _ in range(batches):
        for name, act in acts.items():
            spent[name].append(await spend(act, calls) * 1e6)
    for name, values in spent.items():
        low, middle, high = statistics.quantiles(values, n=4)
        print(f"{name:50} {middle:9.1f} us ({low:.1f} to {high:.1f})", flush=True)
    return spent


async def _measure(batches: int, calls: int) -> None:
    acts = _make_acts()
    spent = await measure(acts, batches, calls)
    plain, *others = (spent[name] for name in acts if name.startswith("call"))
    for name, values in zip(("other client", "host", "host and part"), others, strict=True):
        more = statistics.median(one - base for one, base in zip(values, plain, strict=True))
        print(f"{'a call with an app costs more, ' + name:50} {more:9.1f} us", flush=True)


def _make_acts() -> dict[str, Act]:
    from functools import partial

    from django.conf import settings
    from django.template.loader import render_to_string

    in_memory = ("django.template.loaders.locmem.Loader", TEMPLATES)
    settings.TEMPLATES = [
        {
            "BACKEND": "django.template.backends.django.DjangoTemplates",
            "OPTIONS": {"loaders": [("django.template.loaders.cached.Loader", [in_memory])]},
        }
    ]
    from django_mcp import tool
    from django_mcp.execution.threads import run_in_pool
    from django_mcp.extensions.apps import App
    from django_mcp.extensions.apps.site.pages import SiteTemplates
    from django_mcp.protocol.json import encode

    async def tell() -> dict[str, int]:
        return {"count": 1}

    app = App(template=SMALL, fragment="bench/part.html")
    tool(name="plain", description="Tell.", read_only=True)(tell)
    tool(name="paged", description="Tell.", read_only=True, app=app)(tell)
    tool(name="large", description="Tell.", read_only=True, app=LARGE)(tell)
    templates, html = SiteTemplates(), "<p>A row of a page.</p>\n" * 41_000

    async def write() -> None:
        encode({"text": html})

    return {
        "page from memory": lambda: templates.render_page(SMALL),
        "page of 1 MB from memory": lambda: templates.render_page(LARGE),
        "1 MB is written as JSON": write,
        "resources/read of a page": to_act(_read(SMALL)),
        "resources/read of a page of 1 MB": to_act(_read(LARGE)),
        "call of a tool without an app": to_act(call(0, "plain", {}, revision=MODERN)),
        "call of a tool with one, client without pages": to_act(
            call(0, "paged", {}, revision=MODERN)
        ),
        "call of a tool with one, host": to_act(_call_as_host("large")),
        "call of a tool with one and a part, host": to_act(_call_as_host("paged")),
        "the part is rendered": lambda: run_in_pool(
            partial(render_to_string, "bench/part.html", {})
        ),
    }


def _call_as_host(tool: str) -> Any:
    params = {"name": tool, "arguments": {}, "_meta": HOST}
    return request(0, "tools/call", params, revision=MODERN)


def _read(template: str) -> Any:
    uri = f"ui://benchmarks/{template}"
    return request(
        0, "resources/read", {"uri": uri, "_meta": {**MODERN_META, **HOST}}, revision=MODERN
    )


def to_act(built: Any) -> Act:
    from tests.benchmarks.asgi import application
    from tests.benchmarks.compare import to_asgi

    scope, body = to_asgi(built)
    headers: Any = scope["headers"]
    if b'"method":"resources/read"' in body:
        uri = body.partition(b'"uri":"')[2].partition(b'"')[0]
        headers.append((b"mcp-name", uri))

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": body}

    async def send(message: Any) -> None:
        assert message.get("status", 200) == 200
        assert b'"isError":true' not in message.get("body", b"")[:2000]

    async def act() -> None:
        await application(dict(scope), receive, send)

    return act


async def spend(act: Act, calls: int) -> float:
    """Return the processor time of one call, in seconds."""
    begun = time.process_time()
    for _ in range(calls):
        await act()
    return (time.process_time() - begun) / calls


if __name__ == "__main__":
    main()
