"""Serve a small Django test site on a real server, in place of this process or beside it.

A site is a package with a `settings` module. It may have `asgi` and `wsgi` modules of its own; without them
those of `tests.support.site` are served. `module` names another of its modules whose `application` is to be
served instead.
"""

from __future__ import annotations

import itertools
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parents[2]
SHARED = "tests.support.site"
SERVERS = ("uvicorn", "gunicorn", "granian", "hypercorn", "daphne", "mcp_serve", "wsgi")
START_LIMIT_S = 90.0
STOP_LIMIT_S = 10.0
WSGI_THREADS = 16


@dataclass(frozen=True, kw_only=True, slots=True)
class Running:
    """A site that answers on a port of this machine."""

    host: str
    port: int
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}/mcp"

    def stop(self) -> int:
        """End the server as an operator would and return its exit status; kill it when it hangs."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            return self.process.wait(STOP_LIMIT_S)


def environment(package: str, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment in which a server finds the site's package and settings."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "DJANGO_SETTINGS_MODULE": f"{package}.settings",
        # The example shop is served at a free port, so its requests tell where.
        "SHOP_URL": "",
        **(extra or {}),
    }


def command(
    package: str,
    server: str,
    *,
    host: str,
    port: int,
    workers: int = 1,
    module: str | None = None,
) -> list[str]:
    """Return the command line that serves the site; of daphne, which knows no workers, several."""
    name = module or ("wsgi" if server == "wsgi" else "asgi")
    where_it_is = package if find_spec(f"{package}.{name}") is not None else SHARED
    target = f"{where_it_is}.{name}:application"
    python = [sys.executable, "-m"]
    match server:
        case "gunicorn":
            where = ["--bind", f"{host}:{port}", "--workers", str(workers)]
            how = ["--worker-class", "uvicorn_worker.UvicornWorker", "--log-level", "warning"]
            return [*python, "gunicorn", target, *where, *how]
        case "mcp_serve":
            return [*python, "django", "mcp_serve", "--host", host, "--port", str(port)]
        case "granian":
            where = ["--host", host, "--port", str(port), "--workers", str(workers)]
            return [*python, "granian", target, *where, "--interface", "asgi", "--no-ws"]
        case "hypercorn":
            where = ["--bind", f"{host}:{port}", "--workers", str(workers)]
            return [*python, "hypercorn", target, *where]
        case "uvicorn":
            where = ["--host", host, "--port", str(port), "--workers", str(workers)]
            return [*python, "uvicorn", target, *where, "--no-access-log", "--log-level", "warning"]
        case "daphne" if workers == 1:
            return [*python, "daphne", target, "-b", host, "-p", str(port), "-v", "0"]
        case "daphne":
            return [*python, "tests.support.sites", target, host, str(port), str(workers)]
        case "wsgi":
            where = ["--bind", f"{host}:{port}", "--workers", str(workers)]
            how = ["--threads", str(WSGI_THREADS), "--log-level", "warning"]
            return [*python, "gunicorn", target, *where, *how]
    raise ValueError(f"unknown server {server!r} (known: {', '.join(SERVERS)})")


def serve(
    package: str,
    server: str,
    *,
    host: str,
    port: int,
    workers: int = 1,
    extra: Mapping[str, str] | None = None,
) -> NoReturn:
    """Become the server: this process is replaced, so its signals and exit status are the server's."""
    arguments = command(package, server, host=host, port=port, workers=workers)
    os.chdir(ROOT)
    os.execve(arguments[0], arguments, environment(package, extra))


PORTS_OF_PROCESS = 2_000
_port_numbers = itertools.count(os.getpid())


def free_port(host: str = "127.0.0.1") -> int:
    """Return a port that nothing listens on, to be taken a moment later.

    Each process of a run has its own ports, none of which an outgoing connection gets: the system gave
    one number to two of them when the first had not taken it yet.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    first = 10_000 + worker % 10 * PORTS_OF_PROCESS
    for number in itertools.islice(_port_numbers, PORTS_OF_PROCESS):
        port = first + number % PORTS_OF_PROCESS
        with suppress(OSError), socket.create_server((host, port)):
            return port
    raise RuntimeError("every port is taken")


@contextmanager
def running(
    package: str,
    server: str,
    *,
    log: Path,
    workers: int = 1,
    module: str | None = None,
    extra: Mapping[str, str] | None = None,
    wrapper: Sequence[str] = (),
    options: Sequence[str] = (),
) -> Iterator[Running]:
    """Serve the site beside this process while the block runs; its output goes to the log file.

    Args:
        options: more of the server's command line.
    """
    host, port = "127.0.0.1", free_port()
    arguments = command(package, server, host=host, port=port, workers=workers, module=module)
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*wrapper, *arguments, *options],
            cwd=ROOT,
            env=environment(package, extra),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    site = Running(host=host, port=port, process=process, log=log)
    try:
        wait_until_it_listens(site)
        yield site
    finally:
        site.stop()


def wait_until_it_listens(site: Running) -> None:
    deadline = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline:
        if site.process.poll() is not None:
            status = site.process.returncode
            raise RuntimeError(f"the server ended with status {status}:\n{tail(site.log)}")
        try:
            socket.create_connection((site.host, site.port), 0.5).close()
            return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError(f"nothing listens after {START_LIMIT_S:.0f} s:\n{tail(site.log)}")


def tail(log: Path, lines: int = 30) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])


def share_a_port_among_daphnes(target: str, host: str, port: int, workers: int) -> int:
    """Run several daphne processes on one listening socket until a signal ends them all."""
    with socket.create_server((host, port), backlog=1024) as listener:
        listener.set_inheritable(True)
        fd = str(listener.fileno())
        arguments = [sys.executable, "-m", "daphne", "--fd", fd, "-v", "0"]
        children = [subprocess.Popen([*arguments, target], close_fds=False) for _ in range(workers)]

        def end(*_: object) -> None:
            for child in children:
                child.terminate()

        signal.signal(signal.SIGTERM, end)
        signal.signal(signal.SIGINT, end)
        # A process stopped before it was ready dies of the signal, which counts as a clean exit.
        statuses = [child.wait() for child in children]
        return max(0 if status == -signal.SIGTERM else abs(status) for status in statuses)


if __name__ == "__main__":
    _target, _host, _port, _workers = sys.argv[1:]
    sys.exit(share_a_port_among_daphnes(_target, _host, int(_port), int(_workers)))
