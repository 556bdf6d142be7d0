"""Leave out of the input schema of a generated tool what tells a model nothing.

Only what is published is shorter. Arguments are checked against the whole schema, and the try form of the admin shows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.translation import override

from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.subschemas import with_children

LONG = 100
"""The length of a text or a list from which on a limit is left out: a model rarely comes near it."""

FAR = 2**15 - 1
"""The number from which on a limit is left out: it is that of a column, such as 32,767 or 2,147,483,647."""


def shorten(schema: JSONObject) -> JSONObject:
    """Return an input schema without what tells a model nothing.

    These are titles that repeat the name, empty descriptions and defaults, limits that are far away,
    and that lists inside have no members but those described.
    """
    with override(None):  # the texts of the code: a translated title repeats the name as well
        short: JSONObject = _shorten(schema)
    if "additionalProperties" in schema:
        short["additionalProperties"] = schema["additionalProperties"]
    return short


def _shorten(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    short = with_children(schema, _shorten)
    for name, each in short.get("properties", {}).items():
        if isinstance(each, dict) and "title" in each and _repeats(each["title"], name):
            del each["title"]
    if short.get("additionalProperties") is False:
        del short["additionalProperties"]
    for keyword, says_nothing in _RULES.items():
        if keyword in short and says_nothing(short[keyword]):
            del short[keyword]
    return short


_RULES: Mapping[str, Any] = {
    # 0 equals False, and says something.
    "default": lambda value: value is None or value is False or value == "",
    # What depends on the caller may say more when all tools are registered.
    "description": lambda value: not hasattr(value, "for_caller") and not str(value),
    "maxItems": lambda value: value >= LONG,
    "maxLength": lambda value: value >= LONG,
    "maximum": lambda value: value >= FAR,
    "minimum": lambda value: value <= -FAR,
    "minLength": lambda value: value <= 1,
    "uniqueItems": bool,
}


def _repeats(title: Any, name: str) -> bool:
    """Return whether a title has no word that its name has not."""
    return _plain(str(title)) == _plain(name)


def _plain(text: str) -> str:
    return "".join(filter(str.isalnum, text)).casefold()
