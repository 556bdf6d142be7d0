"""Settings of the benchmark site, from the environment where a figure depends on them.

BENCH_DB        sqlite (default) or postgresql (user `postgres`, no password)
BENCH_PG_NAME   the database in PostgreSQL, `bench` when unset
BENCH_PG_PORT   the port of PostgreSQL on this machine, 5432 when unset
BENCH_KEPT      the `CONN_MAX_AGE` of the database in seconds, 60 when unset
BENCH_REDIS     the URL of a Redis that links several processes; without it the database does
BENCH_DATA      the folder of the SQLite file, `.cache/benchmarks` in the repository when unset
"""

import os
from pathlib import Path

from tests.support.sites import ROOT

SECRET_KEY = "benchmarks-only-no-secret"
DEBUG = False
ALLOWED_HOSTS = ["127.0.0.1", "localhost", "[::1]"]
USE_TZ = True
ROOT_URLCONF = "tests.benchmarks.urls"
ASGI_APPLICATION = "tests.benchmarks.asgi.application"
WSGI_APPLICATION = "tests.benchmarks.wsgi.application"
MIDDLEWARE: list[str] = []
INSTALLED_APPS = [
    "django.contrib.contenttypes",
    "django.contrib.auth",
    "channels",
    "django_mcp",
    "tests.benchmarks",
]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DATA_UPLOAD_MAX_MEMORY_SIZE = 10_000_000

# Connections are kept, as a site that cares for speed keeps them; figures of `db_get` depend on it.
CONN_MAX_AGE_S = int(os.environ.get("BENCH_KEPT", "60"))

if os.environ.get("BENCH_DB") == "postgresql":
    DATABASES = {
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": os.environ.get("BENCH_PG_NAME", "bench"),
            "USER": "postgres",
            "HOST": "127.0.0.1",
            "PORT": os.environ.get("BENCH_PG_PORT", "5432"),
            "CONN_MAX_AGE": CONN_MAX_AGE_S,
        }
    }
else:
    folder = Path(os.environ.get("BENCH_DATA") or ROOT / ".cache" / "benchmarks")
    folder.mkdir(parents=True, exist_ok=True)
    DATABASES = {
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": folder / "benchmarks.sqlite3",
            "CONN_MAX_AGE": CONN_MAX_AGE_S,
            "OPTIONS": {"init_command": "PRAGMA journal_mode=WAL", "timeout": 20},
        }
    }

if redis := os.environ.get("BENCH_REDIS"):
    CHANNEL_LAYERS = {
        "default": {
            "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
            "CONFIG": {"hosts": [redis], "prefix": "benchmarks"},
        }
    }

DJANGO_MCP = {
    "NAME": "benchmarks",
    "PUBLIC": True,
    "RECORD_CALLS": bool(os.environ.get("BENCH_RECORD")),
}
