"""Refuse unions of which pydantic would try too many forms on one part of a value."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import combinations
from typing import Any, TypeAlias

Node: TypeAlias = dict[str, Any]
"""One schema of `pydantic_core.core_schema`, or one field of such a schema."""

NO_PARTS = {"computed_fields", "custom_error_context", "default", "metadata", "serialization"}
"""Keys of a node that hold no schemas for the value."""

_WRAPPERS = {
    "chain",
    "default",
    "definitions",
    "function-after",
    "function-before",
    "function-wrap",
    "json",
    "json-or-python",
    "lax-or-strict",
    "nullable",
    "tagged-union",
    "union",
}
"""Schemas that accept what their parts accept."""

MAX_FORMS = 100
"""Forms that one part of a value may be compared with. pydantic keeps an error for each."""

_OBJECTS = {"dataclass", "dataclass-args", "dict", "model", "model-fields", "typed-dict"}
_ARRAYS = {"frozenset", "generator", "list", "set", "tuple"}
_SCALARS = {
    "bool", "bytes", "complex", "date", "datetime", "decimal", "enum", "float", "int", "literal",
    "multi-host-url", "none", "str", "time", "timedelta", "url", "uuid",
}  # fmt: skip
_KINDS = {"array", "object", "scalar"}


class AmbiguousUnion(TypeError):
    """Too many forms of unions without a discriminator accept the same kind of JSON value."""


def check_unions(schema: Node) -> int:
    """Return with how many forms of a core schema one part of a value is compared at most, which is limited.

    Raises:
        AmbiguousUnion: two recursive forms accept the same kind of JSON value, one of them leads back
            to the union, and the union has no discriminator; or unions inside of each other compare
            one part of a value with more than `MAX_FORMS` forms.
    """
    graph = NodeGraph(schema)
    width = graph.check_width()
    for union in [node for node in graph.find_below(schema) if node["type"] == "union"]:
        forms = list(filter(graph.holds_recursion, _parts(union)))
        for one, other in combinations(forms, 2):
            leads_back = any(union is node for part in (one, other) for node in graph.find(part))
            if leads_back and graph.find_kinds(one) & graph.find_kinds(other):
                names = f"`{graph.find_name(one)}` and `{graph.find_name(other)}`"
                raise AmbiguousUnion(
                    f"{names} are forms of a recursive union and accept the same kind of JSON value, "
                    f"so each level of a value would multiply the work. Give the union a "
                    f'discriminator, such as `Annotated[A | B, Field(discriminator="kind")]`, or '
                    f"leave one of the forms out."
                )
    return width


class NodeGraph:
    """The nodes of a core schema, with resolved references."""

    def __init__(self, schema: Node) -> None:
        self._root = schema
        self._definitions: dict[str, Node] = {}
        self._below: dict[int, list[Node]] = {}
        self.nodes: list[Node] = []
        """All nodes, each once."""
        waiting, seen = [schema], set[int]()
        while waiting:
            node = waiting.pop()
            if id(node) in seen:
                continue  # several nodes may hold the same one
            seen.add(id(node))
            self.nodes.append(node)
            if isinstance(node.get("ref"), str):
                self._definitions[node["ref"]] = node
            waiting.extend(_parts(node))

    @cached_property
    def _recursive(self) -> set[int]:
        return {
            id(node)
            for node in self._definitions.values()
            if any(node is node_below for node_below in self.find_below(node))
        }

    def check_width(self) -> int:
        """Return, and check, how many forms one part of a value is compared with, through all unions around it."""
        # Parts first, without recursion: the models of a site may lead from one to the next without end.
        widths = dict[int, int]()
        waiting, seen = [(self.follow(self._root), False)], set[int]()
        while waiting:
            node, is_read = waiting.pop()
            if is_read:
                widths[id(node)] = self._find_width(node, widths)
            elif id(node) not in seen:
                seen.add(id(node))
                waiting.append((node, True))
                waiting.extend((self.follow(part), False) for part in _parts(node))
        return max(widths.values())

    def _find_width(self, node: Node, widths: dict[int, int]) -> int:
        # Where a recursive form comes back to itself, it counts once.
        parts = [(part, widths.get(id(self.follow(part)), 1)) for part in _parts(node)]
        part_widths = [width for _, width in parts]
        if node["type"] == "union":
            tried = [(self._find_accepted(part), width) for part, width in parts]
            part_widths = [
                sum(width for accepted, width in tried if kind in accepted) for kind in _KINDS
            ]
        elif node["type"] == "chain":
            part_widths = [sum(part_widths)]
        width = max([1, *part_widths])
        if width > MAX_FORMS:
            raise AmbiguousUnion(self._explain_width(node, width))
        return width

    def _explain_width(self, node: Node, width: int) -> str:
        named = [
            node_below
            for node_below in self.find_below(node)
            if hasattr(node_below.get("cls"), "__name__")
        ]
        names = " and ".join(f"`{node_below['cls'].__name__}`" for node_below in named[:2])
        return (
            f"one part of a value would be compared with {width} forms of unions, more than {MAX_FORMS}, "
            f"since unions inside of each other multiply the work{f': see {names}' if names else ''}. "
            f"Give the unions a discriminator, such as "
            f'`Annotated[A | B, Field(discriminator="kind")]`, or leave forms out.'
        )

    def _find_accepted(self, form: Node) -> set[str]:
        """Return which kinds of JSON values a form accepts, an unknown one all."""
        accepted, seen, waiting = set[str](), set[int](), [form]
        while waiting:
            node = self.follow(waiting.pop())
            if id(node) in seen:
                continue
            seen.add(id(node))
            kind = node["type"]
            if kind in _SCALARS:
                accepted.add("scalar")
            elif kind in _ARRAYS:
                accepted.add("array")
            elif kind in _OBJECTS and not node.get("root_model"):
                accepted.add("object")
            elif kind != "json" and (kind in _WRAPPERS or node.get("root_model")):
                waiting.extend(_parts(node))
            else:
                return _KINDS
        return accepted

    def find(self, node: Node) -> list[Node]:
        """Return a node and all below it."""
        return [self.follow(node), *self.find_below(node)]

    def find_below(self, node: Node) -> list[Node]:
        """Return the nodes below a node; a recursive one is among them."""
        start = self.follow(node)
        nodes_below = self._below.get(id(start))
        if nodes_below is None:
            reached: dict[int, Node] = {}
            waiting = list(_parts(start))
            while waiting:
                each = self.follow(waiting.pop())
                if id(each) not in reached:
                    reached[id(each)] = each
                    waiting.extend(_parts(each))
            nodes_below = self._below[id(start)] = list(reached.values())
        return nodes_below

    def holds_recursion(self, form: Node) -> bool:
        """Return whether a form is recursive or contains one that is.

        A union that tries such a form walks through all of the value, at each level again.
        """
        return any(id(node) in self._recursive for node in self.find(form))

    def find_kinds(self, form: Node) -> set[str]:
        """Return which containers of JSON the recursive parts of a form accept, unknown ones both."""
        types = {node["type"] for node in self._containers(form)}
        rejected = {"object"} if types <= _ARRAYS else {"array"} if types <= _OBJECTS else set()
        return {"object", "array"} - rejected

    def find_name(self, form: Node) -> str:
        """Return the name of a form for its author."""
        node = next(self._containers(form))
        # A named tuple is the function of a call.
        return str(getattr(node.get("cls", node.get("function")), "__name__", node["type"]))

    def _containers(self, form: Node) -> Iterator[Node]:
        """Yield the recursive containers that a form or its wrappers accept."""
        seen = set()
        waiting = [form]
        while waiting:
            node = self.follow(waiting.pop(0))
            if id(node) in seen or not self.holds_recursion(node):
                continue
            seen.add(id(node))
            if node["type"] in _WRAPPERS or node.get("root_model"):
                waiting.extend(_parts(node))
            else:
                yield node

    def follow(self, node: Node) -> Node:
        """Return the node that a reference leads to, or the node itself."""
        seen = set()
        while node["type"] == "definition-ref" and id(node) not in seen:
            seen.add(id(node))
            node = self._definitions.get(node["schema_ref"], node)
        return node


def _parts(value: Any) -> Iterator[Node]:
    """Yield the nodes directly inside a node."""
    for key, each in value.items():
        if key not in NO_PARTS:
            yield from _nodes(each)


def _nodes(value: Any) -> Iterator[Node]:
    if isinstance(value, dict):
        if isinstance(value.get("type"), str):
            yield value
        else:
            for part in value.values():
                yield from _nodes(part)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _nodes(each)
