"""The stylesheet of the pages for users, which needs no static files of the site."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.template.loader import render_to_string
from django.test import Client
from django.urls import path

from django_mcp import MCPServer

other = MCPServer("styled", public=True)
urlpatterns: list[Any] = []
without_oauth = [path("staff/", other.urls)]
with_captures = [path("of/<slug:tenant>/", other.urls)]


def style_url() -> str:
    found = re.search(
        r'<link rel="stylesheet" href="([^"]+)"', render_to_string("django_mcp/page.html")
    )
    assert found is not None
    return found[1]


def test_it_is_served_to_anybody_for_as_long_as_it_does_not_change():
    url = style_url()
    client = Client()
    got, head = client.get(url), client.head(url)

    assert re.fullmatch(r"/oauth/page\.[0-9a-f]{16}\.css", url)
    assert got["content-type"] == "text/css; charset=utf-8"
    assert got["x-content-type-options"] == "nosniff"
    assert got["cache-control"] == "public, max-age=31536000, immutable"
    assert "Cookie" not in got.get("vary", "")
    assert "set-cookie" not in got
    assert b"button.allow" in got.content
    assert (head.status_code, head.content) == (200, b"")
    for method in ("post", "put", "delete", "patch"):
        assert getattr(client, method)(url).status_code == 405


def test_a_page_of_another_version_is_styled_and_nothing_is_kept():
    got = Client().get("/oauth/page.0123456789abcdef.css")

    assert (got.status_code, got["cache-control"]) == (200, "no-cache")
    assert Client().get("/oauth/page.css").status_code == 404
    assert Client().get("/oauth/page.../x.css").status_code == 404


def test_a_site_that_requires_a_login_everywhere_serves_it(settings: Any):
    settings.MIDDLEWARE = [
        *settings.MIDDLEWARE,
        "django.contrib.auth.middleware.LoginRequiredMiddleware",
    ]

    assert Client().get(style_url()).status_code == 200


@pytest.mark.parametrize(
    ("patterns", "start"), [(without_oauth, "/staff/mcp/page."), (with_captures, "/static/")]
)
def test_a_site_without_oauth_has_its_address_below_a_server(
    settings: Any, monkeypatch: pytest.MonkeyPatch, patterns: list[Any], start: str
):
    monkeypatch.setattr(f"{__name__}.urlpatterns", patterns)
    settings.ROOT_URLCONF = __name__

    url = style_url()

    assert url.startswith(start)
    if start.startswith("/staff/"):
        assert Client().get(url).status_code == 200
