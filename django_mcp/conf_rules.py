"""What each key of `DJANGO_MCP` may be."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings as site_settings
from django.utils.functional import Promise

from django_mcp.protocol.content import Icon
from django_mcp.protocol.levels import LOG_LEVELS
from django_mcp.protocol.revisions import REVISIONS
from django_mcp.registry.access import read_access, read_rates, read_scopes
from django_mcp.registry.problems import RegistrationError

__all__ = ["RULES", "Rule", "read_icon"]

MAX_INLINE_STATE_BYTES = 128 * 1024
"""Of a state that travels through the client; a longer one would not be read when it comes back."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """What a value must be, as a test and in words."""

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

_TEXT = Rule(accepts=_is_text, wanted="a string")
_NAME = Rule(
    accepts=lambda value: isinstance(value, str) and bool(value),
    wanted="a string that is not empty",
)
_TEXT_OR_NONE = Rule(accepts=_or_none(_is_text), wanted="a string or None")
_BOOL = Rule(accepts=lambda value: isinstance(value, bool), wanted="True or False")
_COUNT = Rule(accepts=lambda value: _is_whole(value) and value > 0, wanted="a whole number above 0")
_COUNT_OR_0 = Rule(
    accepts=lambda value: _is_whole(value) and value >= 0, wanted="a whole number, 0 or more"
)
_SECONDS = Rule(accepts=_is_seconds, wanted="a number of seconds above 0")

RULES: Mapping[str, Rule] = {
    "NAME": _NAME,
    "TITLE": _TEXT_OR_NONE,
    "VERSION": _NAME,
    "DESCRIPTION": _TEXT_OR_NONE,
    "WEBSITE_URL": _TEXT_OR_NONE,
    "ICONS": Rule(
        accepts=_is_list_of(_is_icon),
        wanted="a list of Icon values, or of dicts with a 'src' that is an http(s) or data URI",
    ),
    "INSTRUCTIONS": _TEXT_OR_NONE,
    "PUBLIC": _BOOL,
    "AUTHENTICATORS": Rule(
        accepts=_is_list_of(_is_authenticator),
        wanted="a list of authenticators, or of dotted paths to their classes",
    ),
    "MODE": Rule(
        accepts=lambda value: value in ("both", "stateful", "stateless"),
        wanted="'both', 'stateful' or 'stateless'",
    ),
    "LEGACY_SSE": _BOOL,
    "REVISIONS": Rule(
        accepts=_or_none(_is_list_of(lambda value: value in _REVISION_NAMES)),
        wanted=f"None (all) or a list out of {', '.join(_REVISION_NAMES)}",
    ),
    "PAGE_SIZE": _COUNT_OR_0,
    "VALIDATE_INPUT": _BOOL,
    "VALIDATE_OUTPUT": _BOOL,
    "CALL_TIMEOUT_S": Rule(
        accepts=_or_none(_is_seconds), wanted="a number of seconds above 0, or None for no deadline"
    ),
    "MAX_BODY_BYTES": _COUNT,
    "MAX_BODY_VALUES": _COUNT,
    "BODY_TIMEOUT_S": _SECONDS,
    "MAX_RESULT_BYTES": _COUNT,
    "KEEPALIVE_S": _SECONDS,
    "MAX_BATCH": _COUNT,
    "SYNC_THREADS": _COUNT_OR_0,
    "REPLACEMENT_THREADS": _COUNT_OR_0,
    "ALLOWED_ORIGINS": Rule(
        accepts=_is_list_of(_is_origin),
        wanted="a list of origins such as 'https://app.example.com' (no path, no slash at the end), or ['*']",
    ),
    "CORS_ALLOW_CREDENTIALS": _BOOL,
    "MIDDLEWARE": Rule(accepts=_is_list_of(_is_dotted), wanted="a list of dotted paths"),
    "LOG_LEVEL": Rule(
        accepts=lambda value: isinstance(value, str) and value in LOG_LEVELS,
        wanted=f"one of {', '.join(LOG_LEVELS)}",
    ),
    "LIST_TTL_MS": _COUNT_OR_0,
    "PUSH_BUS": Rule(
        accepts=lambda value: value in ("auto", "layer", "database", "local"),
        wanted="'auto', 'layer', 'database' or 'local'",
    ),
    "STREAM_MAX_AGE_S": _SECONDS,
    "MAX_STREAMS": _COUNT,
    "MAX_STREAMS_PER_PRINCIPAL": _COUNT,
    "PING_INTERVAL_S": Rule(
        accepts=_or_none(_is_seconds), wanted="a number of seconds above 0, or None for no pings"
    ),
    "PING_FAILURES": _COUNT,
    "SESSION_STORE": Rule(
        accepts=lambda value: value in ("model", "memory"), wanted="'model' or 'memory'"
    ),
    "SESSION_DATA": Rule(
        accepts=lambda value: value in ("model", "session_engine"),
        wanted="'model' or 'session_engine'",
    ),
    "SESSION_IDLE_S": _SECONDS,
    "SESSION_MAX_AGE_S": _SECONDS,
    "MAX_SESSIONS": _COUNT,
    "MAX_SESSIONS_PER_PRINCIPAL": _COUNT,
    "REQUIRE_INITIALIZED": _BOOL,
    "ASK_TIMEOUT_S": _SECONDS,
    "LOG_RATE": _COUNT_OR_0,
    "PROGRESS_RATE": _COUNT_OR_0,
    "TELL_LISTS_AT_START": _BOOL,
    "STATE_TTL_S": _SECONDS,
    "STATE_INLINE_BYTES": Rule(
        accepts=lambda value: _is_whole(value) and 0 <= value <= MAX_INLINE_STATE_BYTES,
        wanted=f"a whole number from 0 to {MAX_INLINE_STATE_BYTES}",
    ),
    "STATE_SINGLE_USE": _BOOL,
    "STRICT": _BOOL,
    "GC_FREEZE": _BOOL,
    "READ_CHUNK_BYTES": Rule(
        # No character has more bytes, so parts of such a size make up the whole.
        accepts=_or_none(lambda value: _is_whole(value) and value >= 4),
        wanted="a whole number of 4 or more, or None for no limit",
    ),
    "ANONYMOUS_SHARE": Rule(
        accepts=lambda value: _is_seconds(value) and value <= 1,
        wanted="a number above 0, and 1 at most",
    ),
    "PERMISSION": Rule(
        accepts=_is_permission,
        wanted="'app.codename', a list of such names, a function over the user, or None",
    ),
    "SCOPES": Rule(accepts=_is_scopes, wanted="a list of names of scopes, without spaces"),
    "SCOPE_IMPLIES": Rule(
        accepts=_or_none(_is_scope_map),
        wanted="None, or a dict from a scope to the list of those it stands for",
    ),
    "THROTTLE": Rule(
        accepts=_or_none(_are_rates),
        wanted="None, or a dict from 'principal', 'address' and 'failures' to rates such as '600/m'",
    ),
    "THROTTLE_CACHE": Rule(
        accepts=lambda value: isinstance(value, str) and value in site_settings.CACHES,
        wanted="the name of one of CACHES",
    ),
    "TASK_STORE": Rule(
        accepts=lambda value: value in ("model", "memory"), wanted="'model' or 'memory'"
    ),
    "TASK_RUNNER": Rule(accepts=_is_dotted, wanted="the dotted path of a class"),
    "TASK_THREADS": _COUNT,
    "TASK_TTL_S": _SECONDS,
    "TASK_TIMEOUT_S": Rule(
        accepts=_or_none(_is_seconds), wanted="a number of seconds above 0, or None for no deadline"
    ),
    "TASK_AFTER_S": _SECONDS,
    "TASK_POLL_S": _SECONDS,
    "MAX_TASKS": _COUNT,
    "MAX_TASKS_PER_PRINCIPAL": _COUNT,
    "AUTODISCOVER_MODULE": Rule(
        accepts=_or_none(_is_dotted), wanted="the name of a module, or None to look for none"
    ),
    "PUBLIC_URL": Rule(
        accepts=_or_none(_is_public_url),
        wanted="scheme and host such as 'https://shop.example.com' (no path, no slash at the end), or None",
    ),
    "OAUTH_PREFIX": Rule(
        accepts=_is_prefix, wanted="a path such as 'oauth/', with a slash at its end only"
    ),
    "OAUTH_BASE_SCOPES": Rule(
        accepts=_or_none(_is_list_of(_is_scope)), wanted="a list of names of scopes, or None"
    ),
    "OAUTH_REGISTRATIONS_PER_HOUR": _COUNT,
    "OAUTH_MAX_REGISTERED": _COUNT,
    "OAUTH_WRONG_SECRETS_PER_MINUTE": _COUNT,
    "RECORD_CALLS": Rule(
        accepts=lambda value: isinstance(value, int | float) and 0 <= value <= 1,
        wanted="True, False, or the share of calls to record: a number from 0 to 1",
    ),
    "CALL_RETENTION_DAYS": Rule(
        accepts=_or_none(lambda value: _is_whole(value) and value > 0),
        wanted="a whole number of days above 0, or None to keep calls for ever",
    ),
}
