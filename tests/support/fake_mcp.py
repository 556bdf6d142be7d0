"""A web server that answers JSON-RPC requests with what a function returns."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.support.fake_site import serving


@contextmanager
def fake_mcp(
    answer: Callable[[dict[str, Any]], dict[str, Any]], *, as_stream: bool = False
) -> Iterator[str]:
    """Answer each request, as JSON or as the one event of a stream."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            message = json.loads(self.rfile.read(int(self.headers["content-length"])))
            body = json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer(message)})
            kind = "text/event-stream" if as_stream else "application/json"
            self.send_response(200)
            self.send_header("content-type", kind)
            self.end_headers()
            self.wfile.write((f": hello\ndata: {body}\n\n" if as_stream else body).encode())

        def log_message(self, *args: Any) -> None:
            return

    with serving(Handler) as url:
        yield url
