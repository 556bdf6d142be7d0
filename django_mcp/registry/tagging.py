"""Let pydantic choose the forms of a union by the `Literal` field that all of them have.

pydantic itself tries one form after another unless the author names a discriminator. The forms of a
union are the types in it. A tag is a field that each of them has, with other `Literal` values in each.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from django_mcp.registry.rewriting import CoreRewriting, build, builds_changed_classes
from django_mcp.registry.unions import Node, NodeGraph

if TYPE_CHECKING:
    from pydantic import TypeAdapter

_AROUND_FIELDS = {
    "dataclass", "definitions", "function-after", "function-before", "function-wrap", "model", "typed-dict",
}  # fmt: skip
_KEPT = (
    "custom_error_context", "custom_error_message", "custom_error_type", "metadata", "ref",
    "serialization", "strict",
)  # fmt: skip


def tag_unions(adapter: TypeAdapter[Any], *, has_defaults: bool = False) -> bool:
    """Make a converter choose forms by their tags; return whether it changed a union.

    With `has_defaults`, a field for which forms have a default is a tag too, in recursive unions only.
    Data must contain it then.
    The classes of the site stay as they are. The converter stays as it is too if pydantic has no way for this.
    """
    schema: Any = adapter.core_schema
    graph = NodeGraph(schema)
    unions = [node for node in graph.nodes if node["type"] == "union"]
    # A constructor of the site's calls the validator of its class, which tries all forms.
    own = [node for node in graph.nodes if node.get("custom_init")] if unions else []
    kept = {id(part) for node in own for part in graph.find(node)}
    tags = {
        id(union): tag
        for union in unions
        if id(union) not in kept
        and (not has_defaults or any(union is part for part in graph.find_below(union)))
        and (tag := _find_tag(union, graph, has_defaults=has_defaults))
    }
    if not tags or not builds_changed_classes():
        return False
    tagged: Any = _Tagging(tags).rewrite(schema)
    adapter.validator, adapter.serializer = build(tagged)
    adapter.core_schema = tagged
    return True


class _Tag(Struct, frozen=True, kw_only=True):
    """How the records of a union are distinguished.

    Attributes:
        discriminator: where the tag is, as pydantic has it.
        records: by the value of the tag.
        others: the forms that are no records.
        fields: the schemas of the tags.
    """

    discriminator: Any
    records: dict[Any, Node]
    others: list[Node]
    fields: list[Node]


def _find_tag(union: Node, graph: NodeGraph, *, has_defaults: bool) -> _Tag | None:
    if union.get("mode") == "left_to_right":
        return None  # its author relies on the order
    records, others = list[tuple[Node, dict[str, Node]]](), list[Node]()
    for form in _forms(union, graph):
        fields = _find_fields(form, graph)
        if fields is None:
            others.append(form)
        else:
            records.append((form, fields))
    if len(records) < 2:
        return None
    for name in records[0][1]:
        tag_fields = [fields.get(name) for _, fields in records]
        tags = [field for field in tag_fields if field is not None and _find_values(field)]
        if len(tags) < len(tag_fields) or not (has_defaults or all(map(_is_required, tags))):
            continue
        aliases = {field.get("validation_alias", name) for field in tags if _has_plain_alias(field)}
        values = [
            (value, form)
            for (form, _), tag in zip(records, tags, strict=True)
            for value in _find_values(tag)
        ]
        plain = [_plain(value) for value, _ in values]
        if len(aliases) == 1 and all(map(_has_plain_alias, tags)) and len(set(plain)) == len(plain):
            (alias,) = aliases
            # Data has the alias, and objects have the name.
            discriminator = name if alias == name else [[alias], [name]]
            return _Tag(
                discriminator=discriminator, records=dict(values), others=others, fields=tags
            )
    return None


def _forms(union: Node, graph: NodeGraph) -> Iterator[Node]:
    """Yield the forms of a union, and those of the unions among them."""
    waiting, seen = [union], set[int]()
    while waiting:
        form = waiting.pop()
        node = graph.follow(form)
        if (
            node["type"] != "union"
            or node.get("mode") == "left_to_right"
            or "serialization" in node
        ):
            yield form
        elif id(node) not in seen:
            seen.add(id(node))
            choices = [
                choice[0] if isinstance(choice, tuple) else choice for choice in node["choices"]
            ]
            waiting.extend(reversed(choices))


def _find_fields(form: Node, graph: NodeGraph) -> dict[str, Node] | None:
    """Return the fields of a record by their names; None for anything else.

    Nothing is known of a record that the site's code makes of the data before pydantic reads it.
    """
    node, is_known = graph.follow(form), True
    while node["type"] in _AROUND_FIELDS and not node.get("root_model"):
        if node["type"] == "typed-dict":
            return dict(node["fields"]) if is_known else {}
        is_known = is_known and node["type"] not in ("function-before", "function-wrap")
        node = graph.follow(node["schema"])
    if node["type"] == "model-fields":
        return dict(node["fields"]) if is_known else {}
    if node["type"] == "dataclass-args":
        return {field["name"]: field for field in node["fields"]} if is_known else {}
    return None


def _find_values(field: Node) -> list[Any]:
    """Return the values of a tag; `[]` if the field is none."""
    schema = field.get("schema", {})
    if schema.get("type") == "default":
        schema = schema["schema"]
    values = schema["expected"] if schema.get("type") == "literal" else []
    return list(values) if all(type(_plain(value)) in (str, int) for value in values) else []


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, Enum) else value


def _has_plain_alias(field: Node) -> bool:
    return isinstance(field.get("validation_alias", ""), str)


def _is_required(field: Node) -> bool:
    if field["type"] == "typed-dict-field":
        return field.get("required") is True
    return bool(field["schema"]["type"] != "default")


class _Tagging(CoreRewriting):
    """A copy with tagged unions."""

    def __init__(self, tags: dict[int, _Tag]) -> None:
        super().__init__()
        self._tags = tags
        self._fields = {id(field) for tag in tags.values() for field in tag.fields}

    def rewrite_node(self, node: Node) -> Node:
        """See `CoreRewriting.rewrite_node`."""
        tag = self._tags.get(id(node))
        if tag is not None:
            return self._make_union(node, tag)
        return super().rewrite_node(_demand(node) if id(node) in self._fields else node)

    def _make_union(self, union: Node, tag: _Tag) -> Node:
        tagged: Node = {
            "type": "tagged-union",
            "choices": {value: self.rewrite(form) for value, form in tag.records.items()},
            "discriminator": tag.discriminator,
            "from_attributes": True,
        }
        if not tag.others:
            return tagged | {key: union[key] for key in _KEPT if key in union}
        return {**union, "choices": [tagged, *map(self.rewrite, tag.others)]}


def _demand(field: Node) -> Node:
    """Return the field of a tag as one that data must have."""
    if field["type"] == "typed-dict-field":
        return {**field, "required": True}
    schema = field["schema"]
    return {**field, "schema": schema["schema"]} if schema["type"] == "default" else field
