"""What clients and the APIs of models accept of a tool's schema, as rules with their sources.

`python -m tests.support.client_schemas` prints what they would refuse of the tools of a site.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django_mcp.known_servers import known_servers
from django_mcp.protocol.json import to_pointer
from django_mcp.protocol.subschemas import walk


def violations(schema: Any) -> list[str]:
    """Return what any of the clients would refuse of a schema, with the place of each."""
    references = [
        node["$ref"] for _, _, node in walk(schema) if isinstance(node, dict) and "$ref" in node
    ]
    found = [
        f"{to_pointer(place)}: {problem}"
        for place, _, node in walk(schema)
        if isinstance(node, dict)
        for rule in (_vscode, _gemini, _openai)
        for problem in rule(node)
    ]
    return found + [
        f"/$defs/{name}: is a definition that is not shared"
        for name in schema.get("$defs", {})
        if references.count(f"#/$defs/{name}") < 2
    ]


def violations_of_servers() -> tuple[int, list[str]]:
    """Return the number of tools of all servers of this process, and what clients refuse of them."""
    tools = [tool for server in known_servers() for tool in server.registry.tools.values()]
    return len(tools), [
        f"{tool.source}: {kind} {problem}"
        for tool in tools
        for kind, schema in (("input", tool.input_schema), ("output", tool.output_schema))
        if schema is not None
        for problem in violations(tool.published(schema))
    ]


def _vscode(node: dict[str, Any]) -> Iterator[str]:
    # Source: microsoft/vscode#246119, "tool parameters array type must have items".
    if node.get("type") == "array" and not isinstance(node.get("items"), dict):
        yield "VS Code: an array without items"


def _gemini(node: dict[str, Any]) -> Iterator[str]:
    # Source: the page ai.google.dev/api/caching#Schema says that a type is one value of an enum.
    if isinstance(node.get("type"), list):
        yield "Gemini: a list of types"
    # Source: google-gemini/gemini-cli#2237, "only 'enum' and 'date-time' are supported for STRING type".
    if node.get("format", "date-time") not in ("enum", "date-time"):
        yield f"Gemini: the format {node['format']}"
    # Source: google-gemini/gemini-cli#4400, "schema didn't specify the schema type field".
    if "enum" in node and not isinstance(node.get("type"), str):
        yield "Gemini: an enum without a type"
    # Source: Gemini API, `parametersJsonSchema`: "If `$ref` is set on a sub-schema, no other
    # properties, except for than those starting as a `$`, may be set."
    if "$ref" in node and any(not key.startswith("$") for key in node):
        yield "Gemini: keywords beside a reference"


_OPENAI_FORMATS = {
    *("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"),
}


def _openai(node: dict[str, Any]) -> Iterator[str]:
    # Source: developers.openai.com/api/docs/guides/structured-outputs, "Supported schemas".
    if "format" in node and (node["format"] not in _OPENAI_FORMATS or node.get("type") != "string"):
        yield f"OpenAI: the format {node['format']}"
    # Source: the API's error "array schema missing items".
    if node.get("type") == "array" and "items" not in node:
        yield "OpenAI: an array without items"


if __name__ == "__main__":
    import django

    django.setup()
    count, found = violations_of_servers()
    print(f"{count} tools", *found, sep="\n")
    raise SystemExit(bool(found))
