"""Leave out of the input schema of a generated tool what tells a model nothing.

Only what is published is shorter. Arguments are checked against the whole schema, and the try form of the admin shows it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import override

from django_mcp.contrib.finders import RelationText
from django_mcp.forms.labels import LABELS
from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.subschemas import with_children
from django_mcp.registry.caller_texts import Sees, SeesAlone, read_for

LONG = 100
"""The length of a text or a list from which on a limit is left out: a model rarely comes near it."""

FAR = 2**15 - 1
"""The number from which on a limit is left out: it is that of a column, such as 32,767 or 2,147,483,647."""


def shorten(schema: JSONObject, *, drops_null: bool = False) -> JSONObject:
    """Return an input schema without what tells a model nothing.

    These are titles that repeat the name, empty descriptions and defaults, limits that are far away or go
    without saying, that there are no members but those described, and the second way to write a
    decimal.

    Args:
        schema: of all arguments.
        drops_null: whether null is left out too, since it says no more than leaving out the argument.
    """
    with override(None):  # the texts of the code: a translated title repeats the name as well
        short: JSONObject = _shorten(schema, drops_null=drops_null)
    return short


def _shorten(schema: Any, *, drops_null: bool) -> Any:
    if not isinstance(schema, dict):
        return schema
    short = with_children(schema, partial(_shorten, drops_null=drops_null))
    properties = short.get("properties")
    if properties:
        _shorten_members(properties)
        if drops_null:
            _drop_nulls(properties, {*short.get("required", ()), *_find_defaulted(schema)})
    if short.get("additionalProperties") is False:
        del short["additionalProperties"]
    for keyword, says_nothing in _RULES.items():
        if keyword in short and says_nothing(short[keyword]):
            del short[keyword]
    least = short.get("minimum")
    if (least == 0 and "maximum" not in short) or (least in (0, 1) and "default" in short):
        # No count is negative, and no page is empty.
        del short["minimum"]
    if type(short.get("type")) is list:
        _choose_types(short)
    return short


_RULES: Mapping[str, Callable[[Any], Any]] = {
    LABELS: bool,
    # 0 equals False, and says something.
    "default": lambda value: value is None or value is False or value == "",
    # What depends on the caller may say more when all tools are registered.
    "description": lambda value: not hasattr(value, "for_caller") and not str(value),
    "maxItems": lambda value: value >= LONG,
    "maxLength": lambda value: value >= LONG,
    "maximum": lambda value: value >= FAR,
    "minimum": lambda value: value <= -FAR,
    "minItems": lambda value: value <= 1,
    "minLength": lambda value: value <= 1,
    "uniqueItems": bool,
}


def _shorten_members(properties: JSONObject) -> None:
    """Remove from the schemas of members what their names say."""
    for name, each in properties.items():
        if isinstance(each, dict):
            if "title" in each and _repeats(each["title"], name):
                del each["title"]
            if each.get("format") == "email" and "email" in name:
                del each["format"]
            if name == "limit" and each.get("type") == "integer":
                # A page that is not the last one has the cursor of the next.
                each.pop("default", None)


def _find_defaulted(schema: JSONObject) -> list[str]:
    """Return the names of members that are something else than null when they are absent."""
    return [
        name
        for name, each in schema["properties"].items()
        if isinstance(each, dict) and each.get("default") is not None
    ]


def _drop_nulls(properties: JSONObject, kept: Collection[str]) -> None:
    """Remove null from the schemas of members, but for some of them."""
    for name, each in properties.items():
        if not isinstance(each, dict) or name in kept:
            continue
        kinds = each.get("type")
        if type(kinds) is list and "null" in kinds:
            rest = [kind for kind in kinds if kind != "null"]
            each["type"] = rest[0] if len(rest) == 1 else rest
        if None in each.get("enum", ()):
            each["enum"] = [value for value in each["enum"] if value is not None]
        if {"type": "null"} in each.get("anyOf", ()):
            each["anyOf"] = [one for one in each["anyOf"] if one != {"type": "null"}]


def _choose_types(schema: JSONObject) -> None:
    """Leave one of the types of a value that can be sent in either.

    A decimal is a number or its text. A key or a name stays both: results show the number, which a client that checks
    its arguments could not send back as a text.
    """
    kinds = [kind for kind in schema["type"] if kind != "null"]
    if sorted(kinds) == ["number", "string"]:
        kind = "number"
        for keyword in ("maxLength", "minLength", "pattern"):
            schema.pop(keyword, None)
        schema["type"] = [kind, "null"] if len(kinds) < len(schema["type"]) else kind


_WORDS = re.compile(r"[^\W_]+")


def _repeats(title: Any, name: str) -> bool:
    """Return whether a title has no word that its name has not: `Price (inc. tax)` of `price_incl_tax`."""
    title, name = str(title).casefold(), name.casefold()
    if _plain(title) == _plain(name):
        return True
    known = _WORDS.findall(name.replace("_", " "))
    return all(
        any(one.startswith(word) or word.startswith(one) for one in known)
        for word in _WORDS.findall(title)
    )


def _plain(text: str) -> str:
    return "".join(filter(str.isalnum, text))


# -- texts that another tool has


def leave_told(schema: JSONObject, tool: str, told: JSONObject) -> JSONObject:
    """Return a short schema whose titles and help texts are for callers alone who do not see a tool with the same.

    Labels of choices, and how related objects are found, stay in both.

    Args:
        schema: of the arguments.
        tool: the name of the other tool.
        told: its schema.
    """
    with override(None):
        left: JSONObject = _leave_told(schema, tool, told)
    return left


def _leave_told(schema: Any, tool: str, told: Any) -> Any:
    if not (isinstance(schema, dict) and isinstance(told, dict)):
        return schema
    schema = dict(schema)
    if "title" in schema and str(schema["title"]) == str(told.get("title")):
        schema["title"] = _Elsewhere(tool, schema["title"])
    if "description" in schema and not _has_choices(schema):
        text, other = schema["description"], told.get("description")
        if isinstance(text, RelationText) and isinstance(other, RelationText):
            if str(text.before) and str(text.before) == str(other.before):
                schema["description"] = _Elsewhere(tool, text, text.copy(before=""))
        elif not hasattr(text, "for_caller") and str(text) == str(other):
            schema["description"] = _Elsewhere(tool, text)
    if "properties" in schema and "properties" in told:
        others = told["properties"]
        schema["properties"] = {
            name: _leave_told(each, tool, others.get(name))
            for name, each in schema["properties"].items()
        }
    if "items" in schema:
        schema["items"] = _leave_told(schema["items"], tool, told.get("items"))
    return schema


def _has_choices(schema: JSONObject) -> bool:
    items = schema.get("items")
    return "enum" in schema or (isinstance(items, dict) and "enum" in items)


class _Elsewhere(Promise):
    """A text that callers are told by another tool, if they see that one.

    Args:
        tool: the name of the other tool.
        text: the whole text.
        rest: what is left of it.
    """

    def __init__(self, tool: str, text: Any, rest: Any = "") -> None:
        self._tool = tool
        self._text = text
        self._rest = rest

    def __str__(self) -> str:
        return str(self._text)

    def __deepcopy__(self, _memo: Any) -> _Elsewhere:
        return self

    def narrow(self, schema: JSONObject) -> JSONObject:
        """Return the schema that the text describes as the text itself publishes it."""
        narrow = getattr(self._text, "narrow", None)
        return schema if narrow is None else narrow(schema)

    def for_caller(self, sees: Sees) -> str:
        is_told = not isinstance(sees, SeesAlone) and sees(self._tool)
        return read_for(sees, self._rest if is_told else self._text)
