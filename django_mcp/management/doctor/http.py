"""Requests to a site as a client sends them, without following redirects."""

from __future__ import annotations

import http.client
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from django_mcp.protocol.json import JSONDecodeError, JSONObject, decode

TIMEOUT_S = 10
MAX_BYTES = 1024 * 1024

_CONNECTIONS = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}
_OWN_HEADERS = {"user-agent": "mcp_doctor", "connection": "close"}


class Unreachable(Exception):
    """There was no response to a request; the text says why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """A response; header names are in lower case, and the values of a repeated header are joined."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> dict[str, Any]:
        """Return the JSON object in it, or an empty one."""
        try:
            content = decode(self.body)
        except ValueError:
            return {}
        return content if isinstance(content, dict) else {}

    def message(self) -> dict[str, Any]:
        """Return the JSON-RPC response in it, which may be the last event of a stream."""
        if not self.headers.get("content-type", "").startswith("text/event-stream"):
            return self.json()
        events = [line[5:] for line in self.body.splitlines() if line[:5] == b"data:"]
        return replace(self, headers={}, body=events[-1] if events else b"").json()


def ask(
    method: str, url: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
) -> Answer:
    """Return the response to a request, whatever its status."""
    with open_response(method, url, body, headers or {}, TIMEOUT_S) as response:
        names: dict[str, str] = {}
        for name, value in response.headers.items():
            key = name.lower()
            names[key] = f"{names[key]}, {value}" if key in names else value
        try:
            return Answer(status=response.status, headers=names, body=response.read(MAX_BYTES))
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(f"{url} did not answer to the end: {error}") from error


@contextmanager
def open_response(
    method: str, url: str, body: bytes | None, headers: Mapping[str, str], timeout_s: float
) -> Iterator[http.client.HTTPResponse]:
    """Send a request and yield its response, whatever its status.

    Header names are sent as they are written here.
    """
    with ExitStack() as stack:
        try:
            parts = urlsplit(url)
            if parts.scheme not in _CONNECTIONS or not parts.hostname:
                raise Unreachable(f"{url} is not an http URL")
            connect = _CONNECTIONS[parts.scheme]
            connection = connect(parts.hostname, parts.port, timeout=timeout_s)
            stack.enter_context(closing(connection))
            target = urlunsplit(("", "", parts.path or "/", parts.query, ""))
            connection.request(method, target, body, {**_OWN_HEADERS, **headers})
            response = stack.enter_context(connection.getresponse())
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise Unreachable(f"{url} cannot be reached: {error}") from error
        yield response


def next_message(response: http.client.HTTPResponse) -> JSONObject:
    """Return the next message of a stream; an empty one if none came in time, or the stream ended."""
    try:
        while line := response.readline(MAX_BYTES):
            if line.startswith(b"data:") and line[5:].strip():
                content = decode(line[5:])
                return content if isinstance(content, dict) else {}
    except (OSError, http.client.HTTPException, JSONDecodeError):
        pass
    return {}
