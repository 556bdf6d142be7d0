"""`mcp_list --key` lists what an API key sees."""

from __future__ import annotations

import json
from functools import partial
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.utils import timezone

from django_mcp import MCPServer
from django_mcp.models import APIKey

pytestmark = pytest.mark.django_db


def list_as(key: str) -> dict[str, Any]:
    out = StringIO()
    call_command("mcp_list", "--server", "listed", "--key", key, "--json", stdout=out)
    found: dict[str, Any] = json.loads(out.getvalue())
    return found


def text_as(*arguments: str) -> str:
    out = StringIO()
    call_command("mcp_list", "--server", "listed", *arguments, stdout=out, no_color=True)
    return out.getvalue()


def test_the_list_says_which_uses_are_refused_for_lack_of_scopes():
    server = MCPServer("listed", public=True)
    for name in ("borrow", "look"):
        scopes = ["library:write"] if name == "borrow" else ()
        server.register_tool(lambda: "", name=name, scopes=scopes)
    user = User.objects.create_user("ada")
    key, _ = APIKey.objects.issue(user=user, name="x", tools=["borrow", "look"])
    scoped, _ = APIKey.objects.issue(user=user, name="x", scopes=["library:write"])

    refusal = "The use of borrow is refused: the key lacks the scopes library:write."
    assert refusal in text_as("--key", key.prefix)
    assert list_as(key.prefix)["refused"]["tools"] == {"borrow": ["library:write"]}
    assert "refused" not in text_as("--key", scoped.prefix)
    assert list_as(scoped.prefix)["refused"]["tools"] == {}


def test_who_sees_nothing_is_told_the_remedy_that_helps():
    server = MCPServer("listed", public=True)
    server.register_tool(lambda: "", name="restock", permission="auth.view_user")
    key, _ = APIKey.objects.issue(user=User.objects.create_user("ada"), name="x", tools=["restock"])

    assert "this key sees nothing: its user 'ada' may use" in text_as("--key", key.prefix)
    assert "the user 'ada' sees nothing, for lack of permissions" in text_as("--user", "ada")
    assert "name a user with --user" in text_as()


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

    with pytest.raises(CommandError, match="There is no API key mcp_abcdef"):
        list_as("mcp_abcdef")


def test_why_calls_with_a_key_are_refused_is_told():
    MCPServer("listed", public=True).register_tool(lambda: "", name="one")
    user = User.objects.create_user("ada")
    issue = partial(APIKey.objects.issue, user=user, name="x")
    revoked, expired, whole = issue()[0], issue(expires_at=timezone.now())[0], issue()[0]
    revoked.revoke()

    def told(key: APIKey) -> str:
        with pytest.raises(CommandError) as refusal:
            list_as(key.prefix)
        return str(refusal.value).removeprefix(f"Calls with the API key mcp_{key.prefix} are ")

    assert told(revoked).startswith(f"refused: it was revoked at {revoked.revoked_at}.")
    assert told(expired).startswith(f"refused: it expired at {expired.expires_at}.")
    user.is_active = False
    user.save()
    assert told(whole).startswith("refused: its user 'ada' is not active.")
