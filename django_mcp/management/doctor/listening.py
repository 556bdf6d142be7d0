"""Open an event stream on a running site and read messages within a time limit."""

from __future__ import annotations

import http.client
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from urllib.parse import urlsplit

from django_mcp.management.doctor.http import Unreachable
from django_mcp.protocol.json import JSONDecodeError, JSONObject, decode

__all__ = ["Stream", "open_stream"]


class Stream:
    """The messages of one open response."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.content_type = response.headers.get_content_type()
        self._response = response

    def next_message(self) -> JSONObject | None:
        """Return the next message; None if none came in time, or the stream ended."""
        try:
            while line := self._response.readline(1024 * 1024):
                if line.startswith(b"data:") and line[5:].strip():
                    found = decode(line[5:])
                    return found if isinstance(found, dict) else None
        except (OSError, http.client.HTTPException, JSONDecodeError):
            return None
        return None


@contextmanager
def open_stream(
    url: str, body: bytes, headers: Mapping[str, str], timeout_s: float
) -> Iterator[Stream]:
    """Post a request and yield the stream of its response.

    Raises:
        Unreachable: there was no response.
    """
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    with closing(kind(parts.hostname or "", parts.port, timeout=timeout_s)) as connection:
        try:
            connection.request("POST", parts.path or "/", body, dict(headers))
            response = connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(f"{url} did not answer in {timeout_s:g} s: {error}") from error
        yield Stream(response)
