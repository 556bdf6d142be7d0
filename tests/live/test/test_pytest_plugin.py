"""The pytest plugin, in runs of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FIXTURE_TEST = """
import pytest

@pytest.mark.django_db
def test_it(mcp_client):
    assert mcp_client.call("find_products").structured == []

@pytest.mark.django_db(transaction=True)
def test_it_asynchronously(async_mcp_client):
    assert async_mcp_client.server is not None
"""


def run_pytest(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_it.py").write_text(FIXTURE_TEST)
    plugin = ["-p", "no:django_mcp", "-p", "django_mcp.pytest_plugin"]
    plain = ["-q", "-p", "no:cacheprovider", "--import-mode=importlib", f"--rootdir={folder}"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *plain, *plugin, *options, str(folder / "test_it.py")],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_pytest_fixture_returns_a_client(tmp_path: Path):
    done = run_pytest(tmp_path, "--ds=tests.settings")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


def test_the_pytest_fixture_names_missing_requirements(tmp_path: Path):
    done = run_pytest(tmp_path, "-p", "no:django", "-o", "markers=django_db", "-o", "addopts=")

    assert "mcp_client needs pytest-django" in done.stdout


def test_the_plugin_is_found_and_loads_lazily():
    import tomllib

    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"django_mcp": "django_mcp.pytest_plugin"}
    code = "import pytest, sys; before = set(sys.modules); import django_mcp.pytest_plugin; "
    code += "print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["django_mcp", "django_mcp.pytest_plugin"]
