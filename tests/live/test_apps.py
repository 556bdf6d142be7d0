"""Django's startup: each app's module is found, and its errors are reported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

START = """
import django
from django.conf import settings
settings.configure(
    INSTALLED_APPS=["django_mcp", "stall"], SECRET_KEY="x", DJANGO_MCP={options}, **{more}
)
django.setup()
from django_mcp import default_server
print(",".join(default_server.registry.tools))
"""


def start(
    folder: Path, module: str, *, name: str = "mcp", options: str = "{}", more: str = "{}"
) -> subprocess.CompletedProcess[str]:
    """Start a site whose app `stall` has a module of that name and content."""
    package = folder / "stall"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / f"{name}.py").write_text(module)
    environment = {k: v for k, v in os.environ.items() if k != "DJANGO_SETTINGS_MODULE"}
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", START.format(options=options, more=more)],
        env={**environment, "PYTHONPATH": os.pathsep.join([str(ROOT), str(folder)])},
        capture_output=True,
        text=True,
        check=False,
    )


GOOD = """
from django_mcp import tool

@tool
def sell(what: str) -> str:
    return what
"""


def test_the_module_of_each_app_is_found(tmp_path: Path):
    done = start(tmp_path, GOOD)

    assert (done.stdout, done.stderr) == ("sell\n", "")


def test_the_module_may_have_another_name(tmp_path: Path):
    done = start(tmp_path, GOOD, name="assistant", options='{"AUTODISCOVER_MODULE": "assistant"}')

    assert (done.stdout, done.stderr) == ("sell\n", "")


def test_autodiscovery_can_be_disabled(tmp_path: Path):
    done = start(tmp_path, GOOD, options='{"AUTODISCOVER_MODULE": None}')

    assert (done.stdout, done.stderr) == ("\n", "")


def test_an_invalid_registration_stops_startup_and_is_named(tmp_path: Path):
    done = start(tmp_path, GOOD + GOOD)

    assert done.returncode != 0
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("django.core.exceptions.ImproperlyConfigured: stall.mcp")
    assert "sell" in last


@pytest.mark.parametrize(
    ("module", "error"),
    [
        ("import nothing_of_that_name", "ModuleNotFoundError"),
        ("1 / 0", "ZeroDivisionError"),
        ("def (", "SyntaxError"),
    ],
)
def test_a_module_that_cannot_be_imported_stops_startup(tmp_path: Path, module: str, error: str):
    done = start(tmp_path, module)

    assert done.returncode != 0
    assert error in done.stderr.strip().splitlines()[-1]
    assert "stall/mcp.py" in done.stderr


def test_an_invalid_setting_does_not_prevent_the_checks(tmp_path: Path):
    done = start(tmp_path, GOOD, options='{"PAGE_SIZE": -1}')

    assert (done.stdout, done.stderr) == ("sell\n", "")
