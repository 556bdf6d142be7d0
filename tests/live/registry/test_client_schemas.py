"""Clients accept every schema of the shop and of the sites that the tests serve."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SITES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for folder in (ROOT / "example_project", ROOT / "tests/support")
    for path in folder.rglob("*settings.py")
)


@pytest.mark.parametrize("settings_module", SITES)
def test_clients_accept_the_schemas_of_a_site(settings_module: str, tmp_path: Path):
    checked = subprocess.run(
        [sys.executable, "-m", "tests.support.client_schemas"],
        env={
            **os.environ,
            "DJANGO_SETTINGS_MODULE": settings_module,
            "LEGACY_SSE_DATABASE": str(tmp_path / "site.sqlite3"),
        },
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert checked.returncode == 0, checked.stdout + checked.stderr
