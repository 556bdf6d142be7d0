"""Databases in which tables or columns are missing, though the migrations are recorded as applied."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from django.apps import apps
from django.core.checks import Tags, run_checks
from django.db import connections
from django.test import Client, override_settings

from django_mcp.execution.migrated import LABELS, find_missing
from django_mcp.management.commands.mcp_doctor import find_missing_tables
from tests.support.databases import MODELS, Maker, serving
from tests.support.session_sites import ToFirst, in_first

ABSENT = {
    model._meta.db_table for model in apps.get_models() if model._meta.app_label in LABELS
} - {model._meta.db_table for model in MODELS}


@pytest.fixture
def routed(databases: str) -> Iterator[None]:
    with in_first():
        yield


@pytest.mark.usefixtures("routed")
def test_missing_tables_are_named():
    assert set(find_missing()) == ABSENT
    assert ABSENT


SITE = """
import django
from django.conf import settings

settings.configure(
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "django_mcp"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    DJANGO_MCP={"SESSION_STORE": "memory", "TASK_STORE": "memory", "RECORD_CALLS": False, **MORE},
)
django.setup()
from django_mcp import MCPServer
from django_mcp.execution.migrated import find_missing

server = MCPServer("other", public=True, authenticators=OTHERS)
print(*find_missing())
"""
KEYS = ["django_mcp.auth.authenticators.APIKeyAuthenticator"]


@pytest.mark.parametrize(
    ("more", "others", "missing"),
    [
        ({}, [], []),
        ({"AUTHENTICATORS": KEYS}, [], ["django_mcp_apikey", "django_mcp_givenlink"]),
        ({}, KEYS, ["django_mcp_apikey", "django_mcp_givenlink"]),
    ],
)
def test_a_site_that_keeps_everything_in_memory_misses_only_tables_of_keys(
    more: dict[str, Any], others: list[str], missing: list[str]
):
    # In a process of its own, since other tests leave servers.
    script = f"MORE, OTHERS = {more!r}, {others!r}\n{SITE}"
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert sorted(ended.stdout.split()) == missing


@pytest.fixture
def outdated(sqlite_settings: Maker, django_db_blocker: Any) -> Iterator[None]:
    """A database with all tables, one of which lacks a column."""
    from django_mcp.extensions.tasks.site.models import Task

    with (
        django_db_blocker.unblock(),
        serving(sqlite_settings),
        override_settings(DATABASE_ROUTERS=[ToFirst()], DJANGO_MCP={}),
    ):
        with connections["first"].schema_editor() as editor:
            for model in apps.get_models():
                if model._meta.db_table in ABSENT:
                    editor.create_model(model)
            editor.execute("ALTER TABLE django_mcp_task DROP COLUMN size")
        yield
        with connections["first"].schema_editor() as editor:
            editor.add_field(Task, Task._meta.get_field("size"))


@pytest.mark.usefixtures("outdated")
def test_readiness_and_the_doctor_name_a_missing_column(caplog: pytest.LogCaptureFixture):
    client = Client(headers={"host": "localhost"})
    not_ready = [client.get("/mcp/health?ready").status_code for _ in range(2)]
    alive = client.get("/mcp/health").status_code
    [finding] = find_missing_tables()
    [checked] = run_checks(tags=[Tags.database], databases=["first"])
    unchecked = run_checks(tags=[Tags.database], databases=["default"])

    assert (not_ready, alive) == ([503, 503], 200)
    assert caplog.text.count("django_mcp_task.size") == 1
    assert "django_mcp_task.size" in finding.text
    assert not finding.ok
    assert checked.id == "django_mcp.W033"
    assert "django_mcp_task.size" in checked.msg
    assert unchecked == []
    with connections["first"].cursor() as cursor:
        cursor.execute("ALTER TABLE django_mcp_task ADD COLUMN size integer NOT NULL DEFAULT 0")
    assert client.get("/mcp/health?ready").status_code == 200
    with connections["first"].cursor() as cursor:
        cursor.execute("ALTER TABLE django_mcp_task DROP COLUMN size")
    # A process does not look again.
    assert client.get("/mcp/health?ready").status_code == 200
