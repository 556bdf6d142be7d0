"""Change core schemas of pydantic, which it shares with the classes of the site."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from django_mcp.registry.unions import NO_PARTS, Node, NodeGraph

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from pydantic_core import SchemaSerializer, SchemaValidator


class CoreRewriting:
    """A changed copy of a core schema."""

    kind = ""
    """The type of the nodes that are changed; empty: they have several."""

    def __init__(self) -> None:
        self._done: dict[int, Any] = {}

    def concerns(self, node: Node) -> bool:
        """Return whether a schema with this node has to be rewritten."""
        return not self.kind or node["type"] == self.kind or bool(node.get("computed_fields"))

    def rewrite(self, value: Any) -> Any:
        """Return a copy of a part of a schema."""
        if isinstance(value, list | tuple):
            return type(value)(map(self.rewrite, value))
        if not isinstance(value, dict):
            return value
        if id(value) not in self._done:
            self._done[id(value)] = self.rewrite_node(value)
        return self._done[id(value)]

    def rewrite_node(self, node: Node) -> Node:
        """Return a copy of a node, which subclasses change."""
        # Another dict has the fields of a record by their names.
        kept = NO_PARTS if isinstance(node.get("type"), str) else ()
        return {key: value if key in kept else self.rewrite(value) for key, value in node.items()}


def rewrite_adapter(
    adapter: TypeAdapter[Any], *rewritings: CoreRewriting, is_described: bool = False
) -> None:
    """Let a converter do what rewritings say, one after the other.

    `is_described` says that its JSON Schema shows it. The converter stays as it is if none of them concerns
    it, or if pydantic has no way for this.
    """
    schema: Any = adapter.core_schema
    nodes = NodeGraph(schema).nodes
    concerned = [rewriting for rewriting in rewritings if any(map(rewriting.concerns, nodes))]
    if not concerned or not builds_changed_classes():
        return
    for rewriting in concerned:
        schema = rewriting.rewrite(schema)
    adapter.validator, adapter.serializer = build(schema)
    if is_described:
        adapter.core_schema = schema


def build(schema: Any) -> tuple[SchemaValidator, SchemaSerializer]:
    """Return the validator and the serializer of a core schema in which classes of the site are changed."""
    from pydantic_core import SchemaSerializer, SchemaValidator

    # The bytes in values of no declared type are written by what the whole has, unless a model chose something else.
    config: Any = {"ser_json_bytes": "base64", **schema.get("config", {})}
    # Otherwise the validators that the classes have already would be used.
    return (
        SchemaValidator(schema, _use_prebuilt=False),
        SchemaSerializer(schema, config, _use_prebuilt=False),
    )


@cache
def builds_changed_classes() -> bool:
    """Return whether `build` does what it is for.

    Its option is not documented. Were it ignored, each class would try all forms of its unions.
    """
    from pydantic import BaseModel
    from pydantic_core import core_schema

    class Probe(BaseModel):
        value: int

    field = core_schema.model_field(
        core_schema.int_schema(), validation_alias="other", serialization_alias="other"
    )
    model = core_schema.model_schema(Probe, core_schema.model_fields_schema({"value": field}))
    data = [{"other": 1}]
    try:
        validator, serializer = build(core_schema.list_schema(model))
        return bool(serializer.to_python(validator.validate_python(data), by_alias=True) == data)
    except (TypeError, ValueError):
        return False
