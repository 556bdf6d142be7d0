"""The official client on a site of several processes, with control over who answers each request."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.types import (
    CreateMessageResult,
    ElicitResult,
    ListRootsResult,
    Root,
    TextContent,
)
from pydantic import FileUrl

from tests.support.sessions.cluster import Cluster

LIMIT_S = 20.0


class InTurn(httpx2.AsyncHTTPTransport):
    """Sends each request to the next process, and records which."""

    def __init__(self, ports: list[int]) -> None:
        super().__init__()
        self._ports: Iterator[int] = itertools.cycle(ports)
        self.sent: list[tuple[str, str, int]] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        port = next(self._ports)
        self.sent.append(
            (request.method, request.content.decode() if request.method == "POST" else "", port)
        )
        request.url = request.url.copy_with(port=port)
        return await super().handle_async_request(request)

    def port_of(self, wanted: Callable[[str], bool]) -> int:
        """Return the process of the last request with a matching body."""
        return next(port for _, body, port in reversed(self.sent) if wanted(body))


class Person:
    """Answers server requests, and records notifications."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.received: list[Any] = []
        self.logged: list[Any] = []
        self.content: dict[str, Any] = {"name": "red"}

    async def elicit(self, context: Any, params: Any) -> ElicitResult:
        self.asked.append(params.message)
        if params.mode == "url":
            return ElicitResult(action="accept")
        return ElicitResult(action="accept", content=self.content)

    async def sample(self, context: Any, params: Any) -> CreateMessageResult:
        self.asked.append(params.messages[0].content.text)
        answer = TextContent(type="text", text="Paris")
        return CreateMessageResult(role="assistant", content=answer, model="m")

    async def roots(self, context: Any) -> ListRootsResult:
        return ListRootsResult(roots=[Root(uri=FileUrl("file:///home/ann"))])

    async def receive(self, message: Any) -> None:
        self.received.append(message)

    async def log(self, params: Any) -> None:
        self.logged.append(params.data)


@asynccontextmanager
async def official(
    cluster: Cluster, person: Person, *, user: str | None = None
) -> AsyncIterator[tuple[ClientSession, InTurn]]:
    """Yield an initialized session of the official client, and the record of its requests."""
    road = InTurn(cluster.ports())
    headers = {"Authorization": f"Bearer {user}"} if user else {}
    async with (
        httpx2.AsyncClient(transport=road, timeout=LIMIT_S, headers=headers) as http,
        streamable_http_client(cluster.url(), http_client=http) as (reading, writing),
        ClientSession(
            reading,
            writing,
            read_timeout_seconds=LIMIT_S,
            elicitation_callback=person.elicit,
            sampling_callback=person.sample,
            list_roots_callback=person.roots,
            logging_callback=person.log,
            message_handler=person.receive,
        ) as session,
    ):
        await session.initialize()
        yield session, road
