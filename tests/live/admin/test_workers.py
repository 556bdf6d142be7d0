"""The live page of one process, acting on a client whose stream is open in another."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from django_mcp.protocol.json import decode
from tests.support.sites import ROOT, Running, environment, running
from tests.support.wire import V2025_11_25, V2026_07_28, headers_for, message

SITE = "tests.support.site.shop_admin"
LIVE = "/admin/django_mcp/session/live/"
LIMIT_S = 20.0

MAKE_USERS = """
from django.contrib.auth import get_user_model
from django.contrib.sessions.backends.db import SessionStore
users = get_user_model().objects
users.create_user("ada")
boss = users.create_superuser("boss")
session = SessionStore()
session["_auth_user_id"] = str(boss.pk)
session["_auth_user_backend"] = "django.contrib.auth.backends.ModelBackend"
session["_auth_user_hash"] = boss.get_session_auth_hash()
session.save()
print(session.session_key)
"""
CLIENT = "https://client.example/" + "long/" * 20 + "client.json"
GIVE_TOKEN = f"""
from datetime import timedelta
from django.contrib.auth import get_user_model
from django.utils import timezone
from oauth2_provider.models import *
application = get_application_model().objects.create(
    client_id="{CLIENT}", client_type="public", authorization_grant_type="authorization-code",
    redirect_uris="https://client.example/")
shared = {{{{"user": get_user_model().objects.get(username="ada"), "application": application}}}}
token = get_access_token_model().objects.create(
    **shared, token="a-token", scope="shop", resource=[{{resource!r}}],
    expires=timezone.now() + timedelta(hours=1))
get_refresh_token_model().objects.create(**shared, token="a-refresh-token", access_token=token)
"""
COUNT_TOKENS = """
from oauth2_provider.models import *
left = get_refresh_token_model().objects.filter(revoked=None)
print(get_access_token_model().objects.count(), left.count())
"""


class Site:
    """Two processes of one site: an operator uses the first, a client uses the second."""

    def __init__(self, first: Running, second: Running, cookie: str, extra: dict[str, str]) -> None:
        self.first = first
        self.second = second
        self._extra = extra
        self.operator = httpx.Client(
            base_url=f"http://{first.host}:{first.port}", cookies={"sessionid": cookie}, timeout=30
        )

    def run(self, code: str) -> str:
        return run_django(self._extra, "shell", "-v", "0", "-c", code)

    def live(self) -> dict[str, Any]:
        answer = self.operator.get(LIVE + "data/")
        assert answer.status_code == 200
        found: dict[str, Any] = answer.json()
        return found

    def act(self, name: str, id: str, **more: str) -> httpx.Response:
        return self.post(LIVE + "act/", act=name, id=id, **more)

    def post(self, address: str, **data: str) -> httpx.Response:
        self.operator.get(LIVE)
        token = self.operator.cookies["csrftoken"]
        return self.operator.post(address, data=data, headers={"X-CSRFToken": token})

    async def until(self, find: Callable[[dict[str, Any]], Any]) -> Any:
        """Poll the live page until it shows something."""
        async with asyncio.timeout(LIMIT_S):
            while not (found := find(await asyncio.to_thread(self.live))):  # noqa: ASYNC110
                await asyncio.sleep(0.2)
            return found


def run_django(extra: dict[str, str], *command: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "django", *command],
        cwd=ROOT,
        env=environment(SITE, extra),
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return done.stdout.strip()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("workers")
    extra = {"SHOP_DATABASE": str(folder / "db.sqlite3")}
    run_django(extra, "migrate", "-v", "0")
    cookie = run_django(extra, "shell", "-v", "0", "-c", MAKE_USERS)
    with ExitStack() as stack:
        first, second = (
            stack.enter_context(running(SITE, "uvicorn", log=folder / name, extra=extra))
            for name in ("first.log", "second.log")
        )
        site = Site(first, second, cookie, extra)
        stack.enter_context(site.operator)
        yield site


class Listener:
    """A client's session in the second process, with its standalone stream."""

    lines: AsyncIterator[str]

    def __init__(self, client: httpx.AsyncClient, headers: dict[str, str]) -> None:
        self.client = client
        self.headers = headers

    async def send(self, body: dict[str, Any]) -> httpx.Response:
        return await self.client.post("/mcp", json=body, headers=self.headers)

    async def next(self) -> dict[str, Any] | None:
        """Return the next message on the stream; None at its end."""
        async with asyncio.timeout(LIMIT_S):
            async for line in self.lines:
                if line.startswith("data:") and line[5:].strip():
                    found: dict[str, Any] = decode(line[5:].strip())
                    return found
        return None

    async def until(self, method: str) -> dict[str, Any]:
        while (found := await self.next()) is not None:
            if found.get("method") == method:
                return found
        raise AssertionError("the stream has ended")


@asynccontextmanager
async def listening(site: Site, name: str, **more: str) -> AsyncIterator[Listener]:
    hello = {
        "protocolVersion": V2025_11_25.name,
        "capabilities": {},
        "clientInfo": {"name": name, "version": "1"},
    }
    url = f"http://{site.second.host}:{site.second.port}"
    async with httpx.AsyncClient(base_url=url, timeout=LIMIT_S) as client:
        request = message("initialize", hello, revision=V2025_11_25)
        opened = await client.post(
            "/mcp", json=request, headers={**headers_for(request, V2025_11_25), **more}
        )
        assert opened.status_code == 200, opened.text
        headers = {
            **headers_for(message("ping", revision=V2025_11_25), V2025_11_25),
            "mcp-session-id": opened.headers["mcp-session-id"],
            **more,
        }
        listener = Listener(client, headers)
        async with client.stream("GET", "/mcp", headers=headers) as stream:
            assert stream.status_code == 200
            listener.lines = stream.aiter_lines()
            yield listener


def of(client: str, table: str) -> Callable[[dict[str, Any]], Any]:
    """Return what finds the row of a client."""
    return lambda found: next(
        (row for row in found[table] if row["client"].startswith(client)), None
    )


async def test_a_log_message_reaches_a_client_of_another_process(site: Site):
    async with listening(site, "logged") as client:
        stream = await site.until(of("logged", "streams"))
        done = await asyncio.to_thread(site.act, "log", stream["id"], text="Back at six")

        assert done.json() == {"done": "The message is sent."}
        params = (await client.until("notifications/message"))["params"]
        assert (params["data"], params["logger"]) == ("Back at six", "operator")


async def test_a_ping_reaches_a_client_of_another_process_and_shows_its_reply(site: Site):
    async with listening(site, "pinged") as client:
        stream = await site.until(of("pinged", "streams"))
        pinging = asyncio.create_task(asyncio.to_thread(site.act, "ping", stream["id"]))
        asked = await client.until("ping")
        await client.send({"jsonrpc": "2.0", "id": asked["id"], "result": {}})

        assert (await pinging).json()["done"].startswith("The client answered within")


async def test_a_stream_of_another_process_is_closed(site: Site):
    async with listening(site, "closed") as client:
        stream = await site.until(of("closed", "streams"))
        await asyncio.to_thread(site.act, "close", stream["id"])

        while await client.next() is not None:
            pass


async def test_a_revoked_oauth_token_is_rejected_and_its_streams_end(site: Site):
    site.run(GIVE_TOKEN.format(resource=site.second.url))
    async with listening(site, "app", authorization="Bearer a-token") as client:
        session = await site.until(of("app", "sessions"))
        assert session["user"] == "ada"
        call = message("tools/list", revision=V2025_11_25)
        assert (await client.send(call)).status_code == 200
        done = await asyncio.to_thread(site.act, "revoke", session["id"])

        assert done.json() == {"done": "The credentials are revoked, and the session is ended."}
        while await client.next() is not None:
            pass
        async with asyncio.timeout(LIMIT_S):
            # A process caches the verdict on a token for two seconds.
            while (await client.send(call)).status_code != 401:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
    assert site.run(COUNT_TOKENS) == "0 0"


async def test_selected_sessions_are_ended_from_their_list(site: Site):
    async with listening(site, "listed") as client:
        session = await site.until(of("listed", "sessions"))
        data = {"action": "end_selected", "_selected_action": session["id"], "confirmed": "1"}
        done = await asyncio.to_thread(site.post, "/admin/django_mcp/session/", **data)

        assert done.status_code == 302
        while await client.next() is not None:
            pass


async def test_requests_in_flight_are_shown_per_session_caller_and_worker(
    site: Site, tmp_path: Path
):
    sign = tmp_path / "sign"
    params = {"name": "wait_for", "arguments": {"path": str(sign)}}
    async with listening(site, "waiting") as client:
        modern = message("tools/call", params, revision=V2026_07_28)
        calls = [
            asyncio.create_task(
                client.send(message("tools/call", params, revision=V2025_11_25, id=id))
            )
            for id in (1, 2)
        ] + [
            asyncio.create_task(
                client.client.post("/mcp", json=modern, headers=headers_for(modern, V2026_07_28))
            )
        ]

        def running(found: dict[str, Any]) -> tuple[list[int], list[int], int]:
            return (
                [row["running"] for row in found["sessions"] if row["client"] == "waiting 1"],
                sorted(row["running"] for row in found["callers"] if row["running"]),
                sum(row["running"] or 0 for row in found["workers"]),
            )

        await site.until(lambda found: running(found) == ([2], [1, 2], 3))
        sign.touch()
        for each in calls:
            assert (await each).status_code == 200
        await site.until(lambda found: running(found) == ([0], [], 0))


RUNNING = "/admin/django_mcp/callrecord/running/"


async def test_a_call_of_another_process_is_cancelled_by_an_operator(site: Site, tmp_path: Path):
    sign = tmp_path / "sign"
    params = {"name": "wait_for", "arguments": {"path": str(sign)}}
    request = message("tools/call", params, revision=V2026_07_28)
    url = f"http://{site.second.host}:{site.second.port}"
    async with httpx.AsyncClient(base_url=url, timeout=LIMIT_S) as client:
        call = asyncio.create_task(
            client.post("/mcp", json=request, headers=headers_for(request, V2026_07_28))
        )
        async with asyncio.timeout(LIMIT_S):
            while True:
                page = await asyncio.to_thread(site.operator.get, RUNNING)
                found = re.search(r'name="id" value="([0-9a-f]{32})"', page.text)
                if found is not None:
                    break
                await asyncio.sleep(0.2)
        address = RUNNING + "cancel/"
        confirm = await asyncio.to_thread(site.post, address, id=found[1])
        assert "wait_for" in confirm.text
        assert not call.done()
        done = await asyncio.to_thread(site.post, address, id=found[1], confirmed="1")
        answer = (await call).json()

    assert done.status_code == 302
    assert answer["error"]["message"] == "Cancelled"
    await site.until(lambda found: not any(row["running"] for row in found["workers"]))
