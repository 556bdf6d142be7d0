"""Options: what can be set on a server, with the defaults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from django_mcp.protocol.content import Icon
from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.levels import LogLevel
from django_mcp.protocol.results import CacheHint
from django_mcp.registry.access import Permission

DEFAULT_LOG_RATE = 100
"""Log messages a second: more than any reader takes in."""


class Mode(Enum):
    """How a server treats clients of the revisions that open with a handshake.

    BOTH: each gets a session, and beside them the stateless revisions are served as they are.
    STATEFUL: the same, and stateless revisions are refused, so that clients of both shake hands.
    STATELESS: they are served without a session: nothing is pushed, nothing can be asked.
    """

    BOTH = "both"
    STATEFUL = "stateful"
    STATELESS = "stateless"


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """Settings of one server. Texts may be lazy; they are read per request.

    Attributes:
        revisions: names of the protocol revisions spoken; None: all.
        page_size: entries of a list per page; 0: one page.
        call_timeout_s: seconds a handler may take unless its entry says otherwise; None: any.
        max_batch: messages in one batch, where the revision has batches.
        max_result_bytes: encoded size of one result.
        max_body_bytes, body_timeout_s: size of a request body, and seconds until it is complete.
        keepalive_s: seconds of silence after which a stream is kept alive.
        max_body_values: values in one message, of which an object counts as six and a list as two.
        log_level: lowest level sent to a client that did not choose one itself.
        list_cache: caching hints by list method, where the revision has them.
        state_ttl_s: seconds a client has to answer questions that travel with the request.
        state_inline_bytes: what a call knows between two rounds travels with the questions up to
            this size; more is kept here.
        state_single_use: a state that came back is refused when it comes again.
        strict: hold every message against the rules of its revision, in and out; for development.
        read_chunk_bytes: the most that is sent of a text that is read in parts, told to clients; None:
            any.
        has_server_info: name the server in every result, where the revision has it.
        session_idle_s: seconds without a request after which a session ends.
        session_max_age_s: seconds after which a session ends, however busy.
        max_sessions, max_sessions_per_principal: sessions in all, and of one principal; the one that was
            idle for longest makes room.
        require_initialized: refuse requests until the client has sent `initialized`.
        ask_timeout_s: seconds a client has to answer a question that it is asked on a stream.
        stream_max_age_s: seconds after which a stream is closed; the client opens another.
        max_streams, max_streams_per_principal: open streams of this process, and of one principal in it.
        legacy_sse: serve HTTP+SSE of 2024-11-05 as well, at `sse` and `messages`.
        task_ttl_s: seconds after its making that a task is kept, at most where the client wishes.
        task_timeout_s: seconds that one run of a task may take unless its tool says otherwise; None:
            any.
        task_after_s: seconds after which a call of a tool with `task="auto"` becomes one.
        task_poll_s: how often clients are told to look.
        max_tasks, max_tasks_per_principal: tasks that have not ended, in all and of one principal.
        anonymous_share: the share of `max_sessions`, `max_streams` and `max_tasks` that anonymous
            callers may use together.
        permission, scopes: what entries need that say nothing of it themselves.
        throttle: requests by `principal` and by `address`, and `failures` to authenticate by
            address, such as `"600/m"`.
        log_rate: log messages per second that one connection is sent at most; 0: any number.
        progress_rate: progress messages per second of one request at most; 0: any number.
        ping_interval_s: how often the clients of standing streams are pinged; None: never.
        ping_failures: pings in a row that a client may leave unanswered until its stream is closed.
        tell_lists_at_start: whether the first standing stream of a session begins with the
            notices that the lists have changed.
    """

    name: str
    version: str = "1.0.0"
    title: Any = None
    description: Any = None
    website_url: str | None = None
    icons: Sequence[Icon] = ()
    instructions: Any = None
    mode: Mode = Mode.BOTH
    revisions: Sequence[str] | None = None
    page_size: int = 1000
    validate_input: bool = True
    validate_output: bool = False
    call_timeout_s: float | None = 60.0
    max_batch: int = 20
    max_result_bytes: int = 4 * 1024 * 1024
    max_body_bytes: int = 4 * 1024 * 1024
    max_body_values: int = 115_000
    body_timeout_s: float = 30.0
    keepalive_s: float = 15.0
    log_level: LogLevel = "info"
    state_ttl_s: float = 600.0
    state_inline_bytes: int = 32 * 1024
    state_single_use: bool = False
    list_cache: dict[str, CacheHint] = field(default_factory=dict)
    strict: bool = False
    read_chunk_bytes: int | None = None
    has_server_info: bool = True
    session_idle_s: float = 3600.0
    session_max_age_s: float = 7 * 86400.0
    max_sessions: int = 100_000
    max_sessions_per_principal: int = 1000
    require_initialized: bool = False
    ask_timeout_s: float = 300.0
    stream_max_age_s: float = 3600.0
    max_streams: int = 10_000
    max_streams_per_principal: int = 1000
    legacy_sse: bool = False
    log_rate: int = DEFAULT_LOG_RATE
    progress_rate: int = 100
    task_ttl_s: float = 86400.0
    task_timeout_s: float | None = 3600.0
    task_after_s: float = 1.0
    task_poll_s: float = 2.0
    max_tasks: int = 10_000
    max_tasks_per_principal: int = 100
    anonymous_share: float = 0.5
    permission: Permission = None
    scopes: str | Sequence[str] | None = None
    throttle: Mapping[str, str] | None = None
    ping_interval_s: float | None = None
    ping_failures: int = 3
    tell_lists_at_start: bool = False

    def implementation(self) -> JSONObject:
        """Return who this server is, as `serverInfo` in the newest form."""
        found: JSONObject = {"name": self.name, "version": self.version}
        if self.title is not None:
            found["title"] = str(self.title)
        if self.description is not None:
            found["description"] = str(self.description)
        if self.website_url is not None:
            found["websiteUrl"] = self.website_url
        if self.icons:
            found["icons"] = [icon.to_wire() for icon in self.icons]
        return found

    def limits(self, *, can_ping: bool) -> JSONObject:
        """Return what a client that shakes hands is told of pings and of limits that the site set.

        Args:
            can_ping: whether pings reach it.
        """
        found: JSONObject = {}
        if can_ping and self.ping_interval_s is not None:
            found["keepalive"] = {
                "enabled": True,
                "intervalMs": max(1, round(self.ping_interval_s * 1000)),
                "failureThreshold": self.ping_failures,
            }
        if self.log_rate not in (0, DEFAULT_LOG_RATE):
            found["loggingRateLimit"] = {"enabled": True, "perSecond": self.log_rate}
        return found
