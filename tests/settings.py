"""Settings of the test project: the example shop's own, with what tests need changed."""

import os

# Django's own receivers of changed settings come first: a thread that reads between two receivers would
# find the routers of before.
import django.test.signals  # noqa: F401

from django_mcp.contrib.oauth import oauth2_provider_settings
from example_project.settings import *  # noqa: F403  (a settings module is read by its names)
from example_project.settings import DJANGO_MCP, INSTALLED_APPS

SECRET_KEY = "only-for-tests"
DEBUG = False
ALLOWED_HOSTS = ["testserver", "localhost", "127.0.0.1", "[::1]"]
# daphne only changes runserver, and installs a Twisted reactor to do so.
INSTALLED_APPS = [app for app in INSTALLED_APPS if app != "daphne"]
INSTALLED_APPS += ["oauth2_provider", "django_mcp.contrib.oauth", "tests.support.library"]
OAUTH2_PROVIDER = oauth2_provider_settings()
LOGIN_URL = "/admin/login/"
ROOT_URLCONF = "tests.urls"
ASGI_APPLICATION = "tests.asgi.application"
LOGGING = {}
REST_FRAMEWORK = {"DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema"}
# A test that records calls enables it, since a separate thread writes them.
DJANGO_MCP = {**DJANGO_MCP, "RECORD_CALLS": False, "PUBLIC_URL": None}
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": ":memory:",
        # The tables are made from the models, since migrations take seconds in each process. Tests of the
        # migrations run them, and so does each run on PostgreSQL; `makemigrations --check` compares both.
        "TEST": {"MIGRATE": False},
    }
}
if os.environ.get("TEST_DATABASE") == "postgresql":
    DATABASES = {
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": os.environ.get("PGDATABASE", "test"),
            "USER": os.environ.get("PGUSER", "postgres"),
            "PASSWORD": os.environ.get("PGPASSWORD", ""),
            "HOST": os.environ.get("PGHOST", "127.0.0.1"),
            "PORT": os.environ.get("PGPORT", "5432"),
        }
    }

if layer := os.environ.get("TEST_CHANNEL_LAYER"):
    address = f"{os.environ.get('REDIS_HOST', '127.0.0.1')}:{os.environ.get('REDIS_PORT', '6379')}"
    config = {"hosts": [f"redis://{address}/0"], "prefix": f"tests-{os.getpid()}"}
    CHANNEL_LAYERS = {"default": {"BACKEND": layer, "CONFIG": config}}  # type: ignore[dict-item]

# Most tests check messages, and need no database for that.
DJANGO_MCP = {**DJANGO_MCP, "SESSION_STORE": "memory", "ATOMIC": False}
