"""What the description of an argument says of the objects that it takes: how they are named, and which tool finds them."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any
from weakref import WeakKeyDictionary, ref

from django.db.models import Model
from django.utils.functional import Promise

from django_mcp.contrib.all_or_nothing import saves_state
from django_mcp.protocol.json import JSONObject
from django_mcp.registry.caller_texts import Sees, read_for
from django_mcp.registry.entries import ToolEntry
from django_mcp.registry.object_schemas import or_null
from django_mcp.servers import MCPServer

_finders: WeakKeyDictionary[MCPServer, dict[type[Model] | None, dict[str, str]]] = (
    WeakKeyDictionary()
)
"""The tools that search for the objects of a model, and what they are called in texts."""


@saves_state
def _save(server: MCPServer) -> Callable[[], object]:
    before = {model: dict(told) for model, told in _finders.get(server, {}).items()}
    return lambda: _finders.__setitem__(server, before)


def note_finder(server: MCPServer, model: type[Model], tool: ToolEntry) -> None:
    """Have the descriptions of arguments on a server name a tool that searches for the objects of a model."""
    told = tool.name
    if not tool.is_listed:
        told = f"search_objects of {model._meta.label_lower}"
    of_server = _finders.setdefault(server, {})
    of_server.setdefault(model._meta.concrete_model, {})[tool.name] = told


class RelationText(Promise):
    """The description of an argument that takes the keys of objects.

    Args:
        server: has the tools.
        model: of the objects.
        find_field: returns the field whose values name the objects in place of their keys; None: there is none.
        takes_names: whether the schema of the argument admits names.
        before: what is said before it.
        is_many: whether the argument takes several.
        key: the schema of a key, where that of the argument admits names too.
    """

    def __init__(
        self,
        server: MCPServer,
        model: type[Model],
        find_field: Callable[[], Any],
        *,
        takes_names: bool,
        before: Any = "",
        is_many: bool = False,
        key: JSONObject | None = None,
    ) -> None:
        self._server = ref(server)
        self._model = model
        self._find_field = find_field
        self.takes_names = takes_names
        self.before = before
        self.is_many = is_many
        self.key = key

    def copy(self, **changes: Any) -> RelationText:
        """Return the same description with other values of `takes_names`, `before`, `is_many` or `key`."""
        changed = copy(self)
        vars(changed).update(changes)
        return changed

    def __deepcopy__(self, _memo: Any) -> RelationText:
        # It is changed only before a schema has it.
        return self

    def __str__(self) -> str:
        return self.for_caller(lambda _tool: True)

    def narrow(self, schema: JSONObject) -> JSONObject:
        """Return the schema of the argument as it is published: of keys alone, if nothing shows a name.

        Only once all tools are registered is it known whether one of them shows the names.
        """
        key = self.key or {}
        # A key that is no integer is a text, as a name is.
        is_integer = key.get("type") == "integer" or "anyOf" in key
        if not (self.takes_names and is_integer) or self._find_field() is not None:
            return schema
        if self.is_many:
            return {**schema, "items": _of_keys(schema["items"], key)}
        return _of_keys(schema, key)

    def for_caller(self, sees: Sees) -> str:
        """Return the text for a caller, which names the tool that finds the objects if the caller sees it."""
        server = self._server()
        known = {} if server is None else _finders.get(server, {})
        tools = known.get(self._model._meta.concrete_model, {})
        finder = next((told for tool, told in tools.items() if sees(tool)), None)
        field = self._find_field() if self.takes_names else None
        parts = []
        if field is not None:
            parts.append(f"{'keys' if self.is_many else 'key'} or {field.name}")
        if finder is not None:
            parts.append(f"from {finder}")
        if self.takes_names and not parts:
            # The type of the argument is that of names, and this caller knows none.
            parts.append("keys" if self.is_many else "key")
        told = " ".join(parts)
        told = told[:1].upper() + told[1:]
        before = read_for(sees, self.before).rstrip()
        if not (told and before):
            return before or told
        return f"{before} {told}." if before[-1] in ".?!:" else f"{before}. {told}."


def _of_keys(schema: JSONObject, key: JSONObject) -> JSONObject:
    """Return a schema of keys or names with the types of a key alone, and with null if it had that."""
    rest = {keyword: each for keyword, each in schema.items() if keyword not in ("anyOf", "type")}
    null = {"type": "null"}
    if null in schema.get("anyOf", ()):
        # Without a list of types, which some clients do not read.
        return {"anyOf": [*key.get("anyOf", [key]), null], **rest}
    return {**(or_null(key) if "null" in schema.get("type", ()) else key), **rest}
