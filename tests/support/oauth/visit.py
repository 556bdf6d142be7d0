"""Replaces a user's browser: `BROWSER="python -m tests.support.oauth.visit %s &"`."""

from __future__ import annotations

import os
import sys

import django
import httpx


def visit(url: str) -> None:
    """Sign in, approve, and follow the redirect of the consent page."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    django.setup()
    from tests.support.oauth.browser import Browser

    httpx.get(Browser().arrive(url), timeout=30)


if __name__ == "__main__":
    visit(sys.argv[1])
