"""The Content-Security-Policy of the admin's pages: set if the site has none, and never replaced."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.test import Client, override_settings

from tests.support.policies import SITE_POLICY, policy_of
from tests.unit.admin.test_pages import url

pytestmark = pytest.mark.usefixtures("here")

POLICY = "Content-Security-Policy"
PAGES = (
    "disabledentry_changelist",
    "callrecord_changelist",
    "live",
    "charts",
    "connect",
    "apikey_add",
)


@pytest.mark.parametrize("page", PAGES)
def test_a_site_without_a_policy_gets_one_that_forbids_foreign_scripts(admin: Client, page: str):
    found = policy_of(admin.get(url(page)))

    assert "default-src 'none'; script-src 'self'; style-src 'self';" in found
    assert "unsafe" not in found
    assert "base-uri 'none'" in found


def test_the_policy_set_by_site_middleware_is_kept(admin: Client):
    with override_settings(
        MIDDLEWARE=["tests.support.policies.CSPMiddleware", *settings.MIDDLEWARE]
    ):
        assert policy_of(admin.get(url("live"))) == SITE_POLICY


def test_static_files_may_come_from_their_own_host(admin: Client):
    with override_settings(STATIC_URL="https://static.example/files/"):
        found = policy_of(admin.get(url("live")))

    assert (
        "script-src 'self' https://static.example; style-src 'self' https://static.example;"
        in found
    )


def test_custom_admin_templates_keep_their_scripts(admin: Client, tmp_path: Path):
    (tmp_path / "admin").mkdir()
    template = '{% extends "admin/base.html" %}'
    (tmp_path / "admin" / "base_site.html").write_text(template)
    changed: Any = [{**settings.TEMPLATES[0], "DIRS": [tmp_path]}, *settings.TEMPLATES[1:]]
    with override_settings(TEMPLATES=changed):
        found = policy_of(admin.get(url("live")))

    assert found == "object-src 'none'; base-uri 'none'; frame-ancestors 'self'"


def test_other_pages_of_the_admin_are_left_alone(admin: Client):
    assert POLICY not in dict(admin.get("/admin/").items())
