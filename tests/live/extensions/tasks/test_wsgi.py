"""Tasks under WSGI, where the event loop of a request ends with it."""

from __future__ import annotations

from pathlib import Path

from tests.support.projects import Project

TOOLS = """
import asyncio
from django.contrib.auth.models import Permission
from django_mcp import tool

@tool(task="required")
async def count() -> int:
    found = 0
    for _ in range(3):
        # The response of the request is sent meanwhile.
        await asyncio.sleep(0.05)
        found += await Permission.objects.acount() > 0
    return found
"""

POLL = """
task = ask("tools/call", {"name": "count", "arguments": {}})
until_s = time.monotonic() + 60
while task["status"] == "working" and time.monotonic() < until_s:
    time.sleep(0.02)
    task = ask("tasks/get", {"taskId": task["taskId"]})
print(task["status"], task.get("result", task.get("error")))
"""


def test_an_async_task_uses_the_async_orm_after_its_request_has_ended(tmp_path: Path):
    project = Project(tmp_path)
    project.write("shop/mcp.py", TOOLS)
    assert project.manage("migrate", "-v", "0").returncode == 0

    printed = project.in_wsgi(POLL)

    assert printed.startswith("completed"), printed
