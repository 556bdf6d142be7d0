"""Tell the client something while a handler runs: how far the work is, and log messages."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Coroutine
from functools import partial
from typing import Any, Protocol, Self, TypeVar, overload

from django_mcp.protocol import meta as keys
from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.levels import LOG_LEVELS, LogLevel
from django_mcp.protocol.messages import encode_notification
from django_mcp.server.asking.questions import Asking
from django_mcp.server.exchange.send_rate import SendRate

__all__ = ["Telling"]

T = TypeVar("T")


class _Log(Protocol):
    def __call__(self, data: Any, *, logger: str | None = None) -> None: ...


class _AsyncLog(Protocol):
    async def __call__(self, data: Any, *, logger: str | None = None) -> None: ...


class _Shortcut:
    """A method that logs at one level: `ctx.warning(data, logger=...)`."""

    def __init__(self, level: LogLevel) -> None:
        self._level = level
        self.__doc__ = f"Do as `log` does, at the level {level}."

    @overload
    def __get__(self, ctx: None, owner: type) -> Self: ...

    @overload
    def __get__(self, ctx: Telling, owner: type) -> _Log: ...

    def __get__(self, ctx: Telling | None, owner: type) -> Self | _Log:
        return self if ctx is None else partial(ctx.log, self._level)


class _AsyncShortcut:
    """A method that logs at one level, for asynchronous handlers."""

    def __init__(self, level: LogLevel) -> None:
        self._level = level
        self.__doc__ = f"Do as `alog` does, at the level {level}."

    @overload
    def __get__(self, ctx: None, owner: type) -> Self: ...

    @overload
    def __get__(self, ctx: Telling, owner: type) -> _AsyncLog: ...

    def __get__(self, ctx: Telling | None, owner: type) -> Self | _AsyncLog:
        return self if ctx is None else partial(ctx.alog, self._level)


class Telling(Asking, kw_only=True):
    """The part of a context that tells. Each method has an `a` twin for async handlers."""

    _last_progress: float | None = None
    _progress_rate: SendRate | None = None

    @property
    def _may_send(self) -> bool:
        exchange = self.exchange
        return not (
            exchange.sink is None
            or not exchange.can_stream
            or self.is_finished
            # On a session, the client may come back for it.
            or (exchange.is_disconnected and exchange.connection is None)
        )

    async def _notify(self, method: str, params: JSONObject) -> None:
        sink = self.exchange.sink
        # Encoded before the look at the state, so that a bad value fails whether or not anybody listens.
        message = encode_notification(method, params)
        if self.options.strict:
            from django_mcp.server.exchange.strict import is_sound

            if not is_sound(method, params, self.rules):
                return
        if sink is not None and self._may_send and not self._is_cancelled:
            await sink.send(message)

    def _from_thread(self, coroutine: Coroutine[Any, Any, T], name: str) -> T:
        loop = self._loop
        if loop is None or threading.get_ident() == self._loop_thread:
            coroutine.close()
            raise RuntimeError(
                f"This would block the event loop: in an async handler write `await ctx.{name}()`."
            )
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result()

    # -- progress

    async def aprogress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Tell the client how far the work is. Does nothing when it did not ask to know.

        Of more than `PROGRESS_RATE` a second some are left out; not one where `progress` has come
        to `total`.

        Args:
            progress: done so far, in any unit; only increasing values are sent.
            total: what `progress` will be at the end, if known.
            message: a text for people, where the revision has it.
        """
        token = self.meta.get(keys.PROGRESS_TOKEN)
        if token is None or not self._may_send or type(token) not in (str, int):
            return
        if _is_infinite(progress):
            return
        if self._last_progress is not None and progress <= self._last_progress:
            return
        if progress != total and not self._is_within_progress_rate():
            return
        self._last_progress = progress
        params: JSONObject = {"progressToken": token, "progress": progress}
        if total is not None and not _is_infinite(total):
            params["total"] = total
        if message is not None and self.rules.has_progress_messages:
            params["message"] = str(message)
        await self._notify("notifications/progress", params)

    def progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Do as `aprogress` does, from a synchronous handler."""
        if keys.PROGRESS_TOKEN in self.meta and self._may_send:
            self._from_thread(self.aprogress(progress, total, message), "aprogress")

    def _is_within_progress_rate(self) -> bool:
        rate = self.options.progress_rate
        if not rate:
            return True
        if self._progress_rate is None:
            self._progress_rate = SendRate(rate)
        return self._progress_rate.take()

    # -- log messages

    async def alog(self, level: LogLevel, data: Any, *, logger: str | None = None) -> None:
        """Send a log message to the client, if its log level admits it.

        Args:
            level: one of the eight of RFC 5424: debug, info, notice, warning, error, critical,
                alert, emergency.
            data: any JSON value, a text most often. No secrets: it leaves the site.
            logger: which part of the application speaks.

        Raises:
            ValueError: an unknown level.
        """
        if self._wants(level) and self.connection.may_log(self.options.log_rate):
            params: JSONObject = {"level": level, "data": data}
            if logger is not None:
                params["logger"] = logger
            await self._notify("notifications/message", params)

    def log(self, level: LogLevel, data: Any, *, logger: str | None = None) -> None:
        """Do as `alog` does, from a synchronous handler."""
        if self._wants(level):
            self._from_thread(self.alog(level, data, logger=logger), "alog")

    debug = _Shortcut("debug")
    info = _Shortcut("info")
    notice = _Shortcut("notice")
    warning = _Shortcut("warning")
    error = _Shortcut("error")
    critical = _Shortcut("critical")
    alert = _Shortcut("alert")
    emergency = _Shortcut("emergency")
    adebug = _AsyncShortcut("debug")
    ainfo = _AsyncShortcut("info")
    anotice = _AsyncShortcut("notice")
    awarning = _AsyncShortcut("warning")
    aerror = _AsyncShortcut("error")
    acritical = _AsyncShortcut("critical")
    aalert = _AsyncShortcut("alert")
    aemergency = _AsyncShortcut("emergency")

    def _wants(self, level: str) -> bool:
        if level not in LOG_LEVELS:
            raise ValueError(f"Unknown log level {level!r}: use one of {', '.join(LOG_LEVELS)}.")
        if not self._may_send:
            return False
        threshold = self.connection.log_level
        if threshold is None:
            if self.rules.logs_by_request:
                return False
            threshold = self.options.log_level
        return LOG_LEVELS[level] >= LOG_LEVELS[threshold]


def _is_infinite(value: Any) -> bool:
    """Return whether a number is infinite or not a number, for which JSON has no form."""
    return isinstance(value, float) and not math.isfinite(value)
