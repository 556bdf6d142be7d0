"""Settings from the environment, as `tests.support.backends` makes it; SITE_OPTIONS is more of `DJANGO_MCP`, as JSON."""

from __future__ import annotations

import json
import os

from tests.support.backends import channel_layers, databases
from tests.support.site.defaults import *  # noqa: F403  (a settings module is read by its names)
from tests.support.site.defaults import DJANGO_MCP, INSTALLED_APPS, to_console

INSTALLED_APPS = [*INSTALLED_APPS, "tests.support.site.execution"]
ROOT_URLCONF = "tests.support.site.execution.urls"

DATABASES = databases()
CHANNEL_LAYERS = channel_layers()

LOGGING = to_console("INFO")

DJANGO_MCP = {
    **DJANGO_MCP,
    "NAME": "handlers",
    "PUBLIC": True,
    "AUTHENTICATORS": ["tests.support.site.execution.people.Counted"],
    **json.loads(os.environ.get("SITE_OPTIONS", "{}")),
}
