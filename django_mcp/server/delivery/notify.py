"""Tell clients of changes, from anywhere in the process: any thread, with or without an event loop.

Each method has a twin with the prefix `a` for code on an event loop. What a method returns is how
many streams of this process will be sent the message. Streams of other processes come on top, and
nobody counts them. None stands for "not known": it goes out later, or from another event loop.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from typing import TYPE_CHECKING, Any

from django_mcp.protocol.json import JSONObject, encode
from django_mcp.protocol.levels import LOG_LEVELS
from django_mcp.server.services.services import Services
from django_mcp.server.streams.stream import ELICITATION_COMPLETE, LISTS, Change

if TYPE_CHECKING:
    from django_mcp.registry.registry import Kind
    from django_mcp.server.services.services import ServerHub

__all__ = ["MAX_PARAMS_BYTES", "NotifyMethods"]

MAX_PARAMS_BYTES = 32 * 1024
"""Of the params of one notification, which has to travel between processes. Our own limit."""

WAIT_S = 1.0
"""How long a thread waits to learn how many were reached. Our own limit."""


class NotifyMethods(Services):
    """The part of a server that tells clients of changes.

    `using` names the database whose transaction is waited for, where there are databases.
    """

    # -- lists

    def notify_tools_list_changed(self, *, using: str | None = None) -> int | None:
        """Tell clients to read the list of tools again; return how many were told."""
        return self.publish(self._list_changed("tools"), using=using)

    async def anotify_tools_list_changed(self, *, using: str | None = None) -> int | None:
        """Do as `notify_tools_list_changed` does."""
        return await self.apublish(self._list_changed("tools"), using=using)

    def notify_prompts_list_changed(self, *, using: str | None = None) -> int | None:
        """Tell clients to read the list of prompts again; return how many were told."""
        return self.publish(self._list_changed("prompts"), using=using)

    async def anotify_prompts_list_changed(self, *, using: str | None = None) -> int | None:
        """Do as `notify_prompts_list_changed` does."""
        return await self.apublish(self._list_changed("prompts"), using=using)

    def notify_resources_list_changed(self, *, using: str | None = None) -> int | None:
        """Tell clients to read the list of resources again; return how many were told."""
        return self.publish(self._list_changed("resources"), using=using)

    async def anotify_resources_list_changed(self, *, using: str | None = None) -> int | None:
        """Do as `notify_resources_list_changed` does."""
        return await self.apublish(self._list_changed("resources"), using=using)

    # -- single resources

    def notify_resource_updated(self, uri: str, *, using: str | None = None) -> int | None:
        """Tell those who subscribed to a resource, and may see it, to read it again.

        Args:
            uri: exactly as clients subscribe to it.
            using: see the class.
        """
        return self.publish(self._updated(uri), using=using)

    async def anotify_resource_updated(self, uri: str, *, using: str | None = None) -> int | None:
        """Do as `notify_resource_updated` does."""
        return await self.apublish(self._updated(uri), using=using)

    # -- anything else, for sessions only

    def notify(
        self,
        method: str,
        params: JSONObject | None = None,
        *,
        session: str | None = None,
        using: str | None = None,
    ) -> int | None:
        """Send a notification of any method to each session, on one of its streams.

        Args:
            method: `notifications/` and a name, as a rule.
            params: a JSON object.
            session: the public key of the only session that is sent it; None: all.
            using: see the class.

        Raises:
            ValueError: the params are larger than `MAX_PARAMS_BYTES`, or have no form in JSON.
        """
        return self.publish(self._custom(method, params, session), using=using)

    async def anotify(
        self,
        method: str,
        params: JSONObject | None = None,
        *,
        session: str | None = None,
        using: str | None = None,
    ) -> int | None:
        """Do as `notify` does."""
        return await self.apublish(self._custom(method, params, session), using=using)

    def notify_elicitation_complete(
        self, session: Any, elicitation_id: str, *, using: str | None = None
    ) -> int | None:
        """Tell a client that what it was asked to do on a page is done.

        A client whose revision has no such questions is not told, and not counted.

        Args:
            session: the public key of its session, or a context of a request in it.
            elicitation_id: which question it was.
            using: see the class.

        Raises:
            ValueError: the id is empty, or the context is of no session.

        Source: 2025-11-25 client/elicitation "Completion Notifications".
        """
        return self.publish(self._elicited(session, elicitation_id), using=using)

    async def anotify_elicitation_complete(
        self, session: Any, elicitation_id: str, *, using: str | None = None
    ) -> int | None:
        """Do as `notify_elicitation_complete` does."""
        return await self.apublish(self._elicited(session, elicitation_id), using=using)

    def notify_log(
        self,
        level: str,
        data: Any,
        *,
        logger: str | None = None,
        session: str | None = None,
        using: str | None = None,
    ) -> int | None:
        """Send a log message to one session, or to all, whose log level admits it.

        It counts for the rate of log messages of each, as those of handlers do (`LOG_RATE`).

        Raises:
            ValueError: an unknown level, or too much data; see `notify`.
        """
        return self.publish(self._log(level, data, logger, session), using=using)

    async def anotify_log(
        self,
        level: str,
        data: Any,
        *,
        logger: str | None = None,
        session: str | None = None,
        using: str | None = None,
    ) -> int | None:
        """Do as `notify_log` does."""
        return await self.apublish(self._log(level, data, logger, session), using=using)

    # -- the way out

    def publish(self, change: Change, *, using: str | None = None) -> int | None:
        """Publish a change here and in every other process; see `notify_tools_list_changed`."""
        return announce(self.hub, change)

    async def apublish(self, change: Change, *, using: str | None = None) -> int | None:
        """Do as `publish` does, on an event loop."""
        return await aannounce(self.hub, change)

    # -- what is registered while the server runs

    def _registry_changed(self, kind: Kind) -> None:
        """Publish a change of what is registered, in any thread; several at once are one."""
        loop = self.hub.loop
        if loop is not None and loop.is_running():
            loop.call_soon_threadsafe(self._note_change, kind)

    def _note_change(self, kind: Kind) -> None:
        if not self._changed_lists:
            asyncio.get_running_loop().call_soon(self._publish_lists)
        self._changed_lists.add(kind)

    def _publish_lists(self) -> None:
        changed, self._changed_lists = self._changed_lists, set()
        for name in LISTS:
            if name in changed:
                self.hub.announce(self._list_changed(name))

    _changed_lists: set[str]

    # -- changes

    def _list_changed(self, name: str) -> Change:
        return Change(server=self.options.name, list=name)

    def _updated(self, uri: str) -> Change:
        return Change(server=self.options.name, uri=uri)

    def _custom(
        self, method: str, params: JSONObject | None, session: str | None, level: str | None = None
    ) -> Change:
        # Refused now, in the caller's face, and not later in a log.
        if params is not None and len(encode(params)) > MAX_PARAMS_BYTES:
            raise ValueError(f"The params of {method} are larger than {MAX_PARAMS_BYTES} bytes.")
        return Change(
            server=self.options.name, method=method, params=params, session=session, level=level
        )

    def _elicited(self, session: Any, elicitation_id: str) -> Change:
        if type(elicitation_id) is not str or not elicitation_id:
            raise ValueError("elicitation_id is empty: give the id that the client was asked with.")
        key = session if isinstance(session, str) else _key_of(session.connection)
        params = {"elicitationId": elicitation_id}
        return self._custom(ELICITATION_COMPLETE, params, key)

    def _log(self, level: str, data: Any, logger: str | None, session: str | None) -> Change:
        if level not in LOG_LEVELS:
            raise ValueError(f"Unknown log level {level!r}: use one of {', '.join(LOG_LEVELS)}.")
        params = {"level": level, "data": data}
        if logger is not None:
            params["logger"] = logger
        return self._custom("notifications/message", params, session, level)


def _key_of(connection: Any) -> str | None:
    if connection.stream_id is not None:
        return str(connection.stream_id)
    key: str | None = getattr(connection, "key", None)
    if key is None:
        raise ValueError("There is no session here whose client could be told.")
    return key


def announce(hub: ServerHub, change: Change) -> int | None:
    """Publish a change from any thread; return how many were reached here, where that is known."""
    loop = hub.loop
    if loop is None or not loop.is_running():
        hub.bus.send_now({"kind": "change", "change": change.to_wire()})
        return None if hub.bus.is_shared else 0
    running = _running_loop()
    if running is loop:
        return hub.announce(change)
    found = _announce_there(hub, loop, change)
    if running is not None:
        # Waiting would block that loop.
        return None
    try:
        return found.result(WAIT_S)
    except TimeoutError:
        return None


async def aannounce(hub: ServerHub, change: Change) -> int | None:
    """Do as `announce` does, on an event loop."""
    loop = hub.loop
    if loop is None or not loop.is_running():
        await hub.send({"kind": "change", "change": change.to_wire()})
        return None if hub.bus.is_shared else 0
    if _running_loop() is loop:
        reached = hub.announce(change)
        # A burst that never waits would leave streams no time to be written to.
        await asyncio.sleep(0)
        return reached
    return await asyncio.wrap_future(_announce_there(hub, loop, change))


def _announce_there(
    hub: ServerHub, loop: asyncio.AbstractEventLoop, change: Change
) -> concurrent.futures.Future[int]:
    found: concurrent.futures.Future[int] = concurrent.futures.Future()

    def run() -> None:
        try:
            found.set_result(hub.announce(change))
        except Exception as error:  # noqa: BLE001 - the waiting caller raises it
            found.set_exception(error)

    loop.call_soon_threadsafe(run)
    return found


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
