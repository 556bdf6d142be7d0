"""Every transport of the guarded site, each with the same requests: HTTP, HTTP+SSE and stdio."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import httpx

from django_mcp.extensions.tasks.core.shapes import EXTENSION
from django_mcp.protocol.revisions import Revision
from tests.support.events import Event, Parser
from tests.support.sites import Running
from tests.support.stdio.process import Process
from tests.support.wire import (
    HANDSHAKE,
    META,
    V2024_11_05,
    V2025_11_25,
    V2026_07_28,
    headers_for,
    message,
)

SITE = "tests.support.site.guarded"
LIMIT_S = 20.0
LISTEN = "subscriptions/listen"
TASKS: Mapping[str, Any] = {META + "clientCapabilities": {"extensions": {EXTENSION: {}}}}

ENTRY_POINTS: Mapping[str, tuple[str, Revision]] = {
    **{f"http {each.name}": ("http", each) for each in (*HANDSHAKE, V2026_07_28)},
    **{f"sse {each.name}": ("sse", each) for each in (V2024_11_05, V2025_11_25)},
    **{f"stdio {each.name}": ("stdio", each) for each in (V2025_11_25, V2026_07_28)},
}
"""Names of entry points: the transport, and what is spoken there."""


@dataclass(kw_only=True)
class Answer:
    """A response: the status, the headers except the date, and the message without its id."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes


class EntryPoint(Protocol):
    """A connection of a client of one revision."""

    def ask(self, method: str, params: Mapping[str, Any]) -> Answer:
        """Return the response to a request, or the first message of a stream."""
        ...


class _Requests:
    """Makes requests that differ only by their ids, all of equal length."""

    def __init__(self, revision: Revision) -> None:
        self.revision = revision
        self._last = 1000

    def make(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        self._last += 1
        if self.revision is V2026_07_28:
            params = {**params, "_meta": TASKS}
        return message(method, params, revision=self.revision, id=f"asked-{self._last}")

    def initialize(self) -> dict[str, Any]:
        info = {"name": "tests", "version": "1"}
        params = {
            "protocolVersion": self.revision.name,
            "capabilities": {},
            "clientInfo": info,
        }
        return self.make("initialize", params)


def _without_id(request: Mapping[str, Any], body: bytes) -> bytes:
    return body.replace(request["id"].encode(), b"asked")


class HTTPEntryPoint:
    """The endpoint, with a session where the revision has them."""

    def __init__(self, client: httpx.Client, path: str, revision: Revision) -> None:
        self._client, self._path, self._revision = client, path, revision
        self._requests = _Requests(revision)
        self._more: dict[str, str] = {}
        if revision in HANDSHAKE:
            request = self._requests.initialize()
            found = client.post(path, json=request, headers=headers_for(request, revision))
            assert found.status_code == 200, found.text
            self._more["mcp-session-id"] = found.headers["mcp-session-id"]

    def ask(self, method: str, params: Mapping[str, Any]) -> Answer:
        request = self._requests.make(method, params)
        headers = {**headers_for(request, self._revision), **self._more}
        with self._client.stream("POST", self._path, json=request, headers=headers) as response:
            body = _first_message(response) if method == LISTEN else response.read()
        kept = {key: value for key, value in response.headers.items() if key != "date"}
        return Answer(status=response.status_code, headers=kept, body=_without_id(request, body))


def _first_message(response: httpx.Response) -> bytes:
    return next(_events(response)).data.encode() if response.status_code == 200 else response.read()


def _events(response: httpx.Response) -> Iterator[Event]:
    parser = Parser()
    for chunk in response.iter_raw():
        yield from (event for event in parser.feed(chunk) if event.data)


class SSEEntryPoint:
    """A stream of HTTP+SSE, which carries the responses to posted requests."""

    def __init__(self, client: httpx.Client, opened: httpx.Response, revision: Revision) -> None:
        self._client, self._requests = client, _Requests(revision)
        self._events = _events(opened)
        self._path = next(self._events).data
        self._send(self._requests.initialize())

    def _send(self, request: dict[str, Any]) -> Answer:
        posted = self._client.post(self._path, json=request)
        kept = {key: value for key, value in posted.headers.items() if key != "date"}
        assert posted.status_code == 202, posted.text
        # Notifications of tasks do not belong to this request.
        body = next(each.data for each in self._events if request["id"] in each.data).encode()
        return Answer(status=202, headers=kept, body=_without_id(request, body))

    def ask(self, method: str, params: Mapping[str, Any]) -> Answer:
        return self._send(self._requests.make(method, params))


class StdioEntryPoint:
    """A separate process, started as clients start it."""

    def __init__(self, process: Process, revision: Revision) -> None:
        self._process, self._requests = process, _Requests(revision)
        if revision in HANDSHAKE:
            self.ask(**_called(self._requests.initialize()))
            process.tell("notifications/initialized")

    def ask(self, method: str, params: Mapping[str, Any]) -> Answer:
        request = self._requests.make(method, params)
        self._process.send(request)
        line = self._read_about(request)
        if method == LISTEN and b'"method"' in line:
            self._process.tell("notifications/cancelled", requestId=request["id"])
        return Answer(status=0, body=_without_id(request, line))

    def _read_about(self, request: Mapping[str, Any]) -> bytes:
        # Messages of an earlier stream do not belong to this request.
        while True:
            line = self._process.read_line(LIMIT_S)
            assert line is not None, self._process.noise
            if request["id"].encode() in line:
                return line


def _called(request: Mapping[str, Any]) -> dict[str, Any]:
    return {"method": request["method"], "params": request["params"]}


@contextmanager
def opened(name: str, who: str, site: Running) -> Iterator[EntryPoint]:
    """Open a transport as a user; `nobody` has no credentials."""
    transport, revision = ENTRY_POINTS[name]
    if transport == "stdio":
        token = {} if who == "nobody" else {"DJANGO_MCP_TOKEN": who}
        with Process("--server", "guarded", site=SITE, extra=token) as process:
            yield StdioEntryPoint(process, revision)
        return
    headers = {} if who == "nobody" else {"authorization": f"Bearer {who}"}
    address = f"http://{site.host}:{site.port}"
    with httpx.Client(base_url=address, headers=headers, timeout=LIMIT_S) as client:
        if transport == "http":
            yield HTTPEntryPoint(client, "/mcp", revision)
            return
        with client.stream("GET", "/sse", headers={"accept": "text/event-stream"}) as response:
            yield SSEEntryPoint(client, response, revision)


def renamed(value: Any) -> Any:
    """Return the same for missing names of equal length."""
    return json.loads(json.dumps(value).replace("hidden", "absent"))
