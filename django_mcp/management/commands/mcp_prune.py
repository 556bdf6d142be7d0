"""`manage.py mcp_prune`: delete expired rows; for cron, on sites with little traffic."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial, reduce
from operator import or_
from typing import Any, Protocol, TypeAlias, runtime_checkable

from django.apps import apps
from django.core.management.base import CommandParser
from django.db.models import QuerySet

from django_mcp.auth.given_links import expired_links
from django_mcp.calls.errors import delete_old_errors, old_errors
from django_mcp.calls.repeats import old_last_calls
from django_mcp.calls.rows import old_calls, old_tallies
from django_mcp.conf import server_settings
from django_mcp.execution.states import expired_states
from django_mcp.execution.tables import delete_some
from django_mcp.execution.workers import gone_workers
from django_mcp.extension_packages import load_parts
from django_mcp.management.base import SiteCommand
from django_mcp.models import APIKey, ErrorTally
from django_mcp.pages.visits import expired_visits
from django_mcp.push.database_bus import old_messages
from django_mcp.server.exchange.session import Closing
from django_mcp.servers import all_servers
from django_mcp.sessions.site.closing import (
    expired_answers,
    expired_events,
    expired_sessions,
    lost_sessions,
    prune_sessions,
)


class Command(SiteCommand):
    """Delete expired sessions, questions, events, states and tasks, old calls, and dead processes."""

    help = (
        "Deletes what is over: expired sessions, questions, recorded events, states of calls and tasks, "
        "calls and errors older than CALL_RETENTION_DAYS and their tallies, keys that ended 90 days ago, and processes that are "
        "gone; with OAuth also "
        "its expired tokens, old sign-ins, and clients without tokens that nobody used for 30 days. It deletes in small "
        "batches, so that other queries do not wait for long."
    )

    requires_system_checks = "__all__"

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--dry-run", action="store_true", help="say what would be deleted, and delete nothing"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        is_dry_run = options["dry_run"]
        verb = "would be deleted" if is_dry_run else "deleted"
        for name, tables in _find_expired().items():
            count = sum(
                rows.count() if is_dry_run else _until_none(partial(delete, rows))
                for rows, delete in tables
            )
            self.stdout.write(f"{name}: {count} {verb}")
        for part in load_parts("site.pruning"):
            for line in part.settle(is_dry_run=is_dry_run):
                self.stdout.write(line)


Expired: TypeAlias = dict[str, list[tuple[QuerySet[Any], Callable[[QuerySet[Any]], int]]]]
"""Rows by what they are called in the output, each with what deletes some of them."""


@runtime_checkable
class PruningApp(Protocol):
    """An installed app with rows of its own that expire, as its `AppConfig` has the method."""

    def find_expired(self) -> Expired:
        """Return what is to be deleted, in this order."""


def _find_expired() -> Expired:
    """Return what is to be deleted in this order, and what deletes some of it."""
    now = datetime.now(UTC)
    now_s = now.timestamp()
    idle_s = {server.name: server.options.session_idle_s for server in all_servers()}
    of_servers = [expired_sessions(now_s, idle_s[name]).filter(server=name) for name in idle_s]
    # Those of servers that no longer exist.
    others = expired_sessions(now_s, server_settings.session_idle_s).exclude(server__in=[*idle_s])
    expired = reduce(or_, of_servers, others)
    # Those that are left when dead processes are deleted.
    lost = lost_sessions(now_s).exclude(pk__in=expired)
    return {
        "processes": [(gone_workers(), delete_some)],
        "sessions": [
            (expired, prune_sessions),
            (lost, partial(prune_sessions, reason=Closing.STREAM)),
        ],
        "messages": [(old_messages(), delete_some)],
        "calls": [(old_calls(now), delete_some)],
        "tallies": [(old_tallies(now), delete_some), (old_tallies(now, ErrorTally), delete_some)],
        "errors": [(old_errors(now), delete_old_errors)],
        "last calls": [(old_last_calls(now_s), delete_some)],
        "questions": [(expired_answers(), delete_some)],
        "events": [(expired_events(), delete_some)],
        "states": [(state, delete_some) for state in expired_states()],
        "pages": [(expired_visits(), delete_some)],
        "links": [(expired_links(), delete_some)],
        "keys": [(APIKey.objects.long_over(), delete_some)],
        **{
            name: rows
            for part in load_parts("site.pruning")
            for name, rows in part.find_expired().items()
        },
        **{name: rows for app in _pruning_apps() for name, rows in app.find_expired().items()},
    }


def _pruning_apps() -> list[PruningApp]:
    return [config for config in apps.get_app_configs() if isinstance(config, PruningApp)]


def _until_none(prune: Callable[[], int]) -> int:
    total = 0
    while count := prune():
        total += count
    return total
