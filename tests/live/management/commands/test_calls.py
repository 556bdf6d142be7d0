"""`mcp_call` at a shell and on a terminal."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys

import pytest

from tests.support.commands import ROOT, Shell


def test_a_page_of_the_shop_has_its_documented_url(shell: Shell):
    done = shell(
        "mcp_call", "redeem_voucher", '{"number": "2026-0001"}', "--user", "sam", stdin="n"
    )

    assert "Open http://127.0.0.1:8000/" in done.stderr
    assert done.stdout == "No voucher was redeemed.\n"


def test_progress_is_a_bar_only_on_a_terminal(shell: Shell):
    assert "\r" not in shell("mcp_call", "export_orders").stderr

    leader, follower = pty.openpty()
    environment = dict(os.environ, DJANGO_SETTINGS_MODULE="tests.support.site.terminal_settings")
    done = subprocess.run(
        [sys.executable, "-m", "django", "mcp_call", "count", "--server", "terminal"],
        cwd=ROOT,
        env=environment | {"PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=follower,
        check=False,
    )
    os.close(follower)
    written = os.read(leader, 65536).decode()
    os.close(leader)

    assert done.returncode == 0, written
    assert done.stdout == b"done\n"
    assert "[###############...............]  50% half way" in written
    assert written.endswith("\r\x1b[K")


@pytest.mark.parametrize("tool", ["ask", "work", "wait"])
def test_it_can_be_interrupted(tool: str):
    # A shell has what it starts in the background ignore the signal, and tests may be among that.
    heeding = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    command = "from django.core.management import execute_from_command_line as run; run(sys.argv)"
    process = subprocess.Popen(
        [sys.executable, "-c", heeding + command, "mcp_call", tool, "--server", "terminal"],
        cwd=ROOT,
        env=dict(os.environ, DJANGO_SETTINGS_MODULE="tests.support.site.terminal_settings")
        | {"PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with process:
        assert process.stderr is not None
        assert b"Ready?" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        _, written = process.communicate(timeout=20)

    assert process.returncode == 130, written.decode()
    # A question may stand before it, on the line where its answer was to go.
    assert written.decode().rstrip().endswith("CommandError: Stopped.")
    assert b"Traceback" not in written


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        (["mcp_list", "--revision", "1999-01-01"], 2, "invalid choice"),
        (["mcp_list", "--user", "nobody"], 2, "There is no user"),
        (["mcp_call"], 2, "required: name"),
        (["mcp_call", "find_products", "{"], 2, "not JSON"),
        (["mcp_call", "find_products", '{"limit": 0}'], 1, "/limit"),
        (["mcp_read", "nothing"], 2, "Resource not found"),
        (["mcp_prompt", "nothing"], 2, "Unknown prompt"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_at_the_shell_exits_with_an_error(
    shell: Shell, arguments: list[str], status: int, told: str
):
    done = shell(*arguments)

    assert done.returncode == status, done.stderr
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_question_is_answered_at_the_shell(shell: Shell):
    done = shell("mcp_call", "gift_wrap", '{"number": "2026-0003"}', stdin=":decline\n")

    assert (done.returncode, done.stdout) == (0, "Nothing was wrapped.\n")
    assert "How shall we wrap order 2026-0003?" in done.stderr
