"""Rules of options and settings: which values they accept, and how a message says so."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from django_mcp.protocol.annotations import Icon
from django_mcp.protocol.json import is_lazy
from django_mcp.protocol.names import is_toolset_name
from django_mcp.registry.access import find_fault, read_access, read_scopes
from django_mcp.registry.problems import RegistrationError, find_near


def shown(value: object) -> str:
    """Return a value for an error message: at most 200 characters, whatever its `repr` does."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - the class of the value is the site's
        text = f"a value of type {type(value).__name__}"
    return text if len(text) <= 200 else f"{text[:200]}..."


@dataclass(frozen=True, slots=True)
class Rule:
    """The values that are accepted: a test, the end of "It must be ...", and more on a wrong one."""

    accepts: Callable[[Any], bool]
    wanted: str
    explain: Callable[[Any], str | None] | None = None

    def or_none(self, meaning: str) -> Rule:
        """Return a rule that accepts None as well."""
        return replace(
            self,
            accepts=lambda value: value is None or self.accepts(value),
            wanted=f"{self.wanted}, or None {meaning}",
        )

    def that_answers(self) -> Rule:
        """Return a rule that refuses a function which answers all callers alike."""

        def explain(value: object) -> str | None:
            fault = find_fault(value)
            if fault is not None:
                return f"It {fault}."
            return self.explain(value) if self.explain else None

        return replace(
            self,
            accepts=lambda value: self.accepts(value) and find_fault(value) is None,
            explain=explain,
        )

    def remedy(self, value: object) -> str:
        """Return what to write in place of a value that is not accepted."""
        why = self.explain(value) if self.explain else None
        return f"It must be {self.wanted}. {why or ''}".rstrip()

    def demand(self, value: object, place: str, error: type[Exception]) -> None:
        """Raise an error that names the place, unless the value is accepted."""
        if not self.accepts(value):
            raise error(f"{place} cannot be {shown(value)}. {self.remedy(value)}")


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
TOOLSET = Rule(
    lambda value: isinstance(value, str) and is_toolset_name(value),
    "1 to 64 letters, digits and `_ . -`, the first neither `.` nor `-`",
)
TEXT = Rule(lambda value: is_text(value) or is_lazy(value), "a string, which may be lazy").or_none(
    "to leave it out"
)
WEB_PAGE = Rule(
    lambda value: is_text(value) and value.startswith(("https://", "http://")),
    "the URL of a web page such as 'https://shop.example.com/about'",
).or_none("to leave it out")
CONTACT = Rule(
    lambda value: is_text(value) and value.startswith(("https://", "http://", "mailto:")),
    "the URL of a web page, or an address such as 'mailto:help@shop.example.com'",
).or_none("to leave it out")
CARD_NAME = Rule(
    lambda value: (
        isinstance(value, str)
        and re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", value) is not None
        and len(value) <= 200
    ),
    "a domain of yours backwards, a slash and a name, such as 'com.example/shop'",
).or_none("for no card")
SECONDS = Rule(
    lambda value: is_number(value) and 0 < value < 1e9,
    "a number of seconds above 0 and below 1e9",
)


def reading(read: Callable[[Any], object], wanted: str, *, explains: bool = False) -> Rule:
    """Return the rule for what a function reads; `explains`: its error says more than `wanted`."""

    def find_problem(value: object) -> str | None:
        try:
            read(value)
        except (RegistrationError, AttributeError, TypeError, ValueError) as error:
            return str(error)
        return None

    return Rule(
        lambda value: find_problem(value) is None, wanted, find_problem if explains else None
    )


def read_icons(icons: object) -> tuple[Icon, ...]:
    """Return what is given for `icons`; raise `TypeError` or `ValueError` if it is none."""
    if not isinstance(icons, list | tuple):
        raise TypeError
    return tuple(map(_read_icon, icons))


def _read_icon(icon: Any) -> Icon:
    if isinstance(icon, Icon):
        return icon
    if not isinstance(icon, Mapping):
        return Icon(str(icon))
    known = ("src", "mime_type", "sizes", "theme")
    for key in icon:
        if key not in known:
            raise TypeError(f"`{key}`: did you mean `{(find_near(str(key), known) or known)[0]}`?")
    return Icon(**{**icon, "src": str(icon.get("src", ""))})


ICONS = reading(
    read_icons,
    "a list of Icon values, https URLs, or dicts with 'src' (an https or data URI) and optionally "
    "'mime_type', 'sizes' and 'theme'",
    explains=True,
)
PERMISSION = reading(
    lambda value: read_access("", permission=value),
    "'app.codename', a list of such names, or a synchronous function of the user alone",
).that_answers()
SCOPES = reading(
    lambda value: read_scopes(value, "") or len(value),  # which None does not have
    "a list of scope names without spaces",
)
