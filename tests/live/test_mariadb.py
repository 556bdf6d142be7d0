"""The migrations on MariaDB, which compares texts otherwise unless it is told how."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.apps import apps
from django.core.management import call_command
from django.db import connections
from django.db.models import Model

from django_mcp.models.fields import KeyField
from tests.support.databases import Maker, mariadb_settings

__all__ = ["mariadb_settings"]

pytestmark = pytest.mark.services


@pytest.fixture
def migrated(mariadb_settings: Maker, django_db_blocker: Any) -> Iterator[str]:
    """The alias of a database that all migrations were applied to."""
    settings = mariadb_settings("first")
    name = f"{settings['NAME']}_migrated"
    alias = "migrated"
    with django_db_blocker.unblock():
        for key, value in (
            (alias, {**settings, "NAME": name}),
            ("server", {**settings, "NAME": ""}),
        ):
            connections.settings[key] = connections.configure_settings({"default": {}, key: value})[
                key
            ]
        server = connections["server"].cursor()
        server.execute(f"CREATE DATABASE `{name}` CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci")
        try:
            call_command("migrate", database=alias, verbosity=0)
            yield alias
        finally:
            server.execute(f"DROP DATABASE `{name}`")
            for key in (alias, "server"):
                connections[key].close()
                del connections[key], connections.settings[key]


def test_columns_of_keys_compare_bytes_after_the_migrations(migrated: str):
    labels = ("django_mcp", "django_mcp_oauth")
    models = [each for label in labels for each in apps.get_app_config(label).get_models()]

    found = {field for model in models for field in collations(migrated, model).items()}

    assert {collation for _column, collation in found} == {"utf8mb4_nopad_bin"}
    assert len(found) > 20


def collations(alias: str, model: type[Model]) -> dict[str, str]:
    """Return the collations of a model's columns of keys."""
    connection = connections[alias]
    keys = {each.column for each in model._meta.local_fields if isinstance(each, KeyField)}
    with connection.cursor() as cursor:
        cursor.execute(f"SHOW FULL COLUMNS FROM `{model._meta.db_table}`")
        return {
            f"{model.__name__}.{name}": collation
            for name, _type, collation, *_ in cursor.fetchall()
            if name in keys
        }
