"""Read arguments that do not fit their schema, but have one meaning that does.

Models often send JSON inside a string, and null for an argument that they leave out. A value is read
as another type only where the schema does not admit its own type, so that nothing is guessed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from django_mcp.protocol.json import (
    MAX_DEPTH,
    JSONDecodeError,
    JSONObject,
    JSONValue,
    decode,
    has_more_values,
    is_deeper_than,
    weigh,
)
from django_mcp.protocol.records import Record

MAX_STEPS = 500_000
"""Values and schemas that may be looked at for the arguments of one call: about half a second."""

BRIEF_STEPS = 10_000
"""The same on an event loop: about 10 ms."""

MAX_REFERENCES = 20
"""References that may lead to one another."""

MAX_ARGUMENTS_DEPTH = MAX_DEPTH - 2
"""Levels of nesting that arguments have at most in a message, and so at most when they are read."""

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_WORDS = {"true": True, "false": False}
_ALL = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
_STRUCTURES = {"[": "array", "{": "object"}


class Coerced(Record):
    """Arguments as they were read.

    Attributes:
        arguments: all of them, in new objects where something differs.
        names: the arguments of the schema that differ from what the client sent, in order.
        has_dropped: whether others were left out.
    """

    arguments: JSONObject
    names: tuple[str, ...]
    has_dropped: bool


def coerce(
    arguments: JSONObject,
    schema: JSONObject,
    *,
    defaulted: Collection[str] = (),
    reads_values: bool = True,
    drops_unknown: bool = False,
    has_own_references: bool = False,
    max_values: int,
    max_steps: int = BRIEF_STEPS,
) -> Coerced | None:
    """Return arguments that are read by their schema; None if nothing changes, or a limit is reached.

    They have to be validated again. Read are, where the schema does not admit a string: a string of JSON
    for a list or an object, a string that is exactly a JSON number, `true` or `false`. A null
    counts as absent where null is not admitted and there is a default.

    Args:
        defaulted: arguments that have a default, and for which a null counts as absent. Inside of an
            argument, the schema says what has one.
        reads_values: whether texts and nulls are converted.
        drops_unknown: whether members that the schema forbids are left out.
        has_own_references: whether references lead elsewhere than they seem to, as with `$id`.
        max_values: how many values the strings may hold together.
        max_steps: how many values and schemas may be looked at.
    """
    reading = _CoercingReader(
        None if has_own_references else schema,
        defaulted,
        max_values,
        max_steps,
        reads_values=reads_values,
        drops_unknown=drops_unknown,
    )
    try:
        read = reading.read(arguments, schema, depth=0)
    except _TooMuch:
        return None
    if read is arguments:
        return None
    changed = [name for name in arguments if read.get(name, _ABSENT) is not arguments[name]]
    known = schema.get("properties", {})
    names = tuple(name for name in changed if name in known)
    return Coerced(read, names, has_dropped=len(names) < len(changed))


_ABSENT = object()


class _TooMuch(Exception):
    """The arguments, or their schema, are too large or too deep."""


class _CoercingReader:
    """The reading of the arguments of one call."""

    def __init__(
        self,
        root: JSONObject | None,
        defaulted: Collection[str],
        max_values: int,
        max_steps: int,
        *,
        reads_values: bool,
        drops_unknown: bool,
    ) -> None:
        self._root = root
        self._defaulted = defaulted
        self._values_left = max_values
        self._reads_values = reads_values
        self._drops_unknown = drops_unknown
        self._steps_left = max_steps
        self._known: dict[int, frozenset[str]] = {}

    def read(self, value: JSONValue, schema: Any, depth: int) -> JSONValue:
        """Return a value as the schema has it: the same object if it stays as it is."""
        if type(value) is str and self._reads_values:
            types = self._types(schema)
            if "string" in types:
                return value
            value = self._read_text(value, types, depth)
        if type(value) is dict:
            for part in self._applying(schema, value, "object"):
                value = self._read_members(value, part, depth)
        elif type(value) is list:
            for applied in self._applying(schema, value, "array"):
                value = self._read_items(value, applied, depth)
        return value

    def _read_text(self, text: str, types: frozenset[str], depth: int) -> JSONValue:
        if text in _WORDS and "boolean" in types:
            return _WORDS[text]
        is_number = "integer" in types and _NUMBER.fullmatch(text) is not None
        if not is_number and _STRUCTURES.get(text.lstrip(" \t\r\n")[:1]) not in types:
            return text
        data = text.encode("utf-8", "surrogatepass")
        if has_more_values(data, self._values_left):
            raise _TooMuch
        self._values_left -= weigh(data)
        try:
            value = decode(data)
        except JSONDecodeError:
            return text
        if is_deeper_than(value, MAX_ARGUMENTS_DEPTH - depth):
            raise _TooMuch
        return value

    def _read_members(self, value: JSONObject, schema: JSONObject, depth: int) -> JSONObject:
        properties, extra = schema.get("properties", {}), schema.get("additionalProperties", True)
        required, is_open = schema.get("required", ()), "patternProperties" in schema
        read = value
        for name, member in value.items():
            self._step()
            known = properties.get(name)
            if known is None and (is_open or not isinstance(extra, dict)):
                member_read = (
                    _ABSENT if self._drops_unknown and extra is False and not is_open else member
                )
            elif (
                member is None
                and self._reads_values
                and known is not None
                and name not in required
                and (
                    name in self._defaulted
                    if depth == 0
                    else isinstance(known, dict) and "default" in known
                )
                and "null" not in self._types(known)
            ):
                member_read = _ABSENT
            else:
                member_read = self.read(member, extra if known is None else known, depth + 1)
            if member_read is not member:
                if read is value:
                    read = dict(value)
                if member_read is _ABSENT:
                    del read[name]
                else:
                    read[name] = member_read
        return read

    def _read_items(self, value: list[Any], schema: JSONObject, depth: int) -> list[Any]:
        first, rest = schema.get("prefixItems", ()), schema.get("items", True)
        if not first and not isinstance(rest, dict):
            return value
        read = value
        for at, item in enumerate(value):
            self._step()
            item_read = self.read(item, first[at] if at < len(first) else rest, depth + 1)
            if item_read is not item:
                if read is value:
                    read = list(value)
                read[at] = item_read
        return read

    def _applying(self, schema: Any, value: Any, kind: str) -> Iterator[JSONObject]:
        """Yield the schemas that certainly apply to a value: of alternatives, only the one that is left."""
        pending = [schema]
        while pending:
            self._step()
            each = pending.pop()
            if not isinstance(each, dict):
                continue
            yield each
            if "$ref" in each:
                pending.append(self._resolve(each["$ref"]))
            pending.extend(each.get("allOf", ()))
            for key in ("anyOf", "oneOf"):
                fitting = [
                    branch
                    for branch in each.get(key, ())
                    if kind in self._types(branch) and self._has_tags_of(branch, value)
                ]
                if len(fitting) == 1:
                    pending += fitting

    def _has_tags_of(self, schema: Any, value: Any) -> bool:
        """Return whether the members of an object have the only values that a schema admits for them."""
        if type(value) is not dict:
            return True
        for _ in range(MAX_REFERENCES):
            if not isinstance(schema, dict) or "$ref" not in schema:
                break
            self._step()
            schema = self._resolve(schema["$ref"])
        properties = schema.get("properties", {}) if isinstance(schema, dict) else {}
        for name, known in properties.items():
            self._step()
            is_tag = isinstance(known, dict) and "const" in known and name in value
            if is_tag and value[name] != known["const"]:
                return False
        return True

    def _types(self, schema: Any, references: int = 0) -> frozenset[str]:
        """Return the types of values that a schema may admit."""
        self._step()
        if not isinstance(schema, dict):
            return _ALL if schema else frozenset()
        types = self._known.get(id(schema))
        if types is None:
            types = self._known[id(schema)] = self._find_types(schema, references)
        return types

    def _find_types(self, schema: JSONObject, references: int) -> frozenset[str]:
        types = _ALL
        if "type" in schema:
            named = schema["type"]
            types &= _with_integer([named] if isinstance(named, str) else named)
        if "const" in schema:
            types &= _types_of([schema["const"]])
        if "enum" in schema:
            types &= _types_of(schema["enum"])
        if "$ref" in schema:
            if references == MAX_REFERENCES:
                raise _TooMuch
            types &= self._types(self._resolve(schema["$ref"]), references + 1)
        for key in ("anyOf", "oneOf"):
            if key in schema:
                branches = (self._types(branch, references) for branch in schema[key])
                types &= frozenset().union(*branches)
        for part in schema.get("allOf", ()):
            types &= self._types(part, references)
        return types

    def _resolve(self, reference: Any) -> Any:
        """Return the schema that a reference inside of the root leads to; True if it leads elsewhere."""
        is_pointer = isinstance(reference, str) and (reference == "#" or reference[:2] == "#/")
        if not is_pointer or self._root is None:
            return True
        target: Any = self._root
        for part in reference[1:].split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(target, Mapping) or name not in target:
                return True
            target = target[name]
        return target

    def _step(self) -> None:
        self._steps_left -= 1
        if self._steps_left < 0:
            raise _TooMuch


def _with_integer(names: Any) -> frozenset[str]:
    with_integer = frozenset(names)
    return with_integer | {"integer"} if "number" in with_integer else with_integer


def _types_of(values: Any) -> frozenset[str]:
    return frozenset().union(*map(_type_of, values))


def _type_of(value: Any) -> frozenset[str]:
    if value is None:
        return frozenset({"null"})
    if isinstance(value, bool):
        return frozenset({"boolean"})
    if isinstance(value, int | float):
        return frozenset({"integer", "number"})
    if isinstance(value, str):
        return frozenset({"string"})
    return frozenset({"array"} if isinstance(value, list) else {"object"})
