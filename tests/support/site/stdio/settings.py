"""A site that a client starts on pipes; its tools write to stdout in every way."""

import os

from tests.support.backends import channel_layers
from tests.support.site.defaults import *  # noqa: F403  (a settings module is read by its names)
from tests.support.site.defaults import DJANGO_MCP, INSTALLED_APPS

if "PYTHONUNBUFFERED" not in os.environ:
    print("the settings are read")

INSTALLED_APPS = [*INSTALLED_APPS, "tests.support.site.stdio"]
ROOT_URLCONF = "django_mcp.urls"
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ.get("STDIO_DATABASE", ":memory:"),
        "OPTIONS": {"timeout": 20},
    }
}
CHANNEL_LAYERS = channel_layers()
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"out": {"class": "logging.StreamHandler", "stream": "ext://sys.stdout"}},
    "root": {"handlers": ["out"], "level": "INFO"},
}
DJANGO_MCP = {
    **DJANGO_MCP,
    "NAME": "pipes",
    "PUBLIC": "STDIO_CLOSED" not in os.environ,
    "AUTHENTICATORS": ["django_mcp.auth.authenticators.APIKeyAuthenticator"],
    "MAX_BODY_BYTES": 1_000_000,
    "RECORD_CALLS": "STDIO_RECORDS" in os.environ,
    "SYNC_THREADS": 4,
}
