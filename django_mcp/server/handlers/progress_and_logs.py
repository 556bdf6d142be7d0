"""The progress and the log messages that a handler sends ahead of its response."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine
from inspect import iscoroutinefunction, signature
from typing import Any, Concatenate, ParamSpec, TypeVar

from django_mcp.log import LoggedKinds, logger
from django_mcp.protocol import meta as keys
from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.levels import LOG_LEVELS, LogLevel
from django_mcp.protocol.messages import RequestId, encode_notification, is_request_id
from django_mcp.registry.signatures import named
from django_mcp.server.asking.questions import AskMethods
from django_mcp.server.exchange.answers import send_ahead
from django_mcp.server.exchange.pending import PART_BYTES
from django_mcp.server.exchange.send_rate import SendRate
from django_mcp.server.exchange.timers import find_running_loop
from django_mcp.server.handlers.patience import Patience

T = TypeVar("T")
P = ParamSpec("P")

ended = LoggedKinds(100)
"""Servers and entries that used their context after the end of a call."""

buffered = LoggedKinds(100)
"""Servers that sent progress or log messages, for which a client had asked, only with the result."""

_WOULD_BLOCK = "This would block the event loop: in an async handler write `await ctx.{name}(...)`."


def _at(
    level: LogLevel, method: Callable[Concatenate[Any, LogLevel, P], T]
) -> Callable[Concatenate[Any, P], T]:
    """Return a method that does as `log` or `alog` does, at one level: `ctx.warning(data)`."""

    def shortcut(ctx: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return method(ctx, level, *args, **kwargs)

    shown = signature(method)
    rest = [parameter for parameter in shown.parameters.values() if parameter.name != "level"]
    vars(shortcut)["__signature__"] = shown.replace(parameters=rest)
    # As asgiref marks functions that return coroutines.
    vars(shortcut)["_is_coroutine"] = iscoroutinefunction(method) or None
    shortcut.__doc__ = f"Do as `{method.__name__}` does, at the level {level}."
    return named(shortcut, method.__name__.replace("log", level), owner="ProgressAndLogs")


class ProgressAndLogs(AskMethods):
    """The part of a context that sends notifications. Each method has an `a` twin for async handlers."""

    _last_progress: float | None = None
    _is_above_total = False
    _progress_rate: SendRate | None = None
    _patience: Patience | None = None

    # -- progress

    async def aprogress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Send the client the progress if it asked for it, and show it in the status of a task.

        Above `PROGRESS_RATE` a second some are not sent, but one where `progress` equals `total` is.

        Args:
            progress: done so far, in any unit; only increasing values are sent.
            total: what `progress` will be at the end, if known.
            message: a text for people, where the revision has it.

        Raises:
            TypeError: `progress` or `total` is no number.
        """
        params = self._find_news(progress, total, message)
        if params is not None:
            await self._tell_progress(params)

    def _find_news(
        self, progress: float, total: float | None, message: str | None
    ) -> JSONObject | None:
        """Return the parameters of a notification, if anybody wants it and the rate admits it, and note it."""
        call = self._call
        self._note_end()
        # Also where nobody listens, as in production.
        progress = _to_number("progress", progress)
        total = None if total is None else _to_number("total", total)
        if total is not None and progress > total and not self._is_above_total:
            self._is_above_total = True
            logger.warning(
                "%s tells progress %s of %s, which is more than all. Pass what is done first, and then the total.",
                call.entry.name if call.entry is not None else call.method,
                progress,
                total,
            )
        token = self._find_progress_token()
        if not self._wants_progress(token) or _is_infinite(progress):
            return None
        if self._last_progress is not None and progress <= self._last_progress:
            return None
        rate = call.options.progress_rate
        if rate and progress != total:
            self._progress_rate = self._progress_rate or SendRate(rate)
            if not self._progress_rate.take():
                return None
        self._last_progress = progress
        params: JSONObject = {"progressToken": token, "progress": progress}
        if total is not None and not _is_infinite(total):
            params["total"] = total
        if message is not None and call.rules.has_progress_messages:
            params["message"] = str(message)
        return params

    async def _tell_progress(self, params: JSONObject) -> None:
        call = self._call
        if call.on_progress is not None:
            call.on_progress(say_progress(params))
        if params["progressToken"] is not None:
            await self._notify("notifications/progress", params)

    def _find_progress_token(self) -> RequestId | None:
        token: RequestId | None = self._call.meta.get(keys.PROGRESS_TOKEN)
        return token if is_request_id(token) else None

    def _wants_progress(self, token: RequestId | None) -> bool:
        """Return whether anybody is told of progress."""
        if self._call.on_progress is not None:
            return not self._call.is_finished
        return token is not None and self._may_send

    def progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Do as `aprogress` does, from a synchronous handler.

        A client that does not read keeps the handler for one second of a call in all. After that,
        what comes before it has read the last message is not sent.
        """
        self._require_thread("aprogress")
        # What is left out must not wait for the event loop.
        params = self._find_news(progress, total, message)
        if params is not None:
            self._send_from_thread(self._tell_progress(params), "aprogress")

    # -- log messages

    async def alog(self, level: LogLevel, data: Any, *, logger: str | None = None) -> None:
        """Send a log message to the client, if its log level admits it.

        Args:
            level: one of the eight of RFC 5424: debug, info, notice, warning, error, critical,
                alert, emergency.
            data: any JSON value, usually a text. No secrets: it leaves the site.
            logger: the part of the application that the message comes from.

        Raises:
            ValueError: an unknown level.
        """
        if self._wants(level) and self._call.connection.may_log(self._call.options.log_rate):
            await self._tell_log(level, data, logger)

    async def _tell_log(self, level: LogLevel, data: Any, logger: str | None) -> None:
        params: JSONObject = {"level": level, "data": data}
        if logger is not None:
            params["logger"] = logger
        await self._notify("notifications/message", params)

    def log(self, level: LogLevel, data: Any, *, logger: str | None = None) -> None:
        """Do as `alog` does, from a synchronous handler; for a slow client as `progress` does."""
        wants, twin = self._wants(level), f"a{level}"
        self._require_thread(twin)
        if wants and self._call.connection.may_log(self._call.options.log_rate):
            self._send_from_thread(self._tell_log(level, data, logger), twin)

    debug = _at("debug", log)
    info = _at("info", log)
    notice = _at("notice", log)
    warning = _at("warning", log)
    error = _at("error", log)
    critical = _at("critical", log)
    alert = _at("alert", log)
    emergency = _at("emergency", log)
    adebug = _at("debug", alog)
    ainfo = _at("info", alog)
    anotice = _at("notice", alog)
    awarning = _at("warning", alog)
    aerror = _at("error", alog)
    acritical = _at("critical", alog)
    aalert = _at("alert", alog)
    aemergency = _at("emergency", alog)

    @property
    def log_level(self) -> str | None:
        """The lowest level that the client wants log messages of; None: it wants none."""
        wanted = self._call.connection.log_level
        if wanted is None and not self._call.rules.logs_by_request:
            wanted = self._call.options.log_level
        return wanted

    def _wants(self, level: str) -> bool:
        if level not in LOG_LEVELS:
            raise ValueError(f"Unknown log level {level!r}: use one of {', '.join(LOG_LEVELS)}.")
        self._note_end()
        if not self._may_send:
            return False
        threshold = self.log_level
        return threshold is not None and LOG_LEVELS[level] >= LOG_LEVELS[threshold]

    def _note_end(self) -> None:
        """Log, on a site with `DEBUG`, that nobody gets what is sent, since the call has been answered."""
        call = self._call
        if not call.is_finished or call.is_abandoned or not call.server.ports.shows_faults:
            return
        name = call.entry.name if call.entry is not None else call.method
        if ended.add((call.server.name, name)):
            logger.warning(
                "%s uses its context after its call was answered, as in a thread that it started, so nobody gets its "
                "progress and log messages. Do the work before the handler returns, or make the tool a task: "
                "task='allowed'",
                name,
            )

    @property
    def _may_send(self) -> bool:
        exchange = self._call.exchange
        channel = exchange.channel
        return not (
            channel.sink is None
            or not channel.can_stream
            or self._call.is_finished
            # A client with a session may resume the stream.
            or (channel.is_gone and exchange.connection is None)
        )

    async def _notify(self, method: str, params: JSONObject) -> None:
        sink = self._call.exchange.channel.sink
        # Encoded first, so that a wrong value is an error whether or not the message is sent.
        message = encode_notification(method, params)
        if self._call.options.strict:
            from django_mcp.server.exchange.strict import is_valid

            if not is_valid(method, params, self._call.rules):
                return
        if sink is None or not self._may_send or self._call.is_abandoned:
            return
        if self._call.exchange.channel.is_buffered:
            self._note_buffer(method)
        if len(message) <= PART_BYTES:
            await sink.send(message)
        else:
            await send_ahead(self._call.exchange, message, self._call.options, sink.send)

    def _note_buffer(self, method: str) -> None:
        """Log that what the client asked for during a call reaches it with the result."""
        call = self._call
        is_progress = method == "notifications/progress"
        # Without a level of its own, a client gets log messages for which it has not asked.
        if not is_progress and call.connection.log_level is None:
            return
        # What a task sends is not part of a response.
        if call.detached_run is not None or not buffered.add(call.server.name):
            return
        entry = call.entry
        logger.warning(
            "%s of %s reaches its client with the result, since the site is served over WSGI. Serve it over ASGI, so "
            "that it arrives during the call. This is logged once for each server.",
            "The progress" if is_progress else "A log message",
            call.method if entry is None else f"the {entry.kind.word} {entry.name}",
        )

    def _require_thread(self, name: str) -> None:
        """Raise `RuntimeError` if an event loop runs in this thread; its text names the method to await."""
        if find_running_loop() is not None:
            raise RuntimeError(_WOULD_BLOCK.format(name=name))

    def _from_thread(self, coroutine: Coroutine[Any, Any, T], name: str) -> T:
        loop = self._find_loop(coroutine, name)
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result()

    def _send_from_thread(self, coroutine: Coroutine[Any, Any, None], name: str) -> None:
        loop = self._find_loop(coroutine, name)
        self._patience = self._patience or Patience()
        self._patience.send(coroutine, loop)

    def _find_loop(
        self, coroutine: Coroutine[Any, Any, Any], name: str
    ) -> asyncio.AbstractEventLoop:
        loop = self._call.loop_elsewhere
        if loop is None:
            coroutine.close()
            raise RuntimeError(_WOULD_BLOCK.format(name=name))
        return loop


def say_progress(params: JSONObject) -> str:
    """Return the parameters of a progress notification as a text for people."""
    message = params.get("message")
    if message:
        return str(message)
    total = params.get("total")
    done = f"{params['progress']:g}"
    return done if total is None else f"{done} / {total:g}"


def _to_number(name: str, value: Any) -> float:
    """Return a number as JSON has it; raise TypeError for anything else."""
    if type(value) is int or isinstance(value, float):
        return value
    if isinstance(value, bool | str | bytes) or not hasattr(value, "__float__"):
        raise TypeError(
            f"The {name} of ctx.progress() is a number, not {value!r:.60}: write ctx.progress(3, 10, 'message') for "
            "3 of 10, with the text last."
        )
    return float(value)


def _is_infinite(value: Any) -> bool:
    """Return whether a number is infinite or not a number, which JSON cannot express."""
    return isinstance(value, float) and not math.isfinite(value)
