"""The calls that elements of a page make, and the arguments that their tools do not have.

Only what stands in the page is known: what a template or a script makes of it is left alone.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping

from django.utils.text import smart_split
from msgspec import Struct

from django_mcp.protocol.json import JSONDecodeError, decode
from django_mcp.registry.entries import Entry, ToolEntry

_NAME = re.compile(r"""\bdata-mcp-(?:call|form)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'<>=`]+))""")
_TAG = re.compile(r"<[A-Za-z][^<>]*>")
_ARGUMENTS = re.compile(r"\{%-?\s*mcp_args\s(.*?)%\}")
_ID = re.compile(r"#([\w-]+)")


class Call(Struct, frozen=True):
    """A call of an element.

    Attributes:
        tool: its name.
        arguments: their names.
        inputs: the ids of inputs whose values are arguments, too.
    """

    tool: str
    arguments: frozenset[str] = frozenset()
    inputs: frozenset[str] = frozenset()


def find_called(text: str) -> set[str]:
    """Return the names of tools in `data-mcp-call` and `data-mcp-form`, of a page or of a template's source.

    A name that a template makes is in its syntax, such as `{{ name }}`.
    """
    return {"".join(match.groups("")) for match in _NAME.finditer(text)}


def read_call(given: Mapping[str, str]) -> Call | None:
    """Return the call of an element with these attributes; None: it makes none."""
    tool = given.get("data-mcp-call") or given.get("data-mcp-form")
    if not tool:
        return None
    arguments = {*(read_arguments(given.get("data-mcp-args", "{}")) or ())}
    if given.get("data-mcp-into"):
        arguments.add(given["data-mcp-into"])
    parts = [part.strip() for part in given.get("data-mcp-with", "").split(",")]
    inputs = [match[1] for part in parts if (match := _ID.fullmatch(part))]
    return Call(tool, frozenset(arguments), frozenset(inputs))


def read_arguments(text: str) -> Collection[str] | None:
    """Return the names in `data-mcp-args`; None: it is no JSON object."""
    try:
        found = decode(text.encode())
    except JSONDecodeError:
        return None
    return found.keys() if isinstance(found, dict) else None


def find_calls(source: str) -> Iterator[Call]:
    """Yield the calls in the source of a template whose arguments `{% mcp_args %}` names."""
    for match in _TAG.finditer(source):
        tools, arguments = find_called(match[0]), _ARGUMENTS.findall(match[0])
        # An element with several has conditions.
        if len(tools) == len(arguments) == 1:
            names = [bit.partition("=")[0] for bit in smart_split(arguments[0]) if "=" in bit]
            yield Call(tools.pop(), frozenset(names))


def find_unknown_arguments(
    calls: Iterable[Call], inputs: Mapping[str, str], tools: Mapping[str, Entry]
) -> dict[tuple[str, str], Collection[str]]:
    """Return the tools and arguments of calls that these tools do not take, with those that they take.

    Args:
        calls: of a page.
        inputs: the names of its inputs, by id.
        tools: by name. What a tool takes is not known if its schema is open.
    """
    unknown: dict[tuple[str, str], Collection[str]] = {}
    for call in calls:
        tool = tools.get(call.tool)
        schema = tool.input_schema if isinstance(tool, ToolEntry) else {}
        if schema.get("additionalProperties") is False and "patternProperties" not in schema:
            known = schema.get("properties", {}).keys()
            given = call.arguments | {inputs[each] for each in call.inputs if inputs.get(each)}
            unknown.update(((call.tool, name), known) for name in sorted(given - known))
    return unknown
