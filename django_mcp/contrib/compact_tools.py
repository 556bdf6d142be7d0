"""A few tools for the objects of many models, in place of several tools for each model.

A call of one of them stands for the call of the single tool of the model, which is registered and not listed. So
the single tool's rules, limits, confirmations and records hold, and staff disable it by its own name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from django.db.models import Model
from django.utils.translation import gettext as _

from django_mcp.context import Context
from django_mcp.contrib.all_or_nothing import all_or_nothing, saves_state
from django_mcp.contrib.generated import COMPACT, GeneratedFunction
from django_mcp.protocol.json import JSONObject, to_pointer
from django_mcp.registry.caller_texts import Sees, SeesAlone
from django_mcp.registry.entries import Find, ToolEntry
from django_mcp.registry.listed import Listed
from django_mcp.registry.object_schemas import object_schema
from django_mcp.registry.problems import (
    ArgumentErrors,
    Problem,
    RegistrationError,
    find_near_to_sent,
)
from django_mcp.servers import MCPServer

_RUN = "run"
"""To run an action of the admin; whatever else tools do, models' own tools do."""

_KEY: JSONObject = {"anyOf": [{"type": "integer"}, {"type": "string"}]}
_MODEL: JSONObject = {"type": "string", "description": "As list_models names it."}
_FIELDS: JSONObject = {"type": "object", "description": "As describe_model says."}
_CHOSEN: JSONObject = {
    "type": "array",
    "items": {"type": "string"},
}
_COLUMNS: JSONObject = {"type": "array", "items": {"type": "string"}}
_CONFIRMATION: JSONObject = {"type": "string", "description": "From a first call"}


@dataclass
class _Of:
    """The tools of one model.

    Attributes:
        model: the model.
        key: the name of the argument that says which object is meant.
        tools: their names, by what they do.
        runs: which of these are actions of the admin.
    """

    model: type[Model]
    key: str
    tools: dict[str, str] = field(default_factory=dict)
    runs: set[str] = field(default_factory=set)

    def kind_of(self, action: str) -> str:
        """Return which of the few tools does something with the model."""
        return _RUN if action in self.runs else action


class CompactTools:
    """Registers the few tools on a server, as the tools of models are added."""

    def __init__(self, server: MCPServer) -> None:
        self._models: dict[str, _Of] = {}
        self._names: set[str] = set()
        self._add(server, "list_models", self._list, None, {}, "List the models.")
        self._add(
            server,
            "describe_model",
            self._describe,
            None,
            {"model": _MODEL, "action": {"type": "string"}},
            "Say what can be done with a model, and which values that takes.",
            ["model"],
        )

    def add(
        self,
        server: MCPServer,
        model: type[Model],
        action: str,
        entry: ToolEntry,
        key: str,
        *,
        is_run: bool,
    ) -> None:
        """Add a tool that is registered.

        Args:
            server: has the tool.
            model: the model.
            action: what the tool does.
            entry: the tool.
            key: the name of the argument that says which object is meant.
            is_run: whether it is an action of the admin.

        Raises:
            RegistrationError: another tool does that with the model.
        """
        label = model._meta.label_lower
        about = self._models.setdefault(label, _Of(model, key))
        if action in about.tools:
            raise RegistrationError(
                f"{entry.source}: {about.tools[action]!r} does {action!r} with {label} already. "
                f"Only one of them can have style='compact'."
            )
        kind = _RUN if is_run else action
        name = _NAMES[kind]
        if name not in self._names:
            properties, required, text = _TOOLS[kind]
            self._add(server, name, None, kind, properties, text, required)
        about.tools[action] = entry.name
        if is_run:
            about.runs.add(action)

    def save(self) -> Callable[[], object]:
        """Note the tools, and return what removes those that are added from now on."""
        names = set(self._names)
        models = {
            label: replace(about, tools=dict(about.tools), runs=set(about.runs))
            for label, about in self._models.items()
        }
        return lambda: vars(self).update(_names=names, _models=models)

    def _add(
        self,
        server: MCPServer,
        name: str,
        run: Callable[[Context, dict[str, Any]], Any] | None,
        kind: str | None,
        properties: Mapping[str, JSONObject],
        text: str,
        required: Sequence[str] = (),
    ) -> None:
        function = GeneratedFunction(run or _run_nothing, type(self), name, origin=COMPACT)
        function.leads_to = partial(self._lead, kind)
        if kind is not None:
            function.redirect = lambda arguments, find: self._find_call(kind, arguments, find)
        is_reading = kind in (None, "search", "get", "summarize")
        server.register_tool(
            function,
            name=name,
            description=text,
            input_schema=object_schema(properties, required=required),
            output_schema=None,
            validate_input=True,
            read_only=is_reading,
            destructive=kind in ("update", "update_many", "delete", _RUN),
            idempotent=kind in ("update", "update_many", "delete") or is_reading,
            open_world=False,
        )
        self._names.add(name)

    def _lead(self, kind: str | None) -> list[str]:
        """Return the names of the single tools to which one of the few leads; None: all."""
        return [
            name
            for about in self._models.values()
            for action, name in about.tools.items()
            if kind in (None, about.kind_of(action))
        ]

    # -- what they do

    def _list(self, ctx: Context, _arguments: dict[str, Any]) -> JSONObject:
        seen = ctx.tools
        return {
            "models": [
                {
                    "model": label,
                    "name": str(about.model._meta.verbose_name_plural),
                    "actions": actions,
                }
                for label, about in self._models.items()
                if (actions := [action for action, name in about.tools.items() if name in seen])
            ]
        }

    def _describe(self, ctx: Context, arguments: dict[str, Any]) -> JSONObject:
        seen = ctx.tools
        about = self._find_model(arguments["model"], seen.get)
        chosen = arguments.get("action")
        sees = seen.get if chosen is None else SeesAlone(seen.get)
        tools = {
            action: seen[name]
            for action, name in about.tools.items()
            if name in seen and chosen in (None, action)
        }
        if not tools:
            offered = [action for action, name in about.tools.items() if name in seen]
            raise _wrong("action", _("There is no such action."), chosen, offered)

        def keep(kept: int) -> JSONObject:
            told = _(
                "These actions would make the result too large: %(names)s. Ask for one with action."
            )
            return {"note": told % {"names": ", ".join(list(tools)[kept:])}}

        described = {
            "model": about.model._meta.label_lower,
            "actions": {
                action: {
                    "tool": _NAMES[about.kind_of(action)],
                    "description": str(entry.description),
                    "arguments": self._arguments_of(action, about, entry, sees),
                }
                for action, entry in tools.items()
            },
        }
        return Listed(described, "actions", keep)

    def _arguments_of(self, action: str, about: _Of, entry: ToolEntry, sees: Sees) -> JSONObject:
        """Return the input schema of a single tool, in the form that its compact tool takes."""
        schema = entry.published(entry.input_schema, sees)
        inside = _INSIDE.get(action)
        if inside is None:
            return schema
        properties = schema["properties"]
        outside = {**_TOOLS[action][0], about.key: None}
        values = {name: each for name, each in properties.items() if name not in outside}
        required = [name for name in schema.get("required", ()) if name in values]
        more = {"required": required} if required else {}
        described = {"type": "object", "properties": values, **more}
        definitions = {key: schema[key] for key in ("$defs",) if key in schema}
        shown = {name: properties[name] for name in _TOOLS[action][0] if name in properties}
        if about.key in properties:
            shown["id"] = properties[about.key]
        return {"type": "object", "properties": {**shown, inside: described}, **definitions}

    def _find_model(self, label: str, find: Find) -> _Of:
        """Return the tools of a model of which the caller sees any."""
        about = self._models.get(label.lower())
        if about is not None and any(map(find, about.tools.values())):
            return about
        seen = [each for each, of in self._models.items() if any(map(find, of.tools.values()))]
        raise _wrong("model", _("There is no such model."), label, seen)

    def _find_call(self, kind: str, arguments: JSONObject, find: Find) -> tuple[str, JSONObject]:
        """Return the name and the arguments of the single tool that a call stands for."""
        rest = dict(arguments)
        label = rest.pop("model")
        action = rest.pop("action") if kind == _RUN else kind
        about = self._models.get(label.lower())
        name = None if about is None else about.tools.get(action)
        entry = None if name is None else find(name)
        if about is None or entry is None or about.kind_of(action) != kind:
            # Only one who is refused needs to know what else there is.
            raise self._refuse(kind, label, action, find)
        properties = entry.form_schema["properties"]
        if "id" in rest:
            rest = {about.key: _as_key(rest.pop("id"), properties.get(about.key, {})), **rest}
        if "ids" in rest:
            items = properties.get("ids", {}).get("items", {})
            rest["ids"] = [_as_key(key, items) for key in rest["ids"]]
        inside = _INSIDE.get(action)
        if inside is not None:
            values = rest.pop(inside, {})
            for given in values.keys() & {about.key, *_TOOLS[action][0]}:
                if given in rest or given == about.key:
                    raise ArgumentErrors(
                        [Problem(to_pointer([inside, given]), _("Give it beside, not inside."))]
                    )
            rest = {**rest, **values}
        return entry.name, rest

    def _refuse(self, kind: str, label: str, action: str, find: Find) -> ArgumentErrors:
        """Return why a call stands for no tool that the caller sees."""
        about = self._find_model(label, find)
        told = _("This cannot be done with the model. describe_model says what can.")
        if kind != _RUN:
            return _wrong("model", told, None, ())
        offered = [each for each, name in about.tools.items() if each in about.runs and find(name)]
        return _wrong("action", told, action, offered)


def _as_key(key: Any, schema: JSONObject) -> Any:
    """Return a key as the schema of a tool takes it: models write the digits of a text as a number."""
    if schema.get("type") == "string" and type(key) is int:
        return str(key)
    return key


def _wrong(name: str, told: str, given: Any, known: Sequence[str]) -> ArgumentErrors:
    near = find_near_to_sent(given, known) if isinstance(given, str) else None
    meant = "" if near is None else f" Did you mean {near!r}?"
    return ArgumentErrors([Problem(to_pointer([name]), f"{told}{meant}")])


def _run_nothing(_ctx: Context, _arguments: dict[str, Any]) -> Any:
    raise AssertionError("another tool is called in its place")


_NAMES = {
    "search": "search_objects",
    "get": "get_object",
    "create": "create_object",
    "update": "update_object",
    "delete": "delete_object",
    "summarize": "summarize_objects",
    "update_many": "update_many_objects",
    _RUN: "run_action",
}

_INSIDE = {"search": "filters", "summarize": "filters", "create": "values", "update": "values"}
"""The argument that has, as an object, what differs between models."""

_TOOLS: Mapping[str, tuple[Mapping[str, JSONObject], Sequence[str], str]] = {
    "search": (
        {
            "model": _MODEL,
            "search": {"type": "string", "description": "Words."},
            "filters": _FIELDS,
            "fields": _CHOSEN,
            "ordering": {"type": "string", "description": "A field; - in front: descending."},
            "limit": {"type": "integer", "minimum": 1},
            "cursor": {"type": "string"},
            "count": {"type": "boolean"},
        },
        ["model"],
        "Search the objects of a model.",
    ),
    "get": (
        {"model": _MODEL, "id": _KEY, "fields": _CHOSEN},
        ["model", "id"],
        "Get one object.",
    ),
    "create": (
        {"model": _MODEL, "values": _FIELDS},
        ["model", "values"],
        "Add an object.",
    ),
    "update": (
        {"model": _MODEL, "id": _KEY, "values": _FIELDS},
        ["model", "id", "values"],
        "Change the named fields of an object.",
    ),
    "delete": (
        {
            "model": _MODEL,
            "id": {
                "anyOf": [*_KEY["anyOf"], {"type": "array", "items": _KEY}],
            },
            "confirmation": _CONFIRMATION,
        },
        ["model", "id"],
        "Delete an object or several.",
    ),
    "summarize": (
        {
            "model": _MODEL,
            "group_by": _COLUMNS,
            **dict.fromkeys(("sum", "avg", "min", "max"), _COLUMNS),
            "search": {"type": "string"},
            "filters": _FIELDS,
            "ordering": {"type": "string"},
            "limit": {"type": "integer", "minimum": 1},
        },
        ["model"],
        "Count and add up the objects of a model, in groups. describe_model names the columns.",
    ),
    "update_many": (
        {
            "model": _MODEL,
            "ids": {"type": "array", "items": _KEY},
            "filters": {"type": "object", "description": "In place of ids: as in search_objects."},
            "values": _FIELDS,
            "confirmation": _CONFIRMATION,
        },
        ["model", "values"],
        "Change the named fields of several objects, all or none.",
    ),
    _RUN: (
        {
            "model": _MODEL,
            "action": {"type": "string"},
            "ids": {"type": "array", "items": _KEY},
            "confirmation": _CONFIRMATION,
        },
        ["model", "action", "ids"],
        "Run an action with some objects.",
    ),
}
"""The arguments of the tools, the required ones, and what the tools do."""

_compact: WeakKeyDictionary[MCPServer, CompactTools] = WeakKeyDictionary()


@saves_state
def _save(server: MCPServer) -> Callable[[], object]:
    if server in _compact:
        return _compact[server].save()
    return lambda: _compact.pop(server, None)


def add_compact(
    server: MCPServer,
    model: type[Model],
    action: str,
    entry: ToolEntry,
    key: str,
    *,
    is_run: bool = False,
) -> None:
    """Let the compact tools of a server lead to a tool; the first one registers them. See `CompactTools.add`."""
    if server not in _compact:
        with all_or_nothing(server):
            _compact[server] = CompactTools(server)
    _compact[server].add(server, model, action, entry, key, is_run=is_run)
