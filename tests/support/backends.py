"""The backends that processes of a test site share: a database, and perhaps a Redis.

    python -m tests.support.backends    exits with 0 when PostgreSQL and Redis answer where they are looked for

PGHOST, PGPORT, PGUSER, PGPASSWORD, REDIS_HOST and REDIS_PORT say where that is; without them it is
this machine, at the usual ports. A site's settings take what `environment` says by `databases` and
`channel_layers`.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support import sites
from tests.support.site.defaults import sqlite

if TYPE_CHECKING:
    import psycopg


@dataclass(frozen=True, kw_only=True, slots=True)
class Backends:
    """What is shared.

    Attributes:
        sqlite: a file, used without `postgres`.
        postgres: the name of a database.
        redis: the URL of a Redis and, after a space, a prefix; None: no shared channel layer.
        more: more of the environment.
    """

    sqlite: Path | None = None
    postgres: str | None = None
    redis: str | None = None
    more: Mapping[str, str] = field(default_factory=dict)

    def environment(self) -> dict[str, str]:
        """Return the variables that a site's settings read."""
        found = {
            "SITE_SQLITE": str(self.sqlite) if self.sqlite is not None else None,
            "SITE_POSTGRES": self.postgres,
            "SITE_REDIS": self.redis,
        }
        return {**{key: value for key, value in found.items() if value is not None}, **self.more}

    def manage(self, package: str, *arguments: str) -> str:
        """Run a management command of a site, and return what it prints."""
        done = subprocess.run(
            [sys.executable, "-m", "django", *arguments],
            env=sites.environment(package, self.environment()),
            cwd=sites.ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(arguments)} failed:\n{done.stderr}")
        return done.stdout


# -- in a site's settings


def has_database() -> bool:
    """Tell whether the environment names a database."""
    return "SITE_POSTGRES" in os.environ or "SITE_SQLITE" in os.environ


def databases() -> dict[str, dict[str, Any]]:
    """Return `DATABASES` as the environment has it."""
    name = os.environ.get("SITE_POSTGRES")
    if name is None:
        return sqlite(os.environ.get("SITE_SQLITE", ":memory:"))
    host, port = postgres_address()
    return {
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": name,
            "USER": os.environ.get("PGUSER", "postgres"),
            "PASSWORD": os.environ.get("PGPASSWORD", ""),
            "HOST": host,
            "PORT": str(port),
            "CONN_MAX_AGE": int(os.environ.get("SITE_CONN_MAX_AGE", "0")),
            "OPTIONS": {
                "connect_timeout": 3,
                **json.loads(os.environ.get("SITE_PG_OPTIONS", "{}")),
            },
        }
    }


def channel_layers() -> dict[str, dict[str, Any]]:
    """Return `CHANNEL_LAYERS` as the environment has it."""
    redis = os.environ.get("SITE_REDIS")
    if redis is None:
        return {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}
    url, _, prefix = redis.partition(" ")
    return {
        "default": {
            "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
            "CONFIG": {"hosts": [url], "prefix": prefix or "tests"},
        }
    }


# -- locating the services


def require(it_is_there: object, what: str) -> None:
    """Skip the test when a service or a program is missing; fail it on CI, where all have to be there."""
    # Sites that are served import this module, without a test.
    import pytest

    if it_is_there:
        return
    if os.environ.get("CI") == "true":
        pytest.fail(f"{what}, and CI must not skip its tests")
    pytest.skip(what)


def postgres_address() -> tuple[str, int]:
    return os.environ.get("PGHOST", "127.0.0.1"), int(os.environ.get("PGPORT", "5432"))


def redis_address() -> tuple[str, int]:
    return os.environ.get("REDIS_HOST", "127.0.0.1"), int(os.environ.get("REDIS_PORT", "6379"))


def mariadb_address() -> tuple[str, int]:
    return os.environ.get("MYSQL_HOST", "127.0.0.1"), int(os.environ.get("MYSQL_PORT", "3306"))


def is_answering(host: str, port: int) -> bool:
    """Whether something listens on a TCP port."""
    try:
        with socket.create_connection((host, port), timeout=2):
            return True
    except OSError:
        return False


def missing_services() -> list[str]:
    """Describe the services that do not respond."""
    wanted = {"PostgreSQL": postgres_address(), "Redis": redis_address()}
    return [
        f"{name} does not answer on {host}:{port}"
        for name, (host, port) in wanted.items()
        if not is_answering(host, port)
    ]


def connect(name: str) -> psycopg.Connection[Any]:
    """Return a connection to a database, outside of any transaction."""
    import psycopg

    host, port = postgres_address()
    return psycopg.connect(
        host=host,
        port=port,
        user=os.environ.get("PGUSER", "postgres"),
        password=os.environ.get("PGPASSWORD", ""),
        dbname=name,
        autocommit=True,
    )


@contextmanager
def own_postgres(what_for: str, package: str) -> Iterator[str]:
    """Create a database with a site's tables; yield its name, and drop it in the end."""
    from psycopg import sql

    name = f"django_mcp_{what_for}_{os.getpid()}"

    def run(command: str) -> None:
        with connect("postgres") as connection:
            connection.execute(sql.SQL(command).format(sql.Identifier(name)))

    run("CREATE DATABASE {}")
    try:
        Backends(postgres=name).manage(package, "migrate", "-v", "0")
        yield name
    finally:
        run("DROP DATABASE {} WITH (FORCE)")


if __name__ == "__main__":
    missing = missing_services()
    print("\n".join(missing))
    sys.exit(bool(missing))
