"""Measure what skills and server cards cost: `python -m tests.benchmarks.documents`.

The ASGI application is called in process, one whole request after the other. The table tells the processor time of
one request, the median of the batches and their quartiles. The cases take turns, batch by batch.

    python -m tests.benchmarks.documents [--batches 60] [--calls 50]
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from tests.benchmarks.apps import Act, measure, read_options, to_act
from tests.benchmarks.messages import MODERN, call, request

SKILL = (
    "---\nname: refund\ndescription: Refund an order.\n---\n\n" + "Look at the order first.\n" * 100
)
URI = "skill://refund/SKILL.md"


def main() -> None:
    batches, calls = read_options("documents")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "refund" / "SKILL.md"
        path.parent.mkdir()
        path.write_text(SKILL)
        asyncio.run(_measure(folder, batches, calls))


async def _measure(folder: str, batches: int, calls: int) -> None:
    await measure(_make_acts(folder), batches, calls)


def _make_acts(folder: str) -> dict[str, Act]:
    from django.conf import settings

    settings.DJANGO_MCP = {
        **settings.DJANGO_MCP,
        "SKILLS_DIRS": [folder],
        "CARD_NAME": "org.example/bench",
        "PUBLIC_URL": "https://bench.example.org",
    }
    from django.test.signals import setting_changed

    from django_mcp import tool

    setting_changed.send(sender=None, setting="DJANGO_MCP", value=settings.DJANGO_MCP, enter=True)

    async def tell() -> dict[str, int]:
        return {"count": 1}

    tool(name="plain", description="Tell.", read_only=True)(tell)
    acts = {
        "call of a tool, for comparison": to_act(call(0, "plain", {}, revision=MODERN)),
        "skills/list": to_act(request(0, "skills/list", {}, revision=MODERN)),
        "skills/get": to_act(request(0, "skills/get", {"uri": URI}, revision=MODERN)),
        "resources/read of a skill": to_act(
            request(0, "resources/read", {"uri": URI}, revision=MODERN)
        ),
        "resources/directory/read": to_act(
            request(0, "resources/directory/read", {"uri": "skill://refund"}, revision=MODERN)
        ),
    }
    for name, path in (
        ("a server card", "/mcp/server-card"),
        ("the catalog of cards", "/.well-known/ai-catalog.json"),
    ):
        acts[f"{name}, its view"] = _to_view(path)
        acts[f"{name}, with Django's handler and thread"] = _to_get(path)
    return acts


def _to_view(path: str) -> Act:
    from django.test import RequestFactory
    from django.urls import resolve

    view, asked = resolve(path).func, RequestFactory(headers={"host": "127.0.0.1"}).get(path)

    async def act() -> None:
        assert view(asked).status_code == 200

    return act


def _to_get(path: str) -> Act:
    from tests.benchmarks.asgi import application

    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(b"host", b"127.0.0.1"), (b"accept", b"application/json")],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
        "state": {},
    }

    async def send(message: Any) -> None:
        assert message.get("status", 200) == 200

    async def act() -> None:
        messages = iter([{"type": "http.request", "body": b""}])

        async def receive() -> Any:
            # The client stays until it has the response.
            return next(messages, None) or await asyncio.get_running_loop().create_future()

        await application(dict(scope), receive, send)

    return act


if __name__ == "__main__":
    main()
