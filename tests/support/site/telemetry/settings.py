"""A site that exports what it measures to its standard output."""

from tests.support.site.defaults import *  # noqa: F403  (a settings module is read by its names)
from tests.support.site.defaults import DJANGO_MCP, INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "tests.support.site.telemetry"]
ROOT_URLCONF = "django_mcp.urls"
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
DJANGO_MCP = {
    **DJANGO_MCP,
    "NAME": "measured",
    "PUBLIC": True,
    "SESSION_STORE": "memory",
    "TASK_STORE": "memory",
    "TELEMETRY": "native",
}
