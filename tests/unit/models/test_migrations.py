"""Migrations are only added: a database that has applied one never sees what is changed in it later."""

from __future__ import annotations

import ast
import hashlib
import uuid
from pathlib import Path

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.utils import timezone

import django_mcp
from django_mcp.extensions.tasks.site.models import Task
from django_mcp.models import Session
from django_mcp.server.exchange.digests import digest_of as text_digest

PACKAGE = Path(django_mcp.__file__).parent

WRITTEN = {
    "migrations/0001_initial.py": "7082460d354e823b",
    "migrations/0002_restricted_keys.py": "d5622283722b58ee",
    "migrations/0003_keys_as_bytes.py": "6942c68103273c7d",
    "migrations/0004_subscriptions_version.py": "0dded4b866247399",
    "migrations/0005_subscriptions_version_default.py": "91f98d4cd0061884",
    "migrations/0006_corrected_arguments.py": "04a19b6a7eddb8bd",
    "migrations/0007_toolsets_of_keys.py": "141bd33a48b99e4d",
    "migrations/0008_sizes_of_results.py": "a9eb6bc4376e9cba",
    "migrations/0009_queues_and_handlers.py": "8e793b2d99075cd6",
    "migrations/0010_secrets_of_tasks.py": "426ff8d4a09b2757",
    "migrations/0011_alerts_and_queries.py": "34f01504a33df798",
    "migrations/0012_errors.py": "66bfd29d25f6300c",
    "migrations/0013_packed_tallies.py": "634c430395f6aaa7",
    "migrations/0014_repeated_calls.py": "c7e005d2f857052e",
    "migrations/0015_cut_results.py": "27463f7c75b68f0d",
    "contrib/oauth/migrations/0001_initial.py": "eb8806bfebbabadf",
    "contrib/oauth/migrations/0002_keys_as_bytes.py": "8910d4def881fc08",
    "contrib/oauth/migrations/0003_sign_ins.py": "75d9b4cd168ac9e6",
    "contrib/oauth/migrations/0004_client_keys.py": "6cf0efeb1f5e0146",
}
"""The digests of all migrations, without regard to layout and comments."""


def digest_of(path: Path) -> str:
    return hashlib.sha256(ast.unparse(ast.parse(path.read_text())).encode()).hexdigest()[:16]


def test_no_migration_is_changed_after_it_was_written():
    found = {
        str(path.relative_to(PACKAGE)): digest_of(path)
        for path in PACKAGE.rglob("migrations/[0-9]*.py")
    }

    assert found == WRITTEN, "Add a migration instead of changing one, and its digest to WRITTEN"


@pytest.mark.django_db
def test_workers_of_an_earlier_version_make_sessions_while_an_upgrade_is_under_way():
    row = Session.objects.create(digest="a", server="shop", expires_at=timezone.now())
    added = {"id", "digest", "subscriptions_version"}
    columns = [each.column for each in Session._meta.concrete_fields if each.name not in added]
    listed = ", ".join(f'"{each}"' for each in columns)
    key = uuid.uuid4()
    table = Session._meta.db_table
    with connection.cursor() as cursor:
        cursor.execute(
            f'INSERT INTO "{table}" ("id", "digest", {listed}) SELECT %s, %s, {listed} FROM "{table}"',
            [key.hex, "b"],
        )

    made = Session.objects.exclude(pk=row.pk).get()
    assert (made.pk, made.subscriptions_version) == (key, 0)


@pytest.mark.django_db(transaction=True)
def test_tasks_of_an_earlier_version_keep_the_id_that_their_clients_know():
    executor = MigrationExecutor(connection)
    leaves = executor.loader.graph.leaf_nodes()
    executor.migrate([("django_mcp", "0009_queues_and_handlers")])
    apps = executor.loader.project_state([("django_mcp", "0009_queues_and_handlers")]).apps
    now = timezone.now()
    values = {"call": {}, "rounds": {}, "created_at": now, "updated_at": now, "expires_at": now}
    apps.get_model("django_mcp", "Task").objects.create(id="known", ttl_ms=1, poll_ms=1, **values)
    executor = MigrationExecutor(connection)
    executor.migrate(leaves)

    task = Task.objects.get()
    assert (task.secret, task.pk) == ("known", text_digest("known"))
