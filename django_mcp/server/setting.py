"""Settings as fields of a dataclass: each declares its default, its rule, its scope and its help."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any, TypeVar

from django_mcp.protocol.annotations import Icon
from django_mcp.protocol.json import is_lazy
from django_mcp.protocol.revisions import REVISIONS
from django_mcp.registry.access import read_access, read_rates, read_scopes
from django_mcp.registry.options import read_aliases
from django_mcp.registry.problems import RegistrationError, check_names

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
    found = {each.name: each.metadata.get("setting") for each in fields(cls)}
    return {name: each for name, each in found.items() if each is not None}


def check_options(options: Mapping[str, object], known: Mapping[str, Setting]) -> None:
    """Check the keywords of `MCPServer(...)`; raise `TypeError` or `ValueError` for a wrong one."""
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


MOST = 10**15
"""The largest whole number of a setting: columns of databases and floats hold it."""


def whole(unit: str, *, least: int = 1, most: int = MOST) -> Rule:
    """Return the rule for a whole number of some unit."""
    return Rule(
        lambda value: is_number(value) and isinstance(value, int) and least <= value <= most,
        f"a whole number of {unit}, "
        + (f"{least} or more, at most 10**15" if most == MOST else f"{least} to {most}"),
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


def is_text(value: object) -> bool:
    """Return whether a value is a string that UTF-8 can represent."""
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


BOOL = Rule(lambda value: isinstance(value, bool), "True or False")
NAME = Rule(lambda value: is_text(value) and bool(value), "a string that is not empty")
TEXT = Rule(lambda value: is_text(value) or is_lazy(value), "a string, which may be lazy").or_none(
    "to leave it out"
)
WEB_PAGE = Rule(
    lambda value: is_text(value) and value.startswith(("https://", "http://")),
    "the URL of a web page such as 'https://shop.example.com/about'",
).or_none("to leave it out")
SECONDS = Rule(
    lambda value: is_number(value) and 0 < value < 1e9,
    "a number of seconds above 0 and below 1e9",
)


def read_icon(icon: Icon | Mapping[str, Any]) -> Icon:
    """Return an entry of `icons` as an icon; raise `TypeError` or `ValueError` if it is none."""
    return icon if isinstance(icon, Icon) else Icon(**icon)


def _reads(read: Callable[[Any], object]) -> Callable[[Any], bool]:
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
REVISION_LIST = Rule(
    lambda value: (
        isinstance(value, list | tuple)
        and bool(value)
        and all(map(_REVISION_NAMES.__contains__, value))
    ),
    f"a list of at least one of {', '.join(map(repr, _REVISION_NAMES))}",
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
