"""Permanent objects of a process are frozen for the garbage collector."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.support.sites import ROOT

SERVING = """
import asyncio, gc, sys
import django
from django.conf import settings

settings.configure(
    ROOT_URLCONF="django_mcp.urls",
    INSTALLED_APPS=["django_mcp"],
    DJANGO_MCP={"PUBLIC": True, "GC_FREEZE": sys.argv[1] == "True"},
)
django.setup()

from django.core.asgi import get_asgi_application
from django_mcp.asgi import django_mcp_application

application = django_mcp_application(get_asgi_application())
found = [gc.get_freeze_count()]


async def ask(path):
    scope = {"type": "http", "method": "GET", "path": path, "headers": [(b"host", b"localhost")]}

    async def send(message):
        pass

    received = [{"type": "http.request"}]

    async def receive():
        return received.pop() if received else await asyncio.Event().wait()

    await application({**scope, "query_string": b""}, receive, send)
    found.append(gc.get_freeze_count())


async def main():
    for path in ("/elsewhere", "/mcp/health", "/mcp/health"):
        await ask(path)


asyncio.run(main())
print(*found)
"""


@pytest.mark.parametrize("is_on", [True, False])
def test_the_first_response_freezes_existing_objects(is_on: bool):
    """Once, and not for responses of the site itself."""
    done = subprocess.run(
        [sys.executable, "-c", SERVING, str(is_on)],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        env=dict(os.environ, PYTHONPATH=str(ROOT)),
    )
    assert done.returncode == 0, done.stderr
    before, after_others, after_first, after_second = map(int, done.stdout.split())

    # Python 3.12 itself has frozen some objects.
    assert before == after_others
    assert (after_first - before > 10_000) is is_on
    assert after_second <= after_first
