"""Settings from the environment, as `tests.support.backends` makes it; SITE_OPTIONS is more of `DJANGO_MCP`, as JSON."""

from __future__ import annotations

import json
import os
from typing import Any

from tests.support.backends import channel_layers, databases

SECRET_KEY = "only-for-tests"
DEBUG = False
ALLOWED_HOSTS = ["localhost", "127.0.0.1"]
INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django_mcp",
]
AUTHENTICATION_BACKENDS = ["tests.support.site.guarded.people.Backend"]
ROOT_URLCONF = "tests.support.site.sessions.urls"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

DATABASES = databases()
CHANNEL_LAYERS = channel_layers()

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"console": {"class": "logging.StreamHandler"}},
    "loggers": {"django_mcp": {"handlers": ["console"], "level": "INFO"}},
}

DJANGO_MCP: dict[str, Any] = {
    # Most tools here touch no database; the others say so, or write with one statement.
    "ATOMIC": False,
    "NAME": "sessions",
    "PUBLIC": True,
    "AUTHENTICATORS": ["tests.support.site.guarded.people.Named"],
    **json.loads(os.environ.get("SITE_OPTIONS", "{}")),
}
