"""Settings: the one dict `DJANGO_MCP`, typed, with defaults, read again when tests change it.

`settings.PAGE_SIZE` is all that other modules need. What is wrong in the dict is found by
`find_problems`: the system checks report all of it, and reading a wrong value raises.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, cast
from urllib.parse import urlsplit

from django.conf import settings as site_settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from django.utils.functional import Promise

from django_mcp.protocol.content import Icon
from django_mcp.protocol.levels import LOG_LEVELS
from django_mcp.protocol.revisions import REVISIONS
from django_mcp.registry.access import read_access, read_rates, read_scopes
from django_mcp.registry.problems import RegistrationError

__all__ = ["Problem", "Settings", "find_problems", "read_icon", "settings"]

MiB = 1024 * 1024

MAX_INLINE_STATE_BYTES = 128 * 1024
"""Of a state that travels through the client; a longer one would not be read when it comes back."""


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
    BODY_TIMEOUT_S: float = 30
    MAX_RESULT_BYTES: int = 4 * MiB
    KEEPALIVE_S: float = 15
    MAX_BATCH: int = 20
    SYNC_THREADS: int = 32
    ALLOWED_ORIGINS: Sequence[str] = ()
    CORS_ALLOW_CREDENTIALS: bool = False
    MIDDLEWARE: Sequence[str] = ("django_mcp.middleware.LocaleMiddleware",)
    LOG_LEVEL: str = "info"
    LIST_TTL_MS: int = 0
    STATE_TTL_S: float = 600
    STATE_INLINE_BYTES: int = 32 * 1024
    STATE_SINGLE_USE: bool = False
    READ_CHUNK_BYTES: int | None = None
    STRICT: bool = False
    PERMISSION: Any = None
    SCOPES: Sequence[str] = ()
    SCOPE_IMPLIES: Mapping[str, Sequence[str]] | None = None
    THROTTLE: Mapping[str, str] | None = None
    THROTTLE_CACHE: str = "default"
    AUTODISCOVER_MODULE: str | None = "mcp"
    PUBLIC_URL: str | None = None
    OAUTH_PREFIX: str = "oauth/"
    OAUTH_BASE_SCOPES: Sequence[str] | None = None
    OAUTH_REGISTRATIONS_PER_HOUR: int = 60
    OAUTH_MAX_REGISTERED: int = 1000
    RECORD_CALLS: float = 0
    CALL_RETENTION_DAYS: int | None = 30


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """One thing that is wrong in `DJANGO_MCP`: with which key (None: the whole), what, and what would be right."""

    key: str | None
    is_unknown: bool = False
    message: str
    hint: str


@dataclass(frozen=True, kw_only=True, slots=True)
class _Rule:
    accepts: Callable[[Any], bool]
    wanted: str


def _is_text(value: object) -> bool:
    # Lazy translations are text as well.
    return isinstance(value, str | Promise)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_seconds(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e9


def _is_list_of(accepts: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list | tuple) and all(map(accepts, value))


def _or_none(accepts: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or accepts(value)


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
    return value != "*" and _is_origin(value) and str(value).startswith(("http://", "https://"))


def _is_prefix(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(r"([A-Za-z0-9._~-]+/)+", value) is not None


def _is_scope(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[!#-\[\]-~]+", value) is not None


def _is_dotted(value: object) -> bool:
    return isinstance(value, str) and all(part.isidentifier() for part in value.split("."))


def _is_authenticator(value: object) -> bool:
    # Authenticators are of a layer above, which can tell more.
    return _is_dotted(value) or callable(getattr(value, "authenticate", None))


def _is_permission(value: Any) -> bool:
    try:
        return value is None or bool(read_access("", permission=value))
    except RegistrationError:
        return False


def _is_scopes(value: Any) -> bool:
    try:
        return value is not None and read_scopes(value, "") is not None
    except RegistrationError:
        return False


def _is_scope_map(value: Any) -> bool:
    return isinstance(value, Mapping) and all(
        _is_scopes((scope,)) and not isinstance(implied, str) and _is_scopes(implied)
        for scope, implied in value.items()
    )


def _are_rates(value: Any) -> bool:
    try:
        return isinstance(value, Mapping) and read_rates(value) is not None
    except ValueError:
        return False


def read_icon(icon: Icon | Mapping[str, Any]) -> Icon:
    """Return an entry of `ICONS` as an icon.

    Raises:
        TypeError, ValueError, KeyError: it describes none.
    """
    if isinstance(icon, Icon):
        return icon
    return Icon(
        icon["src"],
        mime_type=icon.get("mime_type"),
        sizes=tuple(icon.get("sizes", ())),
        theme=icon.get("theme"),
    )


def _is_icon(value: Any) -> bool:
    try:
        read_icon(value)
    except (AttributeError, KeyError, TypeError, ValueError):
        return False
    return True


_REVISION_NAMES = tuple(revision.name for revision in REVISIONS)

_TEXT = _Rule(accepts=_is_text, wanted="a string")
_NAME = _Rule(
    accepts=lambda value: isinstance(value, str) and bool(value),
    wanted="a string that is not empty",
)
_TEXT_OR_NONE = _Rule(accepts=_or_none(_is_text), wanted="a string or None")
_BOOL = _Rule(accepts=lambda value: isinstance(value, bool), wanted="True or False")
_COUNT = _Rule(
    accepts=lambda value: _is_whole(value) and value > 0, wanted="a whole number above 0"
)
_COUNT_OR_0 = _Rule(
    accepts=lambda value: _is_whole(value) and value >= 0, wanted="a whole number, 0 or more"
)
_SECONDS = _Rule(accepts=_is_seconds, wanted="a number of seconds above 0")

_RULES: Mapping[str, _Rule] = {
    "NAME": _NAME,
    "TITLE": _TEXT_OR_NONE,
    "VERSION": _NAME,
    "DESCRIPTION": _TEXT_OR_NONE,
    "WEBSITE_URL": _TEXT_OR_NONE,
    "ICONS": _Rule(
        accepts=_is_list_of(_is_icon),
        wanted="a list of Icon values, or of dicts with a 'src' that is an http(s) or data URI",
    ),
    "INSTRUCTIONS": _TEXT_OR_NONE,
    "PUBLIC": _BOOL,
    "AUTHENTICATORS": _Rule(
        accepts=_is_list_of(_is_authenticator),
        wanted="a list of authenticators, or of dotted paths to their classes",
    ),
    "MODE": _Rule(
        accepts=lambda value: value in ("both", "stateful", "stateless"),
        wanted="'both', 'stateful' or 'stateless'",
    ),
    "LEGACY_SSE": _BOOL,
    "REVISIONS": _Rule(
        accepts=_or_none(_is_list_of(lambda value: value in _REVISION_NAMES)),
        wanted=f"None (all) or a list out of {', '.join(_REVISION_NAMES)}",
    ),
    "PAGE_SIZE": _COUNT,
    "VALIDATE_INPUT": _BOOL,
    "VALIDATE_OUTPUT": _BOOL,
    "CALL_TIMEOUT_S": _Rule(
        accepts=_or_none(_is_seconds), wanted="a number of seconds above 0, or None for no deadline"
    ),
    "MAX_BODY_BYTES": _COUNT,
    "BODY_TIMEOUT_S": _SECONDS,
    "MAX_RESULT_BYTES": _COUNT,
    "KEEPALIVE_S": _SECONDS,
    "MAX_BATCH": _COUNT,
    "SYNC_THREADS": _COUNT_OR_0,
    "ALLOWED_ORIGINS": _Rule(
        accepts=_is_list_of(_is_origin),
        wanted="a list of origins such as 'https://app.example.com' (no path, no slash at the end), or ['*']",
    ),
    "CORS_ALLOW_CREDENTIALS": _BOOL,
    "MIDDLEWARE": _Rule(accepts=_is_list_of(_is_dotted), wanted="a list of dotted paths"),
    "LOG_LEVEL": _Rule(
        accepts=lambda value: isinstance(value, str) and value in LOG_LEVELS,
        wanted=f"one of {', '.join(LOG_LEVELS)}",
    ),
    "LIST_TTL_MS": _COUNT_OR_0,
    "STATE_TTL_S": _SECONDS,
    "STATE_INLINE_BYTES": _Rule(
        accepts=lambda value: _is_whole(value) and 0 <= value <= MAX_INLINE_STATE_BYTES,
        wanted=f"a whole number from 0 to {MAX_INLINE_STATE_BYTES}",
    ),
    "STATE_SINGLE_USE": _BOOL,
    "STRICT": _BOOL,
    "READ_CHUNK_BYTES": _Rule(
        accepts=_or_none(lambda value: _is_whole(value) and value > 0),
        wanted="a whole number above 0, or None for no limit",
    ),
    "PERMISSION": _Rule(
        accepts=_is_permission,
        wanted="'app.codename', a list of such names, a function over the user, or None",
    ),
    "SCOPES": _Rule(accepts=_is_scopes, wanted="a list of names of scopes, without spaces"),
    "SCOPE_IMPLIES": _Rule(
        accepts=_or_none(_is_scope_map),
        wanted="None, or a dict from a scope to the list of those it stands for",
    ),
    "THROTTLE": _Rule(
        accepts=_or_none(_are_rates),
        wanted="None, or a dict from 'principal' and 'address' to rates such as '600/m'",
    ),
    "THROTTLE_CACHE": _Rule(
        accepts=lambda value: isinstance(value, str) and value in site_settings.CACHES,
        wanted="the name of one of CACHES",
    ),
    "AUTODISCOVER_MODULE": _Rule(
        accepts=_or_none(_is_dotted), wanted="the name of a module, or None to look for none"
    ),
    "PUBLIC_URL": _Rule(
        accepts=_or_none(_is_public_url),
        wanted="scheme and host such as 'https://shop.example.com' (no path, no slash at the end), or None",
    ),
    "OAUTH_PREFIX": _Rule(
        accepts=_is_prefix, wanted="a path such as 'oauth/', with a slash at its end only"
    ),
    "OAUTH_BASE_SCOPES": _Rule(
        accepts=_or_none(_is_list_of(_is_scope)), wanted="a list of names of scopes, or None"
    ),
    "OAUTH_REGISTRATIONS_PER_HOUR": _COUNT,
    "OAUTH_MAX_REGISTERED": _COUNT,
    "RECORD_CALLS": _Rule(
        accepts=lambda value: isinstance(value, int | float) and 0 <= value <= 1,
        wanted="True, False, or the share of calls to record: a number from 0 to 1",
    ),
    "CALL_RETENTION_DAYS": _Rule(
        accepts=_or_none(lambda value: _is_whole(value) and value > 0),
        wanted="a whole number of days above 0, or None to keep calls for ever",
    ),
}


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
        rule = _RULES.get(key)
        if rule is None:
            yield _unknown_key(key)
        elif not rule.accepts(value):
            yield _wrong_value(key, value, rule)


def _unknown_key(key: object) -> Problem:
    near = difflib.get_close_matches(str(key).upper(), _RULES, n=1, cutoff=0.5)
    return Problem(
        key=str(key),
        is_unknown=True,
        message=f"DJANGO_MCP has no setting {key!r}.",
        hint=f"Did you mean {near[0]!r}?" if near else f"Settings are: {', '.join(_RULES)}.",
    )


def _wrong_value(key: str, value: object, rule: _Rule) -> Problem:
    return Problem(
        key=key,
        message=f"DJANGO_MCP[{key!r}] is {value!r}, which it cannot be.",
        hint=f"It must be {rule.wanted}.",
    )


class _Live:
    """Stand in for a `Settings`: look each value up once and forget all of them on a change."""

    def __getattr__(self, key: str) -> Any:
        # Reached only for what is not in __dict__ yet.
        if key not in _RULES:
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
    if not _RULES[key].accepts(value):
        problem = _wrong_value(key, value, _RULES[key])
        raise ImproperlyConfigured(f"{problem.message} {problem.hint}")
    return value


_DEFAULTS: Mapping[str, Any] = {field.name: field.default for field in fields(Settings)}

settings = cast(Settings, _Live())
"""The settings in force. Reading a wrong value raises ImproperlyConfigured."""


def _forget(*, setting: str, **_kwargs: Any) -> None:
    if setting == "DJANGO_MCP":
        vars(settings).clear()


setting_changed.connect(_forget, dispatch_uid="django_mcp.conf")
