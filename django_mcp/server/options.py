"""Options: what can be set on a server, with the defaults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import PurePath
from typing import Any

from django_mcp.protocol.annotations import Icon
from django_mcp.protocol.json import JSONObject, present
from django_mcp.protocol.levels import LOG_LEVELS, LogLevel
from django_mcp.protocol.results import CacheHint
from django_mcp.registry.access import Permission
from django_mcp.registry.options import ATOMIC, Atomic
from django_mcp.registry.rules import (
    BOOL,
    CARD_NAME,
    CONTACT,
    ICONS,
    NAME,
    PERMISSION,
    SCOPES,
    SECONDS,
    TEXT,
    WEB_PAGE,
    Rule,
    choice,
    list_of,
    read_icons,
    whole,
)
from django_mcp.server.setting import RATES, REVISION_LIST, SHARE, Scope, setting, settings_of

DIRECTORIES = ("claude", "chatgpt", "registry")
"""The directories whose demands are known: the connectors of Claude, the apps of ChatGPT, the MCP registry."""

DEFAULT_LOG_RATE = 100
"""Log messages a second: more than any reader takes in."""

MiB = 1024 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """Settings of one server; `docs/reference/settings.md` is generated from them.

    Texts may be lazy: they are read for each request.
    """

    name: str = setting(
        "django-mcp", NAME, "The name that clients see, unique in the site.", scope=Scope.OWN
    )
    title: Any = setting(None, TEXT, "The name that people see.", scope=Scope.OWN)
    version: str = setting("1.0.0", NAME, "The version of what the server offers.")
    description: Any = setting(
        None, TEXT, "One sentence on what the server is for.", scope=Scope.OWN
    )
    website_url: str | None = setting(
        None, WEB_PAGE, "The web page on which people read more.", scope=Scope.OWN
    )
    card_name: str | None = setting(
        None,
        CARD_NAME,
        "The name in the [server card](../howto/directories.md#server-cards), which anybody can read: a domain of "
        "yours backwards, a slash and the server, such as `com.example/shop`. `None`: there is no card.",
        scope=Scope.OWN,
    )
    privacy_url: str | None = setting(
        None,
        WEB_PAGE,
        "The page with the privacy policy, for [directories](../howto/directories.md).",
        scope=Scope.OWN,
    )
    terms_url: str | None = setting(
        None, WEB_PAGE, "The page with the terms of use, for directories.", scope=Scope.OWN
    )
    support_url: str | None = setting(
        None,
        CONTACT,
        "The page or the `mailto:` address where users get help, for directories.",
        scope=Scope.OWN,
    )
    directories: Sequence[str] = setting(
        (),
        list_of(DIRECTORIES.__contains__, f"names from {', '.join(map(repr, DIRECTORIES))}"),
        "The [directories](../howto/directories.md) in which the server is to be listed. `manage.py check` "
        "reports what they would refuse.",
        scope=Scope.OWN,
    )
    icons: Sequence[Icon | Mapping[str, Any] | str] = setting(
        (), ICONS, "The icons that clients show beside the name.", scope=Scope.OWN
    )
    instructions: Any = setting(
        None, TEXT, "What a model should know before it uses the server.", scope=Scope.OWN
    )
    date_in_instructions: bool = setting(
        False,
        BOOL,
        "Whether the instructions end with today's date and the current time zone. See "
        "[dates and times](../howto/handlers.md#dates-and-times).",
    )
    permission: Permission = setting(
        None,
        PERMISSION.or_none("for no permission"),
        "The [permission](../howto/permissions.md) that is required for entries without a "
        "`permission=` of their own.",
        scope=Scope.OWN,
    )
    scopes: str | Sequence[str] = setting(
        (),
        SCOPES,
        "The OAuth scopes that are required for entries without a `scopes=` of their own.",
        scope=Scope.OWN,
    )
    auth_challenge: str = setting(
        "auto",
        choice("http", "tool_result", "auto"),
        "The form in which a client is told that a tool [needs scopes](../howto/permissions.md#scopes) "
        'that its token lacks. `"http"`: status 401 or 403. `"tool_result"`: a result with `isError`. '
        '`"auto"`: a result for ChatGPT, by the name that a client gives itself, and the status for all others.',
    )
    mode: str = setting(
        "both",
        choice("both", "stateful", "stateless"),
        'How clients of the revisions with a handshake are served. `"both"`: they get sessions. '
        '`"stateful"`: they get sessions, and the stateless revision is refused. '
        '`"stateless"`: they get no session, so the server can neither push to them nor ask them.',
    )
    revisions: Sequence[str] | None = setting(
        None, REVISION_LIST, "The protocol [revisions](../revisions.md) that the server speaks."
    )
    legacy_sse: bool = setting(
        False,
        BOOL,
        "Whether HTTP+SSE, the deprecated transport of the oldest revision, is served as well: a "
        "stream at `sse` beside the endpoint, messages to `messages`. It needs "
        "`django_mcp_application`.",
    )
    page_size: int = setting(
        1000,
        whole("entries", least=0),
        "The number of entries on a page of the four lists. With `0` each list is one page.",
    )
    validate_input: bool = setting(
        True, BOOL, "Whether arguments are checked against the published schema."
    )
    coerce_arguments: bool = setting(
        True,
        BOOL,
        "Whether [arguments that nearly fit](../howto/handlers.md#arguments-that-nearly-fit) are read in the one "
        "way that fits.",
    )
    unknown_arguments: str = setting(
        "refuse",
        choice("refuse", "drop"),
        'What becomes of arguments, and of members inside of them, that the schema does not have. `"refuse"`: '
        'the call is an error that names them. `"drop"`: they are left out.',
    )
    validate_output: bool = setting(
        False,
        BOOL,
        "Whether results are checked against the output schema. A result that does not match is a "
        "server error.",
    )
    output_schemas: str = setting(
        "auto",
        choice("auto", "full", "thin", "none"),
        'How the output schemas of tools are listed. `"full"`: as they are. `"thin"`: names and types of '
        'members, without texts, limits and `required`. `"none"`: not at all. `"auto"`: thin for '
        "tools that are generated from models, admins and views, full for functions.",
    )
    atomic: Atomic = setting(
        True,
        ATOMIC,
        "The [transaction](../howto/handlers.md#transactions-and-threads) of synchronous tools without "
        "`atomic=` or `read_only=True`. `True`: on the default database, if the site has one. "
        "`False`: none. An alias or a list of aliases: on these databases.",
    )
    call_timeout_s: float | None = setting(
        60,
        SECONDS.or_none("for no limit"),
        "The time that a handler may take, with `once` and the wait for a thread, until it ends or asks. An "
        "answer begins it anew. `timeout=` of an entry overrides it.",
    )
    max_body_bytes: int = setting(
        4 * MiB, whole("bytes"), "The maximum size of a request body. A larger one gets 413."
    )
    max_body_values: int = setting(
        115_000,
        whole("values"),
        "The maximum number of JSON values in one message, [weighted](limits.md#messages). More get 413 before "
        "they are decoded.",
    )
    body_timeout_s: float = setting(
        30, SECONDS, "The time in which a request body must arrive. A later one gets 408."
    )
    send_timeout_s: float = setting(
        30,
        SECONDS,
        "The time in which a client must read each 64 KiB of a response. A slower one is disconnected.",
    )
    max_pending_bytes: int = setting(
        256 * MiB,
        whole("bytes"),
        "The maximum size, in one process, of the bodies above 64 KiB of requests that are being served, of "
        "incomplete bodies, and of answers above 64 KiB that clients have not read. More get 503.",
    )
    max_pending_bytes_per_principal: int = setting(
        64 * MiB,
        whole("bytes"),
        "The maximum of the same for one user with all of their clients and keys, or for one address of "
        "anonymous callers. More get 429.",
    )
    max_result_bytes: int = setting(
        4 * MiB,
        whole("bytes"),
        "The maximum size of an encoded result. A larger one is replaced by an error.",
    )
    max_result_tokens: int | None = setting(
        10_000,
        whole("tokens").or_none("for no limit"),
        "The size above which a list of a tool that is generated from a model, an admin or a view leaves out its last "
        "rows, in tokens of 4 characters of JSON. The result says so, and how to get the rest.",
    )
    max_batch: int = setting(
        20,
        whole("messages"),
        "The maximum number of messages in a batch, in revisions with batches.",
    )
    throttle: Mapping[str, str] | None = setting(
        None,
        RATES,
        "The maximum rate of requests for each user, with all of their clients and keys, and for anonymous callers of "
        "each address (`principal`), for each `address`, and of [`failures`](../howto/permissions.md) to authenticate "
        'for each address, such as `{"principal": "600/m"}`.',
    )
    keepalive_s: float = setting(
        15, SECONDS, "The silence on a stream after which the server sends a comment."
    )
    log_level: LogLevel = setting(
        "info",
        choice(*LOG_LEVELS),
        "The lowest level of log messages for clients that choose none by `logging/setLevel` or by "
        "`capabilities.experimental.logLevel` in their handshake.",
    )
    log_rate: int = setting(
        DEFAULT_LOG_RATE,
        whole("messages a second", least=0),
        "The maximum rate of log messages to one client, from handlers and from `notify_log`. With `0` there "
        "is no limit. Messages above it are dropped. Clients are told of any value but the default.",
    )
    progress_rate: int = setting(
        100,
        whole("messages a second", least=0),
        "The maximum rate of progress messages of one call. With `0` there is no limit. Messages above it "
        "are dropped, except the one that reports the end.",
    )
    stream_max_age_s: float = setting(
        3600, SECONDS, "The age at which a stream is closed. Its client opens another."
    )
    max_streams: int = setting(
        10_000, whole("streams"), "The maximum number of open streams in one process. More get 503."
    )
    max_streams_per_principal: int = setting(
        1000,
        whole("streams"),
        "The maximum number of open streams in one process for one user with all of their clients and "
        "keys, or for one address of anonymous callers. More get 429.",
    )
    ping_interval_s: float | None = setting(
        None,
        SECONDS.or_none("for no pings"),
        "The interval at which clients with a standalone stream are pinged. Clients whose session can "
        "have such a stream are told.",
    )
    ping_failures: int = setting(
        3,
        whole("pings"),
        "The number of pings in a row that may stay unanswered until the stream is closed.",
    )
    tell_lists_at_start: bool = setting(
        False,
        BOOL,
        "Whether the first stream of a session begins with the notifications that the lists have "
        "changed, for clients that do not list by themselves.",
    )
    require_initialized: bool = setting(
        False,
        BOOL,
        "Whether requests of a session, or of a client on stdio, are refused until "
        "`notifications/initialized` has arrived.",
    )
    session_idle_s: float = setting(
        3600, SECONDS, "The time without a request or an open stream after which a session ends."
    )
    session_max_age_s: float = setting(
        7 * 86400, SECONDS, "The age at which a session ends, even if it is in use."
    )
    max_sessions: int = setting(
        100_000,
        whole("sessions"),
        "The maximum number of sessions of one server. Above it the session that was idle for longest is "
        "deleted, anonymous ones first. An anonymous session never replaces one of a user: it "
        "gets 503.",
    )
    max_sessions_per_principal: int = setting(
        1000,
        whole("sessions"),
        "The maximum number of sessions of one user with all of their clients and keys, or of one address of "
        "anonymous callers. Above it the session that was idle for longest is deleted.",
    )
    ask_timeout_s: float = setting(
        300, SECONDS, "The time that a client has to answer a question on a stream."
    )
    state_ttl_s: float = setting(
        600,
        SECONDS,
        "The time that a client has to answer [questions](../howto/ask.md#how-answers-travel) that "
        "end its request.",
    )
    state_inline_bytes: int = setting(
        32 * 1024,
        whole("bytes", least=0, most=128 * 1024),
        "The maximum size at which the state of a call travels through the client between two rounds of "
        "questions. A larger state waits in the database.",
    )
    state_single_use: bool = setting(
        False,
        BOOL,
        "Whether a `requestState` is refused when it arrives a second time. One of a call that the user has to "
        "confirm always is.",
    )
    task_ttl_s: float = setting(
        86400,
        SECONDS,
        "The time after its creation for which a task is kept. Clients can ask for less.",
    )
    task_timeout_s: float | None = setting(
        3600,
        SECONDS.or_none("for no limit"),
        "The time that a run of a task may take, unless its tool has a `timeout`. An answer begins a new run.",
    )
    task_after_s: float = setting(
        1, SECONDS, 'The time after which a call of a tool with `task="auto"` becomes a task.'
    )
    task_poll_s: float = setting(
        2, SECONDS, "The interval at which clients are told to poll a task."
    )
    max_tasks: int = setting(
        10_000,
        whole("tasks"),
        "The maximum number of unfinished tasks. More are refused. Tasks of a worker that has stopped do not "
        "count.",
    )
    max_tasks_per_principal: int = setting(
        100,
        whole("tasks"),
        "The maximum number of unfinished tasks for one user with all of their clients and keys, or for one "
        "address of anonymous callers.",
    )
    anonymous_share: float = setting(
        0.5,
        SHARE,
        "The share of `MAX_SESSIONS`, `MAX_STREAMS`, `MAX_TASKS`, `MAX_PENDING_BYTES` and the stored states "
        "of calls that anonymous callers may use together. The rest is kept for authenticated users. Set it to `1` "
        "if all callers are anonymous.",
    )
    read_chunk_bytes: int | None = setting(
        None,
        # A UTF-8 character has at most four bytes, so each part of such a size makes progress.
        whole("bytes", least=4).or_none("for no limit"),
        "The maximum size of the parts in which a text is [read](../howto/extensions.md#read-a-text-in-parts). "
        "Clients are told.",
    )
    strict: bool = setting(
        False,
        BOOL,
        "Whether every message is checked against the rules of its revision, in and out. See "
        "[strict mode](../howto/testing.md#strict-mode). For development.",
    )
    has_server_info: bool = setting(
        True, BOOL, "Whether every result names the server, in the revision that has it."
    )
    browser_page: bool = setting(
        True,
        BOOL,
        "Whether a person who opens the endpoint in a browser gets [a page](../howto/clients.md#people-and-browsers) "
        "in the body of the refusal.",
    )
    extensions: Sequence[Any] = setting(
        (),
        list_of(lambda value: isinstance(value, str | type), "classes, or dotted paths to classes"),
        "The [protocol extensions](../howto/extensions.md#write-an-extension) of the server, beside those "
        "of this package: subclasses of `django_mcp.Extension`.",
        scope=Scope.OWN,
    )
    skills_dirs: Sequence[Any] = setting(
        (),
        list_of(
            lambda value: isinstance(value, str | PathLike) and PurePath(value).is_absolute(),
            "absolute paths of folders",
        ),
        "The folders with [skills](../howto/skills.md) of the server. The default server has those in the folders "
        "`skills` of the apps besides.",
        scope=Scope.OWN,
    )
    skills_permissions: Mapping[str, Permission] | None = setting(
        None,
        Rule(
            lambda value: (
                isinstance(value, Mapping)
                and all(isinstance(path, str) for path in value)
                and all(map(PERMISSION.accepts, value.values()))
            ),
            "a dict from paths of skills such as 'reports' to permissions",
        ).or_none("for none"),
        "The [permissions](../howto/permissions.md) for skills in folders, by their path or a folder that they are "
        'in, such as `{"reports": "shop.view_report"}`. The longest path counts. Others need `PERMISSION`.',
        scope=Scope.OWN,
    )
    list_cache: dict[str, CacheHint] = field(default_factory=dict)
    """No setting; see `MCPServer.set_list_cache_hint`."""

    def implementation(self) -> JSONObject:
        """Return who this server is, as `serverInfo` in the newest form."""
        title, description = self.title, self.description
        return present(
            name=self.name,
            version=self.version,
            title=None if title is None else str(title),
            description=None if description is None else str(description),
            websiteUrl=self.website_url,
            icons=[icon.to_wire() for icon in read_icons(self.icons)] or None,
        )

    def limits(self, *, can_ping: bool) -> JSONObject:
        """Return what a client that shakes hands is told of pings and of limits that the site set."""
        experimental: JSONObject = {}
        if can_ping and self.ping_interval_s is not None:
            experimental["keepalive"] = {
                "enabled": True,
                "intervalMs": max(1, round(self.ping_interval_s * 1000)),
                "failureThreshold": self.ping_failures,
            }
        if self.log_rate not in (0, DEFAULT_LOG_RATE):
            experimental["loggingRateLimit"] = {"enabled": True, "perSecond": self.log_rate}
        return experimental


OPTIONS = settings_of(Options)
"""The settings of a server, by the name of its keyword."""
