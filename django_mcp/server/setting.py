"""Settings as fields of a dataclass: each declares its default, its rule, its scope and its help."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any, TypeVar

from django_mcp.registry.problems import check_names
from django_mcp.server.rules import Rule

__all__ = ["Scope", "Setting", "check_options", "setting", "settings_of", "shown", "site_setting"]

T = TypeVar("T")


class Scope(Enum):
    """Where a setting can be set.

    BOTH: in `DJANGO_MCP` for all servers, and as a keyword of `MCPServer` for one of them.
    OWN: in `DJANGO_MCP` for the default server only, and as a keyword for each other server.
    SITE: in `DJANGO_MCP` only.
    SERVER: as a keyword only.
    """

    BOTH = "both"
    OWN = "own"
    SITE = "site"
    SERVER = "server"


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
    start: Any = (
        {"default_factory": default.copy} if isinstance(default, dict) else {"default": default}
    )
    made: T = field(**start, metadata={"setting": declared})
    return made


def site_setting(default: T, rule: Rule, help_text: str) -> T:
    """Declare a setting of the whole site, which is no keyword of `MCPServer`."""
    return setting(default, rule, help_text, scope=Scope.SITE)


def settings_of(cls: type[Any]) -> dict[str, Setting]:
    """Return the settings that a dataclass declares, by field name."""
    return {each.name: each.metadata["setting"] for each in fields(cls)}


def check_options(options: Mapping[str, object], known: Mapping[str, Setting]) -> None:
    """Check the keywords of `MCPServer(...)`.

    Raises:
        TypeError: there is no such keyword.
        ValueError: a keyword has a wrong value.
    """
    check_names(options, known, "MCPServer()")
    for name, value in options.items():
        rule = known[name].rule
        if not rule.accepts(value):
            raise ValueError(
                f"MCPServer({name}=...) cannot be {shown(value)}. It must be {rule.wanted}."
            )


def shown(value: object) -> str:
    """Return a value for an error message: at most 200 characters, whatever its `repr` does."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - the class of the value is the site's
        text = f"a value of type {type(value).__name__}"
    return text if len(text) <= 200 else f"{text[:200]}..."
