"""Settings of the fixtures site: nothing but the library and its defaults.

CONFORMANCE_DATABASE names a migrated SQLite file; without it nothing is kept longer than the process.
"""

from __future__ import annotations

import os

DATABASE = os.environ.get("CONFORMANCE_DATABASE")

SECRET_KEY = "fixtures-only-no-secret"
DEBUG = False
ALLOWED_HOSTS = ["127.0.0.1", "localhost", "[::1]"]
USE_TZ = True
ROOT_URLCONF = "tests.conformance.urls"
ASGI_APPLICATION = "tests.conformance.asgi.application"
WSGI_APPLICATION = "tests.conformance.wsgi.application"
INSTALLED_APPS = [
    "django.contrib.contenttypes",
    "django.contrib.auth",
    "channels",
    "django_mcp",
    "tests.conformance",
]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": DATABASE or ":memory:",
        "OPTIONS": {"transaction_mode": "IMMEDIATE", "timeout": 20},
    }
}
CHANNEL_LAYERS = {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

DJANGO_MCP = {
    "NAME": "conformance-fixtures",
    "TITLE": "Conformance fixtures",
    "AUTODISCOVER_MODULE": "fixtures",
    "PUBLIC": True,
    "SESSION_STORE": "model" if DATABASE else "memory",
    "TASK_STORE": "model" if DATABASE else "memory",
}
