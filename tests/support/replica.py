"""A replica that never catches up: a copy of a database, taken before what a test does.

Where reads of it do no harm, a lag of any length does none either. `SITE_REPLICA` names the copy, an SQLite
file, to the settings of a site.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class PrimaryReplica:
    """The router of Django's documentation for a primary and replicas, with one of them."""

    def db_for_read(self, *_args: Any, **_hints: Any) -> str:
        return "replica"

    def db_for_write(self, *_args: Any, **_hints: Any) -> str:
        return "default"

    def allow_relation(self, *_args: Any, **_hints: Any) -> bool:
        return True

    def allow_migrate(self, *_args: Any, **_hints: Any) -> bool:
        return True


def copied(primary: Path) -> Mapping[str, str]:
    """Copy an SQLite file; return the variable that names the copy to a site's settings."""
    replica = primary.with_name("replica.sqlite3")
    shutil.copy(primary, replica)
    return {"SITE_REPLICA": str(replica)}


def with_replica(databases: Mapping[str, Any]) -> dict[str, Any]:
    """Return `DATABASES` with the copy that the environment names, if it names one."""
    name = os.environ.get("SITE_REPLICA")
    if name is None:
        return dict(databases)
    return {**databases, "replica": {**databases["default"], "NAME": name}}


def routers() -> list[str]:
    """Return `DATABASE_ROUTERS`."""
    return [f"{__name__}.PrimaryReplica"] if "SITE_REPLICA" in os.environ else []
