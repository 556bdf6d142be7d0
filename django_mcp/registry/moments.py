"""Read the date-times of clients, and write those of results, by the rules of the site."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Any, Protocol

from django_mcp.registry.rewriting import CoreRewriting
from django_mcp.registry.unions import Node


class Moments(Protocol):
    """The rules of a site for date-times; converters are cached by them."""

    def __hash__(self) -> int: ...

    def read_moment(self, moment: datetime, *, needs_offset: bool = False) -> datetime:
        """Return a date-time of a client as handlers get it.

        Args:
            moment: with an offset, or naive.
            needs_offset: whether the handler demands one, whatever the site has.

        Raises:
            ValueError: handlers cannot get it; the text says why.
        """

    def write_moment(self, moment: datetime) -> datetime:
        """Return a date-time of a handler as a result has it: with an offset, as `date-time` demands."""


_CONSTRAINTS = ("gt", "ge", "lt", "le", "now_op", "tz_constraint")
_AROUND = ("metadata", "ref", "serialization")


class MomentReading(CoreRewriting):
    """A copy that reads date-times by the rules of a site."""

    kind = "datetime"

    def __init__(self, moments: Moments) -> None:
        super().__init__()
        self._moments = moments

    def rewrite_node(self, node: Node) -> Node:
        """See `CoreRewriting.rewrite_node`."""
        zone = node.get("tz_constraint")
        if node.get("type") != "datetime" or zone == "naive":
            return super().rewrite_node(node)
        read = self._moments.read_moment
        if zone is not None:
            read = partial(read, needs_offset=True)
        around = {key: node[key] for key in _AROUND if key in node}
        inner = {key: value for key, value in node.items() if key not in _AROUND}
        plain = {key: value for key, value in inner.items() if key not in _CONSTRAINTS}
        reading: Node = {
            "type": "function-after",
            "function": {"type": "no-info", "function": read},
            "schema": plain,
        }
        if plain != inner:
            # What the author demands is true of what the handler gets.
            reading = {"type": "chain", "steps": [reading, inner]}
        return {**reading, **around}


class MomentWriting(CoreRewriting):
    """A copy that writes date-times by the rules of a site."""

    kind = "datetime"

    def __init__(self, moments: Moments) -> None:
        super().__init__()
        self._moments = moments

    def rewrite_node(self, node: Node) -> Node:
        """See `CoreRewriting.rewrite_node`."""
        rewritten = super().rewrite_node(node)
        if node.get("computed_fields"):
            rewritten["computed_fields"] = self.rewrite(node["computed_fields"])
        if node.get("type") == "datetime" and "serialization" not in node:
            rewritten["serialization"] = {
                "type": "function-plain",
                "function": self._write,
                "return_schema": {"type": "datetime"},
                "when_used": "json-unless-none",
            }
        return rewritten

    def _write(self, value: Any) -> Any:
        # A dataclass does not check its fields.
        return self._moments.write_moment(value) if isinstance(value, datetime) else value
