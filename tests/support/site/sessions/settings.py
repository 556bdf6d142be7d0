"""Settings from the environment, as `tests.support.backends` makes it; SITE_OPTIONS is more of `DJANGO_MCP`, as JSON."""

from __future__ import annotations

import json
import os

from tests.support.backends import channel_layers, databases
from tests.support.replica import routers, with_replica
from tests.support.site.defaults import *  # noqa: F403  (a settings module is read by its names)
from tests.support.site.defaults import DJANGO_MCP, INSTALLED_APPS, to_console

INSTALLED_APPS = [*INSTALLED_APPS, "django.contrib.sessions"]
AUTHENTICATION_BACKENDS = ["tests.support.site.guarded.people.Backend"]
ROOT_URLCONF = "tests.support.site.sessions.urls"

DATABASES = with_replica(databases())
DATABASE_ROUTERS = routers()
CHANNEL_LAYERS = channel_layers()

LOGGING = to_console("INFO")

DJANGO_MCP = {
    **DJANGO_MCP,
    "NAME": "sessions",
    "PUBLIC": True,
    "AUTHENTICATORS": ["tests.support.site.guarded.people.Named"],
    **json.loads(os.environ.get("SITE_OPTIONS", "{}")),
}
