"""HTTP+SSE with the clients that still speak it, over real sockets."""

from __future__ import annotations

import asyncio
import json
import socket
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import ClientSession, MCPError
from mcp.client.sse import sse_client
from mcp.types import ElicitResult, Implementation

from django_mcp.transports.legacy_sse import MAX_STREAM_RUNNING
from tests.support.sites import ROOT, Running, environment, running

SITE = "tests.support.site.legacy_sse"
LIMIT_S = 10.0


@pytest.fixture(scope="module", params=["uvicorn", "daphne"])
def site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("legacy_sse")
    with process_of(folder, request.param) as site:
        yield site
    assert "Traceback" not in site.log.read_text()


@contextmanager
def process_of(folder: Path, server: str, name: str = "first", **more: str) -> Iterator[Running]:
    extra = {"LEGACY_SSE_DATABASE": str(folder / "db.sqlite3"), **more}
    migrate = [sys.executable, "-m", "django", "migrate", "-v0"]
    subprocess.run(migrate, cwd=ROOT, env=environment(SITE, extra), check=True)
    with running(SITE, server, log=folder / f"{name}.log", extra=extra) as site:
        yield site


def prune(folder: Path) -> str:
    extra = {"LEGACY_SSE_DATABASE": str(folder / "db.sqlite3")}
    command = [sys.executable, "-m", "django", "mcp_prune"]
    return subprocess.check_output(command, cwd=ROOT, env=environment(SITE, extra), text=True)


def address(site: Running, path: str) -> str:
    return f"http://{site.host}:{site.port}{path}"


async def accept(context: Any, params: Any) -> ElicitResult:
    return ElicitResult(action="accept", content={"sure": True})


@pytest.mark.parametrize(("path", "tool"), [("/sse", "echo"), ("/old/sse", "whisper")])
async def test_the_official_client_is_served(site: Running, path: str, tool: str) -> None:
    async with (
        sse_client(address(site, path)) as (reading, writing),
        ClientSession(reading, writing) as session,
    ):
        await session.initialize()
        tools = await session.list_tools()
        result = await session.call_tool(tool, {"text": "hello"} if tool == "echo" else {})

    assert tool in [each.name for each in tools.tools]
    assert result.content[0].text in ("hello", "alone")  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("path", "headers", "names"),
    [
        ("/sse/x/voice", {}, ["echo"]),
        ("/sse", {"X-MCP-Toolsets": "voice"}, ["echo"]),
        ("/sse/x/voice", {"X-MCP-Readonly": "true"}, []),
        ("/old/sse/x/messages", {}, ["shout"]),
        ("/old/sse", {"X-MCP-Readonly": "true"}, ["whisper"]),
        ("/of/a/sse/x/voice,messages", {}, ["shout", "whisper"]),
        ("/of/a/sse/x/nothing", {}, []),
    ],
)
async def test_a_client_narrows_all_that_its_stream_answers(
    site: Running, path: str, headers: dict[str, str], names: list[str]
) -> None:
    async with (
        sse_client(address(site, path), headers=headers) as (reading, writing),
        ClientSession(reading, writing) as session,
    ):
        await session.initialize()
        tools = await session.list_tools()
        for hidden in {"stay", "whisper", "echo"}.difference(names):
            with pytest.raises(MCPError, match="Unknown tool"):
                await session.call_tool(hidden, {})

    assert sorted(tool.name for tool in tools.tools) == names


async def test_connected_clients_are_recorded(site: Running) -> None:
    columns = "revision, client_name, client_version"
    async with (
        sse_client(address(site, "/sse")) as (reading, writing),
        ClientSession(reading, writing, client_info=Implementation(name="old", version="7")) as one,
    ):
        # Its stream is recorded before its client name is known.
        await rows_of(site, "SELECT id FROM django_mcp_stream")
        await one.initialize()
        session = f"SELECT {columns}, transport, capabilities FROM django_mcp_session"
        found = await rows_of(site, f"{session} WHERE client_name = 'old'")
        streams = f"SELECT {columns} FROM django_mcp_stream WHERE client_name = 'old'"
        assert await rows_of(site, streams) == [("2025-11-25", "old", "7")]

    assert found == [("2025-11-25", "old", "7", "sse", "{}")]


async def rows_of(site: Running, question: str) -> list[Any]:
    """Return the rows that a process has recorded, as soon as there are some."""
    async with asyncio.timeout(LIMIT_S):
        while True:
            with closing(sqlite3.connect(site.log.parent / "db.sqlite3")) as database:
                found = database.execute(question).fetchall()
            if found:
                return found
            await asyncio.sleep(0.1)


async def test_a_question_is_asked_on_the_stream(site: Running) -> None:
    async with (
        sse_client(address(site, "/sse")) as (reading, writing),
        ClientSession(reading, writing, elicitation_callback=accept) as session,
    ):
        await session.initialize()
        result = await session.call_tool("confirm", {})

    assert result.content[0].text == "accept"  # type: ignore[union-attr]


@asynccontextmanager
async def stream(site: Running, query: str = "", language: str = "en") -> Any:
    """Open a stream by hand, and yield the client, where to post, and the lines that come."""
    async with httpx.AsyncClient(timeout=LIMIT_S) as client:
        headers = {"accept": "text/event-stream", "accept-language": language}
        async with client.stream("GET", address(site, "/sse" + query), headers=headers) as opened:
            lines = opened.aiter_lines()
            assert await anext(lines) == "event: endpoint"
            where = (await anext(lines)).removeprefix("data: ")
            yield client, address(site, where), lines


async def test_the_query_string_is_kept(site: Running) -> None:
    """A site may distinguish its clients by it."""
    async with stream(site, "?tenant=7") as (_, where, _lines):
        assert "/messages?tenant=7&session_id=" in where


async def test_responses_arrive_only_on_the_stream(site: Running) -> None:
    async with stream(site) as (client, where, lines):
        posted = await client.post(where, json={"jsonrpc": "2.0", "id": 1, "method": "ping"})
        found = ""
        while not found.startswith("data:"):
            found = await anext(lines)

    assert (posted.status_code, posted.content) == (202, b"")
    assert json.loads(found.removeprefix("data: ")) == {"jsonrpc": "2.0", "id": 1, "result": {}}


def asking(method: str, id: int = 1, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


INITIALIZE = asking("initialize", protocolVersion="2024-11-05", capabilities={})


async def answer_on(lines: Any) -> dict[str, Any]:
    """Return the next message of a stream."""
    while not (line := await anext(lines)).startswith("data:"):
        pass
    found: dict[str, Any] = json.loads(line.removeprefix("data: "))
    return found


async def test_the_handshake_happens_once_and_only_on_this_transport(site: Running) -> None:
    """Its capabilities are negotiated once; its token is no session id of the endpoint."""
    async with stream(site) as (client, where, lines):
        answers = []
        for id in (1, 2):
            assert (await client.post(where, json={**INITIALIZE, "id": id})).status_code == 202
            answers.append(await answer_on(lines))
        token = where.rpartition("=")[2]
        headers = {"accept": "application/json, text/event-stream", "mcp-session-id": token}
        strange = await client.post(address(site, "/mcp"), json=asking("ping"), headers=headers)

    assert "result" in answers[0]
    assert answers[1]["error"]["message"] == "This connection is initialized already"
    assert strange.status_code == 404


async def test_handlers_get_the_request_of_their_message(site: Running) -> None:
    call = asking("tools/call", id=2, name="surroundings", arguments={})
    async with stream(site) as (client, where, lines):
        await client.post(where, json=INITIALIZE)
        await answer_on(lines)
        await client.post(where, json=call, headers={"accept-language": "de"})
        answer = await answer_on(lines)

    assert answer["result"]["content"][0]["text"] == "POST de"


async def test_a_large_message_reaches_its_stream_with_its_request(tmp_path: Path) -> None:
    """If processes cannot reach each other, no message that would be lost is accepted."""
    text = "x" * 100_000
    large = asking("tools/call", id=2, name="echo", arguments={"text": text})
    call = asking("tools/call", id=3, name="surroundings", arguments={})
    with (
        process_of(tmp_path, "uvicorn") as one,
        process_of(tmp_path, "uvicorn", "second") as other,
        process_of(tmp_path, "uvicorn", "third", LEGACY_SSE_BUS="local") as apart,
    ):
        async with stream(one, language="de") as (client, where, lines):
            elsewhere = where.replace(f":{one.port}/", f":{other.port}/")
            await client.post(where, json=INITIALIZE)
            await answer_on(lines)
            taken = await client.post(elsewhere, json=large)
            echoed = await answer_on(lines)
            await client.post(elsewhere, json=call)
            language = await answer_on(lines)
            out_of_reach = where.replace(f":{one.port}/", f":{apart.port}/")
            refused = await client.post(out_of_reach, json=large)

    assert taken.status_code == 202
    assert echoed["result"]["content"][0]["text"] == text
    assert language["result"]["content"][0]["text"] == "GET de"
    assert (refused.status_code, "retry-after" in refused.headers) == (503, True)


async def test_a_connection_ends_with_the_process_of_its_stream(tmp_path: Path) -> None:
    with process_of(tmp_path, "uvicorn") as one, process_of(tmp_path, "uvicorn", "second") as other:
        with pytest.raises(httpx.RemoteProtocolError):
            async with stream(one) as (client, where, lines):
                elsewhere = where.replace(f":{one.port}/", f":{other.port}/")
                alive = await client.post(elsewhere, json=asking("ping"))
                one.process.kill()
                async for _ in lines:
                    pass
        # As if its lease had expired since.
        with closing(sqlite3.connect(tmp_path / "db.sqlite3", timeout=20)) as database, database:
            database.execute("UPDATE django_mcp_worker SET lease_until = '2020-01-01'")
            database.execute("UPDATE django_mcp_session SET created_at = '2020-01-01'")
        async with httpx.AsyncClient(timeout=LIMIT_S) as client:
            ended = await client.post(elsewhere, json=asking("ping"))
        pruned = await asyncio.to_thread(prune, tmp_path)

    assert (alive.status_code, ended.status_code) == (202, 404)
    assert "sessions: 1 deleted" in pruned


async def test_a_message_reaches_its_stream_in_another_process(tmp_path: Path) -> None:
    """A load balancer may send the POST to another process than the GET."""
    with process_of(tmp_path, "uvicorn") as one, process_of(tmp_path, "uvicorn", "second") as other:
        async with stream(one) as (client, where, lines):
            elsewhere = where.replace(f":{one.port}/", f":{other.port}/")
            posted = await client.post(
                elsewhere, json={"jsonrpc": "2.0", "id": 1, "method": "ping"}
            )
            found = ""
            while not found.startswith("data:"):
                found = await anext(lines)

    assert (posted.status_code, posted.content) == (202, b"")
    assert json.loads(found.removeprefix("data: "))["result"] == {}


async def test_a_connection_with_a_stalled_reader_ends(site: Running) -> None:
    """More than the sockets buffer and the queue holds: answers do not wait in memory for ever."""
    text = "x" * 200_000
    with socket.socket() as stalled:
        # The kernel may otherwise buffer tens of megabytes for a reader.
        stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
        stalled.connect((site.host, site.port))
        request = f"GET /sse HTTP/1.1\r\nHost: {site.host}\r\nAccept: text/event-stream\r\n\r\n"
        stalled.sendall(request.encode())
        head = b""
        while b"session_id=" not in head or not head.endswith(b"\n\n"):
            head += stalled.recv(1)
        where = head.split(b"data: ")[1].split()[0].decode()

        async with asyncio.timeout(3 * LIMIT_S), httpx.AsyncClient(timeout=LIMIT_S) as client:
            assert (await client.post(address(site, where), json=INITIALIZE)).status_code == 202
            ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            assert (await client.post(address(site, where), json=ready)).status_code == 202
            stay = asking("tools/call", 200, name="stay", arguments={})
            assert (await client.post(address(site, where), json=stay)).status_code == 202
            statuses = set()
            numbers = count(2)
            while 404 not in statuses:
                call = asking("tools/call", next(numbers), name="echo", arguments={"text": text})
                statuses.add((await client.post(address(site, where), json=call)).status_code)

            # 429 if calls arrive faster than they are answered.
            assert statuses - {429} == {202, 404}
            # Its calls are cancelled, although the client is still connected.
            while "stay was cancelled" not in await asyncio.to_thread(site.log.read_text):
                pass
    assert "its reader was too slow" in site.log.read_text()


async def test_concurrent_requests_are_limited(site: Running) -> None:
    """Other messages than requests are still accepted: they may be awaited answers."""
    statuses, refused = [], httpx.Response(0)
    async with stream(site) as (client, where, lines):
        await client.post(where, json=INITIALIZE)
        await answer_on(lines)
        for number in range(MAX_STREAM_RUNNING + 1):
            call = asking("tools/call", number, name="stay", arguments={})
            refused = await client.post(where, json=call)
            statuses.append(refused.status_code)
        cancel = {"method": "notifications/cancelled", "params": {"requestId": 0}}
        cancelled = await client.post(where, json={"jsonrpc": "2.0", **cancel})
        async with asyncio.timeout(LIMIT_S):
            while (await client.post(where, json=asking("ping", 1000))).status_code != 202:
                pass
        answer = await answer_on(lines)

    assert statuses == [202] * MAX_STREAM_RUNNING + [429]
    assert "retry-after" in refused.headers
    assert "Too many messages" in refused.json()["error"]["message"]
    assert cancelled.status_code == 202
    assert answer == {"jsonrpc": "2.0", "id": 1000, "result": {}}


async def test_invalid_posts_get_an_immediate_error(site: Running) -> None:
    """Junk gets 400, an unknown or ended stream 404, a disallowed origin 403."""
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    async with stream(site) as (client, where, _lines):
        junk = await client.post(where, content=b"{", headers={"content-type": "application/json"})
        strange = await client.post(where, json=ping, headers={"origin": "http://evil.example"})
        unknown = await client.post(address(site, "/messages?session_id=x"), json=ping)
        missing = await client.post(address(site, "/messages"), json=ping)
        wrong = await client.get(where)
    async with httpx.AsyncClient(timeout=60.0) as client:
        opened = await client.get(
            address(site, "/sse"),
            headers={"accept": "text/event-stream", "origin": "http://evil.example"},
        )

    assert junk.status_code == 400
    assert (strange.status_code, opened.status_code) == (403, 403)
    assert (unknown.status_code, missing.status_code) == (404, 404)
    assert unknown.json()["error"]["code"] == missing.json()["error"]["code"] == -32001
    assert wrong.status_code in (405, 406)


async def test_a_connection_rejects_over_8_kib_of_client_details(site: Running) -> None:
    info = {"name": "c", "version": "1", "unknown": "x" * 100_000}
    small = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": info}
    large = {**small, "capabilities": {"experimental": {"x": "y" * 9000}}}
    async with stream(site) as (client, where, lines):
        answers = []
        for id, params in enumerate([large, small]):
            shake = {"jsonrpc": "2.0", "id": id, "method": "initialize", "params": params}
            assert (await client.post(where, json=shake)).status_code == 202
            answers.append(await answer_on(lines))

    assert answers[0]["error"]["code"] == -32602
    assert "result" in answers[1]


async def test_a_connection_ends_with_its_stream(site: Running) -> None:
    async with stream(site) as (_, where, _lines):
        pass
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    async with httpx.AsyncClient(timeout=LIMIT_S) as client:
        status = 0
        # The server notices the disconnect after a while.
        for _ in range(1000):
            status = (await client.post(where, json=ping)).status_code
            if status == 404:
                break

    assert status == 404


async def test_a_query_with_too_many_fields_finds_no_session(site: Running) -> None:
    async with httpx.AsyncClient(timeout=60.0) as http:
        url = address(site, f"/messages?{'a=1&' * 200}session_id=x")
        found = await http.post(url, json={"jsonrpc": "2.0", "id": 1, "method": "ping"})

    assert found.status_code == 404


async def test_the_message_url_is_one_encoded_line(site: Running) -> None:
    path = "/of/a%0D%0Adata%3A%20evil%20%C3%A9"
    async with (
        asyncio.timeout(LIMIT_S),
        httpx.AsyncClient(timeout=60.0) as http,
        http.stream("GET", address(site, f"{path}/sse")) as stream,
    ):
        assert stream.status_code == 200
        lines = [line async for line in _take_lines(stream, 2)]

    assert lines[0] == "event: endpoint"
    assert lines[1].startswith(f"data: {path}/messages?session_id=")


async def _take_lines(stream: httpx.Response, count: int) -> AsyncIterator[str]:
    lines = stream.aiter_lines()
    for _ in range(count):
        yield await anext(lines)
