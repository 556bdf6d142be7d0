"""The paths of endpoints that are told."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest
from django.conf.urls.i18n import i18n_patterns
from django.test import override_settings
from django.urls import path
from django.utils import translation

from django_mcp import MCPServer
from django_mcp.endpoints.mounts import find_localized, find_mounts

DJANGOS_OWN = "django.middleware.locale.LocaleMiddleware"


@pytest.mark.parametrize(
    ("language", "active", "middleware", "prefixes_default", "told"),
    [
        ("en-us", "en-us", [DJANGOS_OWN], True, "/en/mcp"),
        ("en-us", None, [DJANGOS_OWN], True, "/en/mcp"),
        ("en-us", "de", [DJANGOS_OWN], True, "/de/mcp"),
        ("en", "en", [DJANGOS_OWN], True, "/en/mcp"),
        ("en-us", "en-us", [DJANGOS_OWN], False, "/mcp"),
        # Nothing changes the language of a request, nor redirects it.
        ("en-us", "en-us", [], True, "/en-us/mcp"),
        ("fr", "fr", [DJANGOS_OWN], True, "/fr/mcp"),
    ],
)
def test_the_language_of_a_path_is_that_which_the_site_redirects_to(
    language: str,
    active: str | None,
    middleware: list[str],
    prefixes_default: bool,
    told: str,
    monkeypatch: pytest.MonkeyPatch,
):
    server = MCPServer("localized", public=True)
    conf = ModuleType("localized_urls")
    monkeypatch.setitem(sys.modules, conf.__name__, conf)
    with override_settings(
        USE_I18N=True,
        LANGUAGE_CODE=language,
        LANGUAGES=[("en", "English"), ("de", "German")],
        MIDDLEWARE=middleware,
        ROOT_URLCONF=conf.__name__,
    ):
        conf.urlpatterns = i18n_patterns(  # type: ignore[attr-defined]
            path("", server.urls), prefix_default_language=prefixes_default
        )
        with translation.override(active):
            assert [find_mounts()[0].path, find_localized()[0].path] == [told, told]
