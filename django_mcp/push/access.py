"""Changed permissions: every process drops what it cached, and notifies the clients concerned.

Several changes of one transaction are one. It is a hint: what nobody told of counts within 2 s.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING, Any

from django_mcp.auth.access import permissions_changed
from django_mcp.protocol.json import JSONObject
from django_mcp.push.process_hub import process_hub
from django_mcp.push.upkeep import look_after, offer_lists
from django_mcp.server.streams.stream import PushStream

if TYPE_CHECKING:
    from django_mcp.server.services.services import ServerHub

__all__ = ["join", "tell_after_commit"]

MAX_TOLD = 500
"""Users named in one message; of more it is said that anybody's may have changed."""

KIND = "access"

_local = threading.local()
_tasks: set[asyncio.Task[None]] = set()


def tell_after_commit(user_ids: Collection[Any] | None, using: str) -> None:
    """Tell of changed permissions once the transaction is committed, here and everywhere.

    Args:
        user_ids: primary keys of the users; None: anybody's may have changed.
        using: the database.
    """
    from django.db import transaction

    waiting: dict[str, set[str] | None] = vars(_local).setdefault("waiting", {})
    if user_ids is None:
        waiting[using] = None
    else:
        named = waiting.setdefault(using, set())
        if named is not None:
            named.update(map(str, user_ids))
    # For each change, since a savepoint of it may be rolled back; the first has them all.
    transaction.on_commit(partial(_tell, waiting, using), using=using)


def _tell(waiting: dict[str, set[str] | None], using: str) -> None:
    if using not in waiting:
        return
    users = waiting.pop(using)
    if users is not None and len(users) > MAX_TOLD:
        users = None
    permissions_changed(users)
    hub = process_hub()
    message = {"users": None if users is None else sorted(users)}
    if hub.is_running and hub.loop is not None:
        hub.loop.call_soon_threadsafe(_announce, hub, message)
    else:
        hub.bus.send_now({"kind": KIND, **message})


def _announce(hub: ServerHub, message: JSONObject) -> None:
    hub.tell(KIND, **message)
    _take_changed(hub, message)


def join(hub: ServerHub) -> None:
    """Let a hub receive changed permissions from other processes."""
    hub.on(KIND, partial(_take, hub))


def _take(hub: ServerHub, message: JSONObject) -> None:
    users = message["users"]
    permissions_changed(None if users is None else set(users))
    _take_changed(hub, message)


def _take_changed(hub: ServerHub, message: JSONObject) -> None:
    task = asyncio.get_running_loop().create_task(_catch_up(hub, message["users"]))
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)


async def _catch_up(hub: ServerHub, users: Collection[str] | None) -> None:
    """End what these users may not have open any more, and have the rest read their lists again."""
    told = await look_after(hub)
    for stream in list(hub.streams.values()):
        if stream not in told and stream.is_active and _is_of(stream, users):
            offer_lists(hub, stream)


def _is_of(stream: PushStream, users: Collection[str] | None) -> bool:
    if not getattr(stream.principal, "is_authenticated", False):
        return False
    user = getattr(stream.principal, "user", stream.principal)
    return users is None or str(getattr(user, "pk", None)) in users
