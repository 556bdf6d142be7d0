"""Write a checked schema in the part of JSON Schema that the models' APIs and the clients accept.

It admits the same values. Only what is published is rewritten, when a tool is registered: values are
checked against the schema as it was. No check of values reads `format`, so leaving it out weakens none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from urllib.parse import unquote

from django_mcp.protocol.header_params import ANNOTATION
from django_mcp.protocol.json import JSONObject, is_lazy
from django_mcp.protocol.subschemas import walk, with_children
from django_mcp.registry.caller_texts import Sees, read_for

FORMATS = frozenset({"date-time"})
"""The formats of strings that both OpenAI and Gemini accept."""

_HINTS = {
    "date": "date, YYYY-MM-DD",
    "time": "time, HH:MM:SS",
    "duration": "duration of ISO 8601",
}
_DEFINITIONS = ("$defs", "definitions")
_SIBLINGS_COUNT = (
    None,
    "https://json-schema.org/draft/2019-09/schema",
    "https://json-schema.org/draft/2020-12/schema",
)
"""The dialects in which keywords beside `$ref` apply as well."""

_ANNOTATIONS = frozenset(
    {"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"}
)
_NUMERIC = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_KEYWORDS_OF = {
    "array": (
        *("items", "prefixItems", "additionalItems", "minItems", "maxItems", "uniqueItems"),
        *("contains", "minContains", "maxContains"),
    ),
    "boolean": (),
    "integer": _NUMERIC,
    "null": (),
    "number": _NUMERIC,
    "object": (
        *("properties", "patternProperties", "additionalProperties", "propertyNames", "required"),
        *("minProperties", "maxProperties", "dependentRequired", "dependentSchemas"),
        "dependencies",
    ),
    "string": (
        *("format", "pattern", "minLength", "maxLength"),
        *("contentEncoding", "contentMediaType", "contentSchema"),
    ),
}
"""The keywords that say something of values of one type only, by type."""

_OF_ONE_TYPE = frozenset(keyword for keywords in _KEYWORDS_OF.values() for keyword in keywords)


def make_portable(schema: JSONObject) -> JSONObject:
    """Return a schema of the same values that clients accept; it may hold lazy texts.

    - An array has `items`, also one of fixed items.
    - A list of types becomes `anyOf`, each type with the keywords and the values that are about it.
    - A definition that is used once stands where it is used. What is beside another reference
      goes around it.
    - Formats but those of `FORMATS` become part of the description.

    What an identifier, an anchor or a pointer into the schema could lead to stays in its place.
    """
    nodes = [node for _, _, node in walk(schema) if isinstance(node, dict)]
    changes = [_without_format]
    # What an array has beside `unevaluatedItems` decides which items it is about.
    if not any("unevaluatedItems" in node for node in nodes):
        changes.insert(0, _with_items)
    if not _may_move(schema, nodes):
        return _rewrite(schema, changes)
    if not any("$ref" in node for node in nodes) and not any(
        place in schema for place in _DEFINITIONS
    ):
        # One way through the schema is enough, as most schemas have no references.
        return _rewrite(schema, [*changes, _with_single_types])
    return _rewrite(_Inlining(_rewrite(schema, changes)).inlined(), [_with_single_types])


Change = Callable[[JSONObject], JSONObject]


def _rewrite(schema: JSONObject, changes: Sequence[Change]) -> JSONObject:
    """Return a schema with every object schema in it changed, from the inside out."""

    def rewrite(child: Any) -> Any:
        if not isinstance(child, dict):
            return child
        changed = with_children(child, rewrite)
        for change in changes:
            changed = change(changed)
        return changed

    rewritten: JSONObject = rewrite(schema)
    return rewritten


_PLACES = frozenset(
    {"$id", "id", "$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveAnchor", "$recursiveRef"}
)
"""The keywords of identifiers and anchors, and of what leads to them."""


def _may_move(schema: JSONObject, nodes: list[JSONObject]) -> bool:
    """Return whether every reference still leads to the same schema when others have moved."""
    references = [node["$ref"] for node in nodes if "$ref" in node]
    if references and schema.get("$schema") not in _SIBLINGS_COUNT:
        return False
    has_places = any(
        isinstance(node[keyword], str)
        for node in nodes
        if not _PLACES.isdisjoint(node)
        for keyword in _PLACES & node.keys()
    )
    return not has_places and all(
        reference == "#" or _find(schema, reference) is not None for reference in references
    )


def _find(root: JSONObject, reference: str) -> tuple[str, str] | None:
    """Return the place and the name of the definition that is referred to; None if it is none."""
    for place in _DEFINITIONS:
        name = reference.removeprefix(f"#/{place}/")
        if name != reference and "/" not in name:
            name = unquote(name).replace("~1", "/").replace("~0", "~")
            if name in root.get(place, {}):
                return place, name
    return None


# -- arrays


def _with_items(node: JSONObject) -> JSONObject:
    # Source: "tool parameters array type must have items" of VS Code (microsoft/vscode#246119);
    # Gemini reports a missing field likewise.
    types = node.get("type")
    if types != "array" and not (isinstance(types, list) and "array" in types):
        return node
    items, first = node.get("items"), node.get("prefixItems", [])
    if isinstance(items, dict | list):
        return node
    if items is False:
        node = {**node, "maxItems": min(node.get("maxItems", len(first)), len(first))}
    is_closed = bool(first) and node.get("maxItems", len(first) + 1) <= len(first)
    return {**node, "items": _any_of(first) if is_closed else {}}


def _any_of(schemas: list[Any]) -> JSONObject:
    """Return the schema of each of the items, for clients that do not read `prefixItems`."""
    distinct: list[Any] = []
    for schema in schemas:
        if not isinstance(schema, dict) or not schema:
            return {}
        if schema not in distinct:
            distinct.append(schema)
    only: JSONObject = distinct[0]
    return only if len(distinct) == 1 else {"anyOf": distinct}


# -- formats


def _without_format(node: JSONObject) -> JSONObject:
    # Source: "only 'enum' and 'date-time' are supported for STRING type" of Gemini
    # (google-gemini/gemini-cli#2237).
    name = node.get("format")
    types = node.get("type")
    is_string = types == "string" or (isinstance(types, list) and "string" in types)
    if not isinstance(name, str) or (name in FORMATS and is_string):
        return node
    said = f"Format: {_HINTS.get(name, name)}."
    rest = {key: value for key, value in node.items() if key != "format"}
    text = node.get("description")
    return {**rest, "description": _Joined(text, said) if is_lazy(text) else _join(text, said)}


def _join(text: Any, said: str) -> str:
    text = str(text or "").rstrip()
    if not text:
        return said
    return f"{text} {said}" if text[-1] in ".!?:" else f"{text}. {said}"


class Promise:
    """Marks a lazy text by its name, as `protocol.json.is_lazy` finds it."""


class _Joined(Promise):
    """A lazy description and what is said after it."""

    def __init__(self, text: Any, said: str) -> None:
        self._text = text
        self._said = said

    def __str__(self) -> str:
        return _join(self._text, self._said)

    def for_caller(self, sees: Sees) -> str:
        return _join(read_for(sees, self._text), self._said)


# -- definitions


class _Inlining:
    """Puts each definition of a schema that is used once where it is used."""

    def __init__(self, schema: JSONObject) -> None:
        self._root = schema
        self._uses: Counter[tuple[str, str]] = Counter()
        rest = {key: value for key, value in schema.items() if key not in _DEFINITIONS}
        pending: list[Any] = [rest]
        while pending:
            for target in self._targets(pending.pop()):
                self._uses[target] += 1
                if self._uses[target] == 1:
                    pending.append(self._definition(target))

    def _targets(self, schema: Any) -> Iterator[tuple[str, str]]:
        for _, _, node in walk(schema):
            target = _find(self._root, node["$ref"]) if _refers(node) else None
            if target is not None:
                yield target

    def _definition(self, target: tuple[str, str]) -> Any:
        place, name = target
        return self._root[place][name]

    def inlined(self) -> JSONObject:
        """Return the schema; a definition that is used more often or uses itself stays one."""
        rest = {key: value for key, value in self._root.items() if key not in _DEFINITIONS}
        kept: JSONObject = {}
        for place, name in sorted(self._uses, key=list(self._uses).index):
            if self._uses[place, name] > 1:
                definition = self._put(self._definition((place, name)))
                kept.setdefault(place, {})[name] = definition
        return {**self._put(rest), **kept}

    def _put(self, schema: Any) -> Any:
        if not isinstance(schema, dict):
            return schema
        node = with_children(schema, self._put)
        if not _refers(node):
            return node
        target = _find(self._root, node["$ref"])
        beside = {key: value for key, value in node.items() if key != "$ref"}
        if target is None or self._uses[target] > 1:
            return _alone(node["$ref"], beside)
        definition = self._put(self._definition(target))
        if not beside:
            return definition
        if isinstance(definition, dict) and (
            beside.keys() <= _ANNOTATIONS or not (definition.keys() - _ANNOTATIONS)
        ):
            return {**definition, **beside}
        return {**beside, "allOf": [*beside.get("allOf", ()), definition]}


def _refers(node: Any) -> bool:
    return isinstance(node, dict) and isinstance(node.get("$ref"), str)


def _alone(reference: str, beside: JSONObject) -> JSONObject:
    """Return a reference with nothing beside it but what begins with `$`."""
    # Source: Gemini API, `parametersJsonSchema` and `responseJsonSchema`: "If `$ref` is set on a
    # sub-schema, no other properties, except for than those starting as a `$`, may be set."
    if all(key.startswith("$") for key in beside):
        return {"$ref": reference, **beside}
    if "anyOf" in beside:
        return {**beside, "allOf": [*beside.get("allOf", ()), {"$ref": reference}]}
    return {"anyOf": [{"$ref": reference}], **beside}


# -- types


def _with_single_types(node: JSONObject) -> JSONObject:
    types = node.get("type")
    if isinstance(types, str):
        return node
    if types is None:
        # Gemini takes `enum` only of a type that is named.
        values = node.get("enum")
        if not isinstance(values, list) or not node.keys().isdisjoint({"$ref", "allOf", "anyOf"}):
            return node
        types = list(dict.fromkeys(map(_type_of, values)))
    if "number" in types:
        types = [name for name in types if name != "integer"]
    branches = [branch for name in types if (branch := _branch(node, name)) is not None]
    if not branches or any(map(_has_header, walk(node))):
        # No value fits, or clients look for a header where it is.
        return node
    kept = {
        key: value
        for key, value in node.items()
        if key not in ("type", "enum", "const") and key not in _OF_ONE_TYPE
    }
    if len(branches) == 1:
        return {**branches[0], **kept}
    if "anyOf" in kept:
        return {**kept, "allOf": [*kept.get("allOf", ()), {"anyOf": branches}]}
    return {"anyOf": branches, **kept}


def _has_header(place: tuple[Any, int, Any]) -> bool:
    return isinstance(place[2], dict) and ANNOTATION in place[2]


def _branch(node: JSONObject, name: str) -> JSONObject | None:
    """Return what a schema says of the values of one type; None if it admits none of them."""
    branch: JSONObject = {"type": name}
    branch.update((key, node[key]) for key in _KEYWORDS_OF[name] if key in node)
    if "enum" in node:
        branch["enum"] = [value for value in node["enum"] if _is_of(value, name)]
        if not branch["enum"]:
            return None
        if name == "null":
            del branch["enum"]
    if "const" in node:
        if not _is_of(node["const"], name):
            return None
        branch["const"] = node["const"]
    return branch


def _type_of(value: Any) -> str:
    if value is None:
        return "null"
    for kind, name in ((bool, "boolean"), (int, "integer"), (float, "number"), (dict, "object")):
        if isinstance(value, kind):
            return name
    return "array" if isinstance(value, list | tuple) else "string"


def _is_of(value: Any, name: str) -> bool:
    own = _type_of(value)
    if own == "number" and name == "integer":
        return bool(value == int(value))
    return own == name or (own == "integer" and name == "number")
