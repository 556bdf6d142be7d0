"""Fuzz a real server over sockets: the same conversations, and HTTP that is broken on purpose."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import Any

from tests.fuzz.conversation import Conversation, Shot
from tests.fuzz.failures import Failure, find_faults
from tests.fuzz.meter import SLOW_CALLBACKS
from tests.fuzz.mutate import mutate_bytes
from tests.support import sites
from tests.support.backends import Backends, is_answering, own_postgres, postgres_address
from tests.support.events import Event, Parser

PACKAGE = "tests.fuzz.site"
ANSWER_LIMIT_S = 30.0
MAY_WAIT_S = 0.02
CLIENTS = 3
"""Conversations at the same time, on a connection each."""

BROKEN_SHARE = 0.1
"""Requests whose HTTP is mutated as well."""

MAX_HEAD_BYTES = 64 * 1024
"""A longer request may be cut by the server, which answers before it has read all of it."""

MAX_OPEN = 3
"""Streams that one conversation leaves open beside its connection."""

PATHS = [
    *(
        b"/mcp/",
        b"//mcp",
        b"/mcp?a=%00",
        b"/mcp%00",
        b"/MCP",
        b"/mcp#x",
        b"/mcp;x",
        b"/./mcp",
        b"/mcp/../mcp",
    ),
    *(
        b"/",
        b"*",
        b"/%ff%fe",
        b"/" + b"a" * 3000,
        b"/messages",
        b"/messages?session_id=x",
        b"/sse?session_id=",
    ),
    *(
        b"/messages?session_id=%00",
        b"/messages?session_id=" + b"a" * 2000,
        b"http://evil.example/mcp",
        b"/sse",
    ),
    *(b"/.well-known/oauth-protected-resource/mcp", b"/.well-known/oauth-protected-resource/%00"),
]


class Connection:
    """One keep-alive connection; every wait is bounded."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def open(cls, port: int) -> Connection:
        return cls(*await asyncio.open_connection("127.0.0.1", port, limit=2**24))

    def close(self) -> None:
        self.writer.transport.abort()

    async def read_head(self) -> tuple[int, list[tuple[bytes, bytes]]]:
        raw = await self.reader.readuntil(b"\r\n\r\n")
        first, *lines = raw[:-4].split(b"\r\n")
        pairs = [line.partition(b":") for line in lines]
        headers = [(name.lower(), value.strip()) for name, _, value in pairs]
        return int(first.split(b" ")[1]), headers

    async def read_body(self, headers: dict[bytes, bytes]) -> AsyncIterator[bytes]:
        """Yield the parts of a body as they come."""
        if headers.get(b"transfer-encoding") == b"chunked":
            while size := int(await self.reader.readuntil(b"\r\n"), 16):
                yield (await self.reader.readexactly(size + 2))[:-2]
            await self.reader.readuntil(b"\r\n")
        elif b"content-length" in headers:
            yield await self.reader.readexactly(int(headers[b"content-length"]))
        else:
            while part := await self.reader.read(65536):
                yield part


class Answer:
    """What came back so far."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.payloads: list[Any] = []
        self.events: list[Event] = []
        self.asks = asyncio.Event()

    async def read(self, connection: Connection, verb: str) -> None:
        """Read the whole answer; what has come can be looked at in between."""
        self.status, self.headers = await connection.read_head()
        headers = dict(self.headers)
        if verb == "HEAD" or self.status in (204, 304):
            return
        kind = headers.get(b"content-type", b"")
        parser, body = Parser(), b""
        async for part in connection.read_body(headers):
            if kind == b"text/event-stream":
                self._take(parser.feed(part))
            else:
                body += part
        if kind == b"application/json" and body:
            self.payloads.append(json.loads(body))

    def _take(self, events: list[Event]) -> None:
        for event in events:
            self.events.append(event)
            if event.data and event.event == "message":
                payload = json.loads(event.data)
                self.payloads.append(payload)
                if isinstance(payload, dict) and "id" in payload and "method" in payload:
                    self.asks.set()

    @property
    def event_ids(self) -> list[str]:
        return [event.id for event in self.events if event.id]


class Fuzzer:
    """Several clients of one server, and what failed."""

    def __init__(self, seed: int, port: int, slow: Path) -> None:
        self.seed = seed
        self.failures: list[Failure] = []
        self.sent = 0
        self.statuses: dict[int, int] = {}
        self._port = port
        self._slow = slow
        self._slow_bytes = 0
        self._rounds: Iterator[int] = iter(())

    async def run(self, messages: int, first_round: int) -> None:
        self._rounds = iter(range(first_round, first_round + messages))
        async with asyncio.TaskGroup() as group:
            for _ in range(CLIENTS):
                group.create_task(self._run_client(messages))

    async def _run_client(self, messages: int) -> None:
        connection = await Connection.open(self._port)
        while self.sent < messages:
            number = next(self._rounds)
            connection = await Round(self, number, self._port).run(connection)
        connection.close()

    def fail(self, why: str, number: int, sent: object) -> None:
        self.failures.append(Failure(why=why, seed=self.seed, round=number, sent=str(sent)))

    def look_for_slow_callbacks(self, number: int, sent: object) -> None:
        """Note slow callbacks that the server has listed; another client may have sent the cause."""
        if self._slow.stat().st_size > self._slow_bytes:
            found = self._slow.read_text()
            self.fail(f"at about this time: {found[self._slow_bytes :]}", number, sent)
            self._slow_bytes = len(found)


class Round:
    """One conversation."""

    def __init__(self, fuzzer: Fuzzer, number: int, port: int) -> None:
        self.fuzzer = fuzzer
        self.number = number
        self.port = port
        self.random = Random(f"{fuzzer.seed}/{number}")
        self.client = Conversation(self.random)
        self.left: list[tuple[Connection, asyncio.Task[None]]] = []
        self.path = b"/mcp"

    async def run(self, connection: Connection) -> Connection:
        """Send the round's requests, and return the connection for the next."""
        if self.random.random() < 0.05:
            await self._open_legacy_stream()
        for shot in self.client.shots():
            self.fuzzer.sent += 1
            raw = self._to_http(shot)
            try:
                if self.random.random() < BROKEN_SHARE:
                    connection = await self._send_broken(connection, raw)
                else:
                    connection = await self._send(connection, raw, shot)
            except (OSError, ValueError, asyncio.IncompleteReadError) as error:
                # A server may close a connection instead of reading on.
                is_dropped = isinstance(error, ConnectionError) and len(raw) > MAX_HEAD_BYTES
                if not is_dropped:
                    self.fuzzer.fail(f"{error!r}", self.number, _show(raw))
                connection.close()
                connection = await Connection.open(self.port)
            self.fuzzer.look_for_slow_callbacks(self.number, shot)
        for other, task in self.left:
            task.cancel()
            other.close()
        return connection

    def _to_http(self, shot: Shot) -> bytes:
        path = self.random.choice(PATHS) if self.random.random() < 0.03 else self.path
        lines = [*shot.lines]
        if shot.verb == "POST" or shot.body:
            lines.append((b"content-length", b"%d" % len(shot.body)))
        head = b"".join(b"%s: %s\r\n" % line for line in lines)
        return b"%s %s HTTP/1.1\r\n%s\r\n%s" % (shot.verb.encode(), path, head, shot.body)

    async def _send(self, connection: Connection, raw: bytes, shot: Shot) -> Connection:
        answer = Answer()
        connection.writer.write(raw)
        reading = asyncio.create_task(answer.read(connection, shot.verb))
        asking = asyncio.create_task(answer.asks.wait())
        limit_s = MAY_WAIT_S if shot.is_waiting else ANSWER_LIMIT_S
        await asyncio.wait((reading, asking), timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        asking.cancel()
        self._check(answer, raw)
        if not reading.done():
            if not (shot.is_waiting or answer.asks.is_set()):
                self.fuzzer.fail(f"no answer within {limit_s:g} s", self.number, _show(raw))
            self.left.append((connection, reading))
            if len(self.left) > MAX_OPEN:
                other, task = self.left.pop(0)
                task.cancel()
                other.close()
            return await Connection.open(self.port)
        reading.result()
        if (
            dict(answer.headers).get(b"connection", b"").lower() == b"close"
            or connection.reader.at_eof()
        ):
            connection.close()
            return await Connection.open(self.port)
        return connection

    def _check(self, answer: Answer, raw: bytes) -> None:
        statuses = self.fuzzer.statuses
        statuses[answer.status] = statuses.get(answer.status, 0) + 1
        if answer.status >= 500 and answer.status != 501:
            self.fuzzer.fail(f"{answer.status}: {answer.payloads[-1:]}", self.number, _show(raw))
        if b" /.well-known/" not in raw[:40]:
            for payload in answer.payloads:
                for fault in find_faults(payload):
                    self.fuzzer.fail(fault, self.number, _show(raw))
        self.client.learn(answer.headers, answer.payloads, answer.event_ids)

    async def _send_broken(self, connection: Connection, raw: bytes) -> Connection:
        """Send mutated HTTP and nothing after it; any answer will do but a fault."""
        head, _, body = raw.partition(b"\r\n\r\n")
        broken = mutate_bytes(head, self.random) + b"\r\n\r\n" + body
        try:
            connection.writer.write(broken)
            connection.writer.write_eof()
            async with asyncio.timeout(ANSWER_LIMIT_S):
                found = await connection.reader.read(12)
                while await connection.reader.read(65536):
                    pass
        except TimeoutError:
            self.fuzzer.fail("the connection stays open", self.number, _show(broken))
            found = b""
        except OSError:
            # The server has closed it already.
            found = b""
        if found[9:10] == b"5" and found[9:12] not in (b"501", b"505"):
            self.fuzzer.fail(f"{found!r}", self.number, _show(broken))
        connection.close()
        return await Connection.open(self.port)

    async def _open_legacy_stream(self) -> None:
        """Post all further requests to a stream of HTTP+SSE."""
        connection, answer = await Connection.open(self.port), Answer()
        connection.writer.write(
            b"GET /sse HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\r\n"
        )
        task = asyncio.create_task(answer.read(connection, "GET"))
        self.client.user = None
        until_s = time.monotonic() + ANSWER_LIMIT_S
        while not answer.events and not task.done() and time.monotonic() < until_s:
            await asyncio.wait((task,), timeout=0.005)
        self.left.append((connection, task))
        if answer.events:
            self.path = answer.events[0].data.encode()


def _show(raw: bytes) -> str:
    return f"{raw[:4000]!r} ({len(raw)} bytes)"


@contextmanager
def backends(folder: Path) -> Iterator[Backends]:
    """Provide a database for the site: PostgreSQL if it is reachable, else SQLite."""
    with ExitStack() as stack:
        if is_answering(*postgres_address()):
            found = Backends(postgres=stack.enter_context(own_postgres("fuzz", PACKAGE)))
        else:
            found = Backends(sqlite=folder / "fuzz.sqlite3")
            found.manage(PACKAGE, "migrate", "-v", "0")
        yield found


def run(
    server: str,
    messages: int,
    seed: int,
    *,
    folder: Path,
    first_round: int = 0,
    has_speed: bool = True,
) -> Fuzzer:
    """Send so many messages to a server of its own, and return what came of it."""
    slow = folder / f"{server}-slow.txt"
    slow.touch()
    # The asyncio loop is the one that is measured.
    more = {SLOW_CALLBACKS: str(slow), "UVICORN_LOOP": "asyncio"}
    if not has_speed:
        more |= {"FUZZ_WITHOUT_SPEED": "1", "UVICORN_HTTP": "h11"}
    log = folder / f"{server}.log"
    with backends(folder) as shared:
        extra = {**shared.environment(), **more}
        with sites.running(PACKAGE, server, log=log, extra=extra) as site:
            fuzzer = Fuzzer(seed, site.port, slow)
            asyncio.run(fuzzer.run(messages, first_round))
            if site.process.poll() is not None:
                fuzzer.fail(f"the server ended with {site.process.returncode}", -1, server)
    if "Traceback" in log.read_text(errors="replace"):
        fuzzer.fail(f"an exception in the log:\n{sites.tail(log, 60)}", -1, server)
    return fuzzer
