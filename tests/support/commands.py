"""Run commands of the example shop, in this process and as a shell does."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any, TypeAlias
from uuid import uuid4

import pytest
from django.core.management import call_command

from example_project.shop import sample

ROOT = Path(__file__).parents[2]

Run: TypeAlias = Callable[..., tuple[str, str]]
Shell: TypeAlias = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run() -> Run:
    """Call a command, and return what it wrote to its output and to its error output."""

    def run(*arguments: str, stdin: str = "", **options: Any) -> tuple[str, str]:
        out, err = StringIO(), StringIO()
        if arguments[0] in ("mcp_call", "mcp_read", "mcp_prompt"):
            options["stdin"] = StringIO(stdin)
        call_command(*arguments, stdout=out, stderr=err, **options)
        return out.getvalue(), err.getvalue()

    return run


@pytest.fixture
def shop(db: None) -> None:
    """A filled shop."""
    sample.load()


@pytest.fixture(scope="session")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """Run `manage.py` with a filled shop in a process of its own."""
    database = tmp_path_factory.mktemp("shop") / "db.sqlite3"
    environment = {k: v for k, v in os.environ.items() if k != "DJANGO_SETTINGS_MODULE"}
    environment |= {"SHOP_DATABASE": str(database), "PYTHONPATH": str(ROOT)}

    def shell(
        *arguments: str, stdin: str = "", cwd: Path = ROOT
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, str(ROOT / "manage.py"), *arguments],
            cwd=cwd,
            env=environment,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )

    assert shell("demo", "--prepare").returncode == 0
    return shell


URLCONF = """
from django_mcp import MCPServer

server = MCPServer("{name}", public=True)
server.register_tool(lambda: "found", name="found", read_only=True)
urlpatterns = []
"""


@pytest.fixture
def server_in_urlconf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Any) -> str:
    """Return the name of a server defined in the site's URLconf, which is not loaded yet."""
    name = f"urlconf_{uuid4().hex}"
    (tmp_path / f"{name}.py").write_text(URLCONF.format(name=name))
    monkeypatch.syspath_prepend(tmp_path)
    settings.ROOT_URLCONF = name
    return name
