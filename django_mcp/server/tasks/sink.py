"""What a task sends while it runs, passed on to the clients that listen."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from django_mcp.protocol import meta as keys
from django_mcp.protocol.json import JSONObject, decode
from django_mcp.server.exchange.connection import ConnectionState, Session
from django_mcp.server.streams.stream import Change
from django_mcp.server.tasks.transitions import encode_about, rules_of, stream_of

if TYPE_CHECKING:
    from django_mcp.server.exchange.task import Task
    from django_mcp.server.services.services import ServerHub

__all__ = ["TaskSink"]


class TaskSink:
    """Take what a handler sends: progress for all who look, and messages for who waits.

    Args:
        hub: has the streams of the client.
        task: the task as it was when its run began.
        note: takes each text that tells how far the work is.
        connection: that of the client, where there is one that outlives a request.
    """

    def __init__(
        self,
        hub: ServerHub,
        task: Task,
        note: Callable[[str], None],
        connection: ConnectionState | None,
    ) -> None:
        self._hub = hub
        self._task = task
        self._note = note
        self._connection = connection

    async def send(self, message: bytes, event_id: str | None = None) -> None:
        """See `Sink.send`."""
        task = self._task
        wire = decode(message)
        method, params = wire["method"], wire["params"]
        if method == "notifications/progress":
            self._note(_say(params))
        is_asked_for = keys.PROGRESS_TOKEN in task.call["meta"]
        if rules_of(task).by_client and (is_asked_for or method != "notifications/progress"):
            self._pass_on(task, method, params)

    def _pass_on(self, task: Task, method: str, params: JSONObject) -> None:
        """Send a message where its client hears it, once: to who waits for the result, first."""
        hub = self._hub
        message = encode_about(task.id, method, params, keys.RELATED_TASK)
        if hub.followers.has(stream_of(task.id)):
            hub.followers.show(stream_of(task.id), message)
        elif task.session is not None:
            about: dict[str, Any] = decode(message)["params"]
            change = Change(server=task.server, method=method, params=about, session=task.session)
            hub.announce(change)
        elif not isinstance(self._connection, Session) and self._connection is not None:
            stream = hub.streams.get(self._connection.stream_id or "")
            if stream is not None:
                stream.offer(message)

    async def prime(self, event_id: str | None) -> None:
        """See `Sink.prime`: nothing is opened."""

    async def hang_up(self, retry_ms: int) -> None:
        """See `Sink.hang_up`: nothing is closed."""


def _say(params: JSONObject) -> str:
    message = params.get("message")
    if message:
        return str(message)
    total = params.get("total")
    done = f"{params['progress']:g}"
    return done if total is None else f"{done} / {total:g}"
