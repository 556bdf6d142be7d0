"""`manage.py mcp_key` creates, lists and revokes API keys."""

from __future__ import annotations

import json
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.utils import timezone

from django_mcp import MCPServer
from django_mcp.auth.authenticators import APIKeyAuthenticator
from django_mcp.inprocess import MCPError
from django_mcp.models import APIKey
from django_mcp.test import MCPClient

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def server() -> MCPServer:
    server = MCPServer("keyed", authenticators=[APIKeyAuthenticator()])
    server.register_tool(lambda: "one", name="only_keyed")
    server.register_tool(lambda: "two", name="other_keyed")
    return server


@pytest.fixture(autouse=True)
def unkeyed() -> MCPServer:
    server = MCPServer("unkeyed", public=True)
    server.register_tool(lambda: "", name="only_unkeyed")
    return server


@pytest.fixture
def ada() -> User:
    return User.objects.create_user("ada")


def run(*arguments: str) -> tuple[str, str]:
    """Return what the command prints on its two outputs."""
    out, errors = StringIO(), StringIO()
    call_command("mcp_key", *arguments, stdout=out, stderr=errors, no_color=True)
    return out.getvalue(), errors.getvalue()


def test_a_created_key_is_printed_alone_and_works(server: MCPServer, ada: User):
    out, errors = run("create", "ada", "the nightly report", "--tool", "only_keyed")
    text = out.strip()
    key = APIKey.objects.get()
    client = MCPClient(server, headers={"Authorization": f"Bearer {text}"})
    names = [tool["name"] for tool in client.list_tools()]

    assert out == f"{text}\n"
    assert f"mcp_{key.prefix} is valid until" in errors
    assert text not in errors
    assert names == ["only_keyed"]
    assert key.user == ada
    assert key.expires_at is not None
    assert abs(key.expires_at - timezone.now() - timedelta(days=90)) < timedelta(minutes=1)


URLCONF = """
from django.urls import path
from django_mcp import MCPServer

late = MCPServer("late", authenticators=["django_mcp.auth.authenticators.APIKeyAuthenticator"])
late.register_tool(lambda: "", name="open_doors")
urlpatterns = [path("late/", late.urls)]
"""


def test_a_server_that_the_urlconf_makes_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Any, ada: User
):
    (tmp_path / "urls_of_late_server.py").write_text(URLCONF)
    monkeypatch.syspath_prepend(tmp_path)
    settings.ROOT_URLCONF = "urls_of_late_server"
    run("create", "ada", "x", "--tool", "open_doors")

    assert APIKey.objects.get().tools == "open_doors"


def test_a_key_may_last_for_ever_and_grant_scopes(ada: User):
    out, _ = run("create", "ada", "x", "--never", "--scope", "a", "--scope", "b", "--json")
    described: dict[str, Any] = json.loads(out)

    assert described["expires"] is None
    assert described["scopes"] == ["a", "b"]
    assert described["key"].startswith(f"mcp_{described['prefix']}_")
    assert "only" not in described


@pytest.fixture
def scoped(server: MCPServer) -> None:
    server.register_tool(lambda: "", name="borrow", scopes=["library:write"])
    server.register_tool(lambda: "", name="restock", permission="auth.view_user")


@pytest.mark.usefixtures("scoped")
def test_a_key_has_the_scopes_of_the_tools_that_it_names(server: MCPServer, ada: User):
    out, errors = run("create", "ada", "x", "--tool", "borrow")
    client = MCPClient(server, headers={"Authorization": f"Bearer {out.strip()}"})

    client.call("borrow")
    assert APIKey.objects.get().scopes == "library:write"
    assert "has the scopes library:write" in errors
    assert "Warning" not in errors


@pytest.mark.usefixtures("scoped")
def test_a_key_has_the_scopes_of_a_template_whose_resource_it_names(server: MCPServer, ada: User):
    server.register_resource("shelf://{row}", lambda row: row, name="shelf", scopes=["shelves"])
    _, errors = run("create", "ada", "x", "--resource", "shelf://4")

    assert APIKey.objects.get().scopes == "shelves"
    assert "Warning" not in errors


@pytest.mark.usefixtures("scoped")
def test_a_misspelt_scope_is_refused(ada: User):
    with pytest.raises(CommandError, match=r"scope 'library:wrte'\. Did you mean 'library:write'"):
        run("create", "ada", "x", "--tool", "borrow", "--scope", "library:wrte")

    assert not APIKey.objects.exists()


@pytest.mark.usefixtures("scoped")
@pytest.mark.parametrize(
    ("arguments", "scopes", "warning"),
    [
        (
            ["--tool", "restock"],
            "",
            "the user 'ada' may not use restock now, so the key does not see it",
        ),
        (
            ["--tool", "borrow", "--scope", "zzz"],
            "zzz",
            "nothing that the key could use needs the scope 'zzz'.",
        ),
        (
            ["--tool", "borrow", "--scope", "zzz"],
            "zzz",
            "calls of borrow are refused, because the key lacks scopes. Add --scope library:write",
        ),
        (["--server", "keyed"], "", "calls of borrow are refused, because the key lacks scopes"),
    ],
)
def test_a_key_that_can_do_less_than_it_seems_is_made_with_a_warning(
    ada: User, arguments: list[str], scopes: str, warning: str
):
    _, errors = run("create", "ada", "x", *arguments)

    assert f"Warning: {warning}" in errors
    assert APIKey.objects.get().scopes == scopes


def find_more(errors: str) -> list[str]:
    return [line for line in errors.splitlines() if "the key may also use" in line]


@pytest.mark.usefixtures("scoped")
def test_tools_that_write_without_a_scope_are_named_for_a_key_of_scopes(
    server: MCPServer, ada: User
):
    server.register_tool(lambda: "", name="look_keyed", read_only=True)
    arguments = ("create", "ada", "x", "--server", "keyed")
    _, errors = run(*arguments, "--scope", "library:write")

    [text] = find_more(errors)
    # Not `restock`, which ada may not use, and not `borrow`, which needs a scope.
    assert "use 2 tools that write and need no scope: only_keyed, other_keyed. Restrict" in text
    for others in (
        ["--scope", "library:write", "--read-only"],
        ["--scope", "library:write", "--tool", "only_keyed"],
        [],
    ):
        assert not find_more(run(*arguments, *others)[1])


def test_one_tool_that_writes_without_a_scope_is_named(ada: User):
    only = MCPServer("one", authenticators=[APIKeyAuthenticator()])
    only.register_tool(lambda: "", name="close_orders")
    only.register_tool(lambda: "", name="find_orders", scopes=["orders:read"], read_only=True)
    _, errors = run("create", "ada", "x", "--server", "one", "--scope", "orders:read")

    [text] = find_more(errors)
    assert "use 1 tool that writes and needs no scope: close_orders. Restrict" in text


@pytest.mark.usefixtures("scoped")
def test_a_scope_that_the_settings_of_oauth_describe_is_known(ada: User, settings: Any):
    settings.OAUTH2_PROVIDER = {"SCOPES": {"described": "What it is"}}
    _, errors = run("create", "ada", "x", "--tool", "only_keyed", "--scope", "described")

    assert "Warning" not in errors


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["nobody", "x"], "There is no user 'nobody'"),
        (["ada", " "], "The name must have"),
        (["ada", "x", "--days", "0"], "--days must be between"),
        (["ada", "x", "--tool", "a,b"], "without commas"),
        (
            ["ada", "x", "--tool", "no_such"],
            "No MCP server that reads API keys has the tools 'no_such'.",
        ),
        (["ada", "x", "--tool", "other_keyd"], "'other_keyd'. Did you mean 'other_keyed'?"),
        (["ada", "x", "--tool", "only_unkeyed"], "No MCP server that reads API keys has the tools"),
        (["ada", "x", "--server", "unkeyed"], "'unkeyed' does not read API keys: add "),
        (["ada", "x", "--server", "nowhere"], "No MCP server is called 'nowhere'"),
        (["ada", "x", "--resource", "no:such"], "No MCP server has the resources 'no:such'"),
    ],
)
def test_a_key_that_nothing_reads_is_refused_with_the_remedy(
    ada: User, arguments: list[str], text: str
):
    with pytest.raises(CommandError, match=text) as raised:
        run("create", *arguments)

    assert raised.value.returncode == 2
    assert not APIKey.objects.exists()


def test_keys_are_listed_without_their_secrets(ada: User):
    _, text = APIKey.objects.issue(user=ada, name="one")
    ended, _ = APIKey.objects.issue(user=ada, name="two\x1b[31m", tools=["only_keyed"])
    ended.revoke()
    other = User.objects.create_user("bob")
    past = timezone.now() - timedelta(days=1)
    APIKey.objects.issue(user=other, name="three", expires_at=past)

    table, _ = run("list")
    of_bob, _ = run("list", "--user", "bob")
    of_all = json.loads(run("list", "--json")[0])["keys"]

    assert [line.split()[1] for line in table.splitlines()] == [
        "state",
        "expired",
        "revoked",
        "valid",
    ]
    assert text.split("_", 2)[2] not in table
    assert "\x1b" not in table
    assert "three" in of_bob
    assert "one" not in of_bob
    assert [each["state"] for each in of_all] == ["expired", "revoked", "valid"]
    assert of_all[1]["only"]["tools"] == ["only_keyed"]


def test_the_list_tells_that_the_user_of_a_key_is_inactive(ada: User):
    APIKey.objects.issue(user=ada, name="one")
    User.objects.update(is_active=False)

    assert [each["state"] for each in json.loads(run("list", "--json")[0])["keys"]] == ["inactive"]


def test_an_empty_list_says_so():
    assert run("list")[0] == "There are no API keys.\n"


def test_revoked_keys_stop_to_work(server: MCPServer, ada: User):
    key, text = APIKey.objects.issue(user=ada, name="one")
    other, _ = APIKey.objects.issue(user=ada, name="two")
    out, _ = run("revoke", f"mcp_{key.prefix}_…", other.prefix)
    again, _ = run("revoke", text)

    assert out.count("is revoked.") == 2
    assert "was revoked before" in again
    assert not APIKey.objects.filter(revoked_at=None).exists()
    client = MCPClient(server, headers={"Authorization": f"Bearer {text}"})
    with pytest.raises(MCPError) as raised:
        client.list_tools()
    assert raised.value.status == 401


def test_an_unknown_prefix_revokes_nothing(ada: User):
    key, _ = APIKey.objects.issue(user=ada, name="one")
    with pytest.raises(CommandError, match="There is no API key mcp_0123456789ab"):
        run("revoke", key.prefix, "0123456789ab")

    key.refresh_from_db()
    assert key.revoked_at is None
