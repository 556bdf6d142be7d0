"""The access rules of an entry as its author declares them; other modules check them."""

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
"""As authors write it: a permission name, names that are all needed, or a function of the user."""

Rule: TypeAlias = str | Callable[..., Any]
"""One requirement: the name of a permission, or a function of the user."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Access:
    """The access rules of an entry; the server's defaults apply where one is None.

    Attributes:
        permission: names of permissions that are all needed, or a function of the user.
        scopes: names of OAuth scopes that are all needed.
        check: a function of the user and the arguments of a call.
    """

    permission: tuple[str, ...] | Callable[..., Any] | None = None
    scopes: tuple[str, ...] | None = None
    check: Callable[..., Any] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Rate:
    """A number of calls in a number of seconds."""

    limit: int
    period_s: int


def read_access(
    source: str,
    *,
    permission: Permission = None,
    scopes: str | Sequence[str] | None = None,
    check: Callable[..., Any] | None = None,
) -> Access:
    """Return the access rules that an author declared.

    Raises:
        RegistrationError: a value has the wrong type.
    """
    if check is not None and not callable(check):
        raise RegistrationError(f"{source}: check= takes a function.")
    if inspect.iscoroutinefunction(permission):
        raise RegistrationError(
            f"{source}: permission= takes a synchronous function. Write it with def."
        )
    if not (permission is None or callable(permission)):
        permission = _names(permission, "permission", source)
    return Access(permission=permission, scopes=read_scopes(scopes, source), check=check)


def read_scopes(given: str | Sequence[str] | None, source: str) -> tuple[str, ...] | None:
    """Return names of scopes; None if none were given, `()` if the author wants none.

    Raises:
        RegistrationError: a name is not valid (RFC 6749, 3.3).
    """
    if given is None:
        return None
    scopes = _names(given, "scopes", source)
    for scope in scopes:
        if not _SCOPE.fullmatch(scope):
            raise RegistrationError(
                f"{source}: {scope!r} is not a scope. Use visible ASCII without spaces, quotes and "
                "backslashes, and a list for several."
            )
    return scopes


_SCOPE = re.compile(r"[!#-\[\]-~]+")


def to_rules(permission: tuple[str, ...] | Callable[..., Any] | None) -> frozenset[Rule]:
    """Return all requirements as a set."""
    if permission is None:
        return frozenset()
    return frozenset({permission} if callable(permission) else permission)


_RATE = re.compile(r"([1-9][0-9]{0,8})/([1-9][0-9]{0,5})?(s|sec|second|m|min|minute|h|hour|d|day)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def read_rate(text: object) -> Rate:
    """Return a rate such as `"10/m"`, `"5/second"` or `"100/15min"`.

    Raises:
        ValueError: it has another form.
    """
    match = _RATE.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise ValueError(
            f"{text!r} is not a rate: write a number, / and s, m, h or d, as in '10/m'"
        )
    limit, many, unit = match.groups()
    return Rate(limit=int(limit), period_s=int(many or 1) * _SECONDS[unit[0]])


def read_rates(given: Mapping[str, str] | None) -> dict[str, Rate]:
    """Return rates by what they count: `principal`, `address`, `failures`.

    Raises:
        ValueError: a rate or a key is not valid.
    """
    for name in given or {}:
        if name not in ("principal", "address", "failures"):
            raise ValueError(
                f"rates cannot count {name!r}: use 'principal', 'address' or 'failures'"
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
