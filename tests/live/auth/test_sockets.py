"""Authentication over real sockets, behind each supported server."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from tests.support.auth.issuer import unsigned
from tests.support.http.rawhttp import Response, connect, post
from tests.support.sites import ROOT, Running, environment, running
from tests.support.wire import V2026_07_28, headers_for, message

SITE = "tests.support.site.keyed"


@pytest.fixture(scope="module", params=["uvicorn", "daphne", "wsgi"])
def site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp(f"auth-{request.param}")
    extra = {"AUTH_DATABASE": str(folder / "db.sqlite3")}
    subprocess.run(
        [sys.executable, "-m", "django", "migrate", "-v", "0"],
        cwd=ROOT,
        env=environment(SITE, extra),
        check=True,
    )
    with running(SITE, request.param, log=folder / "log", extra=extra) as found:
        yield found


def request_of(name: str, **arguments: Any) -> dict[str, Any]:
    return message("tools/call", {"name": name, "arguments": arguments}, revision=V2026_07_28)


def control(site: Running, name: str, **arguments: Any) -> str:
    request = request_of(name, **arguments)
    url = site.url.replace("/mcp", "/control/mcp")
    answer = httpx.post(url, json=request, headers=headers_for(request, V2026_07_28), timeout=20)
    return text_of(answer)


def key_of(site: Running, username: str) -> str:
    return control(site, "make_key", username=username)


def call(
    site: Running, name: str, key: str | None = None, *, url: str | None = None, **more: Any
) -> httpx.Response:
    request = request_of(name)
    headers = headers_for(request, V2026_07_28)
    if key is not None:
        headers["authorization"] = f"Bearer {key}"
    return httpx.post(url or site.url, json=request, headers=headers, timeout=20, **more)


def text_of(answer: httpx.Response) -> str:
    text: str = answer.json()["result"]["content"][0]["text"]
    return text


def until_refused(site: Running, key: str) -> httpx.Response:
    """Retry until the verdict on a key, which is cached for two seconds, has expired."""
    deadline = time.monotonic() + 10
    while (answer := call(site, "who", key)).status_code == 200:
        assert time.monotonic() < deadline
    return answer


async def test_two_users_are_never_confused(site: Running):
    keys = {name: key_of(site, name) for name in ("ada", "grace")}

    async def ask(client: httpx.AsyncClient, username: str, tool: str) -> str:
        request = request_of(tool)
        headers = {**headers_for(request, V2026_07_28), "authorization": f"Bearer {keys[username]}"}
        return text_of(await client.post(site.url, json=request, headers=headers))

    asked = [
        (username, tool)
        for _ in range(25)
        for username in keys
        for tool in ("who", "who_in_thread")
    ]
    async with httpx.AsyncClient(timeout=30) as client:
        answers = await asyncio.gather(*(ask(client, *each) for each in asked))

    assert answers == [username for username, _ in asked]


@pytest.mark.parametrize("mode", ["legacy", "auto", "2026-07-28"])
async def test_the_official_client_calls_with_a_key(site: Running, mode: Any):
    headers = {"authorization": f"Bearer {key_of(site, 'ada')}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=30) as http,
        Client(streamable_http_client(site.url, http_client=http), mode=mode) as client,
    ):
        result = await client.call_tool("who_in_thread", {})

    assert [getattr(block, "text", None) for block in result.content] == ["ada"]


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
@pytest.mark.parametrize("way", ["path", "header"])
async def test_the_official_client_sees_only_the_toolsets_that_it_names(
    site: Running, mode: Any, way: str
):
    headers = {"authorization": f"Bearer {key_of(site, 'ada')}"}
    url = f"{site.url}/x/people,nowhere" if way == "path" else site.url
    if way == "header":
        headers["x-mcp-toolsets"] = "people, nowhere"
    async with (
        httpx2.AsyncClient(headers=headers, timeout=30) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        assert [tool.name for tool in (await client.list_tools()).tools] == ["who"]
        result = await client.call_tool("who", {})
        with pytest.raises(MCPError, match="Unknown tool: who_in_thread"):
            await client.call_tool("who_in_thread", {})

    assert [getattr(block, "text", None) for block in result.content] == ["ada"]


@pytest.mark.parametrize("limit", ["principal", "address", "tool", "failures"])
def test_rate_limited_clients_get_retry_after(site: Running, limit: str):
    url = site.url.replace("/mcp", f"/{limit}/mcp")
    anns, bobs = key_of(site, f"ann {limit}"), key_of(site, f"bob {limit}")
    asking = "mcp_wrong_key" if limit == "failures" else anns
    answers = [call(site, "who", asking, url=url) for _ in range(3)]

    assert {each.status_code for each in answers[:2]} <= {200, 401}
    assert answers[2].status_code == 429
    seconds = int(answers[2].headers["retry-after"])
    assert 0 < seconds <= 86_400
    assert answers[2].json()["error"]["data"]["retryAfterS"] == seconds
    # They share one IP address.
    other = call(site, "who", bobs, url=url)
    assert other.status_code == (429 if limit in ("address", "failures") else 200)
    assert ("retry-after" in other.headers) is (other.status_code == 429)


def test_without_a_key_every_request_gets_401(site: Running):
    answer = call(site, "who")

    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == 'Bearer realm="keyed"'
    assert answer.json()["error"]["code"] == -32600


def test_discover_requires_authentication(site: Running):
    request = message("server/discover", revision=V2026_07_28)
    headers = headers_for(request, V2026_07_28)
    key = key_of(site, "ada")
    stranger = httpx.post(site.url, json=request, headers=headers, timeout=60.0)
    known = httpx.post(
        site.url, json=request, headers={**headers, "authorization": f"Bearer {key}"}, timeout=60.0
    )

    assert (stranger.status_code, known.status_code) == (401, 200)


@pytest.mark.parametrize("method", ["GET", "DELETE", "POST"])
def test_every_method_requires_authentication(site: Running, method: str):
    """A session's id is no credential."""
    headers = {
        "accept": "application/json, text/event-stream",
        "content-type": "application/json",
        "mcp-session-id": "x" * 43,
    }

    assert httpx.request(method, site.url, headers=headers, timeout=60.0).status_code == 401


def test_a_server_without_settings_is_closed(site: Running):
    request = request_of("who")
    url = site.url.replace("/mcp", "/closed/mcp")

    answer = httpx.post(url, json=request, headers=headers_for(request, V2026_07_28), timeout=60.0)

    assert answer.status_code == 403
    assert answer.json()["error"]["message"] == "This server is not configured to accept requests."


@pytest.mark.parametrize("parameter", ["access_token", "token", "api_key", "authorization"])
def test_a_key_in_the_query_string_is_ignored(site: Running, parameter: str):
    assert call(site, "who", params={parameter: key_of(site, "ada")}).status_code == 401


def test_a_revoked_key_and_a_deactivated_user_are_rejected(site: Running):
    revoked, deactivated = key_of(site, "joan"), key_of(site, "jean")
    assert text_of(call(site, "who", revoked)) == "joan"
    assert text_of(call(site, "who", deactivated)) == "jean"

    control(site, "revoke", prefix=revoked.split("_")[1])
    control(site, "deactivate", username="jean")

    for key in (revoked, deactivated):
        assert 'error="invalid_token"' in until_refused(site, key).headers["www-authenticate"]


def test_the_use_of_a_key_is_recorded(site: Running):
    key = key_of(site, "mary")
    prefix = key.split("_")[1]
    assert control(site, "last_used", prefix=prefix) == "never"

    call(site, "who", key)

    deadline = time.monotonic() + 10
    while control(site, "last_used", prefix=prefix) == "never":
        assert time.monotonic() < deadline


def test_a_handler_sees_no_key(site: Running):
    key = key_of(site, "ada")
    bearer = {"authorization": f"Bearer {key}"}
    for headers in (bearer, {"x-api-key": key}, {**bearer, "proxy-authorization": f"Basic {key}"}):
        request = request_of("request_as_seen")
        answer = httpx.post(
            site.url,
            json=request,
            headers={**headers_for(request, V2026_07_28), **headers},
            timeout=60.0,
        )

        assert answer.status_code == 200, answer.text
        assert answer.json()["result"].get("isError") is not True, answer.text
        assert key.split("_", 2)[2] not in answer.text


def test_a_handler_sees_no_cookie(site: Running):
    request = request_of("request_as_seen")
    answer = httpx.post(
        site.url,
        json=request,
        headers={
            **headers_for(request, V2026_07_28),
            "authorization": f"Bearer {key_of(site, 'ada')}",
            "cookie": "theme=dark; sessionid=cookie-of-ada; language=de",
        },
        timeout=60.0,
    )

    assert answer.status_code == 200, answer.text
    told = answer.json()["result"]["structuredContent"]
    assert "cookie-of-ada" not in answer.text
    assert told["cookies"] == "{}"
    assert "theme=dark" not in told["meta"]


# -- bad input


def raw_request(lines: list[tuple[str, str]]) -> bytes:
    request = request_of("who")
    whole = post("/mcp", json.dumps(request).encode(), headers_for(request, V2026_07_28))
    top, _, rest = whole.partition(b"\r\n")
    added = b"".join(f"{name}: {value}\r\n".encode("latin-1") for name, value in lines)
    return top + b"\r\n" + added + rest


async def ask(site: Running, raw: bytes) -> Response:
    async with connect(site.host, site.port) as client:
        return await client.ask(raw)


NONE = unsigned({"alg": "none"}, {"sub": "ada"})
BAD = {
    "nothing": "Bearer",
    "blank": "Bearer ",
    "two": "Bearer a b",
    "unknown": "Bearer mcp_000000000000_" + "x" * 43,
    "malformed": "Bearer mcp_canary",
    "none": f"Bearer {NONE}",
    "scheme": "Basic YWRhOmNhbmFyeQ==",
    "no scheme": "canary",
    "not ASCII": "Bearer can\xe4ry",
    "comma": "Bearer canary, Bearer canary",
    "long": "Bearer " + "canary" * 1000,
    "tab": "Bearer\tcanary",
}


@pytest.mark.parametrize("name", BAD)
async def test_bad_credentials_are_rejected(site: Running, name: str):
    answer = await ask(site, raw_request([("Authorization", BAD[name])]))

    assert answer.status in (400, 401), answer
    assert answer.headers["www-authenticate"].startswith("Bearer ")
    assert b"canary" not in answer.body
    assert "canary" not in str(answer.headers)


async def test_several_credentials_are_rejected(site: Running):
    key = key_of(site, "ada")
    lines = [("Authorization", f"Bearer {key}"), ("Authorization", f"Bearer {key}")]

    assert (await ask(site, raw_request(lines))).status == 400


async def test_a_nul_is_rejected_by_the_server_or_the_endpoint(site: Running):
    """Servers reject it themselves, some by closing the connection."""
    try:
        answer = await ask(site, raw_request([("Authorization", "Bearer can\0ary")]))
    except (asyncio.IncompleteReadError, ConnectionError):
        return
    assert answer.status in (400, 401)


async def test_100_kb_are_rejected_by_the_server_or_the_endpoint(site: Running):
    """Servers have their own limits, and may close the connection before reading everything."""
    try:
        answer = await ask(site, raw_request([("Authorization", "Bearer " + "x" * 100_000)]))
    except (asyncio.IncompleteReadError, ConnectionError):
        return
    assert answer.status in (400, 401, 431)


def test_no_credentials_are_logged(site: Running):
    key = key_of(site, "ada")
    assert text_of(call(site, "who", key)) == "ada"
    call(site, "who", f"{key}x")
    log = Path(site.log).read_text()

    # Our log contains the rejections, but not the rejected credentials.
    assert "The API key is unknown" in log
    # The secret may contain the separator.
    assert key.split("_", 2)[2] not in log
    assert "canary" not in log
    assert "Traceback" not in log


async def test_a_key_in_a_trailer_gives_no_access(site: Running):
    key = await asyncio.to_thread(key_of, site, "trailing")
    request = request_of("who")
    body = json.dumps(request).encode()
    fixed = {"Content-Length": "", **headers_for(request, V2026_07_28)}

    async def status(headers: dict[str, str], trailer: bytes = b"") -> int:
        raw = post("/mcp", b"", {**fixed, **headers, "Transfer-Encoding": "chunked"})
        framed = b"%x\r\n%b\r\n0\r\n%b\r\n" % (len(body), body, trailer)
        async with connect(site.host, site.port) as client:
            return (await client.ask(raw + framed)).status

    bearer = f"Bearer {key}"
    for line in (f"Authorization: {bearer}", f"X-Api-Key: {key}"):
        assert await status({}, f"{line}\r\n".encode()) in (401, 411)
    assert await status({"Authorization": bearer}) == 200
