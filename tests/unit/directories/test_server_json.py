"""`mcp_server_json`: the file with which a server is published in the MCP registry."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import override_settings
from django.urls import include, path

from django_mcp import MCPServer
from django_mcp.auth.authenticators import APIKeyAuthenticator
from django_mcp.contrib.oauth.authenticator import OAuthAuthenticator
from tests.support.commands import Run

SHOP = {
    "NAME": "example shop",
    "TITLE": "The shop",
    "DESCRIPTION": "Find products, and order them.",
    "VERSION": "2.1.0",
    "WEBSITE_URL": "https://shop.example.org/about",
    "ICONS": ["https://shop.example.org/icon.png"],
    "PUBLIC": True,
    "PUBLIC_URL": "https://shop.example.org",
}
DOCUMENT: dict[str, Any] = {
    "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
    "name": "org.example.shop/example-shop",
    "title": "The shop",
    "description": "Find products, and order them.",
    "version": "2.1.0",
    "websiteUrl": "https://shop.example.org/about",
    "icons": [{"src": "https://shop.example.org/icon.png"}],
    "remotes": [{"type": "streamable-http", "url": "https://shop.example.org/mcp"}],
}

by_tenant = MCPServer("server-json-by-tenant", public=True, description="One for each tenant.")

urlpatterns = [
    path("", include("django_mcp.urls")),
    path("of/<slug:tenant>/", by_tenant.urls),
]


@pytest.fixture(autouse=True)
def _site() -> Iterator[None]:
    with override_settings(ROOT_URLCONF=__name__, DJANGO_MCP=SHOP):
        yield


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "server.json"


def write(file: Path, **members: Any) -> None:
    file.write_text(json.dumps({**DOCUMENT, **members}))


def faults(*arguments: str) -> str:
    """Return what the command prints of a file, or of settings, that it refuses."""
    out = StringIO()
    with pytest.raises(CommandError) as raised:
        call_command("mcp_server_json", *arguments, stdout=out, stderr=out)
    assert raised.value.returncode == 1
    return out.getvalue()


def test_the_file_says_what_the_settings_say(run: Run, file: Path):
    run("mcp_server_json", str(file))

    assert json.loads(file.read_text()) == DOCUMENT
    assert "is up to date" in run("mcp_server_json", str(file), "--check")[0]


def test_a_changed_setting_is_found_and_written(run: Run, file: Path):
    run("mcp_server_json", str(file))
    with override_settings(DJANGO_MCP={**SHOP, "VERSION": "2.2.0"}):
        told = faults(str(file), "--check")
        assert json.loads(file.read_text())["version"] == "2.1.0"
        run("mcp_server_json", str(file))

    assert "version differs from the settings" in told
    assert "'2.2.0'" in told
    assert json.loads(file.read_text())["version"] == "2.2.0"


def test_what_is_written_by_hand_stays(run: Run, file: Path):
    repository = {"url": "https://github.com/example/shop", "source": "github"}
    remote = {**DOCUMENT["remotes"][0], "headers": [{"name": "X-Region"}]}
    write(file, name="org.example/shop", repository=repository, remotes=[remote], version="1")

    run("mcp_server_json", str(file))

    found = json.loads(file.read_text())
    assert found == {
        **DOCUMENT,
        "name": "org.example/shop",
        "repository": repository,
        "remotes": [remote],
    }


def test_what_is_missing_is_told_with_the_missing_url(file: Path):
    out = StringIO()
    settings = {name: value for name, value in SHOP.items() if name != "DESCRIPTION"}
    with (
        override_settings(DJANGO_MCP={**settings, "PUBLIC_URL": None}),
        pytest.raises(CommandError, match="--url") as raised,
    ):
        call_command("mcp_server_json", str(file), stdout=out, stderr=out)

    assert raised.value.returncode == 2
    assert "DESCRIPTION" in out.getvalue()
    assert "remotes" not in out.getvalue()
    assert not file.exists()


def test_a_name_made_of_the_default_name_comes_with_a_note(run: Run, file: Path):
    assert "NAME" not in run("mcp_server_json", str(file))[1]
    file.unlink()
    with override_settings(DJANGO_MCP={**SHOP, "NAME": "django-mcp"}):
        assert "Set NAME" in run("mcp_server_json", str(file))[1]
        assert "NAME" not in run("mcp_server_json", str(file))[1]


def test_a_name_that_is_given_replaces_that_of_the_file(run: Run, file: Path):
    write(file)

    run("mcp_server_json", str(file), "--name", "org.example/other")

    assert json.loads(file.read_text())["name"] == "org.example/other"


@pytest.mark.parametrize(
    ("members", "told"),
    [
        ({"name": "no-slash"}, "/name"),
        ({"description": "x" * 101}, "/description: must have at most 100"),
        ({"version": "^2.1.0"}, "no single version"),
        ({"version": "latest"}, "no single version"),
        ({"version": "2.x"}, "no single version"),
        ({"icons": [{"src": "data:image/png;base64,AAAA"}]}, "/icons/0/src"),
        ({"repository": {"url": "https://github.com/example/shop"}}, "/repository/source"),
        ({"remotes": [{"type": "http", "url": "https://x.org/mcp"}]}, "/remotes/0/type"),
        ({"remotes": []}, "names no address"),
        ({"packages": [{"identifier": "shop"}]}, "/packages/0/registryType"),
        (
            {"_meta": {"io.modelcontextprotocol.registry/publisher-provided": {"x": "y" * 5000}}},
            "larger than 4096",
        ),
        ({"$schema": "https://x.org/schema.json"}, "/$schema"),
    ],
)
def test_what_the_registry_refuses_is_named_with_a_remedy(
    file: Path, members: dict[str, Any], told: str
):
    write(file, **members)

    lines = faults(str(file), "--check").splitlines()

    (place,) = [index for index, line in enumerate(lines) if told in line]
    assert lines[place].startswith("fault ")
    assert lines[place + 1].strip()


def test_nothing_is_written_that_the_registry_refuses(file: Path):
    with override_settings(DJANGO_MCP={**SHOP, "DESCRIPTION": None}):
        told = faults(str(file))

    assert "/description: is required" in told
    assert "DESCRIPTION" in told
    assert not file.exists()


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://shop.example.org/mcp", "not https"),
        ("https://shop.example.org:8443/mcp", "port 8443"),
        ("https://localhost/mcp", "'localhost'"),
        ("https://10.0.0.7/mcp", "'10.0.0.7'"),
        ("https://shop.local/mcp", "'shop.local'"),
        ("https://intranet/mcp", "'intranet'"),
        ("https://[::1]/mcp", "'::1'"),
    ],
)
def test_an_address_that_the_internet_does_not_reach_is_refused(file: Path, url: str, why: str):
    told = faults(str(file), "--url", url, "--name", "org.example/shop")

    assert why in told
    assert not file.exists()


def test_a_server_without_one_address_needs_it_by_hand(run: Run, file: Path):
    with pytest.raises(CommandError, match="--url") as raised:
        run("mcp_server_json", str(file), "--server", by_tenant.name)
    assert raised.value.returncode == 2

    remote = {"type": "streamable-http", "url": "https://shop.example.org/of/{tenant}/mcp"}
    variables = {"tenant": {"description": "Your tenant", "isRequired": True}}
    write(file, remotes=[{**remote, "variables": variables}])
    run("mcp_server_json", str(file), "--server", by_tenant.name, "--url", remote["url"])

    assert json.loads(file.read_text())["remotes"] == [{**remote, "variables": variables}]


@pytest.mark.parametrize(
    ("authenticators", "is_told"),
    [
        ([APIKeyAuthenticator()], True),
        ([APIKeyAuthenticator(), OAuthAuthenticator()], False),
        ([OAuthAuthenticator()], False),
    ],
)
def test_clients_are_told_of_a_key_if_nothing_else_is_accepted(
    run: Run, file: Path, authenticators: list[Any], is_told: bool
):
    keyed = MCPServer("keyed", authenticators=authenticators, description="A server.")

    run("mcp_server_json", str(file), "--server", keyed.name, "--url", "https://x.example.org/mcp")

    (remote,) = json.loads(file.read_text())["remotes"]
    assert ("headers" in remote) is is_told
    if is_told:
        (header,) = remote["headers"]
        assert header["name"] == "Authorization"
        assert header["variables"]["api_key"]["isSecret"]


@pytest.mark.parametrize("content", ["{", "[]"])
def test_another_file_is_left_alone(run: Run, file: Path, content: str):
    file.write_text(content)

    with pytest.raises(CommandError, match="is not"):
        run("mcp_server_json", str(file))
    assert file.read_text() == content


def test_a_file_that_is_not_there_cannot_be_checked(run: Run, file: Path):
    with pytest.raises(CommandError, match="There is no"):
        run("mcp_server_json", str(file), "--check")
