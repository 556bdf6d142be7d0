"""Settings as fields of a dataclass: each declares its default, its rule, its scope and its help."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any, TypeVar

from django_mcp.protocol.revisions import REVISIONS
from django_mcp.registry.access import read_rates
from django_mcp.registry.problems import check_names
from django_mcp.registry.rules import Rule, is_number, reading

T = TypeVar("T")

LIST_METHODS = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}
"""The methods that list entries, with the key of the entries in their results."""


class Scope(Enum):
    """Where a setting can be set.

    BOTH: in `DJANGO_MCP` for all servers, and as a keyword of `MCPServer` for one of them.
    OWN: in `DJANGO_MCP` for the default server only, and as a keyword for each other server.
    SITE: in `DJANGO_MCP` only.
    """

    BOTH = "both"
    OWN = "own"
    SITE = "site"


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """One setting. The help is Markdown for `docs/reference/settings.md`."""

    default: Any
    rule: Rule
    scope: Scope
    help: str


def setting(default: T, rule: Rule, help_text: str, *, scope: Scope = Scope.BOTH) -> T:
    """Declare a field of a dataclass as a setting."""
    declared = Setting(default=default, rule=rule, scope=scope, help=help_text)
    made: T = field(default=default, metadata={"setting": declared})
    return made


def site_setting(default: T, rule: Rule, help_text: str) -> T:
    """Declare a setting of the whole site, which is no keyword of `MCPServer`."""
    return setting(default, rule, help_text, scope=Scope.SITE)


def settings_of(cls: type[Any]) -> dict[str, Setting]:
    """Return the settings that a dataclass declares, by field name."""
    settings = {option.name: option.metadata.get("setting") for option in fields(cls)}
    return {name: each for name, each in settings.items() if each is not None}


def check_options(options: Mapping[str, object], known: Mapping[str, Setting]) -> None:
    """Check the keywords of `MCPServer(...)`; raise `TypeError` or `ValueError` for a wrong one."""
    check_names(options, known, "MCPServer()")
    for name, value in options.items():
        known[name].rule.demand(value, f"MCPServer({name}=...)", ValueError)


_REVISION_NAMES = tuple(revision.name for revision in REVISIONS)
REVISION_LIST = Rule(
    lambda value: (
        isinstance(value, list | tuple)
        and bool(value)
        and all(map(_REVISION_NAMES.__contains__, value))
    ),
    f"a list of at least one of {', '.join(map(repr, _REVISION_NAMES))}",
).or_none("for all")
RATES = reading(
    lambda value: read_rates({**value}),
    "a dict from 'principal', 'address' and 'failures' to rates such as '600/m'",
).or_none("for no limit")
SHARE = Rule(lambda value: is_number(value) and 0 < value <= 1, "a number above 0, at most 1")
