"""`manage.py startmcp`: write an app's first tool and its test, with or without a page."""

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
"""The MCP tools of the app APP_LABEL; Django loads this module by itself, like admin.py."""

from django_mcp import Context, tool


@tool(read_only=True)
def hello_from_APP_LABEL(ctx: Context, name: str = "world") -> str:
    """Say hello. (The model reads this sentence: say what the tool does, and when to use it.)

    Args:
        name: whom to greet.
    """
    return f"Hello {name}, says {ctx.user.get_username() or 'nobody in particular'}."
'''

_TEST_HEAD = '''\
"""Tests for the MCP tools of the app APP_LABEL."""

from django.contrib.auth import get_user_model

from django_mcp.test import MCPTestCase


class MCPTests(MCPTestCase):
    @classmethod
    def setUpTestData(cls) -> None:
        cls.user = get_user_model().objects.create_user("ann")

    def test_it_says_hello(self) -> None:
        self.mcp.force_login(self.user)

'''

TEST = (
    _TEST_HEAD
    + """\
        said = self.mcp.call("hello_from_APP_LABEL", name="Bob")

        self.assertEqual(said.text, "Hello Bob, says ann.")
"""
)

APP_MODULE = '''\
"""The MCP tools of the app APP_LABEL; Django loads this module by itself, like admin.py."""

from django_mcp import Context, tool
from django_mcp.extensions.apps import App


@tool(
    read_only=True,
    app=App(template="APP_LABEL/mcp/hello.html", fragment="APP_LABEL/mcp/_hello.html"),
)
def hello_from_APP_LABEL(ctx: Context, name: str = "world") -> dict[str, str]:
    """Say hello. (The model reads this sentence: say what the tool does, and when to use it.)

    Args:
        name: whom to greet.
    """
    return {"name": name, "by": ctx.user.get_username() or "nobody in particular"}
'''

APP_TEST = (
    _TEST_HEAD
    + """\
        said = self.mcp.call("hello_from_APP_LABEL", name="Bob")

        self.assertEqual(said.structured, {"name": "Bob", "by": "ann"})

    def test_hosts_can_show_its_page(self) -> None:
        self.mcp.force_login(self.user)

        self.mcp.assert_app("hello_from_APP_LABEL", name="Bob")
"""
)

PAGE = """\
{# Rendered without a user and data: hosts load it before a call, and keep it. #}
{% load mcp_apps %}
{% mcp_app title="Hello" %}
  <h1>Hello</h1>
  <div data-mcp-result></div>
  <button type="button" data-mcp-call="hello_from_APP_LABEL" {% mcp_args name="everybody" %}>Greet everybody</button>
{% endmcp_app %}
"""

FRAGMENT = """\
{# The part of the page that shows a result; the tool returned `result`. #}
<p>Hello {{ result.name }}, says {{ result.by }}.</p>
"""


class Command(SiteCommand):
    """Write an app's first tool and its test, and a page of the tool if that is asked for."""

    help = "Writes a starter mcp.py into an app, and a test of it; overwrites nothing."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("app", help="label of an installed app")
        parser.add_argument(
            "--app",
            dest="with_page",
            action="store_true",
            help="give the tool a page, which hosts with MCP Apps show",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        config = find_app(options["app"])
        folder = Path(config.path)
        if is_installed(folder):
            raise wrong_use(
                f"Nothing was written: {config.name} is a library, installed in {folder}. Name an "
                "app of your project."
            )
        tests = folder / "tests"
        with_page = options["with_page"]
        files = {
            folder / f"{settings.AUTODISCOVER_MODULE or 'mcp'}.py": APP_MODULE
            if with_page
            else MODULE,
            # Where Django's test runner will find it.
            (tests if tests.is_dir() else folder) / "test_mcp.py": APP_TEST if with_page else TEST,
        }
        if with_page:
            templates = folder / "templates" / config.label / "mcp"
            files |= {templates / "hello.html": PAGE, templates / "_hello.html": FRAGMENT}
        taken = [str(file) for file in files if file.exists()]
        if taken:
            verb = "exists" if len(taken) == 1 else "exist"
            raise CommandError(f"Nothing was written: {' and '.join(taken)} already {verb}.")
        for file, text in files.items():
            try:
                file.parent.mkdir(parents=True, exist_ok=True)
                with file.open("x", encoding="utf-8") as out:
                    out.write(text.replace("APP_LABEL", config.label))
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
