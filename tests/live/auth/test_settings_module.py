"""A settings module can create authenticators, before Django's settings are loaded."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.sites import ROOT

SETTINGS = """
from django_mcp.auth.authenticators import APIKeyAuthenticator, CallableAuthenticator, SessionAuthenticator
from django_mcp.contrib.drf import DRFAuthenticator
from django_mcp.contrib.introspection import IntrospectionAuthenticator
from django_mcp.contrib.jwt import JWTAuthenticator

ISSUER = "https://login.example.com"
SECRET_KEY = "x"
INSTALLED_APPS = [f"django.contrib.{app}" for app in ("auth", "contenttypes", "sessions")] + ["django_mcp"]
ROOT_URLCONF = "django_mcp.urls"
DJANGO_MCP = {
    "AUTHENTICATORS": [
        APIKeyAuthenticator(),
        JWTAuthenticator(issuer=ISSUER, audience="a"),
        SessionAuthenticator(),
        DRFAuthenticator("rest_framework.authentication.BasicAuthentication"),
        CallableAuthenticator(lambda request: None),
        IntrospectionAuthenticator(
            url=ISSUER, issuer=ISSUER, audience="a", client_id="c", client_secret="s"
        ),
    ]
}
"""


def test_settings_can_contain_authenticators(tmp_path: Path):
    (tmp_path / "site_settings.py").write_text(SETTINGS)
    code = (
        "import django; django.setup();"
        "from django.core.management import call_command; call_command('check');"
        "from django_mcp import default_server; print(len(default_server.engine.authentication.authenticators))"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(tmp_path)]),
            "DJANGO_SETTINGS_MODULE": "site_settings",
        },
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stderr == ""
    assert done.stdout.splitlines()[-1] == "6"
