"""Run tests that failed in CI once more, alone, and list those that pass then.

As a plugin of pytest (`-p tests.support.reruns --failed-tests FILE`) it writes the tests that failed to a file. As a
program it runs each of them again:

    python -m tests.support.reruns FAILED LIST

FAILED is the file that the plugin wrote. A test that passes now is printed under "FLAKY:" with both outputs, and
added to LIST (`tests/flaky.txt`). The exit status is 1 if a test fails again or may not run again: tests of attacks,
races and kills (the mark `once`) are not run again, as a failure that comes by chance is what they look for.
"""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

MOST = 10
"""The largest number of failed tests that are run again; when more fail, chance is not the cause."""
LIMIT_S = 900
HEADER = """\
# Tests that failed once in CI and passed when they ran again alone: date, test, suspected cause.
# A test leaves this list when its cause is mended.
"""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option for the file of failed tests."""
    parser.addoption(
        "--failed-tests", type=Path, help="write the tests that fail to this file, as JSON"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Collect failures in the process that has the reports of all tests."""
    path = config.getoption("--failed-tests")
    if path is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(FailedTests(path))


class FailedTests:
    """Writes the tests that failed, with their outputs, to `path` as an object of JSON."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.outputs: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the output of a phase that failed."""
        if report.failed:
            sections = "".join(f"\n--- {name}\n{text}" for name, text in report.sections)
            output = f"[{report.when}]\n{report.longreprtext}{sections}\n"
            self.outputs[report.nodeid] = self.outputs.get(report.nodeid, "") + output

    def pytest_sessionfinish(self) -> None:
        """Write the file."""
        self.path.write_text(json.dumps(self.outputs))


def run_again(test: str) -> tuple[bool, str]:
    """Run one test alone; return whether it passed, and what it printed.

    A test with the mark `once` is deselected, which counts as a failure.
    """
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider"]
    try:
        done = subprocess.run(
            [*command, "-m", "not once", test],
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT_S,
        )
    except subprocess.TimeoutExpired as error:
        return False, f"{error}\n"
    return done.returncode == 0, done.stdout


def add_to(path: Path, tests: list[str]) -> None:
    """Add tests to the list, with today's date."""
    today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    text = path.read_text() if path.exists() else HEADER
    path.write_text(text + "".join(f"{today}  {test}  cause not known yet\n" for test in tests))


def _print_failure(test: str, first: str, second: str) -> None:
    print(f"\n----- {test}\n--- first run, with other tests:\n{first}--- alone:\n{second}")


def _run_all_again(failed: dict[str, str]) -> Iterator[tuple[str, bool, str]]:
    for test in failed:
        yield test, *run_again(test)


def main(failed_path: Path, list_path: Path) -> int:
    """Run the failed tests again and report; return the exit status."""
    failed: dict[str, str] = json.loads(failed_path.read_text()) if failed_path.exists() else {}
    if not failed:
        print("pytest failed without a failed test: nothing can be run again")
        return 1
    if len(failed) > MOST:
        print(f"{len(failed)} tests failed, more than {MOST}: none is run again")
        return 1
    flaky: list[tuple[str, str, str]] = []
    broken: list[tuple[str, str, str]] = []
    for test, passed, output in _run_all_again(failed):
        (flaky if passed else broken).append((test, failed[test], output))
    if flaky:
        print(f"\nFLAKY: {len(flaky)} of {len(failed)} failed tests passed when they ran alone")
        for result in flaky:
            _print_failure(*result)
        add_to(list_path, [test for test, _, _ in flaky])
        print(f"\nThese are now listed in {list_path.name}. Commit it.")
    if broken:
        print(f"\nFAILED: {len(broken)} tests failed again, or may not run again")
        for result in broken:
            _print_failure(*result)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
