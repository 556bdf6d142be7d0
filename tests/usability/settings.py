"""The example shop with a database in memory."""

from example_project.settings import *  # noqa: F403  (a settings module is read by its names)
from example_project.settings import DJANGO_MCP

DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
DJANGO_MCP = {**DJANGO_MCP, "SYNC_THREADS": 0, "RECORD_CALLS": False, "SESSION_STORE": "memory"}
