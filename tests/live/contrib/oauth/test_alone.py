"""`mcp_serve` with OAuth: its clients need no other part of the site to authorize."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.oauth.browser import SITE, Browser
from tests.support.oauth.local_documents import CERTIFICATE
from tests.support.oauth.sdk import SDKClient
from tests.support.sites import ROOT, Running, environment, free_port, wait_until_it_listens


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory, certificate: Path) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("alone")
    extra = {"SHOP_DATABASE": str(folder / "db.sqlite3"), CERTIFICATE: str(certificate)}
    found = environment(SITE, extra)
    subprocess.run(
        [sys.executable, "manage.py", "demo", "--prepare"], cwd=ROOT, env=found, check=True
    )
    port, log = free_port(), folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "manage.py", "mcp_serve", "--port", str(port)],
            cwd=ROOT,
            env=found,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    site = Running(host="127.0.0.1", port=port, process=process, log=log)
    try:
        wait_until_it_listens(site)
        yield site
    finally:
        site.stop()
    assert "Traceback" not in log.read_text()


async def test_a_client_authorizes_knowing_only_the_url(alone: Running):
    client = SDKClient(alone.url, Browser())

    result = await client.call("find_orders")

    assert {order["customer"] for order in json.loads(result.content[0].text)} == {"ada"}
    assert len(client.visits) == 1


def test_the_documents_describe_this_endpoint(alone: Running):
    origin = alone.url.removesuffix("/mcp")
    challenge = httpx.post(alone.url, json={}, timeout=60.0).headers["www-authenticate"]
    found = {
        name: httpx.get(f"{origin}/.well-known/oauth-{name}", timeout=60.0)
        for name in ("protected-resource", "protected-resource/mcp", "authorization-server")
    }

    assert f'resource_metadata="{origin}/.well-known/oauth-protected-resource/mcp"' in challenge
    assert [each.status_code for each in found.values()] == [200] * 3
    assert found["protected-resource"].json()["resource"] == alone.url
    assert found["protected-resource/mcp"].json()["authorization_servers"] == [origin]
    assert found["authorization-server"].json()["issuer"] == origin


def test_its_pages_have_a_style(alone: Running):
    origin = alone.url.removesuffix("/mcp")

    style = httpx.get(f"{origin}/oauth/page.0123456789abcdef.css", timeout=60.0)

    assert (style.status_code, style.headers["content-type"]) == (200, "text/css; charset=utf-8")


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/staff/mcp",
        "/admin/",
        "/products/mug/",
        "/oauthx/token/",
        "/login/../admin/",
        "/login/deeper/",
        "/oauth/../admin/",
        "/.well-known/oauth-protected-resource/staff/mcp",
        "/.well-known/openid-configuration",
    ],
)
def test_nothing_else_of_the_site_is_served(alone: Running, path: str):
    url = httpx.URL(alone.url).copy_with(raw_path=path.encode())

    assert httpx.get(url, timeout=60.0).status_code == 404
