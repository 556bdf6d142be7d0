"""`manage.py mcp_prune`: delete expired rows; for cron, on sites with little traffic."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

from asgiref.sync import async_to_sync
from django.core.management.base import BaseCommand, CommandParser
from django.db.models import QuerySet

from django_mcp.calls.retention import old_calls, old_tallies, prune_calls, prune_tallies
from django_mcp.conf import server_settings, settings
from django_mcp.handlers.states import prune_states
from django_mcp.handlers.threads import in_calling_thread
from django_mcp.models import KeptState, Session, Task, UsedState
from django_mcp.pages.visits import prune_visits
from django_mcp.push.database_bus import prune_messages
from django_mcp.server.exchange.connection import Closing
from django_mcp.server.tasks.sweeping import sweep_tasks
from django_mcp.servers import MCPServer, all_servers
from django_mcp.sessions.answers import prune_answers
from django_mcp.sessions.batches import prune_events
from django_mcp.sessions.pruning import AT_ONCE, expired_sessions, lost_sessions, prune_sessions
from django_mcp.tasks import prune_tasks
from django_mcp.workers import prune_workers


class Command(BaseCommand):
    """Delete expired sessions, questions, events, states and tasks, old calls, and dead processes."""

    help = (
        "Deletes what is over: expired sessions, questions, recorded events, states of calls and tasks, "
        "calls older than CALL_RETENTION_DAYS and their tallies, and processes that are gone. Never all at once, so "
        "that nobody waits for long."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the option to delete nothing."""
        parser.add_argument(
            "--dry-run", action="store_true", help="say what would be deleted, and delete nothing"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Delete, or count, the rows of each kind."""
        is_dry_run = options["dry_run"]
        counts = _count() if is_dry_run else _prune()
        verb = "would be deleted" if is_dry_run else "deleted"
        for name, count in counts.items():
            self.stdout.write(f"{name}: {count} {verb}")
        count = _count_lapsed() if is_dry_run else _settle_tasks()
        verb = "would be settled" if is_dry_run else "settled"
        self.stdout.write(f"tasks of processes that are gone: {count} {verb}")


def _prune() -> dict[str, int]:
    now = datetime.now(UTC)
    processes = _until_none(prune_workers)
    lost = lost_sessions(now.timestamp())
    return {
        "sessions": sum(
            _until_none(partial(prune_sessions, rows)) for rows in _expired(now.timestamp())
        )
        + _until_none(partial(prune_sessions, lost, reason=Closing.STREAM)),
        "questions": _until_none(lambda: prune_answers(limit=AT_ONCE)),
        "events": _until_none(lambda: prune_events(limit=AT_ONCE)),
        "processes": processes,
        "states": _until_none(prune_states),
        "pages": _until_none(prune_visits),
        "messages": _until_none(prune_messages),
        "tasks": _until_none(prune_tasks),
        "calls": prune_calls(now),
        "tallies": prune_tallies(now),
    }


def _settle_tasks() -> int:
    """End tasks whose worker is gone, or queue those that can run again."""
    if settings.TASK_STORE != "model":
        return 0
    return sum(_until_none(partial(_settle_some, server)) for server in all_servers())


def _settle_some(server: MCPServer) -> int:
    with in_calling_thread():
        return async_to_sync(sweep_tasks)(server, may_begin=not server.runner.is_here)


def _count_lapsed() -> int:
    now = datetime.now(UTC)
    lapsed = Task.objects.filter(status=Task.Status.WORKING, leased_until__lt=now)
    return lapsed.filter(expires_at__gt=now).count()


def _count() -> dict[str, int]:
    now = datetime.now(UTC)
    states = [KeptState.objects, UsedState.objects]
    return {
        "sessions": len(
            {
                key
                for rows in (*_expired(now.timestamp()), lost_sessions(now.timestamp()))
                for key in rows.values_list("pk", flat=True)
            }
        ),
        "questions": prune_answers(limit=0, is_dry_run=True),
        "events": prune_events(limit=0, is_dry_run=True),
        "processes": prune_workers(is_dry_run=True),
        "states": sum(rows.filter(expires_at__lte=now).count() for rows in states),
        "pages": prune_visits(is_dry_run=True),
        "messages": prune_messages(is_dry_run=True),
        "tasks": Task.objects.filter(expires_at__lte=now).count(),
        "calls": old_calls(now).count(),
        "tallies": old_tallies(now).count(),
    }


def _expired(now_s: float) -> list[QuerySet[Session]]:
    """Return the expired sessions of each server, and those of servers that no longer exist."""
    idle_s = {each.public_name: each.options.session_idle_s for each in all_servers()}
    found = [expired_sessions(now_s, idle_s[name], server=name) for name in idle_s]
    return [*found, expired_sessions(now_s, server_settings.session_idle_s, others_than=[*idle_s])]


def _until_none(prune: Callable[[], int]) -> int:
    total = 0
    while count := prune():
        total += count
    return total
