"""Settings from the environment: which database, which channel layer, which store.

SITE_POSTGRES: a database's name on PGHOST:PGPORT; without it, SITE_SQLITE names a file.
SITE_REDIS: the URL of a Redis and, after a space, a prefix of its own; without it, processes reach
each other as `PUSH_BUS` says.
SITE_OPTIONS: more of `DJANGO_MCP`, as JSON.
"""

from __future__ import annotations

import json
import os
from typing import Any

SECRET_KEY = "only-for-tests"
DEBUG = False
ALLOWED_HOSTS = ["localhost", "127.0.0.1"]
INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "channels",
    "django_mcp",
]
AUTHENTICATION_BACKENDS = ["tests.auth.guarded.people.Backend"]
ROOT_URLCONF = "tests.sessions.site.urls"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

DATABASES: dict[str, dict[str, Any]] = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ.get("SITE_SQLITE", ":memory:"),
        "OPTIONS": {"transaction_mode": "IMMEDIATE", "timeout": 20},
    }
}
if name := os.environ.get("SITE_POSTGRES"):
    DATABASES["default"] = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": name,
        "USER": os.environ.get("PGUSER", "postgres"),
        "PASSWORD": os.environ.get("PGPASSWORD", ""),
        "HOST": os.environ.get("PGHOST", "127.0.0.1"),
        "PORT": os.environ.get("PGPORT", "5432"),
        "OPTIONS": {"connect_timeout": 3},
    }

CHANNEL_LAYERS: dict[str, dict[str, Any]] = {
    "default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}
}
if redis := os.environ.get("SITE_REDIS"):
    url, _, prefix = redis.partition(" ")
    CHANNEL_LAYERS["default"] = {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        "CONFIG": {"hosts": [url], "prefix": prefix or "tests"},
    }

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"console": {"class": "logging.StreamHandler"}},
    "loggers": {"django_mcp": {"handlers": ["console"], "level": "INFO"}},
}

DJANGO_MCP: dict[str, Any] = {
    "NAME": "sessions",
    "PUBLIC": True,
    "AUTHENTICATORS": ["tests.auth.guarded.people.Named"],
    **json.loads(os.environ.get("SITE_OPTIONS", "{}")),
}
