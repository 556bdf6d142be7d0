"""The check of the databases for tables and columns of the package."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from django.core import checks
from django.core.checks import CheckMessage
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError

from django_mcp.execution.migrated import find_missing


def check_migrated(databases: Sequence[str] | None = None, **_options: Any) -> list[CheckMessage]:
    """W033: The database lacks tables or columns of the package."""
    # The command that adds them runs this check before it does so.
    if not databases or sys.argv[1:2] == ["migrate"]:
        return []
    # E001 reports a setting that cannot be read, and other code a database that cannot.
    with suppress(ImproperlyConfigured, DatabaseError):
        missing = find_missing(databases)
        if missing:
            message = f"The database lacks tables or columns: {', '.join(missing)}."
            hint = "Run manage.py migrate. Until then, calls that need them fail."
            return [checks.Warning(message, hint=hint, id="django_mcp.W033")]
    return []
