"""Settings: the one dict `DJANGO_MCP`, typed, with defaults, read again when tests change it.

`settings.PAGE_SIZE` is all that other modules need. What is wrong in the dict is found by
`find_problems`: the system checks report all of it, and reading a wrong value raises.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, cast

from django.conf import settings as site_settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed

from django_mcp.conf_rules import RULES, Rule, read_icon
from django_mcp.protocol.content import Icon

__all__ = ["Problem", "Settings", "find_problems", "read_icon", "settings"]

MiB = 1024 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """Every key of `DJANGO_MCP` with its default; `docs/reference/settings.md` says what each means."""

    NAME: str = "django-mcp"
    TITLE: str | None = None
    VERSION: str = "1.0.0"
    DESCRIPTION: str | None = None
    WEBSITE_URL: str | None = None
    ICONS: Sequence[Icon | Mapping[str, Any]] = ()
    INSTRUCTIONS: str | None = None
    PUBLIC: bool = False
    AUTHENTICATORS: Sequence[Any] = ()
    MODE: str = "both"
    LEGACY_SSE: bool = False
    REVISIONS: Sequence[str] | None = None
    PAGE_SIZE: int = 1000
    VALIDATE_INPUT: bool = True
    VALIDATE_OUTPUT: bool = False
    CALL_TIMEOUT_S: float | None = 60
    MAX_BODY_BYTES: int = 4 * MiB
    MAX_BODY_VALUES: int = 115_000
    BODY_TIMEOUT_S: float = 30
    MAX_RESULT_BYTES: int = 4 * MiB
    KEEPALIVE_S: float = 15
    MAX_BATCH: int = 20
    SYNC_THREADS: int = 32
    REPLACEMENT_THREADS: int = 0
    GC_FREEZE: bool = True
    ALLOWED_ORIGINS: Sequence[str] = ()
    CORS_ALLOW_CREDENTIALS: bool = False
    MIDDLEWARE: Sequence[str] = ("django_mcp.middleware.LocaleMiddleware",)
    LOG_LEVEL: str = "info"
    LIST_TTL_MS: int = 0
    PUSH_BUS: str = "auto"
    STREAM_MAX_AGE_S: float = 3600
    MAX_STREAMS: int = 10_000
    MAX_STREAMS_PER_PRINCIPAL: int = 1000
    PING_INTERVAL_S: float | None = None
    PING_FAILURES: int = 3
    LOG_RATE: int = 100
    PROGRESS_RATE: int = 100
    TELL_LISTS_AT_START: bool = False
    STATE_TTL_S: float = 600
    STATE_INLINE_BYTES: int = 32 * 1024
    STATE_SINGLE_USE: bool = False
    READ_CHUNK_BYTES: int | None = None
    STRICT: bool = False
    ANONYMOUS_SHARE: float = 0.5
    PERMISSION: Any = None
    SCOPES: Sequence[str] = ()
    SCOPE_IMPLIES: Mapping[str, Sequence[str]] | None = None
    THROTTLE: Mapping[str, str] | None = None
    THROTTLE_CACHE: str = "default"
    SESSION_STORE: str = "model"
    SESSION_DATA: str = "model"
    SESSION_IDLE_S: float = 3600
    SESSION_MAX_AGE_S: float = 7 * 86400
    MAX_SESSIONS: int = 100_000
    MAX_SESSIONS_PER_PRINCIPAL: int = 1000
    REQUIRE_INITIALIZED: bool = False
    ASK_TIMEOUT_S: float = 300
    TASK_STORE: str = "model"
    TASK_RUNNER: str = "django_mcp.tasks.InProcessRunner"
    TASK_THREADS: int = 8
    TASK_TTL_S: float = 86400
    TASK_TIMEOUT_S: float | None = 3600
    TASK_AFTER_S: float = 1
    TASK_POLL_S: float = 2
    MAX_TASKS: int = 10_000
    MAX_TASKS_PER_PRINCIPAL: int = 100
    AUTODISCOVER_MODULE: str | None = "mcp"
    PUBLIC_URL: str | None = None
    OAUTH_PREFIX: str = "oauth/"
    OAUTH_BASE_SCOPES: Sequence[str] | None = None
    OAUTH_REGISTRATIONS_PER_HOUR: int = 60
    OAUTH_MAX_REGISTERED: int = 1000
    OAUTH_WRONG_SECRETS_PER_MINUTE: int = 20
    RECORD_CALLS: float = 0
    CALL_RETENTION_DAYS: int | None = 30


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """One thing that is wrong in `DJANGO_MCP`: with which key (None: the whole), what, and what would be right."""

    key: str | None
    is_unknown: bool = False
    message: str
    hint: str


def find_problems(raw: object) -> Iterator[Problem]:
    """Yield everything that is wrong with `raw`, the value of `settings.DJANGO_MCP`."""
    if not isinstance(raw, Mapping):
        yield Problem(
            key=None,
            message=f"DJANGO_MCP is {type(raw).__name__}, not a dict.",
            hint="Write DJANGO_MCP = {...} in your settings.",
        )
        return
    for key, value in raw.items():
        rule = RULES.get(key)
        if rule is None:
            yield _unknown_key(key)
        elif not rule.accepts(value):
            yield _wrong_value(key, value, rule)


def _unknown_key(key: object) -> Problem:
    near = difflib.get_close_matches(str(key).upper(), RULES, n=1, cutoff=0.5)
    return Problem(
        key=str(key),
        is_unknown=True,
        message=f"DJANGO_MCP has no setting {key!r}.",
        hint=f"Did you mean {near[0]!r}?" if near else f"Settings are: {', '.join(RULES)}.",
    )


def _wrong_value(key: str, value: object, rule: Rule) -> Problem:
    return Problem(
        key=key,
        message=f"DJANGO_MCP[{key!r}] is {value!r}, which it cannot be.",
        hint=f"It must be {rule.wanted}.",
    )


class _Live:
    """Stand in for a `Settings`: look each value up once and forget all of them on a change."""

    def __getattr__(self, key: str) -> Any:
        # Reached only for what is not in __dict__ yet.
        if key not in RULES:
            raise AttributeError(f"DJANGO_MCP has no setting {key!r}")
        value = _read(key)
        vars(self)[key] = value
        return value


def _read(key: str) -> Any:
    raw = getattr(site_settings, "DJANGO_MCP", {})
    if not isinstance(raw, Mapping):
        raise ImproperlyConfigured(f"DJANGO_MCP is {type(raw).__name__}, not a dict.")
    if key not in raw:
        return _DEFAULTS[key]
    value = raw[key]
    if not RULES[key].accepts(value):
        problem = _wrong_value(key, value, RULES[key])
        raise ImproperlyConfigured(f"{problem.message} {problem.hint}")
    return value


_DEFAULTS: Mapping[str, Any] = {field.name: field.default for field in fields(Settings)}

settings = cast(Settings, _Live())
"""The settings in force. Reading a wrong value raises ImproperlyConfigured."""


def _forget(*, setting: str, **_kwargs: Any) -> None:
    if setting == "DJANGO_MCP":
        vars(settings).clear()


setting_changed.connect(_forget, dispatch_uid="django_mcp.conf")
