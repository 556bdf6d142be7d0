"""A web server with an answer for each path, as a site that is broken in one place."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@contextmanager
def fake_site(answers: dict[str, Any]) -> Iterator[str]:
    """Answer each path with its status, headers and JSON or text, all written about `http://HERE`."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", "0")))
            host = self.headers["host"]
            found = answers.get(self.path.partition("?")[0], (404, {}, {}))
            status, headers, body = json.loads(json.dumps(found).replace("HERE", host))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write((body if isinstance(body, str) else json.dumps(body)).encode())

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, *args: Any) -> None:
            return

    with serving(Handler) as url:
        yield url


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """Serve requests by a class; yield the URL of an endpoint there."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/mcp"
        finally:
            server.shutdown()
            thread.join()
