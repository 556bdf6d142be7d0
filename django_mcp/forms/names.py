"""Objects that arguments choose by an exact name, where they would take a key."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import ValidationError
from django.db import models
from django.utils.translation import gettext as _

from django_mcp.forms.values import to_python

MAX_NAME_CHARS = 500
"""No longer text is looked up as a name."""

MAX_TOLD = 5
"""An error lists so many objects of one name at most."""

MAX_TOLD_CHARS = 100
"""An error tells so much of a name at most."""

Rows = models.QuerySet[Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Naming:
    """How a caller may name the objects that a relation leads to.

    Attributes:
        field: of their model, whose values are the names.
        narrow: returns those of some objects whose names the caller sees.
        narrow_keys: returns those of some objects whose keys the caller may send.
    """

    field: Any
    narrow: Callable[[Rows], Rows]
    narrow_keys: Callable[[Rows], Rows]


FindNaming = Callable[[str, Any], Naming | None]
"""Takes the name of an argument and the model of its objects; returns how the caller names them, if at all."""


def no_names(_name: str, _model: Any) -> None:
    """Say that the caller names no objects: arguments take keys alone."""


def or_name(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a key, or of a name in its place."""
    if schema.get("type") == "integer" or "anyOf" in schema:
        return {"type": ["integer", "string"]}
    return {"type": "string"}


def find_key(key: Any, value: Any, using: str | None = None) -> Any:
    """Return a value as a key; None, if no object can have it."""
    with suppress(ValidationError):
        return to_python(key, value, using)
    return None


def find_named(
    rows: Rows, narrow: Callable[[Rows], Rows], key: Any, field: Any, texts: Collection[str]
) -> dict[str, Any]:
    """Return the keys of objects by their names, without the names that no object has.

    It makes one query, or none if no text can be a name.

    Args:
        rows: that have the objects.
        narrow: returns those of some objects that may be chosen by their names.
        key: the field whose values are the keys.
        field: whose values are the names.
        texts: the names.

    Raises:
        ValidationError: several objects have one of the names. It lists some of them.
    """
    named: dict[str, set[Any]] = {
        text: set() for text in texts if _may_be_name(field, text, rows.db)
    }
    if not named:
        return {}
    matching = narrow(rows.filter((f"{field.name}__in", list(named))))
    pairs = matching.order_by().values_list(key.attname, field.attname).distinct()
    for found, name in pairs[: len(named) + MAX_TOLD]:
        # Some databases compare texts without regard to case, or to spaces at their end.
        if str(name) in named:
            named[str(name)].add(found)
    for name, keys in named.items():
        if len(keys) > 1:
            some = sorted(map(str, keys))[:MAX_TOLD]
            told = _("%(name)s is the name of several objects. Send the key of one: %(keys)s.")
            listed = ", ".join(f"{each} ({_shorten(name)})" for each in some)
            raise ValidationError(
                told % {"name": _shorten(name), "keys": listed}, code="several_objects"
            )
    return {name: _plain(keys.pop()) for name, keys in named.items() if keys}


def _plain(key: Any) -> Any:
    return key if isinstance(key, int) else str(key)


def _may_be_name(field: Any, text: str, using: str) -> bool:
    if not 0 < len(text) <= min(field.max_length or MAX_NAME_CHARS, MAX_NAME_CHARS):
        return False
    return find_key(field, text, using) is not None


def _shorten(text: str) -> str:
    short = text if len(text) <= MAX_TOLD_CHARS else f"{text[: MAX_TOLD_CHARS - 1]}…"
    return f"“{short}”"


def unknown_name(field: Any, text: str) -> ValidationError:
    """Return the error for a text that is neither a key nor a name of an object that may be chosen."""
    if find_key(field, text) is None:
        return ValidationError(_("Enter a valid value."))
    told = _("No object that you can choose has the key or the name %(name)s.")
    return ValidationError(told % {"name": _shorten(text)}, code="invalid_choice")


def find_texts(value: Any) -> list[str]:
    """Return the texts among a value or a list of values, which may be names."""
    parts: Sequence[Any] = value if isinstance(value, list) else [value]
    return list(dict.fromkeys(part for part in parts if isinstance(part, str) and part))


def replace_texts(value: Any, keys: dict[str, Any]) -> Any:
    """Return a value, or a list of values, with keys in the place of names."""
    if isinstance(value, list):
        return [keys.get(part, part) if isinstance(part, str) else part for part in value]
    return keys.get(value, value)


def read_texts(value: Any, rows: Rows, key: Any, naming: Naming) -> Any:
    """Return the value of a filter with keys in the place of names.

    A text is a key if there is an object with it that the caller may send, else a name. A text that could be a key and
    is neither stays as it is: it finds nothing, as a number does. It makes one query for the texts that could be keys
    and one for the names, however many there are.

    Args:
        value: a text, a number or a list of them.
        rows: that have the objects.
        key: the field whose values are the keys.
        naming: how the caller names them.

    Raises:
        ValidationError: there is no such object, or several have the same name.
    """
    keys = {text: find_key(key, text, rows.db) for text in find_texts(value)}
    names = [text for text in keys if keys[text] is None]
    others = [text for text in keys if keys[text] is not None]
    if others and not isinstance(key, models.UUIDField):
        taken = naming.narrow_keys(rows.filter((f"{key.name}__in", [keys[t] for t in others])))
        known = set(taken.order_by().values_list(key.attname, flat=True))
        names += [text for text in others if keys[text] not in known]
    named = find_named(rows, naming.narrow, key, naming.field, names)
    for text in names:
        if text not in named and keys[text] is None:
            raise unknown_name(naming.field, text)
    return replace_texts(value, named)


def iterate_named(form: Any) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a checked form that were given names, with the keys of the objects."""
    for name, field in form.fields.items():
        keys = getattr(field, "keys_of_names", None)
        if keys is not None:
            yield name, keys
