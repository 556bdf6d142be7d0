"""What the labels of choices tell a model, beside the values that it sends."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any


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
