"""`mcp_config`, `mcp_surface` and `startmcp` at a shell."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.commands import ROOT, Shell


def run_project(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k != "DJANGO_SETTINGS_MODULE"}
    return subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=environment | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("client", ["claude-desktop", "vscode"])
def test_a_configured_command_runs_from_any_directory(shell: Shell, client: str, tmp_path: Path):
    done = shell("mcp_config", "--client", client)
    assert done.returncode == 0, done.stderr
    assert done.stderr.strip()

    servers = next(iter(json.loads(done.stdout).values()))
    entry = servers["example-shop"]
    command: str = entry["command"]
    rest: list[str] = entry["args"]
    assert Path(command).is_absolute()
    assert rest[-1] == "mcp_stdio"
    listed = subprocess.run(
        [command, *rest[:-1], "mcp_list", "--json"],
        cwd=tmp_path,
        env={**entry["env"], "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert json.loads(listed.stdout)["server"] == "example-shop"


def test_without_a_manage_py_the_project_is_found_by_the_path(tmp_path: Path):
    done = run_project(
        ROOT, "-m", "django", "mcp_config", "--client", "cursor", "--settings", "tests.settings"
    )

    entry = json.loads(done.stdout)["mcpServers"]["example-shop"]
    assert entry["args"][:2] == ["-m", "django"]
    assert entry["env"]["DJANGO_SETTINGS_MODULE"] == "tests.settings"
    assert str(ROOT) in entry["env"]["PYTHONPATH"].split(os.pathsep)


def test_a_changed_surface_fails_at_the_shell(shell: Shell, tmp_path: Path):
    file = tmp_path / "surface.json"
    assert shell("mcp_surface", "--write", str(file)).returncode == 0
    assert shell("mcp_surface", "--check", str(file)).returncode == 0
    file.write_text(file.read_text().replace("Search what the shop sells.", "Steal."))

    done = shell("mcp_surface", "--check", str(file))

    assert done.returncode == 1
    assert "changed tool find_products" in done.stderr
    assert '-      "description": "Steal.' in done.stdout


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for command in (["startproject", "library", "."], ["startapp", "books"]):
        assert run_project(tmp_path, "-m", "django", *command).returncode == 0
    with (tmp_path / "library" / "settings.py").open("a") as settings:
        settings.write('INSTALLED_APPS = [*INSTALLED_APPS, "django_mcp", "books"]\n')
    return tmp_path


def test_startmcp_creates_a_tool_and_a_passing_test(project: Path):
    started = run_project(project, "manage.py", "startmcp", "books")
    assert started.returncode == 0, started.stderr

    called = run_project(project, "manage.py", "mcp_call", "hello_from_books", '{"name": "Ann"}')
    tested = run_project(project, "-W", "error", "manage.py", "test")

    assert called.stdout == "Hello Ann, says nobody in particular.\n"
    assert tested.returncode == 0, tested.stderr
    assert "Ran 1 test" in tested.stderr


def test_startmcp_creates_a_page_that_passes_its_test_and_the_checks(project: Path):
    started = run_project(project, "manage.py", "startmcp", "books", "--app")
    assert started.returncode == 0, started.stderr

    tested = run_project(project, "-W", "error", "manage.py", "test")
    checked = run_project(project, "manage.py", "check")

    assert tested.returncode == 0, tested.stderr
    assert "Ran 2 tests" in tested.stderr
    assert "django_mcp.apps" not in checked.stderr
    assert "System check identified" in checked.stdout + checked.stderr


def test_startmcp_overwrites_no_template(project: Path):
    page = project / "books" / "templates" / "books" / "mcp" / "hello.html"
    page.parent.mkdir(parents=True)
    page.write_text("mine")

    done = run_project(project, "manage.py", "startmcp", "books", "--app")

    assert done.returncode == 1
    assert "hello.html already exists" in done.stderr
    assert page.read_text() == "mine"
    assert not (project / "books" / "mcp.py").exists()


def test_startmcp_overwrites_nothing(project: Path):
    (project / "books" / "test_mcp.py").write_text("mine")

    done = run_project(project, "manage.py", "startmcp", "books")

    assert done.returncode == 1
    assert "Nothing was written: " in done.stderr
    assert "test_mcp.py already exists" in done.stderr
    assert (project / "books" / "test_mcp.py").read_text() == "mine"
    assert not (project / "books" / "mcp.py").exists()


def test_startmcp_does_not_write_into_installed_packages(project: Path):
    library = project / "site-packages"
    library.mkdir()
    (project / "books").rename(library / "books")

    done = subprocess.run(
        [sys.executable, "manage.py", "startmcp", "books"],
        cwd=project,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "library.settings"}
        | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(library)])},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 2
    assert "Nothing was written: books is a library" in done.stderr
    assert not {"mcp.py", "test_mcp.py"} & {file.name for file in (library / "books").iterdir()}


def test_the_test_is_written_where_the_apps_tests_are(project: Path):
    (project / "books" / "tests.py").unlink()
    (project / "books" / "tests").mkdir()
    (project / "books" / "tests" / "__init__.py").touch()

    assert run_project(project, "manage.py", "startmcp", "books").returncode == 0
    assert "Ran 1 test" in run_project(project, "manage.py", "test").stderr
