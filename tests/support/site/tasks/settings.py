from tests.support import backends

SECRET_KEY = "only-for-tests-of-tasks"
DEBUG = False
ALLOWED_HOSTS = ["localhost", "127.0.0.1"]
USE_TZ = True
INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django_mcp",
    "tests.support.site.tasks",
]
ROOT_URLCONF = "tests.support.site.tasks.urls"
ASGI_APPLICATION = "tests.support.site.tasks.asgi.application"
MIDDLEWARE: list[str] = []
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DATABASES = backends.databases()
CHANNEL_LAYERS = backends.channel_layers()
DJANGO_MCP = {
    # Most tools here touch no database; the others say so, or write with one statement.
    "ATOMIC": False,
    "NAME": "tasks",
    "PUBLIC": True,
    "TASK_RUNNER": "django_mcp.contrib.celery.CeleryRunner",
}
