"""Notify clients of changes, from anywhere in the process: any thread, with or without an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeAlias

from django_mcp.protocol.json import JSONObject, encode
from django_mcp.protocol.levels import LOG_LEVELS
from django_mcp.registry.registry import ListKind
from django_mcp.server.exchange.timers import find_running_loop
from django_mcp.server.services.services import ServerHub, Services
from django_mcp.server.streams.stream import ELICITATION_COMPLETE, LISTS, Change

P = ParamSpec("P")

MAX_PARAMS_BYTES = 32 * 1024
"""Maximum size of a notification's params, which travel between processes. Our own limit."""

WAIT_S = 1.0
"""How long a thread waits for the number of streams that receive its notification. Our own limit."""

Made: TypeAlias = tuple[Change, str | None]
"""A notification, and the database whose transaction it waits for."""


def _methods(
    make: Callable[Concatenate[Any, P], Made],
) -> tuple[
    Callable[Concatenate[Any, P], int | None],
    Callable[Concatenate[Any, P], Coroutine[Any, Any, int | None]],
]:
    """Return the method that publishes what `make` returns, and its asynchronous twin."""

    @wraps(make)
    def notify(server: Any, /, *args: P.args, **kwargs: P.kwargs) -> int | None:
        reached: int | None = server._publish(*make(server, *args, **kwargs))
        return reached

    @wraps(make)
    async def anotify(server: Any, /, *args: P.args, **kwargs: P.kwargs) -> int | None:
        change, _using = make(server, *args, **kwargs)
        return await announce_async(server.hub, change)

    return notify, anotify


class NotifyMethods(Services):
    """The part of a server that notifies clients of changes.

    Each method has an asynchronous twin with the prefix `a`. Both return how many streams of this
    process will be sent the notification, or None if that is not known: it is sent later, or from
    another event loop. Streams of other processes are not counted. `using` names the database
    whose transaction a synchronous method waits for, on sites with databases.
    """

    _changed_lists: set[str]

    def _listed(self, kind: ListKind, *, using: str | None = None) -> Made:
        """Notify clients to read a list again; return how many streams are notified.

        Args:
            kind: `tools`, `prompts` or `resources`.
            using: see the class.
        """
        if kind not in LISTS:
            raise ValueError(f"There is no list of {kind!r}: use one of {', '.join(LISTS)}.")
        return Change(server=self.name, list=kind), using

    def _resource(self, uri: str, *, using: str | None = None) -> Made:
        """Notify subscribers of a resource who may read it to read it again.

        Args:
            uri: exactly as clients subscribe to it.
            using: see the class.
        """
        return Change(server=self.name, uri=uri), using

    def _any(
        self,
        method: str,
        params: JSONObject | None = None,
        *,
        session: str | None = None,
        using: str | None = None,
    ) -> Made:
        """Send a notification of any method to each session, on one of its streams.

        Args:
            method: `notifications/` and a name, as a rule.
            params: a JSON object.
            session: the public key of the only session that receives it; None: all sessions.
            using: see the class.

        Raises:
            ValueError: the params are larger than `MAX_PARAMS_BYTES`, or have no form in JSON.
        """
        return self._custom(method, params, session), using

    def _elicitation_complete(
        self, session: Any, elicitation_id: str, *, using: str | None = None
    ) -> Made:
        """Notify a client that the user has done what they were asked to do on a page.

        Only clients whose revision has such questions are notified and counted.

        Args:
            session: the public key of its session, or a context of a request in it.
            elicitation_id: the id of the question.
            using: see the class.

        Raises:
            ValueError: the id is empty, or the context is of no session.

        Source: 2025-11-25 client/elicitation "Completion Notifications".
        """
        if type(elicitation_id) is not str or not elicitation_id:
            raise ValueError("elicitation_id is empty: give the id that the client was asked with.")
        key = session if isinstance(session, str) else _key_of(session.connection)
        params = {"elicitationId": elicitation_id}
        return self._custom(ELICITATION_COMPLETE, params, key), using

    def _log(
        self,
        level: str,
        data: Any,
        *,
        logger: str | None = None,
        session: str | None = None,
        using: str | None = None,
    ) -> Made:
        """Send a log message to one session, or to all, whose log level admits it.

        It counts towards each session's rate of log messages, as those of handlers do (`LOG_RATE`).

        Raises:
            ValueError: an unknown level, or too much data; see `notify`.
        """
        if level not in LOG_LEVELS:
            raise ValueError(f"Unknown log level {level!r}: use one of {', '.join(LOG_LEVELS)}.")
        params = {"level": level, "data": data}
        if logger is not None:
            params["logger"] = logger
        return self._custom("notifications/message", params, session, level), using

    notify_list_changed, anotify_list_changed = _methods(_listed)
    notify_resource_updated, anotify_resource_updated = _methods(_resource)
    notify, anotify = _methods(_any)
    notify_elicitation_complete, anotify_elicitation_complete = _methods(_elicitation_complete)
    notify_log, anotify_log = _methods(_log)

    def _publish(self, change: Change, using: str | None = None) -> int | None:
        """Publish a change here and in every other process; return how many streams it reaches here."""
        return announce(self.hub, change)

    def _custom(
        self, method: str, params: JSONObject | None, session: str | None, level: str | None = None
    ) -> Change:
        # Checked now, so that the caller gets the error.
        if params is not None and len(encode(params)) > MAX_PARAMS_BYTES:
            raise ValueError(f"The params of {method} are larger than {MAX_PARAMS_BYTES} bytes.")
        return Change(server=self.name, method=method, params=params, session=session, level=level)

    # -- what is registered while the server runs

    def _registry_changed(self, kind: ListKind) -> None:
        """Publish a change of what is registered, from any thread. Several at once are published once."""
        loop = self.hub.loop
        if loop is not None and loop.is_running():
            loop.call_soon_threadsafe(self._note_change, kind)

    def _note_change(self, kind: ListKind) -> None:
        if not self._changed_lists:
            asyncio.get_running_loop().call_soon(self._publish_lists)
        self._changed_lists.add(kind)

    def _publish_lists(self) -> None:
        changed, self._changed_lists = self._changed_lists, set()
        for name in LISTS:
            if name in changed:
                self.hub.announce(Change(server=self.name, list=name))


def _key_of(connection: Any) -> str | None:
    if connection.stream_id is not None:
        return str(connection.stream_id)
    key: str | None = getattr(connection, "key", None)
    if key is None:
        raise ValueError("There is no session here whose client could be notified.")
    return key


def announce(hub: ServerHub, change: Change) -> int | None:
    """Publish a change from any thread; return how many streams it reaches here, None if unknown."""
    loop = hub.loop
    if loop is None or not loop.is_running():
        hub.bus.send_now({"kind": "change", "change": change.to_wire()})
        return None if hub.bus.is_shared else 0
    running = find_running_loop()
    if running is loop:
        return hub.announce(change)
    found = asyncio.run_coroutine_threadsafe(_announce(hub, change), loop)
    if running is not None:
        # Waiting would block that loop.
        return None
    try:
        return found.result(WAIT_S)
    except TimeoutError:
        return None


async def announce_async(hub: ServerHub, change: Change) -> int | None:
    """Do as `announce` does, on an event loop; wait for the number of streams."""
    if not hub.is_running:
        await hub.send({"kind": "change", "change": change.to_wire()})
        return None if hub.bus.is_shared else 0
    return await hub.run(_announce, hub, change)


async def _announce(hub: ServerHub, change: Change) -> int:
    reached = hub.announce(change)
    # Else a burst of changes would leave no time for writing to the streams.
    await asyncio.sleep(0)
    return reached
