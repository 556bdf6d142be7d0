"""A site without a database, for which Django makes up a placeholder that raises when it is used."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.projects import Project

TOOLS = """
from django_mcp import tool

@tool
def greet(name: str) -> str:
    return f"Hello {name}"

@tool(task="allowed")
def slow() -> str:
    return "done"
"""

CALL = """
print(ask("tools/call", {"name": "greet", "arguments": {"name": "Ann"}}))
task = ask("tools/call", {"name": "slow", "arguments": {}})
until_s = time.monotonic() + 60
while task["status"] == "working" and time.monotonic() < until_s:
    time.sleep(0.02)
    task = ask("tasks/get", {"taskId": task["taskId"]})
print(task["status"])
"""


@pytest.mark.parametrize("databases", ["{}", '{"default": {}}'])
def test_synchronous_tools_run_on_a_site_without_a_database(tmp_path: Path, databases: str):
    project = Project(tmp_path)
    project.write("shop/mcp.py", TOOLS)
    project.write(
        "mysite/urls.py",
        'from django.urls import include, path\nurlpatterns = [path("", include("django_mcp.urls"))]\n',
    )
    project.set(
        INSTALLED_APPS='["django.contrib.auth", "django.contrib.contenttypes", "django_mcp", "shop"]',
        MIDDLEWARE="[]",
        TEMPLATES="[]",
        DATABASES=databases,
        DJANGO_MCP='{"PUBLIC": True, "SESSION_STORE": "memory", "TASK_STORE": "memory"}',
    )

    printed = project.in_wsgi(CALL)

    assert "Hello Ann" in printed, printed
    assert printed.splitlines()[-1] == "completed", printed
    assert "django_mcp.E" not in project.check()
