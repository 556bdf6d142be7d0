"""The faster engine for JSON Schema, if the extra `speed` is installed."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

__all__ = ["find_rust_engine"]


@functools.cache
def find_rust_engine() -> ModuleType | Any | None:
    """Return the module `jsonschema_rs`; None if it is not installed."""
    try:
        import jsonschema_rs
    except ImportError:
        return None
    return jsonschema_rs
