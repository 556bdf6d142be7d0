"""The package without one of its extensions: its folder and its line of the table are deleted."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from django_mcp.extension_packages import EXTENSION_PACKAGES
from tests.support.commands import ROOT
from tests.support.projects import Project

IMPORT_ALL = """
import django
django.setup()
import importlib, pkgutil, django_mcp
for found in pkgutil.walk_packages(django_mcp.__path__, "django_mcp."):
    if ".migrations." not in found.name and not found.name.startswith("django_mcp.contrib."):
        importlib.import_module(found.name)
print("imported from", django_mcp.__file__)
"""

SHOW_ADMIN = """
import django
django.setup()
from django.contrib.auth.models import User
from django.test import Client
client = Client(headers={"host": "localhost"})
client.force_login(User.objects.create_superuser("root"))
page = client.get("/admin/django_mcp/disabledentry/")
print("status", page.status_code)
print(*sorted(set(__import__("re").findall(r"/admin/django_mcp/(\\w+)/", page.content.decode()))))
"""


@pytest.fixture(params=EXTENSION_PACKAGES, scope="module")
def copy(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a copy of the package, and of these tests, without one of its extensions."""
    path = tmp_path_factory.mktemp("without") / "copy"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "django_mcp", path / "django_mcp", ignore=ignored)
    for name in ("conformance", "support"):
        shutil.copytree(ROOT / "tests" / name, path / "tests" / name, ignore=ignored)
    (path / "tests" / "__init__.py").touch()
    folder = request.param.replace(".", "/")
    shutil.rmtree(path / folder)
    table = path / "django_mcp" / "extension_packages.py"
    text = table.read_text()
    assert f'"{request.param}"' in text
    table.write_text(text.replace(f'"{request.param}",', "").replace(f'"{request.param}"', ""))
    return path


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, copy: Path) -> Iterator[Project]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("tests.support.projects.ROOT", copy)
        project = Project(tmp_path_factory.mktemp("project") / "site")
        assert project.manage("migrate", "-v", "0").returncode == 0
        yield project


def test_everything_else_is_imported_and_checked(project: Project, copy: Path):
    printed = project.python("-c", IMPORT_ALL).stdout

    assert f"imported from {copy}/django_mcp/" in printed
    assert "no issues" in project.check().replace("0 silenced", "")


def test_a_tool_is_called(project: Project):
    printed = project.manage("mcp_call", "total", '{"price": 4, "quantity": 3}').stdout

    assert "12" in printed


def test_the_admin_has_no_tab_of_it(project: Project, copy: Path):
    printed = project.python("-c", SHOW_ADMIN).stdout

    assert "status 200" in printed
    assert "callrecord" in printed
    # Pages of tools have no tab.
    has_tasks = (copy / "django_mcp" / "extensions" / "tasks").exists()
    assert ("task" in printed.split()) is has_tasks


def test_the_rest_conforms_to_the_protocol(copy: Path):
    if shutil.which("npm") is None:
        pytest.skip("npm is missing")
    fixtures = copy / "tests" / "conformance" / "fixtures"
    (fixtures / "tasks.py").unlink()
    package = fixtures / "__init__.py"
    package.write_text(
        package.read_text().replace("questions, tasks ", "questions ").replace('"tasks", ', "")
    )
    cache = os.environ.get("CONFORMANCE_CACHE", str(ROOT / ".cache"))

    done = subprocess.run(
        [sys.executable, "-m", "tests.conformance", "run", "2025-11-25"],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": str(copy), "CONFORMANCE_CACHE": cache},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout
