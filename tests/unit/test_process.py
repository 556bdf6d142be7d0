"""Objects per process, and when they are recreated."""

from __future__ import annotations

import os
import subprocess
import sys
from textwrap import dedent

import pytest
from django.test import override_settings

from django_mcp.process import PerProcess, process_id


class Opened:
    """Records whether it was closed."""

    is_closed = False

    def close(self) -> None:
        self.is_closed = True


def test_an_object_is_created_once_and_recreated_after_a_setting_change():
    held = PerProcess(Opened, settings=("DJANGO_MCP",), close=Opened.close)
    first = held.get()
    assert held.get() is first

    with override_settings(LANGUAGES=[("en", "English")]):
        assert held.get() is first
    with override_settings(DJANGO_MCP={}):
        assert first.is_closed
        assert held.get() is not first


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_creates_its_own_object():
    held = PerProcess(Opened)
    first, parent = held.get(), process_id()
    child = os.fork()
    if not child:
        is_new = held.current is None and held.get() is not first and process_id() != parent
        os._exit(0 if is_new and not first.is_closed else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert (held.get(), process_id()) == (first, parent)


def test_the_package_can_be_imported_where_processes_do_not_fork():
    code = """
        import os, pkgutil
        for name in {"fork", "forkpty", "register_at_fork"} & set(vars(os)):
            delattr(os, name)
        import django
        django.setup()
        import django_mcp
        inner = {"contrib", "migrations", "routing"}
        for found in pkgutil.walk_packages(django_mcp.__path__, "django_mcp."):
            if inner.isdisjoint(found.name.split(".")):
                __import__(found.name)
        print("done")
    """
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings"}
    done = subprocess.run(
        [sys.executable, "-c", dedent(code)],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
        env=environment,
    )

    assert (done.stdout, done.returncode) == ("done\n", 0), done.stderr
