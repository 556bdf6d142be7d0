"""A database of the stored schema, with a row in every table, becomes one of today's by `migrate`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.upgrade.dumps import dump_of, empty_database, restore, run

VENDORS = ["sqlite", pytest.param("postgresql", marks=pytest.mark.services)]


@pytest.fixture(autouse=True)
def postgresql(request: pytest.FixtureRequest) -> None:
    """Ask for the service where it is needed."""
    if "postgresql" in request.node.name:
        request.getfixturevalue("postgres")


def show(database: str) -> dict[str, dict[str, Any]]:
    """Return what is in the tables; afterwards each has one row more."""
    return json.loads(run(database, "-m", "tests.support.upgrade.rows", "show").splitlines()[-1])


@pytest.mark.parametrize("vendor", VENDORS)
def test_a_stored_database_is_migrated_with_its_rows(vendor: str):
    with empty_database(vendor) as database:
        run(database, "-m", "django", "migrate", "-v0", "--skip-checks")
        fresh = show(database)
    with empty_database(vendor) as database:
        restore(database)
        run(database, "-m", "django", "migrate", "-v0", "--skip-checks")
        upgraded = show(database)
        again = show(database)

    assert {label: each["table"] for label, each in upgraded.items()} == {
        label: each["table"] for label, each in fresh.items()
    }
    assert {label: len(each["rows"]) for label, each in upgraded.items()} == dict.fromkeys(fresh, 1)
    # A row could be added to each table, so sequences and defaults are right.
    assert [
        label for label, each in again.items() if each["rows"][-1] in upgraded[label]["rows"]
    ] == []


@pytest.mark.parametrize("vendor", VENDORS)
def test_the_stored_database_names_every_table_of_the_package(vendor: str):
    text = dump_of(vendor).read_text()

    with empty_database(vendor) as database:
        run(database, "-m", "django", "migrate", "-v0", "--skip-checks")
        tables = run(database, "-c", TABLES).split()
    assert [table for table in tables if table not in text] == []


TABLES = """
import django
django.setup()
from tests.support.upgrade.rows import tables
print(*[model._meta.db_table for model in tables()])
"""
