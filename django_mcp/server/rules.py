"""Rules for the values of settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django_mcp.protocol.content import Icon
from django_mcp.protocol.results import CacheHint
from django_mcp.protocol.revisions import REVISIONS
from django_mcp.registry.access import read_access, read_rates, read_scopes
from django_mcp.registry.atomic import read_aliases
from django_mcp.registry.hints import is_lazy
from django_mcp.registry.problems import RegistrationError

LIST_METHODS = ("tools/list", "resources/list", "resources/templates/list", "prompts/list")


@dataclass(frozen=True, slots=True)
class Rule:
    """The values that a setting accepts, as a test and as the end of "It must be ..."."""

    accepts: Callable[[Any], bool]
    wanted: str

    def or_none(self, meaning: str) -> Rule:
        """Return a rule that accepts None as well."""
        return Rule(
            lambda value: value is None or self.accepts(value), f"{self.wanted}, or None {meaning}"
        )


def is_number(value: object) -> bool:
    """Return whether a value is a number; booleans are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def whole(unit: str, *, least: int = 1, most: int | None = None) -> Rule:
    """Return the rule for a whole number of some unit."""
    return Rule(
        lambda value: (
            is_number(value)
            and isinstance(value, int)
            and least <= value <= (value if most is None else most)
        ),
        f"a whole number of {unit}, "
        + (f"{least} or more" if most is None else f"{least} to {most}"),
    )


def choice(*values: str) -> Rule:
    """Return the rule for one of several strings."""
    *first, last = map(repr, values)
    return Rule(
        lambda value: isinstance(value, str) and value in values,
        f"{', '.join(first)} or {last}",
    )


def list_of(accepts: Callable[[Any], bool], items: str) -> Rule:
    """Return the rule for a list whose items all pass a test."""
    return Rule(
        lambda value: isinstance(value, list | tuple) and all(map(accepts, value)),
        f"a list of {items}",
    )


BOOL = Rule(lambda value: isinstance(value, bool), "True or False")
NAME = Rule(lambda value: isinstance(value, str) and bool(value), "a string that is not empty")
TEXT = Rule(
    lambda value: isinstance(value, str) or is_lazy(value), "a string, which may be lazy"
).or_none("to leave it out")
SECONDS = Rule(
    lambda value: is_number(value) and 0 < value < 1e9,
    "a number of seconds above 0 and below 1e9",
)


def read_icon(icon: Icon | Mapping[str, Any]) -> Icon:
    """Return an entry of `icons` as an icon.

    Raises:
        TypeError, ValueError: it describes none.
    """
    return icon if isinstance(icon, Icon) else Icon(**icon)


def _reads(read: Callable[[Any], object]) -> Callable[[Any], bool]:
    """Return the test whether a value can be read."""

    def accepts(value: object) -> bool:
        try:
            read(value)
        except (RegistrationError, AttributeError, TypeError, ValueError):
            return False
        return True

    return accepts


ICONS = list_of(
    _reads(read_icon),
    "Icon values, or of dicts with 'src' (an https or data URI) and optionally 'mime_type', 'sizes' "
    "and 'theme'",
)
_REVISION_NAMES = tuple(each.name for each in REVISIONS)
REVISION_LIST = list_of(
    lambda value: value in _REVISION_NAMES, f"some of {', '.join(map(repr, _REVISION_NAMES))}"
).or_none("for all")
PERMISSION = Rule(
    _reads(lambda value: read_access("", permission=value)),
    "'app.codename', a list of such names, or a synchronous function of the user",
).or_none("for no permission")
is_scopes = _reads(lambda value: read_scopes(value, ""))
SCOPES = Rule(
    lambda value: value is not None and is_scopes(value), "a list of scope names without spaces"
)
RATES = Rule(
    lambda value: isinstance(value, Mapping) and _reads(read_rates)(value),
    "a dict from 'principal', 'address' and 'failures' to rates such as '600/m'",
).or_none("for no limit")
ATOMIC = Rule(
    _reads(read_aliases), "True, False, the alias of a database, or a list of such aliases"
)
SHARE = Rule(lambda value: is_number(value) and 0 < value <= 1, "a number above 0, at most 1")
CACHE_HINTS = Rule(
    lambda value: (
        isinstance(value, dict)
        and all(
            key in (*LIST_METHODS, "server/discover") and isinstance(hint, CacheHint)
            for key, hint in value.items()
        )
    ),
    f"a dict from {', '.join(map(repr, LIST_METHODS))} or 'server/discover' to CacheHint values",
)
