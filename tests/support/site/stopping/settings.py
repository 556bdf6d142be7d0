"""A site whose calls are recorded, in the database that the environment names."""

from __future__ import annotations

from tests.support.backends import databases
from tests.support.site.defaults import *  # noqa: F403  (a settings module is read by its names)
from tests.support.site.defaults import DJANGO_MCP, INSTALLED_APPS, to_console

INSTALLED_APPS = [*INSTALLED_APPS, "tests.support.site.stopping"]
ROOT_URLCONF = "tests.support.site.stopping.urls"
DATABASES = databases()
LOGGING = to_console("INFO")
DJANGO_MCP = {
    **DJANGO_MCP,
    "NAME": "stopping",
    "PUBLIC": True,
    "RECORD_CALLS": True,
    "MAX_STREAMS_PER_PRINCIPAL": 500,
}
