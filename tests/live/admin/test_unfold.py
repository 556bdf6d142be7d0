"""The pages under django-unfold, an admin theme that replaces Django's templates."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

from tests.support.sites import ROOT, environment

OPEN_ALL = """
import django
from django.conf import settings
import tests.support.site.browser.settings as site
site.INSTALLED_APPS = ["unfold", *site.INSTALLED_APPS]
site.DATABASES["default"]["NAME"] = ":memory:"
site.ALLOWED_HOSTS = ["testserver"]
django.setup()
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.test import Client
from django.urls import reverse
call_command("migrate", verbosity=0)
client = Client()
client.force_login(get_user_model().objects.create_superuser("admin"))
for name in ("disabledentry_changelist", "callrecord_changelist", "session_changelist",
             "charts", "live", "live_data", "connect", "apikey_changelist"):
    assert client.get(reverse(f"admin:django_mcp_{name}")).status_code == 200, name
entry = {"server": "browser-site", "kind": "tools", "key": "greet"}
assert b"mcp-try" in client.get(reverse("admin:django_mcp_entry"), entry).content
assert b"unfold" in client.get(reverse("admin:django_mcp_charts")).content
"""


@pytest.mark.skipif(importlib.util.find_spec("unfold") is None, reason="django-unfold is missing")
def test_the_pages_work_under_unfold():
    done = subprocess.run(
        [sys.executable, "-c", OPEN_ALL],
        cwd=ROOT,
        env=environment("tests.support.site.browser"),
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
