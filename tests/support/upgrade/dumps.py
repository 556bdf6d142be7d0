"""The stored databases from which an upgrade starts, with a row in every table.

    python -m tests.support.upgrade.dumps write    writes both again, for a schema that was released

`sqlite.sql` is what `iterdump` of Python's sqlite3 writes, `postgresql.sql` what pg_dump does.
"""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.sites import ROOT

FOLDER = Path(__file__).parent
VENDORS = ("sqlite", "postgresql")


def dump_of(vendor: str) -> Path:
    """Return the file with a database of a vendor."""
    return FOLDER / f"{vendor}.sql"


def run(database: str, *command: str) -> str:
    """Run Python with the settings of the site on a database, and return what it prints.

    Raises:
        CalledProcessError: it failed.
    """
    done = subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "DJANGO_SETTINGS_MODULE": "tests.support.upgrade.settings",
            "UPGRADE_DATABASE": database,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise AssertionError(done.stdout)
    return done.stdout


@contextmanager
def empty_database(vendor: str) -> Iterator[str]:
    """Make a database, and return it as `UPGRADE_DATABASE` names it."""
    if vendor == "sqlite":
        with TemporaryDirectory() as folder:
            yield f"sqlite:{folder}/db.sqlite3"
        return
    name = f"django_mcp_upgrade_{os.getpid()}"
    _psql("postgres", "-c", f"CREATE DATABASE {name}")
    try:
        yield f"postgresql:{name}"
    finally:
        _psql("postgres", "-c", f"DROP DATABASE {name} WITH (FORCE)")


def restore(database: str) -> None:
    """Fill an empty database with the stored one."""
    vendor, _, name = database.partition(":")
    if vendor == "sqlite":
        connection = sqlite3.connect(name)
        connection.executescript(dump_of(vendor).read_text())
        connection.close()
    else:
        _psql(name, "-q", "-f", str(dump_of(vendor)))


def write() -> None:
    """Write both stored databases."""
    for vendor in VENDORS:
        with empty_database(vendor) as database:
            run(database, "-m", "django", "migrate", "-v0", "--skip-checks")
            run(database, "-m", "tests.support.upgrade.rows", "fill")
            dump_of(vendor).write_text(_dump(database))


def _dump(database: str) -> str:
    vendor, _, name = database.partition(":")
    if vendor == "sqlite":
        connection = sqlite3.connect(name)
        text = "\n".join(connection.iterdump()) + "\n"
        connection.close()
        return text
    text = _postgresql("pg_dump", "--inserts", "--no-owner", "--no-privileges", "-d", name)
    # Of the version that wrote it: comments, meta-commands, and settings that older servers lack.
    lines = re.sub(r"^(--.*|\\.*|SET transaction_timeout.*)\n", "", text, flags=re.MULTILINE)
    return re.sub(r"\n{2,}", "\n", lines).lstrip()


def _psql(name: str, *arguments: str) -> None:
    _postgresql("psql", "-v", "ON_ERROR_STOP=1", "-o", os.devnull, "-d", name, *arguments)


def _postgresql(*command: str) -> str:
    host = os.environ.get("PGHOST", "127.0.0.1")
    user = os.environ.get("PGUSER", "postgres")
    environment = {**os.environ, "PGHOST": host, "PGUSER": user}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise AssertionError(done.stderr)
    return done.stdout


if __name__ == "__main__":
    if sys.argv[1:] != ["write"]:
        sys.exit(__doc__)
    write()
