"""A web server that gives the same response to every POST, as a proxy in front of a site may."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Answering:
    """Such a server, and the `Authorization` header of each request it received."""

    url: str
    authorizations: list[str | None] = field(default_factory=list)


@contextmanager
def answering(status: int, headers: dict[str, str], body: bytes) -> Iterator[Answering]:
    """Serve one response for every request."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            found.authorizations.append(self.headers.get("Authorization"))
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        found = Answering(f"http://127.0.0.1:{server.server_port}/mcp")
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield found
        finally:
            server.shutdown()
            thread.join()
