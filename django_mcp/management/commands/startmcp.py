"""`manage.py startmcp`: write an app's first tool, and its test."""

from __future__ import annotations

import keyword
import sysconfig
from pathlib import Path
from typing import Any

from django.apps import AppConfig, apps
from django.core.management.base import CommandError, CommandParser

from django_mcp.conf import settings
from django_mcp.management.base import SiteCommand, wrong_use

MODULE = '''\
"""The MCP tools of the app {label}; Django loads this module by itself, like admin.py."""

from django_mcp import Context, tool


@tool(read_only=True)
def hello_from_{label}(ctx: Context, name: str = "world") -> str:
    """Say hello. (The model reads this sentence: say what the tool does, and when to use it.)

    Args:
        name: whom to greet.
    """
    return f"Hello {{name}}, says {{ctx.user.get_username() or 'nobody in particular'}}."
'''

TEST = '''\
"""Tests for the MCP tools of the app {label}."""

from django.contrib.auth import get_user_model

from django_mcp.test import MCPTestCase


class MCPTests(MCPTestCase):
    @classmethod
    def setUpTestData(cls) -> None:
        cls.user = get_user_model().objects.create_user("ann")

    def test_it_says_hello(self) -> None:
        self.mcp.force_login(self.user)

        said = self.mcp.call("hello_from_{label}", name="Bob")

        self.assertEqual(said.text, "Hello Bob, says ann.")
'''


class Command(SiteCommand):
    """Write an app's first tool and its test."""

    help = "Writes a starter mcp.py into an app, and a test of it; overwrites nothing."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("app", help="label of an installed app")

    def handle(self, *args: Any, **options: Any) -> None:
        config = find_app(options["app"])
        folder = Path(config.path)
        if is_installed(folder):
            raise wrong_use(
                f"Nothing was written: {config.name} is a library, installed in {folder}. Name an "
                "app of your project."
            )
        tests = folder / "tests"
        files = {
            folder / f"{settings.AUTODISCOVER_MODULE or 'mcp'}.py": MODULE,
            # Where Django's test runner will find it.
            (tests if tests.is_dir() else folder) / "test_mcp.py": TEST,
        }
        taken = [str(file) for file in files if file.exists()]
        if taken:
            verb = "exists" if len(taken) == 1 else "exist"
            raise CommandError(f"Nothing was written: {' and '.join(taken)} already {verb}.")
        for file, text in files.items():
            try:
                with file.open("x", encoding="utf-8") as out:
                    out.write(text.format(label=config.label))
            except OSError as error:
                raise CommandError(f"{file} cannot be written: {error}") from error
            self.stdout.write(f"Wrote {file}")
        self.stdout.write(
            f"Try it: manage.py mcp_call hello_from_{config.label}, manage.py test {config.name}"
        )


def find_app(name: str) -> AppConfig:
    """Return the installed app of a label, or of a dotted name, or raise CommandError."""
    for config in apps.get_app_configs():
        if name in (config.label, config.name):
            if not config.label.isidentifier() or keyword.iskeyword(config.label):
                raise CommandError(f"No function can be named after {config.label!r}.")
            return config
    known = ", ".join(sorted(config.label for config in apps.get_app_configs()))
    raise wrong_use(
        f"No app {name!r} is installed: is it in INSTALLED_APPS? Installed apps: {known}."
    )


def is_installed(folder: Path) -> bool:
    """Return whether a folder belongs to an installed library, which an update would replace."""
    folder = folder.resolve()
    if {"site-packages", "dist-packages"} & {*folder.parts}:
        return True
    roots = {sysconfig.get_path(name) for name in ("purelib", "platlib", "stdlib", "platstdlib")}
    return any(folder.is_relative_to(Path(root).resolve()) for root in roots)
