"""The example project's own tests, as Django runs them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_the_example_projects_tests_pass():
    done = subprocess.run(
        [sys.executable, "-W", "error", "manage.py", "test", "example_project"],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert "OK" in done.stderr
    assert "Ran 0 tests" not in done.stderr
