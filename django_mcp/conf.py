"""Settings: the dict `DJANGO_MCP`, typed, with defaults, reset when tests change it.

`find_problems` finds what is wrong in the dict. The system checks report all of it, and reading a
wrong value raises `ImproperlyConfigured`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urlsplit

from django.conf import global_settings
from django.conf import settings as site_settings
from django.core.exceptions import ImproperlyConfigured

from django_mcp.process import reset_on
from django_mcp.registry.options import Atomic, read_aliases
from django_mcp.registry.problems import suggest
from django_mcp.registry.rules import BOOL, NAME, SCOPES, Rule, choice, list_of, shown, whole
from django_mcp.server.options import OPTIONS, Options
from django_mcp.server.setting import Scope, Setting, setting, settings_of, site_setting

DETAILS = ("arguments", "client_address", "resource_uri", "results", "session_id")
"""What `TELEMETRY_DETAILS` may name."""

ERROR_DETAILS = ("class", "traceback", "message", "variables")
"""The values of `RECORD_ERRORS`; each includes what those before it say."""


def _is_origin(value: object) -> bool:
    if value == "*":
        return True
    if not isinstance(value, str):
        return False
    try:
        parts = urlsplit(value)
        return bool(parts.scheme and parts.hostname) and value == f"{parts.scheme}://{parts.netloc}"
    except ValueError:
        return False


def _is_public_url(value: object) -> bool:
    is_web = isinstance(value, str) and value.startswith(("http://", "https://"))
    return is_web and _is_origin(value)


def _is_dotted(value: object) -> bool:
    return isinstance(value, str) and all(part.isidentifier() for part in value.split("."))


def _is_authenticator(value: object) -> bool:
    # The layer above checks the authenticators themselves.
    return _is_dotted(value) or callable(getattr(value, "authenticate", None))


def _is_scope_map(value: object) -> bool:
    return isinstance(value, Mapping) and all(
        SCOPES.accepts((scope,)) and not isinstance(implied, str) and SCOPES.accepts(implied)
        for scope, implied in value.items()
    )


def _matches(pattern: str) -> Callable[[object], bool]:
    return lambda value: isinstance(value, str) and re.fullmatch(pattern, value) is not None


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """The settings of the whole site, and those for access to the default server."""

    PUBLIC: bool = setting(
        False,
        BOOL,
        "Whether everybody may call the server. With `AUTHENTICATORS` as well, credentials are "
        "optional.",
        scope=Scope.OWN,
    )
    AUTHENTICATORS: Sequence[Any] = setting(
        (),
        list_of(
            _is_authenticator,
            "authenticator classes, of instances such as APIKeyAuthenticator(cache_s=0), or of dotted "
            "paths to classes",
        ),
        "The [authenticators](authentication.md) that decide who may call the server.",
        scope=Scope.OWN,
    )
    SYNC_THREADS: int = site_setting(
        32,
        whole("threads", least=0),
        "The number of threads in each process for synchronous handlers and for the asynchronous "
        "ORM. With `0` they use Django's thread-sensitive thread, for tests.",
    )
    REPLACEMENT_THREADS: int = site_setting(
        0,
        whole("threads", least=0),
        "The maximum number of further threads in each process, which replace threads whose call has "
        "timed out while its handler still runs.",
    )
    GC_FREEZE: bool = site_setting(
        True,
        BOOL,
        "Whether an ASGI process excludes what it holds after its first response from garbage "
        "collection. See [pauses](../howto/deploy.md#pauses).",
    )
    ALLOWED_ORIGINS: Sequence[str] = site_setting(
        (),
        list_of(
            _is_origin,
            "origins such as 'https://app.example.com' (no path, no slash at the end), or ['*']",
        ),
        'The origins of web pages that may call. `"*"` allows every page, without cookies.',
    )
    CORS_ALLOW_CREDENTIALS: bool = site_setting(
        False, BOOL, "Whether pages of the listed origins may send cookies."
    )
    MIDDLEWARE: Sequence[str] = site_setting(
        ("django_mcp.middleware.LocaleMiddleware",),
        list_of(_is_dotted, "dotted paths"),
        "The [middleware](../howto/middleware.md) around every response.",
    )
    HANDLER_HEADERS: Sequence[str] = site_setting(
        (),
        list_of(
            _matches(r"(?i)(?!(http_)?((proxy[-_])?authorization|cookie)$)[a-z0-9_-]+"),
            "names of headers such as 'X-Tenant', without Authorization and Cookie",
        ),
        "The headers that handlers see besides [the usual ones](../howto/authentication.md#what-handlers-get), and "
        "variables that your server adds to `META`.",
    )
    HANDLER_QUERY: Sequence[str] = site_setting(
        (),
        list_of(NAME.accepts, "names of parameters such as 'project'"),
        "The parameters in the query of the endpoint's URL that handlers see.",
    )
    LIST_TTL_MS: int = site_setting(
        0,
        whole("milliseconds", least=0),
        "The time for which clients may cache the lists, in the revision that says so.",
    )
    PUSH_BUS: str = site_setting(
        "auto",
        choice("auto", "layer", "database", "local"),
        'How processes tell each other of [changes](../howto/deploy.md#messages-between-processes). `"layer"`: '
        'over the channel layer. `"database"`: over a table that each process polls once a second. '
        '`"local"`: not at all. `"auto"`: the first of these that is available.',
    )
    SCOPE_IMPLIES: Mapping[str, Sequence[str]] | None = site_setting(
        None,
        Rule(_is_scope_map, "a dict from a scope to the list of scopes that it includes").or_none(
            "for no such scopes"
        ),
        'The scopes that include others, such as `{"orders": ["orders:read"]}`.',
    )
    THROTTLE_CACHE: str = site_setting(
        "default",
        Rule(
            lambda value: isinstance(value, str) and value in site_settings.CACHES,
            "the name of one of CACHES",
        ),
        "The cache of `CACHES` in which the requests for `THROTTLE` are counted.",
    )
    SESSION_STORE: str = site_setting(
        "model",
        choice("model", "memory"),
        'Where [sessions](../howto/sessions.md) are stored. `"model"`: in the database. '
        '`"memory"`: in the process, for one worker and for tests without a database.',
    )
    SESSION_DATA: str = site_setting(
        "model",
        choice("model", "session_engine"),
        'Where `ctx.session` is stored if `SESSION_STORE` is `"model"`. `"model"`: in a row for each '
        'key. `"session_engine"`: in Django\'s `SESSION_ENGINE`.',
    )
    TASK_STORE: str = site_setting(
        "model",
        choice("model", "memory"),
        'Where [tasks](../howto/tasks.md) are stored. `"model"`: in the database. `"memory"`: in the '
        "process, until it stops.",
    )
    TASK_RUNNER: str = site_setting(
        "django_mcp.extensions.tasks.InProcessRunner",
        Rule(_is_dotted, "the dotted path of a class"),
        "The class that [runs tasks](../howto/tasks.md#where-tasks-run).",
    )
    TASK_THREADS: int = site_setting(
        8,
        whole("threads"),
        "The number of threads in each process for tasks: for synchronous tools, and for the "
        "asynchronous ORM of the others.",
    )
    AUTODISCOVER_MODULE: str | None = site_setting(
        "mcp",
        Rule(_is_dotted, "the name of a module").or_none("to import none"),
        "The module that is imported from each app.",
    )
    PUBLIC_URL: str | None = site_setting(
        None,
        Rule(
            _is_public_url,
            "scheme and host such as 'https://shop.example.com' (no path, no slash at the end)",
        ).or_none("to use those of the request"),
        "The scheme and host of every URL that the site gives out. With `None` they are those of the "
        "request, if `ALLOWED_HOSTS` has the host.",
    )
    OPENAI_APPS_CHALLENGE: str | None = site_setting(
        None,
        Rule(_matches(r"[!-~]+"), "a token without spaces").or_none("to serve none"),
        "The token that OpenAI gives out when an app is submitted, to prove that the domain is yours. It is "
        "served at `/.well-known/openai-apps-challenge`, see [directories](../howto/directories.md).",
    )
    CONNECT_PAGE: bool = site_setting(
        True,
        BOOL,
        "Whether signed-in users see at `/mcp/connect/` [how to add the servers](../howto/clients.md#people-and-browsers) "
        "that they may use to their clients.",
    )
    CONNECT_KEY_DAYS: int | None = site_setting(
        None,
        whole("days", most=3650).or_none("so that users make none"),
        "How long the [API keys](../howto/api_keys.md#keys-that-users-make) may be valid that signed-in users make "
        "for themselves at `/mcp/connect/`.",
    )
    OAUTH_PREFIX: str = site_setting(
        "oauth/",
        Rule(
            _matches(r"([A-Za-z0-9._~-]+/)+"),
            "a path such as 'oauth/', with a slash at its end only",
        ),
        'The path of the [OAuth](../howto/oauth.md) pages below `include("django_mcp.urls")`.',
    )
    OAUTH_BASE_SCOPES: Sequence[str] | None = site_setting(
        None,
        list_of(_matches(r"[!#-\[\]-~]+"), "scope names without spaces").or_none(
            "for all scopes of the server's entries"
        ),
        "The scopes that clients of each server with OAuth are told to request at first.",
    )
    OAUTH_REGISTRATIONS_PER_HOUR: int = site_setting(
        60,
        whole("clients an hour"),
        "The maximum number of clients that one address may register in an hour, or make known by "
        "their documents. Refused registrations do not count; ten times as many of them are allowed.",
    )
    OAUTH_MAX_REGISTERED: int = site_setting(
        1000,
        whole("clients"),
        "The maximum number of clients that registered themselves or are known by a document. At the "
        "[limit](limits.md#oauth-and-external-issuers), clients without tokens are deleted, the oldest first.",
    )
    OAUTH_APP_REDIRECTS: Sequence[str] = site_setting(
        (
            "cursor://anysphere.cursor-mcp/oauth/callback",
            "cursor://anysphere.cursor-retrieval/",
            "claude://claude.ai/mcp-auth-callback/",
            "grokbot://mcp/oauth/callback",
            "vscode://",
            "vscode-insiders://",
            "windsurf://",
        ),
        list_of(
            _matches(r"(?!https?:)[a-z][a-z0-9+.-]*:/[!$&-;=@-Z_a-z~]*"),
            "redirects such as 'zed://oauth/callback', or their beginning up to a slash",
        ),
        "The redirects by which a sign-in may start a program, such as an editor. An entry with a "
        "slash at its end stands for all that begins so. They are for clients without a secret, "
        "which use PKCE.",
    )
    OAUTH_TOKENS_PER_HOUR: int = site_setting(
        1000,
        whole("tokens an hour"),
        "The maximum number of tokens that one OAuth client gets in an hour for one user, or for itself. Refreshes "
        "count. More get 429, and so do more than ten times as many for all clients of a user.",
    )
    OAUTH_REFRESH_GRACE_S: int = site_setting(
        120,
        whole("seconds", least=0, most=1800),
        "How long an exchanged refresh token [works again](../howto/oauth.md#tokens) for the same client, as "
        "programs of several processes need it.",
    )
    OAUTH_WRONG_SECRETS_PER_MINUTE: int = site_setting(
        20,
        whole("secrets a minute"),
        "The maximum number of wrong secrets of one OAuth client that one address may send in a "
        "minute, and three times as many for all clients together. More get 429.",
    )
    TELEMETRY: str = site_setting(
        "propagate",
        choice("off", "propagate", "native"),
        'What of [OpenTelemetry](../howto/telemetry.md) there is, if `opentelemetry-api` is installed. `"off"`: '
        'nothing. `"propagate"`: handlers continue the trace of their client. `"native"`: spans and metrics of each '
        "message as well.",
    )
    TELEMETRY_DETAILS: Sequence[str] = site_setting(
        (),
        list_of(DETAILS.__contains__, f"names from {', '.join(map(repr, DETAILS))}"),
        "What [spans](../howto/telemetry.md#details) contain besides: data of users, which are left out otherwise.",
    )
    ACCESS_LOG: bool = site_setting(
        False,
        BOOL,
        "Whether the log `django_mcp.access` gets [a line for each message](../howto/telemetry.md#the-access-log) "
        "of a client.",
    )
    RECORD_CALLS: float = site_setting(
        0,
        Rule(
            lambda value: isinstance(value, int | float) and 0 <= value <= 1,
            "True, False, or the share of calls to record: a number from 0 to 1",
        ),
        "The share of [calls](../howto/admin.md) that are recorded in the database; `True` records all.",
    )
    RECORD_QUERIES: float = site_setting(
        0,
        Rule(
            lambda value: isinstance(value, int | float) and 0 <= value <= 1,
            "True, False, or the share of calls whose queries are counted: a number from 0 to 1",
        ),
        "The share of recorded calls whose database queries are [counted and timed]"
        "(../howto/admin.md#queries). At 0, no call pays for it.",
    )
    RECORD_ERRORS: str = site_setting(
        "traceback",
        choice(*ERROR_DETAILS),
        'What is stored of the exception of a [recorded call](../howto/admin.md#errors). `"class"`: its class, and the '
        'function that raised it. `"traceback"`: its traceback as well, without any values. `"message"`: its text as '
        'well, which may have what a user has sent. `"variables"`: also local variables, for tools with '
        "`record_arguments=True`.",
    )
    CALL_RETENTION_DAYS: int | None = site_setting(
        30,
        whole("days", most=36_500).or_none("to keep them forever"),
        "The age at which recorded calls are deleted, and errors that no call has had since.",
    )
    MAX_CALL_RECORDS: int | None = site_setting(
        1_000_000,
        whole("calls").or_none("for no limit"),
        "The number of recorded calls that are kept. Above it the oldest are deleted, those of anonymous "
        "callers first.",
    )
    RECORDED_CALLS_PER_MINUTE: int = site_setting(
        600,
        whole("calls a minute"),
        "The maximum number of calls that each process [records](limits.md#the-record-of-calls) in a minute for "
        "one user with all of their clients and keys, or for one address of anonymous callers.",
    )


_ALL = {**OPTIONS, **settings_of(Settings)}

SETTINGS: Mapping[str, Setting] = {name.upper(): each for name, each in _ALL.items()}
"""Every key of `DJANGO_MCP`."""

KEYWORDS: Mapping[str, Setting] = {
    name.lower(): each for name, each in _ALL.items() if each.scope is not Scope.SITE
}
"""Every keyword of `MCPServer`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SettingProblem:
    """One problem in `DJANGO_MCP`: what is wrong, whether it is an unknown key, and the remedy."""

    is_unknown: bool = False
    message: str
    hint: str


def find_problems(raw: object) -> Iterator[SettingProblem]:
    """Yield everything that is wrong with `raw`, the value of `settings.DJANGO_MCP`."""
    if not isinstance(raw, Mapping):
        yield SettingProblem(
            message=f"DJANGO_MCP is {type(raw).__name__}, not a dict.",
            hint="Write DJANGO_MCP = {...} in your settings.",
        )
        return
    for key, value in raw.items():
        if key not in SETTINGS:
            yield SettingProblem(
                is_unknown=True,
                message=f"DJANGO_MCP has no setting {key!r}.",
                hint=f"{key} is a setting of Django: write it outside of DJANGO_MCP."
                if str(key).isupper() and hasattr(global_settings, str(key))
                else suggest(key, SETTINGS),
            )
        elif not SETTINGS[key].rule.accepts(value):
            yield SettingProblem(
                message=f"DJANGO_MCP[{key!r}] cannot be {shown(value)}.",
                hint=SETTINGS[key].rule.remedy(value),
            )


def site_aliases(atomic: Atomic) -> tuple[str, ...]:
    """Return the databases that `ATOMIC` means; True means none on a site without a default one."""
    if atomic is True and "default" not in find_databases():
        return ()
    return read_aliases(atomic)


def find_databases() -> dict[str, Any]:
    """Return the site's databases by alias; Django itself adds a placeholder if there is no default one."""
    return {
        alias: database
        for alias, database in site_settings.DATABASES.items()
        if database.get("ENGINE", _NO_ENGINE) not in ("", _NO_ENGINE)
    }


_NO_ENGINE = "django.db.backends.dummy"


class _Live:
    """Stands in for a dataclass of settings: caches each value until a setting changes."""

    def __getattr__(self, name: str) -> Any:
        # Only called for values that are not in __dict__ yet.
        key = name.upper()
        if key not in SETTINGS:
            raise AttributeError(f"DJANGO_MCP has no setting {key!r}")
        value = vars(self)[name] = _read(key)
        return value


def _read(key: str) -> Any:
    raw = getattr(site_settings, "DJANGO_MCP", {})
    if isinstance(raw, Mapping):
        raw = {name: value for name, value in raw.items() if name == key}
    for problem in find_problems(raw):
        raise ImproperlyConfigured(f"{problem.message} {problem.hint}")
    return raw.get(key, SETTINGS[key].default)


def read_on_import(key: str) -> Any:
    """Return a setting that modules read while they are imported: the default if its value is wrong.

    An exception there would end `manage.py check` before it reports the value.
    """
    try:
        return _read(key)
    except ImproperlyConfigured:
        return SETTINGS[key].default


_live = _Live()

settings = cast(Settings, _live)
"""The current settings. Reading a wrong value raises ImproperlyConfigured."""

server_settings = cast(Options, _live)
"""The settings of servers in `DJANGO_MCP`, by the names of the keywords."""

reset_on(vars(_live).clear, settings=("DJANGO_MCP",))
