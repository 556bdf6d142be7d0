"""Revoked, changed or deleted API keys: every process drops what it cached of them.

It is a hint: of what nobody told, such as `QuerySet.update`, it is known within 2 s.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.db.models.signals import post_delete, post_save

from django_mcp.auth.credentials import KEY_START
from django_mcp.auth.verdicts import forget_verdicts
from django_mcp.protocol.json import JSONObject
from django_mcp.push.process_hub import process_hub
from django_mcp.push.upkeep import look_after

if TYPE_CHECKING:
    from django_mcp.server.services.services import ServerHub

__all__ = ["connect", "join", "tell_after_commit"]

KIND = "keys"

MAX_TOLD = 500
"""Keys named in one message; with more of them everything is forgotten."""

_local = threading.local()
_tasks: set[asyncio.Task[object]] = set()


def connect() -> None:
    """Hear of keys that are saved or deleted one by one, and those that go with their user."""
    from django_mcp.models import APIKey

    uid = "django_mcp.push.keys"
    post_save.connect(_changed, sender=APIKey, dispatch_uid=uid)
    post_delete.connect(_changed, sender=APIKey, dispatch_uid=uid)


def _changed(instance: Any, using: str, *, created: bool = False, **_: Any) -> None:
    if not created:
        tell_after_commit(instance.prefix, using)


def tell_after_commit(prefix: str, using: str) -> None:
    """Tell of a key once the transaction is committed, here and everywhere."""
    waiting: dict[str, set[str]] = vars(_local).setdefault("waiting", {})
    waiting.setdefault(using, set()).add(f"{KEY_START}{prefix}")
    # For each change, since a savepoint of it may be rolled back; the first has them all.
    transaction.on_commit(partial(_tell, waiting, using), using=using)


def _tell(waiting: dict[str, set[str]], using: str) -> None:
    if using not in waiting:
        return
    names = waiting.pop(using)
    message = {"names": sorted(names) if len(names) <= MAX_TOLD else None}
    forget_verdicts(message["names"])
    hub = process_hub()
    if hub.is_running and hub.loop is not None:
        hub.loop.call_soon_threadsafe(_announce, hub, message)
    else:
        hub.bus.send_now({"kind": KIND, **message})


def _announce(hub: ServerHub, message: JSONObject) -> None:
    hub.tell(KIND, **message)
    _end_what_is_open(hub)


def join(hub: ServerHub) -> None:
    """Let a hub receive changed keys from other processes."""
    hub.on(KIND, partial(_take, hub))


def _take(hub: ServerHub, message: JSONObject) -> None:
    names: Collection[str] | None = message["names"]
    forget_verdicts(names)
    _end_what_is_open(hub)


def _end_what_is_open(hub: ServerHub) -> None:
    task = asyncio.get_running_loop().create_task(look_after(hub))
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)
