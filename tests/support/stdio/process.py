"""A client that starts `manage.py mcp_stdio` and exchanges lines with it."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from tests.support.sites import ROOT, environment
from tests.support.wire import V2025_11_25, message

SITE = "tests.support.site.stdio"
LIMIT_S = 30.0
PROGRAM = (sys.executable, str(ROOT / "manage.py"), "mcp_stdio")


class Process:
    """One run of `mcp_stdio`; what it writes to stderr is collected in `noise`."""

    def __init__(
        self,
        *arguments: str,
        site: str = SITE,
        program: tuple[str, ...] = PROGRAM,
        extra: Mapping[str, str] | None = None,
    ) -> None:
        self.process = subprocess.Popen(
            [*program, *arguments],
            cwd=ROOT,
            env=environment(site, extra),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin, self.stdout = self.process.stdin, self.process.stdout
        self.lines: list[bytes] = []
        """Every line that came, as it came."""
        self.noise = ""
        self._has_noise = threading.Condition()
        self._rest = b""
        self._last_id = 0
        threading.Thread(target=self._collect, daemon=True).start()

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_error: object) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for pipe in (self.stdin, self.stdout):
            try:
                pipe.close()
            except BrokenPipeError:
                pass

    def _collect(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as pipe:
            for line in pipe:
                with self._has_noise:
                    self.noise += line.decode()
                    self._has_noise.notify_all()

    def wait_for_noise(self, text: str) -> None:
        """Wait until something was written to stderr."""
        with self._has_noise:
            assert self._has_noise.wait_for(lambda: text in self.noise, LIMIT_S), self.noise

    # -- lines

    def write(self, data: bytes) -> None:
        self.stdin.write(data)
        self.stdin.flush()

    def send(self, body: Any) -> None:
        self.write(json.dumps(body).encode() + b"\n")

    def read(self) -> dict[str, Any]:
        """Return the next message; an end of the output is a failure."""
        line = self.read_line()
        assert line is not None, self.noise
        found: dict[str, Any] = json.loads(line)
        return found

    def read_line(self, limit_s: float = LIMIT_S) -> bytes | None:
        until = time.monotonic() + limit_s
        while b"\n" not in self._rest:
            left = until - time.monotonic()
            ready, _, _ = select.select([self.stdout], [], [], max(left, 0))
            assert ready, f"no line came; stderr: {self.noise}"
            data = os.read(self.stdout.fileno(), 1 << 20)
            if not data:
                assert not self._rest, f"half a line at the end: {self._rest!r}"
                return None
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        self.lines.append(line)
        return line

    def read_rest(self) -> list[dict[str, Any]]:
        """Return the messages until the end of the output."""
        found = []
        while (line := self.read_line()) is not None:
            found.append(json.loads(line))
        return found

    # -- messages

    def begin(
        self, method: str, params: Any = None, *, revision: Any = V2025_11_25, id: Any = None
    ) -> Any:
        """Send a request, and return its id."""
        self._last_id += 1
        request = message(method, params, revision=revision, id=id or self._last_id)
        self.send(request)
        return request["id"]

    def answer_to(self, id: Any, meanwhile: Callable[[dict[str, Any]], Any] | None = None) -> Any:
        """Return the answer to a request; messages before it go to `meanwhile`."""
        while True:
            found = self.read()
            if found.get("id") == id and "method" not in found:
                return found
            if meanwhile is not None:
                meanwhile(found)

    def ask(self, method: str, params: Any = None, **how: Any) -> Any:
        """Return the answer to a request."""
        return self.answer_to(self.begin(method, params, **how))

    def call(self, name: str, **arguments: Any) -> str:
        """Return the text that a tool gives."""
        answer = self.ask("tools/call", {"name": name, "arguments": arguments})
        text: str = answer["result"]["content"][0]["text"]
        return text

    def begin_call(self, name: str, **arguments: Any) -> Any:
        return self.begin("tools/call", {"name": name, "arguments": arguments})

    def initialize(self, revision: Any = V2025_11_25, **capabilities: Any) -> Any:
        params = {
            "protocolVersion": revision.name,
            "capabilities": capabilities,
            "clientInfo": {"name": "tests", "version": "1"},
        }
        answer = self.ask("initialize", params, revision=revision)
        self.tell("notifications/initialized")
        return answer["result"]

    def tell(self, method: str, **params: Any) -> None:
        self.send({"jsonrpc": "2.0", "method": method, **({"params": params} if params else {})})

    # -- the end

    def close_input(self) -> None:
        self.stdin.close()

    def wait(self) -> int:
        """Return the exit status."""
        return self.process.wait(LIMIT_S)
