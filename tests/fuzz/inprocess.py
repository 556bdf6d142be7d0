"""Fuzz the core in this process: each round is the conversation of one client with one of three servers."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import sys
import time
from collections.abc import Coroutine
from random import Random
from typing import Any

from django_mcp.protocol.headers import Headers
from django_mcp.server.exchange.caller import ANONYMOUS, Caller
from django_mcp.server.exchange.channel import Channel
from django_mcp.server.exchange.exchange import Exchange, Reply
from tests.fuzz.conversation import Conversation, Shot
from tests.fuzz.entries import register
from tests.fuzz.failures import Failure, find_faults
from tests.fuzz.meter import NOT_METERED, meter_callbacks
from tests.support.server.plain import MCPServer

ANSWER_LIMIT_S = 20.0
MAY_WAIT_S = 0.005
"""How long an answer that may come late is waited for before the client goes on."""

ROUNDS_PER_SERVER = 1000
"""Servers are made anew after so many rounds, so that what they keep does not fill the memory."""

ROUNDS_PER_COLLECTION = 100
"""The garbage is collected between rounds, in no callback that is measured."""

WARM_UP = 200
"""Messages that are sent before the callbacks are measured."""


class Person:
    """The principal of requests that are not anonymous."""

    is_authenticated = True
    auth = None

    def __init__(self, key: str) -> None:
        self.key = key


PEOPLE = {None: ANONYMOUS, b"ann": Person("ann"), b"bob": Person("bob")}


class Sink:
    """Keeps what is sent ahead of an answer, and notes when the server asks the client something."""

    def __init__(self) -> None:
        self.payloads: list[Any] = []
        self.event_ids: list[str] = []
        self.asks = asyncio.Event()

    async def send(self, message: bytes, event_id: str | None = None) -> None:
        found = json.loads(message)
        self.payloads.append(found)
        if event_id is not None:
            self.event_ids.append(event_id)
        if "id" in found and "method" in found:
            self.asks.set()

    async def prime(self, event_id: str | None) -> None:
        if event_id is not None:
            self.event_ids.append(event_id)

    async def hang_up(self, retry_ms: int) -> None:
        self.asks.set()


class ErrorLog(logging.Handler):
    """Collects what is logged as an error, such as an exception that was caught at the last moment."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(logging.Formatter().format(record))


def make_servers() -> list[MCPServer]:
    """Return a server with sessions, one without, and one that holds every message against the rules."""
    more = {"ask_timeout_s": 2.0, "task_ttl_s": 20.0, "call_timeout_s": 10.0, "task_after_s": 0.01}
    servers = [
        MCPServer("both", page_size=5, **more),
        MCPServer("stateless", mode="stateless", state_single_use=True, **more),
        MCPServer("strict", strict=True, validate_output=True, read_chunk_bytes=100, **more),
    ]
    for server in servers:
        register(server)
    return servers


class Fuzzer:
    """Runs rounds one after the other, and keeps what failed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.failures: list[Failure] = []
        self.sent = 0
        self.statuses: dict[int, int] = {}
        self._round = 0
        self._shot: Shot | None = None
        self._errors = ErrorLog()
        self._servers: list[MCPServer] = []

    async def run(self, messages: int, first_round: int = 0) -> None:
        """Send so many messages; raise nothing for what fails."""
        asyncio.get_running_loop().set_exception_handler(self._on_loop_error)
        loggers = [logging.getLogger(name) for name in ("django_mcp", "asyncio")]
        for logger in loggers:
            logger.addHandler(self._errors)
        gc.disable()
        try:
            self._round = first_round
            while self.sent < messages:
                if not self._servers or self._round % ROUNDS_PER_SERVER == 0:
                    self._servers = make_servers()
                await self._run_round(Random(f"{self.seed}/{self._round}"))
                self._round += 1
                if self._round % ROUNDS_PER_COLLECTION == 0:
                    gc.collect()
        finally:
            gc.enable()
            for logger in loggers:
                logger.removeHandler(self._errors)

    def fail(self, why: str, shot: Shot | None = None) -> None:
        """Note a failure of the message that is under way, or of another."""
        shot = shot or self._shot
        self.failures.append(Failure(why=why, seed=self.seed, round=self._round, sent=str(shot)))

    def _on_loop_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.fail(f"on the loop: {context.get('message')} {context.get('exception')!r}")

    async def _run_round(self, random: Random) -> None:
        server = random.choice(self._servers)
        client = Conversation(random)
        left: list[tuple[asyncio.Task[Reply], Exchange, Sink, Shot]] = []
        for shot in client.shots():
            if shot.verb not in ("POST", "GET", "DELETE"):
                continue
            self.sent += 1
            self._shot = shot
            sink, principal = Sink(), PEOPLE[client.user]
            exchange = Exchange(
                body=shot.body,
                headers=Headers(shot.lines),
                caller=Caller(principal=principal, address="127.0.0.1"),
                channel=Channel(can_stream=True, sink=sink, event_stream=sink),
            )
            task = asyncio.create_task(_enter(server, shot.verb, exchange))
            if await self._wait(task, sink, shot):
                self._learn(client, task, sink, shot)
            else:
                client.learn((), sink.payloads, sink.event_ids)
                left.append((task, exchange, sink, shot))
            self._note_errors()
        await self._end(server, client, left)

    async def _wait(self, task: asyncio.Task[Reply], sink: Sink, shot: Shot) -> bool:
        """Return whether the response has arrived; it may come later if the server has sent a request."""
        await asyncio.sleep(0)
        if task.done():
            return True
        asking = asyncio.create_task(sink.asks.wait())
        limit_s = MAY_WAIT_S if shot.is_waiting else ANSWER_LIMIT_S
        done, _ = await asyncio.wait(
            (task, asking), timeout=limit_s, return_when=asyncio.FIRST_COMPLETED
        )
        asking.cancel()
        if not done and not shot.is_waiting:
            self.fail(f"no answer within {ANSWER_LIMIT_S:g} s")
        return task.done()

    def _learn(
        self, client: Conversation, task: asyncio.Task[Reply], sink: Sink, shot: Shot
    ) -> None:
        if task.exception() is not None:
            self.fail(f"raised {task.exception()!r}", shot)
            return
        reply = task.result()
        self.statuses[reply.status] = self.statuses.get(reply.status, 0) + 1
        payloads = [*sink.payloads]
        if reply.body is not None:
            payloads.append(json.loads(reply.body))
        if reply.status >= 500:
            self.fail(f"status {reply.status}: {payloads[-1:]}", shot)
        for payload in payloads:
            for fault in find_faults(payload):
                self.fail(fault, shot)
        client.learn(reply.headers, payloads, sink.event_ids)

    async def _end(
        self,
        server: MCPServer,
        client: Conversation,
        left: list[tuple[asyncio.Task[Reply], Exchange, Sink, Shot]],
    ) -> None:
        """Abandon open streams, as a client that disconnects does, and end the session."""
        for task, exchange, _, _ in left:
            exchange.channel.is_disconnected = True
            if exchange.channel.cancels_on_disconnect:
                exchange.channel.interrupt(task.cancel)
        if client.session_id is not None:
            lines = [(b"mcp-session-id", client.session_id)]
            await server.engine.end_session(
                Exchange(headers=Headers(lines), caller=Caller(principal=PEOPLE[client.user]))
            )
        if left:
            await asyncio.wait([task for task, *_ in left], timeout=MAY_WAIT_S)
        for task, _, sink, shot in left:
            if not task.done():
                task.cancel()
                await asyncio.wait((task,))
            if not task.cancelled():
                self._learn(client, task, sink, shot)
        self._note_errors()

    def _note_errors(self) -> None:
        for line in self._errors.lines:
            self.fail(f"logged: {line}")
        self._errors.lines.clear()


def _enter(server: MCPServer, verb: str, exchange: Exchange) -> Coroutine[Any, Any, Reply]:
    match verb:
        case "POST":
            return server.engine.answer(exchange)
        case "GET":
            return server.engine.open_stream(exchange)
    return server.engine.end_session(exchange)


def run(
    fuzzer: Fuzzer, messages: int, *, first_round: int = 0, report_every_s: float | None = None
) -> None:
    """Send so many messages; `fuzzer` collects the failures."""
    asyncio.run(_run(fuzzer, messages, first_round, report_every_s))


def run_share(messages: int, seed: int, has_speed: bool, first_round: int) -> list[Failure]:
    """Send one process's share of the messages, with the callbacks of the event loop measured."""
    if not has_speed:
        # Before anything has looked for it.
        sys.modules["jsonschema_rs"] = None  # type: ignore[assignment]
    # What is imported and compiled when first needed is not what is measured.
    run(Fuzzer(seed), WARM_UP)
    fuzzer = Fuzzer(seed)

    def on_slow(spent_s: float, what: str) -> None:
        fuzzer.fail(f"{spent_s:.3f} s of CPU in one callback: {what}")

    meter_callbacks(on_slow)
    run(fuzzer, messages, first_round=first_round, report_every_s=60.0)
    print(f"{fuzzer.sent} messages in process; statuses: {dict(sorted(fuzzer.statuses.items()))}")
    return fuzzer.failures


async def _run(
    fuzzer: Fuzzer, messages: int, first_round: int, report_every_s: float | None
) -> None:
    # What is measured are the steps of the server's tasks, and no garbage of earlier rounds.
    main = asyncio.current_task()
    if main is not None:
        main.set_name(NOT_METERED)
    reporting = None
    if report_every_s is not None:
        reporting = asyncio.create_task(_report(fuzzer, report_every_s))
    await fuzzer.run(messages, first_round)
    if reporting is not None:
        reporting.cancel()


async def _report(fuzzer: Fuzzer, every_s: float) -> None:
    started_s = time.monotonic()
    while True:
        await asyncio.sleep(every_s)
        spent_s = time.monotonic() - started_s
        found = len(fuzzer.failures)
        print(f"{fuzzer.sent} messages in {spent_s:.0f} s, {found} failures", flush=True)
