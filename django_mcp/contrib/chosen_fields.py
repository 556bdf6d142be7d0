"""The argument of reading tools that chooses among the fields that their caller sees."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from django.utils.translation import gettext as _

from django_mcp.protocol.json import JSONObject, to_pointer
from django_mcp.registry.problems import ArgumentErrors, Problem

FIELDS = "fields"

MAX_NAMES = 500
"""Names in one list of an argument."""

MAX_NAME_CHARS = 200


def names_schema(description: str = "") -> JSONObject:
    """Return the schema of an argument that names fields."""
    return {
        "type": "array",
        "items": {"type": "string", "maxLength": MAX_NAME_CHARS},
        "maxItems": MAX_NAMES,
        "description": description,
    }


FIELDS_SCHEMA = names_schema()


def check_names(argument: str, given: Sequence[str], seen: Collection[str]) -> None:
    """Refuse names that are not among those that the caller may use.

    What does not exist and what is hidden are told alike.

    Args:
        argument: the name of the argument.
        given: what it holds.
        seen: the names that the caller may use.

    Raises:
        ArgumentErrors: with the first wrong name, and the right ones.
    """
    for index, name in enumerate(given):
        check_name([argument, index], name, seen)


def check_name(path: Sequence[str | int], name: str, seen: Collection[str]) -> None:
    """Refuse one name at a path of the arguments; see `check_names`."""
    if name not in seen:
        told = _("There is no such field. Choose from: %(names)s.")
        names = ", ".join(seen) or _("none")
        raise ArgumentErrors([Problem(to_pointer(path), told % {"names": names})])


def choose(argument: str, given: Sequence[str], seen: Sequence[str]) -> list[str]:
    """Return the fields that a call chooses, in the order in which they are shown.

    Args:
        argument: the name of the argument.
        given: what it holds.
        seen: the names of the fields that the caller sees.

    Raises:
        ArgumentErrors: it names others, or none.
    """
    check_names(argument, given or ("",), seen)
    return [name for name in seen if name in given]
