"""Everything shown in README and docs has to work: commands, scripts, snippets, responses."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.support.backends import require
from tests.support.doc_blocks import PAGES, ROOT, Block, all_blocks, answer_to, blocks_of
from tests.support.sites import free_port

ADDRESS = "127.0.0.1:8000"
CALLBACK_PORT = "33419"
START_LIMIT_S = 60
RUN_LIMIT_S = 120


def blocks(*kinds: str) -> list[Block]:
    return [block for block in all_blocks() if block.kind in kinds]


def environment(**extra: str) -> dict[str, str]:
    """Return an environment in which this interpreter's commands come first, and a browser signs in."""
    inherited = {k: v for k, v in os.environ.items() if k != "DJANGO_SETTINGS_MODULE"}
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    person = f"{sys.executable} -m tests.support.oauth.visit %s &"
    return inherited | {"PATH": path, "PYTHONPATH": str(ROOT), "BROWSER": person} | extra


def adapted(text: str, address: str) -> str:
    """Return a block's text for this machine: a free port, this interpreter."""
    port = address.rpartition(":")[2]
    text = text.replace(ADDRESS, address).replace(".venv/bin/", "")
    text = text.replace(CALLBACK_PORT, str(free_port()))
    return re.sub(r"\b8000\b", port, text)


@contextmanager
def serving(command: list[str], address: str, cwd: Path, env: dict[str, str]) -> Iterator[None]:
    """Run a server until the block ends; it has to listen, and to stop on request."""
    server = subprocess.Popen(command, cwd=cwd, env=env, start_new_session=True)
    try:
        wait_until_it_listens(server, address)
        yield
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        try:
            server.wait(90)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
            raise


def wait_until_it_listens(server: subprocess.Popen[bytes], address: str) -> None:
    host, _, port = address.rpartition(":")
    deadline = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline:
        assert server.poll() is None, f"the server ended with status {server.returncode}"
        try:
            socket.create_connection((host, int(port)), 0.5).close()
            return
        except OSError:
            time.sleep(0.05)
    pytest.fail(f"nothing listens on {address} after {START_LIMIT_S} s")


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of an example site with a database of its own, migrated and filled."""
    env = environment(SHOP_DATABASE=str(tmp_path_factory.mktemp("shop") / "db.sqlite3"))
    subprocess.run(
        [sys.executable, "manage.py", "demo", "--prepare"], cwd=ROOT, env=env, check=True
    )
    return env


@pytest.fixture(scope="module")
def site(shop: dict[str, str]) -> Iterator[tuple[str, dict[str, str]]]:
    """The address of the running example site, and the environment it runs in."""
    address = f"127.0.0.1:{free_port()}"
    with serving([sys.executable, "manage.py", "demo", address], address, ROOT, shop):
        yield address, shop


def output_of(command: list[str], cwd: Path, env: dict[str, str], *, fails: bool = False) -> str:
    """Return what a command prints; what it prints on its error output if it has to fail."""
    done = subprocess.run(
        command, cwd=cwd, env=env, capture_output=True, text=True, timeout=RUN_LIMIT_S, check=False
    )
    assert done.returncode == int(fails), f"{done.stdout}\n{done.stderr}"
    return done.stderr if fails else done.stdout


def require_its_tools(block: Block) -> None:
    """Skip a block whose command this machine lacks; CI has to have it."""
    for tool in ("curl", "npx"):
        if re.search(rf"^{tool}\b", block.text, re.MULTILINE):
            require(shutil.which(tool), f"{tool} is not installed")


def answers_in(block: Block, output: str, address: str) -> None:
    """Compare the output with the answer that the page shows, if there is one."""
    answer = answer_to(block)
    if answer is None:
        return
    expected = adapted(answer.text, address)
    if answer.kind == "json answer":
        assert json.loads(output) == json.loads(expected), output
    else:
        assert output == expected


def refuse_errors_in(block: Block, output: str) -> None:
    """Refuse a JSON-RPC error that curl prints, which does not end it, unless the page shows an answer."""
    answer = answer_to(block)
    if "curl" not in block.text or (answer is not None and answer.kind == "json answer"):
        return
    for line in output.splitlines():
        try:
            message = json.loads(line.removeprefix("data: "))
        except ValueError:
            continue
        assert not (isinstance(message, dict) and "error" in message), f"{block}: {line}"


@pytest.mark.parametrize("block", blocks("bash site", "python site"), ids=str)
def test_blocks_run_beside_the_example_site(block: Block, site: tuple[str, dict[str, str]]):
    require_its_tools(block)
    address, env = site
    text = adapted(block.text, address)
    command = ["bash", "-euo", "pipefail", "-c", text]
    if block.kind == "python site":
        command = [sys.executable, "-c", text]

    output = output_of(command, ROOT, env)

    answers_in(block, output, address)
    refuse_errors_in(block, output)


@pytest.mark.parametrize("block", blocks("bash serve"), ids=str)
def test_a_documented_server_command_responds(block: Block, shop: dict[str, str]):
    address = f"127.0.0.1:{free_port()}"
    command = ["bash", "-euo", "pipefail", "-c", adapted(block.text, address)]

    with serving(command, address, ROOT, shop):
        assert initialized(address)["result"]["serverInfo"]["name"]


def initialized(address: str) -> dict:
    """Return the answer to an `initialize`."""
    params = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "docs", "version": "1"},
    }
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    url, kind = f"http://{address}/mcp", "Content-Type: application/json"
    curl = ["curl", "-sS", "--fail", "--max-time", "60", url, "-H", kind, "-d", json.dumps(message)]
    return json.loads(output_of(curl, ROOT, environment()))


RUN_TEST_CASES = """
import sys
import unittest

suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])
if suite.countTestCases():
    from django.test.runner import DiscoverRunner

    runner = DiscoverRunner(verbosity=0)
    runner.setup_test_environment()
    databases = runner.setup_databases()
    result = runner.run_suite(suite)
    runner.teardown_databases(databases)
    sys.exit(not result.wasSuccessful())
"""


PAGES_WITH_SNIPPETS = [page for page in PAGES if any(b.kind == "python" for b in blocks_of(page))]


@pytest.mark.parametrize("page", PAGES_WITH_SNIPPETS, ids=lambda page: page.name)
def test_a_pages_snippets_run(page: Path, tmp_path: Path):
    """In one process, in order, as one module: a later snippet may use what an earlier one made.

    Test cases among them are run.
    """
    script = tmp_path / "snippets.py"
    texts = [block.text for block in blocks_of(page) if block.kind == "python"]
    script.write_text("\n".join(["import django\ndjango.setup()", *texts, RUN_TEST_CASES]))
    env = environment(DJANGO_SETTINGS_MODULE="tests.support.site.docs_settings")

    output_of([sys.executable, "-W", "error", str(script)], ROOT, env)


PAGES_WITH_PROJECTS = [
    page for page in PAGES if any(b.kind == "bash project" for b in blocks_of(page))
]


@pytest.mark.parametrize("page", PAGES_WITH_PROJECTS, ids=lambda page: page.name)
def test_a_pages_project_from_its_first_block_to_its_last(page: Path, tmp_path: Path):
    """Its files are written and its commands run in the page's order."""
    address = f"127.0.0.1:{free_port()}"
    with ExitStack() as running:
        for block in blocks_of(page):
            text = adapted(block.text, address)
            bash = ["bash", "-euo", "pipefail", "-c", text]
            if block.kind in {"bash project", "bash project-serve"}:
                require_its_tools(block)
            match block.kind:
                case "python FILE":
                    write(tmp_path / block.file, text, is_addition=block.is_addition)
                case "bash project":
                    answers_in(block, output_of(bash, tmp_path, environment()), address)
                case "bash project-fails":
                    output = output_of(bash, tmp_path, environment(), fails=True)
                    answers_in(block, output, address)
                case "python project":
                    script = [sys.executable, "-c", text]
                    answers_in(block, output_of(script, tmp_path, environment()), address)
                case "bash project-serve":
                    running.enter_context(serving(bash, address, tmp_path, environment()))


def write(file: Path, text: str, *, is_addition: bool) -> None:
    """Write a file, or add to one that is there."""
    before = file.read_text() + "\n" if is_addition else ""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(before + text)
