"""The settings that the sites of the tests share; each site imports them and adds its own."""

from typing import Any

SECRET_KEY = "only-for-tests"
DEBUG = False
ALLOWED_HOSTS = ["localhost", "127.0.0.1"]
INSTALLED_APPS = ["django.contrib.auth", "django.contrib.contenttypes", "django_mcp"]
MIDDLEWARE: list[str] = []
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
# Most tools of these sites touch no database; the others say so, or write with one statement.
DJANGO_MCP: dict[str, Any] = {"ATOMIC": False}


def sqlite(name: str) -> dict[str, Any]:
    """Return `DATABASES` for a SQLite file that processes may share, or for one in memory."""
    options = {"transaction_mode": "IMMEDIATE", "timeout": 20}
    return {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": name, "OPTIONS": options}}


def to_console(level: str, logger: str = "django_mcp") -> dict[str, Any]:
    """Return `LOGGING` that writes a logger's records to stderr; `""` is the root."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "handlers": {"console": {"class": "logging.StreamHandler"}},
        "loggers": {logger: {"handlers": ["console"], "level": level}},
    }
