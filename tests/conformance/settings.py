"""Settings of the fixtures site: nothing but the library, its defaults, and the backends of its environment."""

from __future__ import annotations

from tests.support.backends import channel_layers, databases, has_database

# Without a database, nothing is kept longer than the process.
STORE = "model" if has_database() else "memory"

SECRET_KEY = "fixtures-only-no-secret"
DEBUG = False
ALLOWED_HOSTS = ["127.0.0.1", "localhost", "[::1]"]
USE_TZ = True
ROOT_URLCONF = "tests.conformance.urls"
ASGI_APPLICATION = "tests.conformance.asgi.application"
WSGI_APPLICATION = "tests.conformance.wsgi.application"
INSTALLED_APPS = [
    "django.contrib.contenttypes",
    "django.contrib.auth",
    "django_mcp",
    "tests.conformance",
]
DATABASES = databases()
CHANNEL_LAYERS = channel_layers()
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

DJANGO_MCP = {
    # Most tools here touch no database; the others say so, or write with one statement.
    "ATOMIC": False,
    "NAME": "conformance-fixtures",
    "TITLE": "Conformance fixtures",
    "AUTODISCOVER_MODULE": "fixtures",
    "PUBLIC": True,
    "SESSION_STORE": STORE,
    "TASK_STORE": STORE,
}
