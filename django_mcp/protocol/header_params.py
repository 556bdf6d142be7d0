"""Find the arguments of a tool that clients repeat in HTTP headers (`x-mcp-header`).

This module checks annotations in schemas; `headers` checks requests against them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import Struct

from django_mcp.protocol.json import to_pointer
from django_mcp.protocol.names import is_token
from django_mcp.protocol.subschemas import walk

ANNOTATION = "x-mcp-header"
"""The schema keyword that names a header."""

PARAM_PREFIX = "Mcp-Param-"
"""Precedes the annotated name in the header."""

_TYPES = ("string", "integer", "boolean")


class HeaderParam(Struct, frozen=True, kw_only=True):
    """One argument that is repeated in a header.

    Attributes:
        path: the keys that lead to it in the arguments, outermost first.
        header: the whole header name as published, `"Mcp-Param-Region"`.
    """

    path: tuple[str, ...]
    header: str

    @property
    def pointer(self) -> str:
        """The place of the argument, as a JSON Pointer."""
        return to_pointer(self.path)


@dataclass(frozen=True, slots=True)
class McpHeader:
    """Make clients repeat an argument in a header: `Annotated[str, McpHeader("Region")]`.

    A gateway can then route or count calls by the header without reading the body. Headers end up
    in access logs, so never annotate a secret.

    The keyword is only allowed on a property whose type is string, integer or boolean. The hook for
    pydantic therefore rewrites the schema of the annotated type:

    - `{"anyOf": [X, {"type": "null"}]}`, which is `Optional[X]`, becomes X, with what was beside
      `anyOf`. This schema does not accept null, so nulls of optional arguments have to be left out
      before validation.
    - a reference to a definition, which is an Enum, becomes a copy of the definition.
    - `x-mcp-header` is added.

    Other types (a float, a list, a union) keep their form, and `header_params` rejects them. Put the
    annotation outside of the Optional: `Annotated[str | None, McpHeader("Region")]`.

    Source: 2026-07-28 server/tools, "x-mcp-header".
    """

    name: str

    def __get_pydantic_json_schema__(self, core_schema: Any, handler: Any) -> dict[str, Any]:
        """Return the schema of the annotated type with the keyword added."""
        schema = dict(handler(core_schema))
        branches = schema.get("anyOf", [])
        others = [branch for branch in branches if branch != {"type": "null"}]
        if len(others) == 1 < len(branches):
            del schema["anyOf"]
            schema = {**others[0], **schema}
        if "$ref" in schema:
            definition = handler.resolve_ref_schema(schema)
            del schema["$ref"]
            schema = {**definition, **schema}
        schema[ANNOTATION] = self.name
        return schema


def header_params(schema: object) -> tuple[HeaderParam, ...]:
    """Return the arguments of an input schema that are repeated in headers, in schema order.

    Args:
        schema: a tool's input schema; any JSON value is accepted.

    Raises:
        ValueError: an annotation is in a place that the protocol does not allow, its name is
            taken or not valid, or a header cannot hold its property's type. The text says where,
            and what to do.

    Source: 2026-07-28 server/tools, "x-mcp-header"; the rule on underscores is ours.
    """
    params: dict[str, HeaderParam] = {}
    for place, _, node in walk(schema):
        if not isinstance(node, dict) or ANNOTATION not in node:
            continue
        if not place or len(place) % 2 or set(place[::2]) != {"properties"}:
            raise ValueError(
                f"{ANNOTATION} at {to_pointer(place) or 'the root'} is not on a property of the arguments: it may only be "
                "reached through `properties`, not through $ref, $defs, items or a combination. "
                "Write the property's schema in place"
            )
        param = _to_param(tuple(map(str, place[1::2])), node)
        other = params.setdefault(param.header.lower(), param)
        if other is not param:
            raise ValueError(
                f"{ANNOTATION} {node[ANNOTATION]!r} at {param.pointer} is used at {other.pointer} "
                "already, and header names do not differ by case. Choose another name"
            )
    return tuple(params.values())


def _to_param(path: tuple[str, ...], node: Mapping[str, Any]) -> HeaderParam:
    name = node[ANNOTATION]
    where = f"{ANNOTATION} {name!r} at {to_pointer(path)}"
    if not isinstance(name, str) or not is_token(name):
        raise ValueError(
            f"{where} is not a header name. Use letters, digits and hyphens, such as 'Region'"
        )
    if "_" in name:
        # Web servers drop such headers, or treat `_` and `-` as the same.
        raise ValueError(
            f"{where} has an underscore, and web servers drop such headers. "
            f"Write {name.replace('_', '-')!r}"
        )
    if node.get("type") not in _TYPES:
        raise ValueError(
            f"{where} is on a property of type {node.get('type')!r}. Only a string, integer or "
            "boolean fits into a header: give the property that one type (an optional one as "
            "Annotated[str | None, McpHeader(...)]), or drop the annotation"
        )
    return HeaderParam(path=path, header=PARAM_PREFIX + name)
