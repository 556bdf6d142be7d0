"""Arguments and results as terms for people: what each is called, and its value as a text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from django.utils.translation import gettext as _

from django_mcp.protocol.json import JSONObject, encode
from django_mcp.protocol.sanitize import mark_invisible


def find_terms(
    values: Mapping[str, Any], schema: JSONObject, *, keeps_lines: bool = False
) -> list[tuple[str, str]]:
    """Return values with their names for people.

    Args:
        values: arguments of a tool, or its result.
        schema: of the values, whose titles are their names.
        keeps_lines: whether a text may have several lines. In a text of terms, it could write further ones.
    """
    properties = schema.get("properties", {})
    return [
        (_name(name, properties.get(name)), tell(value, keeps_lines=keeps_lines))
        for name, value in values.items()
    ]


def tell(value: Any, *, keeps_lines: bool = False) -> str:
    """Return a value of JSON as a text for people; see `find_terms`."""
    return _tell(value, _on_lines if keeps_lines else _on_one_line)


def _name(name: str, schema: Any) -> str:
    title = schema.get("title") if isinstance(schema, Mapping) else None
    words = str(title or name.replace("_", " ").strip() or name)
    return _on_one_line(words[:1].upper() + words[1:])


def _tell(value: Any, clean: Callable[[str], str]) -> str:
    if value is None or value in ("", [], {}):
        return "\u2013"
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if isinstance(value, list) and not any(isinstance(each, list | dict) for each in value):
        return ", ".join(_tell(each, clean) for each in value)
    if isinstance(value, dict) and not any(isinstance(each, dict) for each in value.values()):
        return "; ".join(
            f"{_on_one_line(str(name))}: {_tell(each, clean)}" for name, each in value.items()
        )
    return clean(value if isinstance(value, str) else encode(value).decode())


def _on_one_line(text: str) -> str:
    return mark_invisible(" ".join(text.split()), lambda _char: "\ufffd")


def _on_lines(text: str) -> str:
    return "\n".join(map(_on_one_line, text.strip().splitlines()))
