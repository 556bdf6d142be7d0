"""The check of disabled entries that nobody registers any more."""

from __future__ import annotations

import django
import pytest
from django.core.checks import Tags, run_checks

from django_mcp import MCPServer
from django_mcp.models import DisabledEntry

pytestmark = pytest.mark.django_db


def find(databases: list[str] | None) -> list[str]:
    found = run_checks(tags=[Tags.database], databases=databases)
    return [each.msg for each in found if each.id == "django_mcp.W024"]


def test_a_disabled_entry_that_is_not_registered_is_a_warning():
    server = MCPServer("renamed")

    @server.tool
    def new_name() -> str:
        return ""

    for key in ("new_name", "old_name"):
        DisabledEntry.objects.create(server="renamed", kind="tools", key=key)
    DisabledEntry.objects.create(server="gone", kind="prompts", key="greet")

    assert find(["default"]) == [
        "The disabled entry 'greet' of prompts on the server 'gone' matches no entry.",
        "The disabled entry 'old_name' of tools on the server 'renamed' matches no entry.",
    ]


def test_the_database_is_not_asked_without_permission():
    DisabledEntry.objects.create(server="gone", kind="tools", key="old_name")

    assert find([]) == []
    if django.VERSION < (6, 1):
        assert find(None) == []  # later versions mean all of them


def test_many_disabled_entries_are_counted():
    for number in range(23):
        DisabledEntry.objects.create(server="gone", kind="tools", key=f"old_{number:02}")

    found = find(["default"])

    assert len(found) == 21
    assert found[-1] == "3 further disabled entries match no entry."
