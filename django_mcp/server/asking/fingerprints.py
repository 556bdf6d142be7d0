"""Fingerprints of functions: whether `once` is called with the same function again, in another round or a loop."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from inspect import getclosurevars
from types import FunctionType
from typing import Any


def find_fingerprint(function: Callable[[], Any]) -> Any:
    """Return what tells a function from others, also one that is defined anew in each round of a loop."""
    if isinstance(function, partial):
        return find_fingerprint(function.func), function.args, function.keywords
    if not isinstance(function, FunctionType):
        return function
    values = {**getclosurevars(function).nonlocals}
    return function.__code__, values, function.__defaults__


def is_other_function(first: Any, second: Any) -> bool:
    """Return whether two fingerprints differ; False if their values cannot be compared."""
    try:
        return bool(first != second)
    except Exception:  # noqa: BLE001 - their classes decide how they are compared
        return False
