"""The state of the workers' threads, from the database that the command shares with the site."""

from __future__ import annotations

import time
from collections.abc import Iterator

from django.db import Error
from django.utils import timezone

from django_mcp.conf import settings
from django_mcp.management.doctor.finding import Finding, bad, good
from django_mcp.models import Worker
from django_mcp.protocol.json import JSONObject

__all__ = ["examine_threads"]


def examine_threads() -> Iterator[Finding]:
    """Yield how many threads are busy in each worker that currently serves requests."""
    if settings.SESSION_STORE != "model":
        return
    try:
        workers = list(
            Worker.objects.filter(lease_until__gt=timezone.now()).order_by("host", "pid")
        )
    except Error:
        # The endpoint's responses show what is wrong with the database.
        return
    for worker in workers:
        state = worker.in_flight or {}
        busy, limit, waiting = state.get("threads") or (0, 0, 0)
        if not busy:
            continue
        held = _describe(state)
        if waiting:
            yield bad(
                f"Calls wait for a thread at worker {worker}: {busy} of {limit} threads are busy, and "
                f"{waiting} calls wait{held}",
                "Give what holds the threads a timeout of its own towards what it waits for, or raise "
                'DJANGO_MCP["SYNC_THREADS"].',
            )
        else:
            yield good(f"Threads are free at worker {worker}: {busy} of {limit} are busy{held}")


def _describe(state: JSONObject) -> str:
    held = [f"{what} for {time.time() - since:.0f} s" for what, since in state.get("held", ())]
    return f". The longest are {'; '.join(held)}" if held else ""
