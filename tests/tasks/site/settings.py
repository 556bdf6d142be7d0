from tests import backends

SECRET_KEY = "only-for-tests-of-tasks"
DEBUG = False
ALLOWED_HOSTS = ["localhost", "127.0.0.1"]
USE_TZ = True
INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "channels",
    "django_mcp",
    "tests.tasks.site",
]
ROOT_URLCONF = "tests.tasks.site.urls"
ASGI_APPLICATION = "tests.tasks.site.asgi.application"
MIDDLEWARE: list[str] = []
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DATABASES = backends.databases()
CHANNEL_LAYERS = backends.channel_layers()
DJANGO_MCP = {
    "NAME": "tasks",
    "PUBLIC": True,
    "TASK_RUNNER": "django_mcp.tasks.celery.CeleryRunner",
}
