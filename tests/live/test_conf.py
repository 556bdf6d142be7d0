"""The settings of a site that has only just started."""

from __future__ import annotations

import subprocess
import sys


def test_no_setting_is_read_at_import():
    modules = [
        "asgi",
        "conf",
        "context",
        "execution.values",
        "execution.threads",
        "middleware",
        "servers",
        "apps",
    ]
    code = "; ".join(f"import django_mcp.{module}" for module in modules)

    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={"PATH": "", "PYTHONPATH": "."},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
