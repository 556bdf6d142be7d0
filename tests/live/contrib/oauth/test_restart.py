"""A client stays signed in, and in its session, while the site is stopped and started again."""

from __future__ import annotations

import base64
import hashlib
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx

from tests.support.oauth.browser import SITE, Browser
from tests.support.sites import ROOT, Running, environment, running
from tests.support.wire import R4, headers_for, message

PUBLIC = "http://localhost:8000"
"""The address that clients use, so that a token is for the same endpoint whatever port is free."""

REDIRECT = "http://127.0.0.1:33418/callback"
VERIFIER = "v" * 64
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest())[:-1].decode()


def post(site: Running, page: str, **form: str) -> dict[str, Any]:
    response = httpx.post(f"{site.url.removesuffix('/mcp')}/oauth/{page}/", data=form)
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


def sign_in(site: Running) -> tuple[str, dict[str, Any]]:
    """Return the id of a new client, and its tokens."""
    base = site.url.removesuffix("/mcp")
    metadata = {"redirect_uris": [REDIRECT], "token_endpoint_auth_method": "none"}
    client_id = httpx.post(f"{base}/oauth/register/", json=metadata).json()["client_id"]
    query = {
        "response_type": "code",
        "client_id": client_id,
        "redirect_uri": REDIRECT,
        "code_challenge": CHALLENGE,
        "code_challenge_method": "S256",
        "resource": f"{PUBLIC}/mcp",
        "scope": "shop",
    }
    code = Browser().visit(f"{base}/oauth/authorize/?{urlencode(query)}")["code"]
    tokens = post(
        site,
        "token",
        grant_type="authorization_code",
        code=code,
        redirect_uri=REDIRECT,
        client_id=client_id,
        code_verifier=VERIFIER,
    )
    return client_id, tokens


def call(site: Running, token: str, request: dict[str, Any], session: str = "") -> httpx.Response:
    headers = {**headers_for(request, R4), "Authorization": f"Bearer {token}"}
    if session:
        headers["Mcp-Session-Id"] = session
    return httpx.post(site.url, json=request, headers=headers)


def test_tokens_and_sessions_survive_a_restart(tmp_path: Path):
    extra = {"SHOP_DATABASE": str(tmp_path / "db.sqlite3"), "TESTS_SHOP_URL": PUBLIC}
    prepare = [sys.executable, "manage.py", "demo", "--prepare"]
    subprocess.run(prepare, cwd=ROOT, env=environment(SITE, extra), check=True)
    list_tools = message("tools/list", revision=R4)
    with running(SITE, "uvicorn", log=tmp_path / "before.log", extra=extra) as site:
        client_id, tokens = sign_in(site)
        hello = message(
            "initialize",
            {
                "protocolVersion": R4.name,
                "capabilities": {},
                "clientInfo": {"name": "tests", "version": "1"},
            },
            revision=R4,
        )
        session = call(site, tokens["access_token"], hello).headers["Mcp-Session-Id"]
        before = call(site, tokens["access_token"], list_tools, session).json()["result"]

    with running(SITE, "uvicorn", log=tmp_path / "after.log", extra=extra) as site:
        after = call(site, tokens["access_token"], list_tools, session).json()["result"]
        again = post(
            site,
            "token",
            grant_type="refresh_token",
            refresh_token=tokens["refresh_token"],
            client_id=client_id,
        )
        refreshed = call(site, again["access_token"], list_tools, session).json()["result"]

    assert before["tools"]
    assert after == refreshed == before
