"""The metadata that challenges name: it answers, and is about what the client connects to."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import anyio
import httpx
import pytest
from mcp.client.session import ClientSession
from mcp.client.sse import sse_client
from mcp.shared.auth_utils import check_resource_allowed

from tests.support.oauth.browser import SITE, Browser
from tests.support.sites import ROOT, Running, environment, running

PREFIX = "/shop"
REDIRECT = "http://127.0.0.1:9/back"
VERIFIER = "v" * 64
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest())[:-1].decode()
METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "PROPFIND"]
CREDENTIALS = [None, "Bearer of-another-site", "Basic eDp5"]
MOUNTS = {"uvicorn": ["", "/staff", "/storefront"], "mcp_serve": [""]}
METADATA = re.compile(r'resource_metadata="([^"]*)"')


SITES = [
    ("uvicorn", ""),
    ("uvicorn", "FORCE_SCRIPT_NAME"),
    ("mcp_serve", ""),
    ("mcp_serve", "FORCE_SCRIPT_NAME"),
]
"""The name of a server, and how it learns of its prefix."""

STRIPPED = ("uvicorn", "root_path")

everywhere = pytest.mark.parametrize("site", [*SITES, STRIPPED], ids="-".join, indirect=True)
without_proxy = pytest.mark.parametrize("site", SITES, ids="-".join, indirect=True)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("challenges") / "db.sqlite3"
    prepare = [sys.executable, "manage.py", "demo", "--prepare"]
    found = environment(SITE, {"SHOP_DATABASE": str(path)})
    subprocess.run(prepare, cwd=ROOT, env=found, check=True)
    return path


@pytest.fixture(scope="module")
def site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, database: Path
) -> Iterator[Running]:
    server, how = request.param
    folder = tmp_path_factory.mktemp("site")
    extra = {
        "SHOP_DATABASE": str(shutil.copy(database, folder)),
        "TESTS_DJANGO_MCP": json.dumps({"LEGACY_SSE": True}),
    }
    if how == "FORCE_SCRIPT_NAME":
        extra["TESTS_SCRIPT_NAME"] = PREFIX
    options = ["--root-path", PREFIX] if how == "root_path" else []
    log = folder / "log"
    with running(SITE, server, log=log, extra=extra, options=options) as found:
        yield found


@pytest.fixture
def how(site: Running, request: pytest.FixtureRequest) -> tuple[str, str]:
    found: tuple[str, str] = request.node.callspec.params["site"]
    return found


class Outside:
    """The site as clients see it, whose proxy takes the prefix away if the server adds it."""

    def __init__(self, site: Running, how: tuple[str, str]) -> None:
        self.origin = f"http://{site.host}:{site.port}"
        self.root = self.origin + (PREFIX if how[1] else "")
        self.is_stripped = how[1] == "root_path"
        self.client = httpx.Client(timeout=30)

    def at(self, url: str) -> str:
        """Return where a public URL is on this machine."""
        assert url.startswith(f"{self.root}/"), url
        return url.replace(self.root, self.origin, 1) if self.is_stripped else url

    def ask(self, method: str, url: str, **options: Any) -> httpx.Response:
        return self.client.request(method, self.at(url), **options)


@pytest.fixture
def outside(site: Running, how: tuple[str, str]) -> Iterator[Outside]:
    found = Outside(site, how)
    with found.client:
        yield found


@everywhere
@pytest.mark.parametrize("authorization", CREDENTIALS)
def test_every_challenge_leads_to_metadata_of_the_resource(
    outside: Outside, how: tuple[str, str], authorization: str | None
):
    headers = {} if authorization is None else {"Authorization": authorization}
    for mount in MOUNTS[how[0]]:
        for path, resource in (
            ("/mcp", "/mcp"),
            ("/mcp/", "/mcp"),
            ("/sse", "/sse"),
            ("/messages?session_id=none", "/sse"),
        ):
            for method in METHODS:
                answer = outside.ask(method, outside.root + mount + path, headers=headers)

                assert answer.status_code == 401, (method, path, answer.text)
                (url,) = METADATA.findall(answer.headers["www-authenticate"])
                found = outside.ask("GET", url)
                assert found.status_code == 200, (method, path, url)
                wanted = outside.root + mount + resource
                assert found.json()["resource"] == wanted
                # What the official clients do with it.
                assert check_resource_allowed(wanted, found.json()["resource"])
                assert found.json()["authorization_servers"] == [outside.root]
    server = outside.ask("GET", f"{outside.root}/.well-known/oauth-authorization-server").json()
    assert server["issuer"] == outside.root


@everywhere
def test_no_other_path_names_metadata_that_is_not_there(outside: Outside):
    for path in ("token/", "revoke/", "register/", "register/nobody/", "userinfo/", "authorized/"):
        for method in METHODS:
            answer = outside.ask(
                method,
                f"{outside.root}/oauth/{path}",
                headers={
                    "Authorization": "Bearer of-another-site",
                    "Content-Type": "application/x-www-form-urlencoded",
                },
                content=b"grant_type=refresh_token&refresh_token=x&client_id=nobody",
            )

            for url in METADATA.findall(answer.headers.get("www-authenticate", "")):
                assert outside.ask("GET", url).status_code == 200, (method, path, url)


def token_for(outside: Outside, resource: str, scope: str) -> str:
    """Return a token of ada's, for which she has allowed a new client."""
    client = {"redirect_uris": [REDIRECT], "token_endpoint_auth_method": "none"}
    registered = outside.ask("POST", f"{outside.root}/oauth/register/", json=client).json()
    query = {
        "response_type": "code",
        "client_id": registered["client_id"],
        "redirect_uri": REDIRECT,
        "code_challenge": CHALLENGE,
        "code_challenge_method": "S256",
        "scope": scope,
        "resource": resource,
    }
    code = Browser().visit(f"{outside.root}/oauth/authorize/?{urlencode(query)}")["code"]
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": REDIRECT,
        "client_id": registered["client_id"],
        "code_verifier": VERIFIER,
    }
    answer = outside.ask("POST", f"{outside.root}/oauth/token/", data=form)
    return str(answer.json()["access_token"])


@without_proxy
def test_a_challenge_for_more_scopes_leads_there_as_well(outside: Outside):
    url = f"{outside.root}/mcp"
    token = token_for(outside, url, "shop")
    call = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "place_order", "arguments": {"lines": [{"sku": "mug", "quantity": 1}]}},
    }
    headers = {
        "Authorization": f"Bearer {token}",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Mcp-Name": "place_order",
    }
    call["params"]["_meta"] = {  # type: ignore[index]
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "tests", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }

    answer = outside.ask("POST", url, json=call, headers=headers)

    assert answer.status_code == 403, answer.text
    (metadata,) = METADATA.findall(answer.headers["www-authenticate"])
    assert outside.ask("GET", metadata).json()["resource"] == url


@without_proxy
async def test_a_client_of_http_with_sse_signs_in(outside: Outside):
    url = f"{outside.root}/sse"
    token = await anyio.to_thread.run_sync(token_for, outside, url, "shop")
    bearer = {"Authorization": f"Bearer {token}"}

    async with (
        sse_client(url, headers=bearer) as streams,
        ClientSession(*streams) as session,
    ):
        await session.initialize()
        result = await session.call_tool("find_orders", {})

    assert not result.is_error
    elsewhere = await anyio.to_thread.run_sync(
        lambda: outside.ask("POST", f"{outside.root}/mcp", json={}, headers=bearer)
    )
    assert elsewhere.status_code == 401
    assert "not for this resource" in elsewhere.text
