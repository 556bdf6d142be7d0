"""The discovery documents that depend on a setting read when Django starts."""

from __future__ import annotations

import subprocess
import sys

from django.test import Client

from tests.support.sites import ROOT, environment


def test_openid_discovery_is_served_only_if_enabled():
    assert Client().get("/.well-known/openid-configuration").status_code == 404
    code = (
        "import django, json; django.setup()\n"
        "from django.test import Client\n"
        "for path in ('', '/mcp'):\n"
        "    found = Client().get('/.well-known/openid-configuration' + path).json()\n"
        "    print(found['issuer'], found['code_challenge_methods_supported'], found['jwks_uri'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**environment("tests"), "DJANGO_SETTINGS_MODULE": "tests.support.site.oidc_settings"},
        capture_output=True,
        text=True,
        check=False,
    )

    line = "http://testserver ['S256'] http://testserver/oauth/jwks.json\n"
    assert done.stdout == line * 2, done.stderr
