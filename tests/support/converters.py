"""A result converter for servers without a framework."""

from __future__ import annotations

from typing import Any


class PlainConverter:
    """Converts no framework's objects."""

    def convert(self, value: Any) -> Any:
        return value

    def needs_thread(self, value: Any) -> bool:
        return False
