"""Check a JSON Schema before it is published: its dialect, its references and its size.

What is rejected here would make clients fail or the server slow: a `$ref` to another document is
never fetched, and no schema may make a small value costly to check. `validators.py` checks values.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

from msgspec import Struct

from django_mcp.protocol.json import (
    JSONDecodeError,
    JSONObject,
    decode,
    encode,
    is_lazy,
    to_pointer,
)
from django_mcp.protocol.subschemas import HOLDING, REFERENCES, children, walk
from django_mcp.registry.patterns import compile_pattern, surplus_of
from django_mcp.registry.problems import RegistrationError

MAX_DEPTH = 32
"""Depth of nested schemas (2026-07-28 server/tools asks for bounds)."""
MAX_SUBSCHEMAS = 1000
"""Schemas in one schema."""
MAX_EXPANDED = 10_000
"""Schemas in one schema with every reference expanded, which one value may be checked against.

"""

MAX_CHAINED = 200
"""Depth of nested schemas with every reference expanded."""

_MULTIPLE_WEIGHT = 20
"""Schemas that `multipleOf` counts as, since it takes longer than other keywords. Measured."""

_ONE_FOR_EACH = frozenset({"items", "prefixItems", "properties"})
"""Keywords of whose schemas each part of a value gets one at most."""

_DEFAULT = "https://json-schema.org/draft/2020-12/schema"
DIALECTS = {
    _DEFAULT: "Draft202012Validator",
    "https://json-schema.org/draft/2019-09/schema": "Draft201909Validator",
    "http://json-schema.org/draft-07/schema": "Draft7Validator",
    "http://json-schema.org/draft-06/schema": "Draft6Validator",
    "http://json-schema.org/draft-04/schema": "Draft4Validator",
}
"""The class of `jsonschema` that implements a version of JSON Schema, by its URI."""


class CheckedSchema(Struct, frozen=True, kw_only=True):
    """A schema that may be published.

    Attributes:
        schema: plain JSON; lazy texts are left empty.
        dialect: the URI of its version of JSON Schema, a key of `DIALECTS`.
        is_recursive: whether it refers to itself, so that a check may never end.
        is_branching: whether it may apply several schemas to each part of a value: it is recursive,
            or has alternatives of which more than one look into the value.
        keywords: every keyword that occurs in it.
        surplus: of its patterns together; see `patterns.surplus_of`.
        width: how many schemas may be applied to one part of a value and to what it is in.
    """

    schema: JSONObject
    dialect: str
    is_recursive: bool
    is_branching: bool
    keywords: frozenset[str]
    surplus: int
    width: int


def check_schema(schema: Any, source: str, *, is_input: bool) -> CheckedSchema:
    """Return a schema that may be published.

    It may hold lazy texts. The schema of arguments (`is_input`) must be of type object.

    Raises:
        RegistrationError: it is not valid in its dialect, is not plain JSON, refers to another
            document or to itself without end, holds a pattern that cannot be matched in linear
            time, or exceeds a limit.

    Source: 2026-07-28 server/tools, "JSON Schema"; the limits are ours.
    """
    what = f"{source}: the {'input' if is_input else 'output'} schema"
    plain = _plain(schema, what)
    if is_input and plain.get("type") != "object":
        raise RegistrationError(
            f'{what} lacks "type": "object". Arguments are always an object: add it.'
        )
    declared = plain.get("$schema", _DEFAULT)
    dialect = declared.rstrip("#") if isinstance(declared, str) else ""
    if dialect not in DIALECTS:
        raise RegistrationError(
            f"{what} declares the dialect {declared!r}. Supported are {', '.join(DIALECTS)}."
        )
    nodes = _walk(plain, what)
    _check_against_dialect(plain, dialect, what)
    known = {id(node): node for node in nodes}
    has_references = any(map(_referring, nodes))
    graph = _ReferenceGraph(plain, dialect, what, known, has_references=has_references)
    reached = {**known, **graph.seen}.values()
    keywords: frozenset[str] = frozenset().union(*reached)
    if "unevaluatedProperties" in keywords and "patternProperties" in keywords:
        raise RegistrationError(
            f"{what} uses unevaluatedProperties together with patternProperties, which cannot be "
            f"checked in linear time. Use additionalProperties instead."
        )
    return CheckedSchema(
        schema=plain,
        dialect=dialect,
        is_recursive=graph.is_recursive,
        is_branching=graph.is_recursive or any(map(_is_branching, nodes)),
        keywords=keywords,
        surplus=0
        if _OF_PATTERNS.isdisjoint(keywords)
        else sum(surplus_of(pattern) for node in reached for pattern in _patterns(node)),
        width=graph.width,
    )


def _is_branching(node: JSONObject) -> bool:
    if "anyOf" not in node and "oneOf" not in node:
        return False
    return any(
        sum(map(_looks_inside, node[keyword])) > 1
        for keyword in ("anyOf", "oneOf")
        if isinstance(node.get(keyword), list)
    )


def _looks_inside(branch: Any) -> bool:
    is_reference = isinstance(branch, dict) and any(reference in branch for reference in REFERENCES)
    return is_reference or any(child.is_applied for child in children(branch))


def resolve_texts(
    value: Any, read: Callable[[Any], Any] = str, *, is_published: bool = False
) -> Any:
    """Return a copy of a schema with its lazy texts in the active language, without those that come to nothing.

    Args:
        value: the schema, or a part of it.
        read: turns a lazy text into a plain one.
        is_published: whether the copy is for callers, whom a description with a method `narrow` shows fewer types: it
            takes the schema that it describes, and returns another one.
    """
    if isinstance(value, dict):
        # Most members are plain texts and numbers, and a call for each would take most of the time.
        resolved = {
            key: each
            if type(each) in _SCALARS
            else resolve_texts(each, read, is_published=is_published)
            for key, each in value.items()
        }
        told = value.get("description") if is_published else None
        if type(told) not in _SCALARS and (narrow := getattr(told, "narrow", None)) is not None:
            resolved = narrow(resolved)
        if resolved.get("description") == "" and is_lazy(value["description"]):
            del resolved["description"]
        if resolved.get("title") == "" and hasattr(value["title"], "for_caller"):
            del resolved["title"]
        return resolved
    if isinstance(value, list | tuple):
        return [
            part if type(part) in _SCALARS else resolve_texts(part, read, is_published=is_published)
            for part in value
        ]
    return read(value) if is_lazy(value) else value


def has_lazy_texts(value: Any) -> bool:
    """Return whether a schema, or a list of schemas, has lazy texts."""
    if isinstance(value, dict | list | tuple):
        parts = value.values() if isinstance(value, dict) else value
        return any(type(part) not in _SCALARS and has_lazy_texts(part) for part in parts)
    return is_lazy(value)


_SCALARS = frozenset({str, int, float, bool, type(None)})


def copy_schema(schema: JSONObject) -> JSONObject:
    """Return a copy of a schema with its lazy texts."""
    copied: JSONObject = resolve_texts(schema, lambda text: text)
    return copied


def _plain(schema: Any, what: str) -> JSONObject:
    if not isinstance(schema, dict):
        raise RegistrationError(f"{what} is a {type(schema).__name__}. Write it as a dict.")
    try:
        # Texts cannot always be translated yet, and do not affect values.
        resolved = resolve_texts(schema, lambda _: "")
        plain = decode(encode(resolved))
    except (JSONDecodeError, RecursionError, TypeError, ValueError) as error:
        raise RegistrationError(f"{what} is not plain JSON: {error}.") from None
    if plain != resolved:
        raise RegistrationError(
            f"{what} is not plain JSON. Use dict, list, str, int, float, bool and None only."
        )
    return dict(plain)


def _walk(schema: JSONObject, what: str) -> list[JSONObject]:
    """Return every object schema inside a schema, itself included, within the limits."""
    subschemas: list[JSONObject] = []
    for count, (path, depth, node) in enumerate(walk(schema), 1):
        if depth > MAX_DEPTH:
            raise RegistrationError(
                f"{what} is nested more than {MAX_DEPTH} deep. Make it flatter."
            )
        if count > MAX_SUBSCHEMAS:
            raise RegistrationError(
                f"{what} holds more than {MAX_SUBSCHEMAS} schemas. Make it smaller."
            )
        if isinstance(node, dict):
            subschemas.append(node)
            _check_node(path, node, schema, what)
    return subschemas


def _check_node(path: tuple[str | int, ...], node: JSONObject, root: JSONObject, what: str) -> None:
    if node is not root and node.get("$schema", root.get("$schema")) != root.get("$schema"):
        where = to_pointer(path) or "its root"
        raise RegistrationError(f"{what} changes its dialect at {where}. Use one for all of it.")
    for pattern in _patterns(node):
        try:
            compile_pattern(pattern)
        except ValueError as error:
            where = to_pointer(path) or "its root"
            raise RegistrationError(
                f"{what} holds the pattern {pattern!r} at {where}, which cannot be used: "
                f"{error}. Patterns are matched in linear time: write it without look-around "
                f"and back-references."
            ) from None


_OF_PATTERNS = frozenset({"pattern", "patternProperties"})


def _patterns(node: JSONObject) -> Iterator[str]:
    if _OF_PATTERNS.isdisjoint(node):
        return
    by_name = node.get("patternProperties")
    for pattern in (node.get("pattern"), *(by_name if isinstance(by_name, dict) else ())):
        if isinstance(pattern, str):
            yield pattern


def _check_against_dialect(schema: JSONObject, dialect: str, what: str) -> None:
    rust = find_rust_engine()
    try:
        if rust is not None and rust.meta.is_valid(schema):
            return
    except ValueError:  # a number it cannot read
        pass
    import jsonschema

    try:
        getattr(jsonschema, DIALECTS[dialect]).check_schema(schema, format_checker=None)
    except jsonschema.SchemaError as error:
        where = to_pointer(error.absolute_path) or "its root"
        raise RegistrationError(
            f"{what} is not valid in {dialect}: at {where}, {error.message[:300]}. Correct it."
        ) from None


@functools.cache
def find_rust_engine() -> ModuleType | Any | None:
    """Return the faster engine, `jsonschema_rs`; None if the extra `speed` is not installed."""
    try:
        import jsonschema_rs
    except ImportError:
        return None
    return jsonschema_rs


class _ReferenceGraph:
    """A schema and its references, followed once to find their expanded size and circles.

    Args:
        known: the object schemas that keywords lead to, by id; they have been checked.
    """

    def __init__(
        self,
        schema: JSONObject,
        dialect: str,
        what: str,
        known: Mapping[int, JSONObject],
        *,
        has_references: bool,
    ) -> None:
        self.is_recursive = False
        self._what = what
        self._known = known
        self._sizes: dict[int, tuple[int, int]] = {}
        self.seen: dict[int, JSONObject] = {}
        """Every object schema that was reached, including targets of references, by its id."""
        self._open: list[int] = []
        # Where in `_open` the value last changed: schemas before it check another value.
        self._same_value_from = 0
        self._specification: Any = None
        resolver = None
        if has_references:
            from referencing import Registry
            from referencing.jsonschema import specification_with

            self._specification = specification_with(dialect)
            registry: Registry[Any] = Registry()  # it cannot retrieve anything
            root = self._specification.create_resource(schema)
            resolver = registry.resolver_with_root(root)
        size, self.width = self._size(schema, resolver)
        if size > MAX_EXPANDED:
            raise RegistrationError(
                f"{what} holds {size} schemas with its references expanded, more than "
                f"{MAX_EXPANDED}. Make it smaller."
            )

    def _size(self, schema: Any, resolver: Any) -> tuple[int, int]:
        """Return the size and the width of a schema with each reference expanded.

        The size is the number of schemas in it, and the width is that of the schemas that may be
        applied to one part of a value and to what the part is in.
        """
        if not isinstance(schema, dict):
            return 1, 1
        key = id(schema)
        if key in self._open:
            self.is_recursive = True
            if self._open.index(key) >= self._same_value_from:
                raise RegistrationError(
                    f"{self._what} refers to itself without going into the value. "
                    f"Remove the circle of references."
                )
            return 1, 1
        if key in self._sizes:
            return self._sizes[key]
        if len(self._open) > MAX_CHAINED:
            raise RegistrationError(f"{self._what} chains too many references. Make it flatter.")
        if key not in self.seen:
            self.seen[key] = schema
            if key not in self._known:
                # A target may be where no keyword leads, so it has not been checked yet.
                _check_node((), schema, schema, self._what)
        if _LEADING.isdisjoint(schema):  # most schemas are such leaves
            self._sizes[key] = (1, _weight_of(schema))
            return self._sizes[key]
        if resolver is not None:
            resolver = resolver.in_subresource(self._specification.create_resource(schema))
        self._open.append(key)
        self._sizes[key] = self._add_up(schema, resolver)
        self._open.pop()
        return self._sizes[key]

    def _add_up(self, schema: JSONObject, resolver: Any) -> tuple[int, int]:
        size, width = 1, _weight_of(schema)
        for keyword in () if resolver is None else _referring(schema):
            total = self._size(*self._resolve(schema, keyword, resolver))
            size, width = size + total[0], width + total[1]
        widest: dict[str | int, int] = dict.fromkeys(_ONE_FOR_EACH, 0)
        for child in filter(lambda child: child.is_applied, children(schema)):
            before = self._same_value_from
            if not child.is_beside:
                self._same_value_from = len(self._open)
            total = self._size(child.schema, resolver)
            self._same_value_from = before
            place = child.path[0]
            size += total[0]
            if place in widest:
                widest[place] = max(widest[place], total[1])
            else:
                width += total[1]
        return size, width + sum(widest.values())

    def _resolve(self, schema: JSONObject, keyword: str, resolver: Any) -> tuple[Any, Any]:
        from referencing.exceptions import Unresolvable

        if keyword != "$ref":
            self.is_recursive = True  # the target depends on the value
        reference = schema[keyword]
        try:
            resolved = resolver.lookup(reference)
        except (Unresolvable, ValueError):
            raise RegistrationError(
                f"{self._what} refers to {reference!r}, which is not inside of it. Nothing is "
                f"fetched: copy it into $defs."
            ) from None
        return resolved.contents, resolved.resolver


_LEADING = HOLDING.union(REFERENCES)
"""Keywords that lead to further schemas."""


def _weight_of(schema: JSONObject) -> int:
    return _MULTIPLE_WEIGHT if "multipleOf" in schema else 1


def _referring(schema: JSONObject) -> list[str]:
    return [keyword for keyword in REFERENCES if isinstance(schema.get(keyword), str)]
