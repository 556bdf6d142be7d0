"""Databases to write to, apart from the test database."""

from tests.support.databases import (
    databases,
    postgresql_settings,
    sqlite_files,
    sqlite_settings,
)

__all__ = ["databases", "postgresql_settings", "sqlite_files", "sqlite_settings"]
