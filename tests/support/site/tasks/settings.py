import os

from tests.support import backends
from tests.support.site.defaults import *  # noqa: F403  (a settings module is read by its names)
from tests.support.site.defaults import DJANGO_MCP, INSTALLED_APPS

SECRET_KEY = "only-for-tests-of-tasks"
INSTALLED_APPS = [*INSTALLED_APPS, "tests.support.site.tasks"]
ROOT_URLCONF = "tests.support.site.tasks.urls"
ASGI_APPLICATION = "tests.support.site.tasks.asgi.application"
DATABASES = backends.databases()
CHANNEL_LAYERS = backends.channel_layers()
DJANGO_MCP = {
    **DJANGO_MCP,
    "NAME": "tasks",
    "PUBLIC": True,
    "TASK_RUNNER": "django_mcp.extensions.tasks.celery.CeleryRunner",
    "TELEMETRY": os.environ.get("TASKS_TELEMETRY", "propagate"),
}
