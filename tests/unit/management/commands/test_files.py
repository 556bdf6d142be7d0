"""`mcp_config`, `mcp_surface` and `startmcp`: the files that they write."""

from __future__ import annotations

import json
import re
import sys
from io import StringIO
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command
from django.test import override_settings
from django.urls import path
from django.utils import translation

from django_mcp import MCPServer
from django_mcp.auth.authenticators import APIKeyAuthenticator, BearerAuthenticator
from tests.support.commands import Run

# -- mcp_config


@pytest.mark.parametrize(
    ("client", "entry"),
    [
        ("claude-desktop", {"command": "npx", "args": ["-y", "mcp-remote", "https://x.org/mcp"]}),
        ("claude-code", {"type": "http", "url": "https://x.org/mcp"}),
        ("cursor", {"url": "https://x.org/mcp"}),
        ("vscode", {"type": "http", "url": "https://x.org/mcp"}),
        ("inspector", {"type": "streamable-http", "url": "https://x.org/mcp"}),
    ],
)
def test_an_endpoint_is_configured(run: Run, client: str, entry: dict[str, object]):
    out, _ = run("mcp_config", "--client", client, "--http", "https://x.org/mcp")

    key = "servers" if client == "vscode" else "mcpServers"
    assert json.loads(out) == {key: {"example-shop": entry}}
    by_program, _ = run("mcp_config", "--client", client)
    program = next(iter(json.loads(by_program)[key].values()))
    assert program["args"][-1] == "mcp_stdio"


@pytest.mark.parametrize(
    ("url", "is_told"),
    [
        ("https://x.org/mcp", False),
        ("https://x.org/prefix/mcp", False),
        ("https://x.org/mpc", True),
        ("https://x.org//", True),
    ],
)
def test_a_path_that_the_site_does_not_serve_is_told(run: Run, url: str, is_told: bool):
    out, err = run("mcp_config", "--client", "cursor", "--http", url)

    assert json.loads(out)["mcpServers"]["example-shop"] == {"url": url}
    assert ("The site has the server 'example-shop' at /mcp" in err) == is_told


@pytest.mark.parametrize(
    ("url", "complete"),
    [
        ("https://x.org", "https://x.org/mcp"),
        ("http://127.0.0.1:8620/", "http://127.0.0.1:8620/mcp"),
        ("https://x.org?a=1", "https://x.org/mcp?a=1"),
    ],
)
def test_a_url_without_a_path_gets_that_of_the_only_endpoint(run: Run, url: str, complete: str):
    out, err = run("mcp_config", "--client", "cursor", "--http", url)

    assert json.loads(out)["mcpServers"]["example-shop"] == {"url": complete}
    assert "has no path; the site has the server 'example-shop' at /mcp." in err
    assert "is the URL right?" not in err


@pytest.mark.parametrize("prefixes", [["a/", "b/"], ["t/<slug:tenant>/"], []])
def test_a_url_without_a_path_is_told_where_no_path_is_the_only_one(
    run: Run, monkeypatch: pytest.MonkeyPatch, prefixes: list[str]
):
    server = MCPServer("elsewhere", public=True)
    patterns = [path(prefix, server.urls) for prefix in prefixes]
    conf = ModuleType("urls_of_elsewhere")
    conf.urlpatterns = patterns  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, conf.__name__, conf)
    with override_settings(ROOT_URLCONF=conf.__name__):
        out, err = run(
            "mcp_config", "--client", "cursor", "--server", "elsewhere", "--http", "https://x.org"
        )

    assert json.loads(out)["mcpServers"]["elsewhere"] == {"url": "https://x.org"}
    assert "is the URL right?" in err


@pytest.mark.parametrize(
    ("client", "place"),
    [
        ("claude-desktop", {"env": {"AUTHORIZATION": "Bearer <your key>"}}),
        *(
            (client, {"headers": {"Authorization": "Bearer <your key>"}})
            for client in ("claude-code", "cursor", "vscode", "inspector")
        ),
    ],
)
def test_an_api_key_server_gets_a_placeholder_for_the_key(
    run: Run, client: str, place: dict[str, object]
):
    keyed = MCPServer("keyed", authenticators=[APIKeyAuthenticator()])
    public = MCPServer("open", authenticators=[APIKeyAuthenticator()], public=True)
    oauth = MCPServer("oauth", authenticators=[APIKeyAuthenticator(), BearerAuthenticator()])

    def entry_of(server: MCPServer) -> Any:
        arguments = ("--server", server.name, "--http", "https://x.org/mcp")
        out, _ = run("mcp_config", "--client", client, *arguments)
        return next(iter(json.loads(out).values()))[server.name]

    assert place.items() <= entry_of(keyed).items()
    assert all("<your key>" not in str(entry_of(server)) for server in (public, oauth))


def test_instructions_are_in_english_in_every_language(run: Run):
    with translation.override("de"):
        _, told = run("mcp_config", "--client", "vscode")

    assert told.strip() == "Add it to .vscode/mcp.json of the workspace."


@pytest.mark.django_db
def test_the_server_and_user_options_are_passed_on(run: Run):
    get_user_model().objects.create_user("ann")

    out, _ = run(
        "mcp_config", "--client", "claude-desktop", "--server", "shop-staff", "--user", "ann"
    )

    arguments = json.loads(out)["mcpServers"]["shop-staff"]["args"]
    assert arguments[-5:] == ["mcp_stdio", "--server", "shop-staff", "--user", "ann"]


@pytest.mark.django_db
def test_only_a_user_accepted_by_stdio_is_configured(run: Run):
    get_user_model().objects.create_superuser("root")
    command = ("mcp_config", "--client", "cursor", "--user")

    for name, told in (("nope", "no user 'nope'"), ("", "no user ''"), ("root", "--superuser")):
        with pytest.raises(CommandError, match=told):
            run(*command, name)
    entry = json.loads(run(*command, "root", "--superuser")[0])["mcpServers"]["example-shop"]
    assert entry["args"][-4:] == ["mcp_stdio", "--user", "root", "--superuser"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--http", "x.org/mcp"], "not a URL"),
        (["--http", "http://[x"], "not a URL"),
        (["--http", "ftp://x.org/mcp"], "not a URL"),
        (["--http", "https://me:secret@x.org/mcp"], "credentials"),
        (["--http", "https://x.org/mcp", "--user", "ann"], "for stdio"),
        (["--server", "nothing"], "No MCP server"),
        (["--client", "telnet"], "invalid choice"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mcp_config_rejects_invalid_options(run: Run, arguments: list[str], told: str):
    with pytest.raises(CommandError, match=told) as raised:
        run("mcp_config", "--client", "cursor", *arguments)

    assert "secret" not in str(raised.value)


# -- mcp_surface


_numbers = count()


@pytest.fixture
def server() -> MCPServer:
    # Servers are found by name until they are garbage-collected.
    server = MCPServer(f"surface-{next(_numbers)}")

    @server.tool(permission="shop.view_order", scopes=["orders"])
    def find(query: str) -> str:
        """Find."""
        return query

    @server.tool
    def add(a: int) -> int:
        """Add."""
        return a

    return server


def surface(server: MCPServer) -> tuple[str, ...]:
    return ("mcp_surface", "--server", server.name)


def test_a_written_snapshot_passes_the_check(run: Run, server: MCPServer, tmp_path: Path):
    file = tmp_path / "surface.json"

    run(*surface(server), "--write", str(file))

    assert "is up to date" in run(*surface(server), "--check", str(file))[0]
    found = json.loads(file.read_text())
    assert list(found["tools"]) == ["add", "find"]
    assert found["tools"]["find"]["access"] == {
        "permission": ["shop.view_order"],
        "scopes": ["orders"],
    }
    assert file.read_text() == run(*surface(server))[0]
    # Formatting is a matter of taste.
    file.write_text(json.dumps(dict(reversed(found.items()))))
    run(*surface(server), "--check", str(file))


def test_every_change_fails_with_a_diff(run: Run, server: MCPServer, tmp_path: Path):
    file = tmp_path / "surface.json"
    run(*surface(server), "--write", str(file))
    server.remove_tool("add")

    @server.tool
    def new() -> str:
        """Be new."""
        return ""

    server.remove_tool("find")

    @server.tool
    def find(query: str, limit: int = 5) -> str:
        """Find."""
        return query

    out = StringIO()
    with pytest.raises(
        CommandError, match="added tool new; removed tool add; changed tool find"
    ) as raised:
        call_command(*surface(server), "--check", str(file), stdout=out)

    assert raised.value.returncode == 1
    assert re.search(r'^\+ +"limit": \{', out.getvalue(), re.MULTILINE)
    assert re.search(r'^- +"shop.view_order"', out.getvalue(), re.MULTILINE)


def test_a_snapshot_is_the_same_in_every_language(run: Run):
    with translation.override("de"):
        german = run("mcp_surface")[0]

    assert german == run("mcp_surface")[0]
    assert "Find products" in german


def test_mcp_surface_rejects_invalid_snapshots(run: Run, server: MCPServer, tmp_path: Path):
    bad = tmp_path / "bad.json"
    for text, told in (("{", "not JSON"), ("[]", "not a snapshot"), ('{"tools": 1}', "added tool")):
        bad.write_text(text)
        with pytest.raises(CommandError, match=told):
            run(*surface(server), "--check", str(bad))
    bad.write_bytes(b"\xff\xfe")
    for arguments, told in (
        (["--check", str(bad)], "not JSON"),
        (["--check", str(tmp_path / "no.json")], "mcp_surface --write"),
        (["--check", str(tmp_path)], "cannot be read"),
        (["--write", str(tmp_path / "no" / "x.json")], "cannot be written"),
        (["--write", "a", "--check", "b"], "not allowed with"),
    ):
        with pytest.raises(CommandError, match=told):
            run(*surface(server), *arguments)


# -- startmcp


def test_startmcp_requires_an_installed_app(run: Run):
    with pytest.raises(CommandError, match="is it in INSTALLED_APPS") as raised:
        run("startmcp", "nothing")
    text = str(raised.value)
    assert "? Installed apps: " in text
    assert ", shop, " in text
    assert "There is" not in text
    with pytest.raises(CommandError, match="required: app"):
        run("startmcp")


def test_startmcp_checks_the_configured_module_name(run: Run):
    with (
        override_settings(DJANGO_MCP={"AUTODISCOVER_MODULE": "models"}),
        pytest.raises(CommandError, match=r"models\.py already exists\."),
    ):
        run("startmcp", "shop")


def test_two_existing_files_are_reported_in_the_plural(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for name in ("mcp.py", "test_mcp.py"):
        (tmp_path / name).touch()
    monkeypatch.setattr(apps.get_app_config("shop"), "path", str(tmp_path))

    with pytest.raises(CommandError, match=r"mcp\.py and .*test_mcp\.py already exist\."):
        run("startmcp", "shop")
