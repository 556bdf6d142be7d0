"""The labels of choices in a JSON Schema: for forms beside the values, for a model in the description."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from django_mcp.protocol.subschemas import with_children

LABELS = "enumNames"
"""The keyword with the labels of an `enum`, in its order, which only forms read: the description has them for a model."""


def describe_labels(choices: Iterable[tuple[Any, Any]]) -> str:
    """Return the labels of choices, in one text, as far as their values do not say the same.

    Args:
        choices: the values and their labels.
    """
    told = []
    for value, label in ((str(value), str(label)) for value, label in choices):
        if _plain(value) == _plain(label):
            continue
        # The label `Open - may be changed` of `Open` says which value it is for.
        names_value = re.match(rf"{re.escape(value)}(\W|$)", label) is not None
        told.append(f"{label}." if names_value and value else f"{value}: {label}.")
    return " ".join(told)


def _plain(text: str) -> str:
    return "".join(filter(str.isalnum, text)).casefold()


def without_labels(schema: Any) -> Any:
    """Return a schema without the labels of values."""
    if not isinstance(schema, dict):
        return schema
    plain = with_children(schema, without_labels)
    plain.pop(LABELS, None)
    return plain
