"""The buttons of an object: the tools that its user may call with it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from django_mcp.extensions.apps.core.app import Rendered, shown_of
from django_mcp.extensions.apps.core.ready import Card, Table
from django_mcp.extensions.apps.site.ready.rows import properties_of
from django_mcp.protocol.json import encode
from django_mcp.registry.big_integers import write_integer, write_integers
from django_mcp.registry.entries import ToolEntry

MAX_GIVEN_CHARS = 1_000
"""Of further arguments of a button, which each row has."""

DETAIL = "#mcp-detail"
"""The place of the page where one object is shown."""


def write_arguments(arguments: Mapping[str, Any]) -> str:
    """Return the arguments of a call as JSON."""
    return encode(dict(arguments)).decode()


def _sent_by(tool: ToolEntry | None) -> str | None:
    """Return the tool that is called by the form which another one shows; None: that shows none."""
    return None if tool is None else shown_of(tool).sends_to


def _takes_text(schema: Any) -> bool:
    """Return whether a schema admits texts, as that of a large key does; see `BigInt`."""
    if not isinstance(schema, dict):
        return False
    kinds = schema.get("type")
    choices = schema.get("anyOf") or ()
    return (
        kinds == "string"
        or (isinstance(kinds, list) and "string" in kinds)
        or any(map(_takes_text, choices))
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Act:
    """A button that calls a tool with an object.

    Attributes:
        tool: its name.
        text: on the button.
        key: the argument that says which object is meant.
        given: further arguments.
        is_dangerous: whether it destroys something.
        asks: whether the page has to ask before, since the tool does not.
        role: of the tool in its family; empty: the site has named the tool.
        takes_digits: whether an integer as the key may be a text, so that the page does not round it.
    """

    tool: str
    text: str
    key: str
    given: Mapping[str, Any]
    is_dangerous: bool = False
    asks: bool = False
    role: str = ""
    takes_digits: bool = False

    def to_arguments(self, value: Any) -> str | None:
        """Return the arguments of a call as JSON; None: the page would call the tool with another object."""
        exact = write_integer(value) if type(value) is int else value
        if type(exact) is not type(value) and not self.takes_digits:
            return None
        return write_arguments({**self.given, self.key: exact})


class Acts:
    """What the user may do with each object of a result.

    Args:
        app: of the tool.
        rendered: the result.
    """

    def __init__(self, app: Table | Card, rendered: Rendered) -> None:
        family = rendered.tool.family
        self._rendered = rendered
        self.key = app.key or (None if family is None else family.key)
        self._members: tuple[str, ...] = () if app.key is None else (app.key,)
        if not self._members and family is not None:
            self._members = family.members
        self.acts: list[Act] = []
        if self.key is not None:
            named = app.actions is not None
            self.acts = list(self._find_named(app.actions or ()) if named else self._find_own())

    @property
    def writes(self) -> str:
        """The names of the tools after whose calls the result is another, with spaces between them."""
        family = self._rendered.tool.family
        names = list(family.tools.values()) if family is not None else []
        find = self._rendered.find
        for act in self.acts:
            names += [act.tool, _sent_by(find(act.tool)) or ""]
        found = [find(name) for name in dict.fromkeys(names)]
        return " ".join(
            tool.name for tool in found if tool is not None and not tool.annotations["readOnlyHint"]
        )

    def _find_named(self, names: Sequence[str]) -> Iterator[Act]:
        for name in names:
            tool = self._rendered.find(name)
            if tool is not None:
                sent = self._rendered.find(_sent_by(tool) or name) or tool
                yield from self._make(tool, str(sent.title))

    def _find_own(self) -> Iterator[Act]:
        """Yield the buttons for the tools of the same source."""
        family = self._rendered.tool.family
        roles = {} if family is None else family.tools
        texts = {"get": _("Open"), "update": _("Change"), "delete": _("Delete")}
        for role, text in texts.items():
            name = roles.get(role)
            if name is None or name == self._rendered.tool.name:
                continue
            tool = self._rendered.find(name)
            if tool is not None and role == "update":
                # A tool that writes does not show its own form.
                tool = self._rendered.find(f"open_{name}")
            if tool is not None:
                yield from self._make(tool, text, role)

    def _make(self, tool: ToolEntry, text: str, role: str = "") -> Iterator[Act]:
        required = [name for name in tool.input_schema.get("required", ()) if name != self.key]
        given = self._rendered.arguments
        if any(name not in given for name in required):
            return
        further = {name: given[name] for name in required}
        if write_integers(further) != further:
            # The page would round them, and mean something else.
            return
        if len(write_arguments(further)) > MAX_GIVEN_CHARS:
            return
        writes = not tool.annotations["readOnlyHint"]
        destroys = role == "delete" or (writes and tool.annotations["destructiveHint"])
        yield Act(
            tool=tool.name,
            text=text,
            key=self.key or "",
            given=further,
            is_dangerous=destroys,
            asks=destroys and not tool.asks_itself,
            role=role,
            takes_digits=_takes_text(properties_of(tool.input_schema).get(self.key or "")),
        )

    def find_refused(self, rows: Iterable[Any]) -> dict[str, Collection[Any]]:
        """Return the keys of objects with which the user may not do something, by its tool."""
        family = self._rendered.tool.family
        if family is None or family.find_refused is None:
            return {}
        keys = [key for row in rows if (key := self.key_of(row)) is not None]
        user, refuse = self._rendered.user, family.find_refused
        return {act.tool: refuse(user, act.role, keys) for act in self.acts if act.role}

    def key_of(self, row: Any) -> Any:
        """Return the value that says which object a row is; None: it has none."""
        if not isinstance(row, Mapping):
            return None
        values = (row.get(member) for member in self._members)
        return next((value for value in values if isinstance(value, str | int)), None)
