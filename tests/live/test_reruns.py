"""What CI does with tests that failed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import reruns

TESTS = """
import pathlib, pytest

def test_fails_by_chance():
    seen = pathlib.Path(__file__).with_suffix(".seen")
    first = not seen.exists()
    seen.touch()
    assert not first, "only the first time"

def test_is_broken():
    assert False, "always"

@pytest.mark.once
def test_of_a_race():
    seen = pathlib.Path(__file__).with_suffix(".raced")
    first = not seen.exists()
    seen.touch()
    assert not first, "lost"
"""
CONFIGURATION = '[tool.pytest]\naddopts = ["-p", "no:django"]\nmarkers = ["once: never again"]\n'


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> object:
    """Run tests of the file by name, then what failed once more; return the status, the output and the list."""
    (tmp_path / "pyproject.toml").write_text(CONFIGURATION)
    file = tmp_path / "test_chance.py"
    file.write_text(TESTS)
    failed, listed = tmp_path / "failed.json", tmp_path / "flaky.txt"

    def run(*names: str) -> tuple[int, str, str]:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.support.reruns"]
        options = ["--rootdir", str(tmp_path), "-c", str(tmp_path / "pyproject.toml")]
        tests = [f"{file}::{name}" for name in names]
        subprocess.run(
            [*command, *options, "--failed-tests", str(failed), *tests],
            check=False,
            stdout=subprocess.DEVNULL,
        )
        outputs = json.loads(failed.read_text())
        # The names in the file are relative to the folder of the tests.
        failed.write_text(
            json.dumps({str(tmp_path / test): text for test, text in outputs.items()})
        )
        status = reruns.main(failed, listed)
        return status, capsys.readouterr().out, listed.read_text() if listed.exists() else ""

    return run


def test_a_test_that_passes_alone_is_printed_and_listed(run) -> None:
    status, output, listed = run("test_fails_by_chance")

    assert status == 0
    assert "FLAKY: 1 of 1" in output
    assert "only the first time" in output
    assert "1 passed" in output
    assert listed.count("test_fails_by_chance") == 1


def test_a_test_that_fails_twice_fails_ci(run) -> None:
    status, output, listed = run("test_fails_by_chance", "test_is_broken")

    assert status == 1
    assert "FAILED: 1 tests" in output
    assert "test_is_broken" not in listed


def test_a_test_of_a_race_is_not_run_again(run) -> None:
    status, output, listed = run("test_of_a_race")

    assert status == 1
    assert "1 deselected" in output
    assert not listed


def test_many_failures_are_not_called_chance(tmp_path: Path) -> None:
    failed = tmp_path / "failed.json"
    failed.write_text(json.dumps({f"test_{number}": "" for number in range(reruns.MOST + 1)}))

    assert reruns.main(failed, tmp_path / "flaky.txt") == 1
    assert not (tmp_path / "flaky.txt").exists()
