"""Conditions on which an open stream is sent a notification that it did not subscribe to."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from django_mcp.protocol.levels import LOG_LEVELS
from django_mcp.protocol.revisions import find_revision
from django_mcp.server.streams.stream import ELICITATION_COMPLETE, Change, PushStream

if TYPE_CHECKING:
    from django_mcp.server.exchange.connection import ConnectionState
    from django_mcp.server.options import Options

__all__ = ["find_condition"]


def find_condition(options: Options, change: Change) -> Callable[[PushStream], bool] | None:
    """Return a function that tells whether a stream is sent a notification; None: each stream is.

    Args:
        options: of the server that sends it.
        change: the notification. Changes of resources have a condition of their own, see
            `StreamPolicy.may_receive`.
    """
    if change.method == ELICITATION_COMPLETE:
        return _can_visit_pages
    return None if change.level is None else _wants_level(options, change.level)


def _wants_level(options: Options, level: str) -> Callable[[PushStream], bool]:
    """Return a function that tells whether a stream is sent a log message of a level now.

    Its client wants messages of that level, and has not had too many. A message it allows counts.
    """
    rank = LOG_LEVELS[level]

    def is_wanted(stream: PushStream) -> bool:
        connection = _connection_of(stream)
        if connection is None:
            return rank >= LOG_LEVELS[options.log_level]
        threshold = connection.log_level or options.log_level
        return rank >= LOG_LEVELS[threshold] and connection.may_log(options.log_rate)

    return is_wanted


def _connection_of(stream: PushStream) -> ConnectionState | None:
    """Return the connection of a stream's client that lasts longer than a request, if there is one."""
    if stream.session is not None:
        return stream.session
    return None if stream.exchange is None else stream.exchange.connection


def _can_visit_pages(stream: PushStream) -> bool:
    """Return whether the client of a stream can be asked to visit a page, by its revision."""
    revision = find_revision(stream.revision_name)
    return revision is not None and "url" in revision.asks
