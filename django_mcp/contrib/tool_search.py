"""`tool_search`: three tools that find and call the others, in place of a long list."""

from __future__ import annotations

from functools import partial
from typing import Any
from weakref import ref

from django.conf import settings
from django.utils.translation import gettext as _
from django.utils.translation import override

from django_mcp.context import Context
from django_mcp.contrib.all_or_nothing import all_or_nothing
from django_mcp.contrib.generated import GeneratedFunction
from django_mcp.protocol.json import JSONObject, to_pointer
from django_mcp.registry.caller_texts import SeesAlone
from django_mcp.registry.entries import Find, ToolEntry
from django_mcp.registry.listed import Listed
from django_mcp.registry.object_schemas import object_schema
from django_mcp.registry.problems import ArgumentErrors, Problem, find_near_to_sent
from django_mcp.registry.search_index import SearchIndex
from django_mcp.servers import MCPServer, choose_server

MAX_FOUND = 20
"""Tools in one answer at most."""

_CALL: JSONObject = {
    "name": {"type": "string", "description": "As find_tools says."},
    "arguments": {"type": "object", "description": "As find_tools says."},
}


def tool_search(server: MCPServer | None = None) -> list[ToolEntry]:
    """Let a server list three tools alone: `find_tools`, `run_read_tool` and `run_write_tool`.

    Each call of the last two is a call of the tool that it names: that tool's permissions, limits and
    confirmations apply, and records name it. The others are not listed, but can be called by their names.

    Args:
        server: gets the tools; by default the default server.

    Returns:
        The three tools.

    Raises:
        RegistrationError: there is a tool of one of these names.
    """
    server = choose_server(server)
    search = _ToolSearch(server)
    with all_or_nothing(server):
        return [
            search.register(
                server,
                "find_tools",
                description="Find tools by words, with their arguments. Then call them with run_read_tool or "
                "run_write_tool.",
                properties={
                    "query": {
                        "type": "string",
                        "maxLength": 1000,
                        "description": "Words; one is enough.",
                    },
                    "limit": {"type": "integer", "minimum": 1, "maximum": MAX_FOUND, "default": 5},
                },
                required=["query"],
            ),
            search.register(
                server,
                "run_read_tool",
                description="Call a tool that only reads.",
                properties=_CALL,
                required=["name"],
                is_reading=True,
            ),
            search.register(
                server,
                "run_write_tool",
                description="Call a tool that may write.",
                properties=_CALL,
                required=["name"],
                is_reading=False,
            ),
        ]


class _ToolSearch:
    def __init__(self, server: MCPServer) -> None:
        # The server holds its tools, and these hold no server that is not used any more.
        self._server = ref(server)
        self._kept: tuple[object, SearchIndex] | None = None

    def register(
        self,
        server: MCPServer,
        name: str,
        *,
        description: str,
        properties: JSONObject,
        required: list[str],
        is_reading: bool | None = None,
    ) -> ToolEntry:
        function = GeneratedFunction(self._find, type(self), name, origin="search")
        function.leads_to = partial(self._list, is_reading=is_reading)
        function.is_only_listed = True
        if is_reading is not None:
            function.redirect = partial(self._find_call, is_reading=is_reading)
        return server.register_tool(
            function,
            name=name,
            description=description,
            input_schema=object_schema(properties, required=required),
            output_schema=None,
            validate_input=True,
            read_only=is_reading is not False,
            open_world=False,
        )

    def _tools(self) -> dict[str, ToolEntry]:
        """Return the tools that can be found."""
        server = self._server()
        tools = {} if server is None else server._registry.tools
        return {name: tool for name, tool in tools.items() if tool.leads_to is None}

    def _list(self, *, is_reading: bool | None) -> list[str]:
        return [
            name
            for name, tool in self._tools().items()
            if is_reading in (None, tool.annotations["readOnlyHint"])
        ]

    def _find(self, ctx: Context, arguments: dict[str, Any]) -> JSONObject:
        seen = ctx.tools
        names = self._index().find(arguments["query"], seen, arguments.get("limit", 5))
        tools = [
            {
                "name": name,
                "description": str(seen[name].description or ""),
                "arguments": seen[name].published(seen[name].input_schema, SeesAlone(seen.get)),
                "call_with": "run_read_tool"
                if seen[name].annotations["readOnlyHint"]
                else "run_write_tool",
            }
            for name in names
        ]

        def keep(kept: int) -> JSONObject:
            told = _(
                "These tools would make the result too large: %(names)s. Search for one by its name, with limit 1."
            )
            return {"note": told % {"names": ", ".join(names[kept:])}}

        if tools:
            return Listed({"tools": tools}, "tools", keep)
        return {"tools": [], "note": _("No tool has any of these words. Try others.")}

    def _index(self) -> SearchIndex:
        """Return the index of the tools as they are now, in the language of the site."""
        tools = self._tools()
        state = tuple(tools.items())
        kept = self._kept
        if kept is None or kept[0] != state:
            # One for each language would let clients decide how often it is made.
            with override(settings.LANGUAGE_CODE):
                kept = self._kept = (state, SearchIndex(tools.values()))
        return kept[1]

    def _find_call(
        self, arguments: JSONObject, find: Find, *, is_reading: bool
    ) -> tuple[str, JSONObject]:
        name = arguments["name"]
        tool = find(name)
        if tool is None or tool.leads_to is not None:
            seen = [each for each in self._tools() if find(each) is not None]
            told = _("There is no such tool. find_tools finds them.")
            near = find_near_to_sent(name, seen)
            raise _wrong(told if near is None else f"{told} Did you mean {near!r}?")
        if tool.annotations["readOnlyHint"] is not is_reading:
            other = "run_write_tool" if is_reading else "run_read_tool"
            raise _wrong(_("Call it with %(tool)s.") % {"tool": other})
        return name, arguments.get("arguments") or {}


def _wrong(told: str) -> ArgumentErrors:
    return ArgumentErrors([Problem(to_pointer(["name"]), told)])
