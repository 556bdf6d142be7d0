"""The scripted transcripts solve all tasks, as they use names and arguments that the lists have."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.sites import ROOT

needs_oscar = pytest.mark.skipif(
    # Who names sites, as CI does, has to have the packages.
    "CIRCLE_SITES" not in os.environ and find_spec("oscar") is None,
    reason="needs the packages of tests/circle/requirements.txt",
)


def measure(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "ignore", "-m", "tests.usability", *arguments]
    environment = {k: v for k, v in os.environ.items() if k != "DJANGO_SETTINGS_MODULE"}
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "site",
    ["shop", pytest.param("large", marks=needs_oscar), pytest.param("compact", marks=needs_oscar)],
)
def test_the_scripted_calls_solve_all_tasks(site: str) -> None:
    measured = measure(site)

    assert f"{site}: 20 of 20 tasks solved" in measured.stdout, measured.stdout + measured.stderr
    assert measured.returncode == 0


@pytest.mark.slow
def test_tasks_that_are_not_solved_are_named_with_the_reason(tmp_path: Path) -> None:
    transcript = tmp_path / "calls.jsonl"
    transcript.write_text(
        '{"task": "shop-1", "tool": "find_orders", "arguments": {"state": "placed"}}\n'
        '{"task": "shop-1", "answer": "2026-0101"}\n'
        '{"task": "shop-11", "tool": "ship_order", "arguments": {"number": "2026-0104"}}\n'
        '{"task": "shop-5", "tool": "cancel_order", "arguments": {"number": "2026-0104"}}\n'
        '{"task": "shop-5", "answer": "It was not found."}\n'
    )

    measured = measure("shop", str(transcript))

    assert measured.returncode == 1
    assert "0 of 20 tasks solved, 3 calls, 1 errors" in measured.stdout
    assert "shop-1 is not solved: the answer lacks 2026-0102" in measured.stdout
    assert "shop-11 is not solved: the database is not as it should be" in measured.stdout
    assert "shop-5 is not solved: a question changed the database" in measured.stdout
    assert "shop-2 is not solved: the transcript has no call" in measured.stdout
