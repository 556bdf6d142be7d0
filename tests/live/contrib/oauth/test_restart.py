"""A client stays signed in, and in its session, while the site is stopped and started again, also with a new key."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.support.oauth.browser import SITE, Browser
from tests.support.sites import ROOT, Running, environment, running
from tests.support.wire import V2025_11_25, headers_for, message

PUBLIC = "http://localhost:8000"
"""The address that clients use, so that a token is for the same endpoint whatever port is free."""

REDIRECT = "http://127.0.0.1:33418/callback"
OAUTH_PAGE = ROOT / "docs" / "howto" / "oauth.md"
VERIFIER = "v" * 64
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest())[:-1].decode()


def post(site: Running, page: str, **form: str) -> dict[str, Any]:
    response = httpx.post(f"{site.url.removesuffix('/mcp')}/oauth/{page}/", data=form)
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


def sign_in(site: Running, scope: str = "shop") -> tuple[str, dict[str, Any]]:
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
        "scope": scope,
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
    headers = {**headers_for(request, V2025_11_25), "Authorization": f"Bearer {token}"}
    if session:
        headers["Mcp-Session-Id"] = session
    return httpx.post(site.url, json=request, headers=headers)


def test_tokens_and_sessions_survive_a_restart(tmp_path: Path):
    extra = {"SHOP_DATABASE": str(tmp_path / "db.sqlite3"), "TESTS_SHOP_URL": PUBLIC}
    prepare = [sys.executable, "manage.py", "demo", "--prepare"]
    subprocess.run(prepare, cwd=ROOT, env=environment(SITE, extra), check=True)
    list_tools = message("tools/list", revision=V2025_11_25)
    with running(SITE, "uvicorn", log=tmp_path / "before.log", extra=extra) as site:
        client_id, tokens = sign_in(site)
        hello = message(
            "initialize",
            {
                "protocolVersion": V2025_11_25.name,
                "capabilities": {},
                "clientInfo": {"name": "tests", "version": "1"},
            },
            revision=V2025_11_25,
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


def make_key() -> str:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()


def read_id_token(token: str, keys: httpx.Response, client_id: str) -> dict[str, Any]:
    """Return the claims of an ID token that one of the published keys has signed."""
    published = jwt.PyJWKSet.from_dict(keys.json())
    key = published[jwt.get_unverified_header(token)["kid"]]
    found: dict[str, Any] = jwt.decode(token, key, ["RS256"], audience=client_id)
    return found


def test_a_sign_in_survives_the_rotation_of_the_key(tmp_path: Path):
    old, new = make_key(), make_key()
    base = {"SHOP_DATABASE": str(tmp_path / "db.sqlite3"), "TESTS_SHOP_URL": PUBLIC}
    scopes = {"openid": "Know who you are", "shop": "Look at products", "orders:write": "Order"}

    def with_keys(current: str, earlier: list[str]) -> dict[str, str]:
        given = {
            "OIDC_ENABLED": True,
            "SCOPES": scopes,
            "OIDC_RSA_PRIVATE_KEY": current,
            "OIDC_RSA_PRIVATE_KEYS_INACTIVE": earlier,
        }
        return {**base, "TESTS_OAUTH2_PROVIDER": json.dumps(given)}

    prepare = [sys.executable, "manage.py", "demo", "--prepare"]
    found = environment(SITE, with_keys(old, []))
    subprocess.run(prepare, cwd=ROOT, env=found, check=True)
    list_tools = message("tools/list", revision=V2025_11_25)
    with running(SITE, "uvicorn", log=tmp_path / "before.log", extra=with_keys(old, [])) as site:
        client_id, tokens = sign_in(site, "openid shop")

    with running(SITE, "uvicorn", log=tmp_path / "after.log", extra=with_keys(new, [old])) as site:
        keys = httpx.get(f"{site.url.removesuffix('/mcp')}/oauth/jwks.json")
        claims = read_id_token(tokens["id_token"], keys, client_id)
        other_id, others = sign_in(site, "openid shop")
        read_id_token(others["id_token"], keys, other_id)
        accepted = call(site, tokens["access_token"], list_tools)
        again = post(
            site,
            "token",
            grant_type="refresh_token",
            refresh_token=tokens["refresh_token"],
            client_id=client_id,
        )
    with running(SITE, "uvicorn", log=tmp_path / "last.log", extra=with_keys(new, [])) as site:
        without = httpx.get(f"{site.url.removesuffix('/mcp')}/oauth/jwks.json")

    assert accepted.status_code != 401
    assert again["access_token"]
    assert jwt.get_unverified_header(others["id_token"]) != jwt.get_unverified_header(
        tokens["id_token"]
    )
    # As long as the documentation says: what the old key signed is over, and nobody has cached the new set.
    (hours,) = re.findall(r"remove it after (\d+) hours", OAUTH_PAGE.read_text())
    (cached_s,) = re.findall(r"max-age=(\d+)", keys.headers["cache-control"])
    assert claims["exp"] - claims["iat"] + int(cached_s) <= int(hours) * 3600
    with pytest.raises(KeyError):
        read_id_token(tokens["id_token"], without, client_id)
