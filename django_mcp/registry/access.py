"""Who may use an entry, in the words of its author; nothing here judges."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from django_mcp.registry.problems import RegistrationError

__all__ = [
    "Access",
    "Permission",
    "Rate",
    "Rule",
    "read_access",
    "read_rate",
    "read_rates",
    "read_scopes",
    "to_rules",
]

Permission: TypeAlias = str | Sequence[str] | Callable[..., Any] | None
"""As authors write it: a name, names that are all needed, or a function that judges."""

Rule: TypeAlias = str | Callable[..., Any]
"""One thing that has to hold: the name of a permission, or a function over the user."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Access:
    """Who may use an entry. What is None was not said, and is the server's to say.

    Attributes:
        permission: names of permissions that are all needed, or a function that judges.
        scopes: names of OAuth scopes that are all needed.
        check: a function that judges a call by its arguments.
    """

    permission: tuple[str, ...] | Callable[..., Any] | None = None
    scopes: tuple[str, ...] | None = None
    check: Callable[..., Any] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Rate:
    """So many in so many seconds."""

    limit: int
    period_s: int


def read_access(
    source: str,
    *,
    permission: Permission = None,
    scopes: str | Sequence[str] | None = None,
    check: Callable[..., Any] | None = None,
) -> Access:
    """Return what an author said of who may use an entry.

    Raises:
        RegistrationError: it is nothing of the kind.
    """
    if check is not None and not callable(check):
        raise RegistrationError(f"{source}: check= takes a function.")
    if inspect.iscoroutinefunction(permission):
        raise RegistrationError(
            f"{source}: permission= takes a function that does not wait. Write it with def."
        )
    if not (permission is None or callable(permission)):
        permission = _names(permission, "permission", source)
    return Access(permission=permission, scopes=read_scopes(scopes, source), check=check)


def read_scopes(given: str | Sequence[str] | None, source: str) -> tuple[str, ...] | None:
    """Return names of scopes; None when none were said, which `()` says.

    Raises:
        RegistrationError: they cannot be scopes (RFC 6749, 3.3).
    """
    if given is None:
        return None
    scopes = _names(given, "scopes", source)
    for scope in scopes:
        if not _SCOPE.fullmatch(scope):
            raise RegistrationError(
                f"{source}: {scope!r} is no scope. Use visible ASCII without spaces, quotes and "
                "backslashes, and a list for several."
            )
    return scopes


_SCOPE = re.compile(r"[!#-\[\]-~]+")


def to_rules(permission: tuple[str, ...] | Callable[..., Any] | None) -> frozenset[Rule]:
    """Return all that has to hold, as a set; empty when nothing has to."""
    if permission is None:
        return frozenset()
    return frozenset({permission} if callable(permission) else permission)


_RATE = re.compile(r"([1-9][0-9]{0,8})/([1-9][0-9]{0,5})?(s|sec|second|m|min|minute|h|hour|d|day)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def read_rate(text: object) -> Rate:
    """Return a rate such as `"10/m"`, `"5/second"` or `"100/15min"`.

    Raises:
        ValueError: it is none.
    """
    match = _RATE.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise ValueError(f"{text!r} is no rate: write a number, / and s, m, h or d, as in '10/m'")
    limit, many, unit = match.groups()
    return Rate(limit=int(limit), period_s=int(many or 1) * _SECONDS[unit[0]])


def read_rates(given: Mapping[str, str] | None) -> dict[str, Rate]:
    """Return rates by what they are counted for: `principal`, `address`, `failures`.

    Raises:
        ValueError: one is none, or is for something else.
    """
    for name in given or {}:
        if name not in ("principal", "address", "failures"):
            raise ValueError(
                f"{name!r} is nothing to count for: use 'principal', 'address' or 'failures'"
            )
    return {name: read_rate(text) for name, text in (given or {}).items()}


def _names(given: str | Sequence[str], option: str, source: str) -> tuple[str, ...]:
    try:
        names = (given,) if isinstance(given, str) else tuple(given)
    except TypeError:
        names = (None,)  # type: ignore[assignment]
    if not all(type(name) is str and name for name in names):
        raise RegistrationError(f"{source}: {option}= takes a name or a list of names.")
    return names
