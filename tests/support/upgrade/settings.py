"""A site with every table of the package; UPGRADE_DATABASE names its database, as `sqlite:FILE` or `postgresql:NAME`."""

from __future__ import annotations

import os

from django_mcp.contrib.oauth import oauth2_provider_settings

SECRET_KEY = "only-for-tests"
INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django_mcp",
    "oauth2_provider",
    "django_mcp.contrib.oauth",
]
ROOT_URLCONF = "django_mcp.urls"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
OAUTH2_PROVIDER = oauth2_provider_settings()
DJANGO_MCP = {"PUBLIC": True}

_vendor, _, _name = os.environ.get("UPGRADE_DATABASE", "sqlite::memory:").partition(":")
_engine = {"sqlite": "sqlite3"}.get(_vendor, _vendor)
DATABASES = {"default": {"ENGINE": f"django.db.backends.{_engine}", "NAME": _name}}
if _vendor == "postgresql":
    DATABASES["default"] |= {
        "USER": os.environ.get("PGUSER", "postgres"),
        "PASSWORD": os.environ.get("PGPASSWORD", ""),
        "HOST": os.environ.get("PGHOST", "127.0.0.1"),
        "PORT": os.environ.get("PGPORT", "5432"),
    }
