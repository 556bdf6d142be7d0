"""`mcp_list --key` lists what an API key sees."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command

from django_mcp import MCPServer
from django_mcp.models import APIKey

pytestmark = pytest.mark.django_db


def list_as(key: str) -> dict[str, Any]:
    out = StringIO()
    call_command("mcp_list", "--server", "listed", "--key", key, "--json", stdout=out)
    found: dict[str, Any] = json.loads(out.getvalue())
    return found


def test_the_list_of_a_key_has_only_what_it_names():
    server = MCPServer("listed", public=True)
    for name in ("one", "two"):
        server.register_tool(lambda: "", name=name)
        server.register_prompt(lambda: "", name=name)
    key, text = APIKey.objects.issue(
        user=User.objects.create_user("ada"), name="x", tools=["one"], prompts=["two"]
    )

    for given in (key.prefix, f"mcp_{key.prefix}_…", text):
        found = list_as(given)
        assert [each["name"] for each in found["tools"]] == ["one"]
        assert [each["name"] for each in found["prompts"]] == ["two"]

    key.revoke()
    with pytest.raises(CommandError, match=f"There is no valid API key mcp_{key.prefix}"):
        list_as(key.prefix)
