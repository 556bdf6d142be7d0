from __future__ import annotations

import os
import sys
from typing import Any

if os.environ.get("FUZZ_WITHOUT_SPEED"):
    # Before anything has looked for it.
    sys.modules["jsonschema_rs"] = None  # type: ignore[assignment]

from tests.support.backends import channel_layers, databases

SECRET_KEY = "only-for-tests"
DEBUG = False
ALLOWED_HOSTS = ["localhost", "127.0.0.1"]
INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django_mcp",
]
MIDDLEWARE = ["django.middleware.common.CommonMiddleware"]
ROOT_URLCONF = "tests.fuzz.site.urls"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DATABASES = databases()
CHANNEL_LAYERS = channel_layers()
# Django's error for a disallowed host, with a traceback, is no failure.
QUIET: dict[str, Any] = {"handlers": ["nowhere"], "propagate": False}
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"nowhere": {"class": "logging.NullHandler"}},
    "loggers": {"django.security": QUIET, "django.request": QUIET},
}
DJANGO_MCP: dict[str, Any] = {
    # Most tools here touch no database; the others say so, or write with one statement.
    "ATOMIC": False,
    "NAME": "fuzz",
    "PUBLIC": True,
    "AUTHENTICATORS": ["tests.fuzz.site.people.Named"],
    "AUTODISCOVER_MODULE": None,
    "LEGACY_SSE": True,
    "RECORD_CALLS": 1.0,
    "BODY_TIMEOUT_S": 1,
    "ASK_TIMEOUT_S": 5,
    "CALL_TIMEOUT_S": 10,
    "TASK_AFTER_S": 0.05,
    "SESSION_IDLE_S": 30,
    "MAX_SESSIONS_PER_PRINCIPAL": 100_000,
    "MAX_TASKS_PER_PRINCIPAL": 10_000,
    "TASK_TTL_S": 20,
}
