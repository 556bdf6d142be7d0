"""Which operations are about the same objects, as far as their paths tell."""

from __future__ import annotations

import re

from django_mcp.contrib.ninja.found import FoundOperation
from django_mcp.registry.entries import Family

_VARIABLE = re.compile(r"\{(?:\w+:)?(\w+)\}")

_OF_LIST = {"POST": "create"}
_OF_OBJECT = {"GET": "get", "PUT": "update", "PATCH": "update", "DELETE": "delete"}


class Families:
    """The families of the operations of an API: those at `/orders` and `/orders/{number}` are one."""

    def __init__(self) -> None:
        self._families: dict[str, Family] = {}

    def find(self, found: FoundOperation, *, has_rows: bool) -> tuple[Family, str]:
        """Return the family of an operation, and its role there; "" if its path does not tell it.

        Args:
            found: the operation.
            has_rows: whether it returns a list.
        """
        path = f"{found.prefix}/{found.operation.path}"
        start, last = "", ""
        for part in filter(None, path.split("/")):
            start, last = f"{start}/{last}" if last else start, part
        variable = _VARIABLE.fullmatch(last)
        if variable is None:
            family = self._families.setdefault(f"{start}/{last}", Family())
            if found.method == "GET":
                return family, "search" if has_rows else ""
            return family, _OF_LIST.get(found.method, "")
        family = self._families.setdefault(start, Family())
        family.key = variable[1]
        # The objects of `/orders/{order_id}` have an `id`.
        family.members = (variable[1], variable[1].rpartition("_")[2], "id", "pk")
        return family, _OF_OBJECT.get(found.method, "")
