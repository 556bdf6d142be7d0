"""The access rules of an entry as its author declares them; other modules check them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from django_mcp.registry.problems import RegistrationError

Permission: TypeAlias = str | Sequence[str] | Callable[..., Any] | None
"""As authors write it: a permission name, names that are all needed, or a function of the user."""

Rule: TypeAlias = str | Callable[..., Any]
"""One requirement: the name of a permission, or a function of the user."""


class Access(Struct, frozen=True, kw_only=True):
    """The access rules of an entry; the server's defaults apply where one is None.

    Attributes:
        permission: names of permissions that are all needed, or a function of the user.
        scopes: names of OAuth scopes that are all needed.
        check: a function of the user and the arguments of a call.
        listed_if: a function of the user that has to hold as well, whatever `permission` is.
    """

    permission: tuple[str, ...] | Callable[..., Any] | None = None
    scopes: tuple[str, ...] | None = None
    check: Callable[..., Any] | None = None
    listed_if: Callable[..., Any] | None = None

    def rules(self, default: Access) -> frozenset[Rule]:
        """Return what has to hold for a user to see the entry.

        The permission of the server's `default` counts if the entry has none of its own.
        """
        permission = default.permission if self.permission is None else self.permission
        extra = frozenset() if self.listed_if is None else frozenset({self.listed_if})
        return to_rules(permission) | extra


class Rate(Struct, frozen=True, kw_only=True):
    """A number of calls in a number of seconds."""

    limit: int
    period_s: int


def read_access(
    source: str,
    *,
    permission: Permission = None,
    scopes: str | Sequence[str] | None = None,
    check: Callable[..., Any] | None = None,
    listed_if: Callable[..., Any] | None = None,
) -> Access:
    """Return the access rules that an author declared."""
    if check is not None and not callable(check):
        raise RegistrationError(f"{source}: check= takes a function.")
    for option, value in (("permission", permission), ("listed_if", listed_if)):
        if inspect.iscoroutinefunction(value):
            raise RegistrationError(
                f"{source}: {option}= takes a synchronous function. Write it with def."
            )
    if not (listed_if is None or callable(listed_if)):
        raise RegistrationError(f"{source}: listed_if= takes a function.")
    if not (permission is None or callable(permission)):
        permission = _names(permission, "permission", source)
    return Access(
        permission=permission,
        scopes=read_scopes(scopes, source),
        check=check,
        listed_if=listed_if,
    )


def read_scopes(given: str | Sequence[str] | None, source: str) -> tuple[str, ...] | None:
    """Return names of scopes; None if none were given, `()` if the author wants none."""
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


# RFC 6749 section 3.3.
_SCOPE = re.compile(r"[!#-\[\]-~]+")


def to_rules(permission: tuple[str, ...] | Callable[..., Any] | None) -> frozenset[Rule]:
    """Return all requirements as a set."""
    if permission is None:
        return frozenset()
    return frozenset({permission} if callable(permission) else permission)


_RATE = re.compile(r"([1-9][0-9]{0,8})/([1-9][0-9]{0,5})?(s|sec|second|m|min|minute|h|hour|d|day)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def read_rate(text: object) -> Rate:
    """Return a rate such as `"10/m"`, `"5/second"` or `"100/15min"`."""
    match = _RATE.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise ValueError(
            f"{text!r} is not a rate: write a number, / and s, m, h or d, as in '10/m'"
        )
    limit, many, unit = match.groups()
    return Rate(limit=int(limit), period_s=int(many or 1) * _SECONDS[unit[0]])


def read_rates(given: Mapping[str, str] | None) -> dict[str, Rate]:
    """Return rates by what they count: `principal`, `address`, `failures`."""
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
    if isinstance(given, Mapping) or not all(type(name) is str and name for name in names):
        raise RegistrationError(f"{source}: {option}= takes a name or a list of names.")
    return names
