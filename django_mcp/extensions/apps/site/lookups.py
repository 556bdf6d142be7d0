"""What a template of a part looks up in results and arguments, against the schemas of its tools."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.template import Node, TemplateDoesNotExist, TemplateSyntaxError
from django.template.base import FilterExpression, Template, Variable, VariableNode
from django.template.defaulttags import ForNode, IfNode, WithNode
from django.template.loader import get_template
from django.template.loader_tags import IncludeNode

from django_mcp.extensions.apps.site.ready.columns import resolve
from django_mcp.protocol.json import JSONObject
from django_mcp.registry.entries import ToolEntry

MAX_DEPTH = 10
"""Templates that include each other, and schemas inside of each other."""

_METHODS = frozenset(("items", "keys", "values", "get", "copy"))
"""What a template may look up in any object."""


@dataclass(frozen=True)
class Typed:
    """Values as a schema describes them.

    Attributes:
        schema: of the values.
        root: the schema that has its definitions.
    """

    schema: Any
    root: JSONObject

    @classmethod
    def of(cls, tool: ToolEntry) -> Typed:
        """Return the results of a tool."""
        schema = tool.output_schema or {}
        return cls(schema, schema)

    @classmethod
    def of_arguments(cls, tool: ToolEntry) -> Typed:
        """Return the arguments of a tool, which may be others if its schema is open."""
        schema = tool.input_schema
        return cls(schema if schema.get("additionalProperties") is False else {}, schema)

    @property
    def members(self) -> Collection[str]:
        """The names of its members, as far as they are known."""
        properties = resolve(self.schema, self.root).get("properties")
        return properties if isinstance(properties, dict) else {}

    def alternatives(self) -> list[JSONObject]:
        """Return the schemas that a value may have, without references."""
        left: list[tuple[Any, int]] = [(self.schema, 0)]
        found: list[JSONObject] = []
        while left:
            schema, depth = left.pop()
            if not isinstance(schema, Mapping) or depth > MAX_DEPTH:
                found.append({})
                continue
            reference, several = schema.get("$ref"), schema.get("anyOf") or schema.get("oneOf")
            if isinstance(reference, str):
                place, _, name = reference.removeprefix("#/").partition("/")
                left.append((self.root.get(place, {}).get(name, {}), depth + 1))
            elif several:
                left += ((each, depth + 1) for each in several)
            else:
                found.append(dict(schema))
        return found

    def step(self, name: str) -> list[Typed] | None:
        """Return what a member may be; None: there is no such member for certain."""
        found: list[Typed] = []
        is_certain = True
        for schema in self.alternatives():
            if schema.get("type") == "null":
                continue
            properties = schema.get("properties")
            if isinstance(properties, dict) and name in properties:
                found.append(Typed(properties[name], self.root))
                is_certain = False
            elif not _is_closed(schema) or name in _METHODS:
                found.append(Typed({}, self.root))
                is_certain = False
        return None if is_certain else found


def _is_closed(schema: JSONObject) -> bool:
    """Return whether an object has no other members than its schema describes."""
    return (
        isinstance(schema.get("properties"), dict)
        and bool(schema["properties"] or "additionalProperties" in schema)
        and schema.get("additionalProperties", False) is False
        and not {"patternProperties", "allOf", "if", "not"} & schema.keys()
    )


def may_have(value: Typed, path: Sequence[str]) -> bool:
    """Return whether values may have something at a path."""
    return find_unknown([value], path) is None


def find_unknown(values: Sequence[Typed], path: Sequence[str]) -> int | None:
    """Return the position of the first name of a path that none of these values has; None: they may have all."""
    for position, name in enumerate(path):
        found = [each.step(name) for each in values]
        if all(each is None for each in found):
            return position if values else None
        values = [each for one in found for each in one or ()]
    return None


def _follow(values: Sequence[Typed], path: Sequence[str]) -> list[Typed]:
    for name in path:
        values = [each for value in values for each in value.step(name) or ()]
    return list(values)


@dataclass(frozen=True)
class Lookup:
    """A look-up of something that no schema has.

    Attributes:
        text: as it is written in the template.
        name: the member that is not there.
        members: those that are.
        is_argument: it is one of the arguments.
    """

    text: str
    name: str
    members: tuple[str, ...]
    is_argument: bool


def find_lookups(name: str, roots: Mapping[str, Sequence[Typed]]) -> Iterator[Lookup]:
    """Yield what a template looks up, and its variables never have.

    Args:
        name: of the template.
        roots: what its variables may be, for the tools that it is rendered for.
    """
    yield from _read_template(name, {key: [*values] for key, values in roots.items()}, 0)


_BOUND = re.compile(r"(?:\bas\s+|\bfor\s+|,\s*)(\w+)|(\w+)\s*=")
"""The names that a tag may give a value, in its text."""

_OWN_TAGS = ("django.template", "django.templatetags", "django_mcp.")


def find_free(name: str) -> Iterator[Variable]:
    """Yield the variables that a template shows or loops over, and whose names it gives no value itself."""
    template = _find_own(name)
    bound = set() if template is None else find_bound(template.source)
    for node in [] if template is None else template.nodelist.get_nodes_by_type(Node):
        if isinstance(node, VariableNode | ForNode):
            shown: Any = node.sequence if isinstance(node, ForNode) else node.filter_expression
            names = {getattr(function, "__name__", "") for function, _ in shown.filters}
            variable = shown.var
            if (
                isinstance(variable, Variable)
                and variable.lookups
                and variable.lookups[0] not in bound
                and not names & {"default", "default_if_none"}
            ):
                yield variable


def find_variables(name: str) -> Iterator[Variable]:
    """Yield the variables of a template, also those in its conditions."""
    template = _find_own(name)
    for node in [] if template is None else template.nodelist.get_nodes_by_type(Node):
        for expression in _find_expressions(vars(node)):
            yield from _find_variables(expression)


def find_bound(source: str) -> set[str]:
    """Return the names that the tags of a template may give a value."""
    return {part for tag in _TAG.findall(source) for found in _BOUND.findall(tag) for part in found}


def _find_own(name: str) -> Template | None:
    """Return a template; None if it has other tags than those of Django and this package, which may set variables."""
    try:
        template = getattr(get_template(name), "template", None)
    except (TemplateDoesNotExist, TemplateSyntaxError):
        return None
    if not isinstance(template, Template):
        return None
    nodes = template.nodelist.get_nodes_by_type(Node)
    return template if all(type(node).__module__.startswith(_OWN_TAGS) for node in nodes) else None


_TAG = re.compile(r"\{%(.*?)%\}", re.DOTALL)


Variables = dict[str, list[Typed]]


def _read_template(name: str, variables: Variables, depth: int) -> Iterator[Lookup]:
    try:
        template = getattr(get_template(name), "template", None)
    except (TemplateDoesNotExist, TemplateSyntaxError):
        return
    if isinstance(template, Template) and depth < MAX_DEPTH:
        yield from _read_nodes(template.nodelist, variables, depth)


def _read_nodes(nodes: Any, variables: Variables, depth: int) -> Iterator[Lookup]:
    for node in nodes:
        for expression in _find_expressions(vars(node)):
            for variable in _find_variables(expression):
                yield from _look_up(variable, variables)
        yield from _read_inside(node, variables, depth)


def _read_inside(node: Node, variables: Variables, depth: int) -> Iterator[Lookup]:
    if isinstance(node, ForNode):
        item = _items_of(node.sequence, variables) if len(node.loopvars) == 1 else None
        inner = _with(variables, dict.fromkeys(node.loopvars, item))
        yield from _read_nodes(node.nodelist_loop, inner, depth)
        yield from _read_nodes(node.nodelist_empty, variables, depth)
        return
    if isinstance(node, WithNode | IncludeNode):
        given = {name: _infer(each, variables) for name, each in node.extra_context.items()}
        inner = _with({} if getattr(node, "isolated_context", False) else variables, given)
        if isinstance(node, WithNode):
            yield from _read_nodes(node.nodelist, inner, depth)
        elif isinstance(name := node.template.var, str):
            yield from _read_template(name, inner, depth + 1)
        return
    if isinstance(node, IfNode):
        for _condition, nodes in node.conditions_nodelists:
            yield from _read_nodes(nodes, variables, depth)
        return
    # Another tag may give the variables other values.
    if type(node).__module__.startswith(_OWN_TAGS):
        for name in node.child_nodelists:
            yield from _read_nodes(getattr(node, name, ()) or (), variables, depth)


def _with(variables: Variables, given: Mapping[str, list[Typed] | None]) -> Variables:
    inner = {name: each for name, each in variables.items() if name not in given}
    return inner | {name: each for name, each in given.items() if each is not None}


def _find_expressions(value: Any, depth: int = 0) -> Iterator[FilterExpression]:
    """Yield the expressions of a node, also in its conditions."""
    if isinstance(value, FilterExpression):
        yield value
    elif depth > MAX_DEPTH or isinstance(value, Node | str):
        return
    elif isinstance(value, Mapping):
        for each in list(value.values()):
            yield from _find_expressions(each, depth + 1)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _find_expressions(each, depth + 1)
    elif type(value).__module__.startswith(("django.template.", "django.templatetags.")):
        # An operator of `{% if %}` has its sides, a literal its expression.
        for name in ("first", "second", "value"):
            yield from _find_expressions(getattr(value, name, None), depth + 1)


def _find_variables(expression: FilterExpression) -> Iterator[Variable]:
    if isinstance(expression.var, Variable):
        yield expression.var
    for _function, arguments in expression.filters:
        yield from (each for _, each in arguments if isinstance(each, Variable))


def _look_up(variable: Variable, variables: Variables) -> Iterator[Lookup]:
    first, *path = variable.lookups or ("",)
    values = variables.get(first)
    position = find_unknown(values, path) if values else None
    if position is not None and values:
        members = {each for value in _follow(values, path[:position]) for each in value.members}
        yield Lookup(
            str(variable.var), path[position], tuple(sorted(members)), first == "arguments"
        )


def _infer(expression: Any, variables: Variables) -> list[Typed] | None:
    """Return what an expression may be; None: it is not known."""
    if not isinstance(expression, FilterExpression):
        return None
    variable = expression.var
    if expression.filters or not isinstance(variable, Variable) or not variable.lookups:
        return None
    first, *path = variable.lookups
    values = _follow(variables.get(first, ()), path)
    return values or None


def _items_of(expression: Any, variables: Variables) -> list[Typed] | None:
    items: list[Typed] = []
    for value in _infer(expression, variables) or ():
        schemas = (each for each in value.alternatives() if each.get("type") != "null")
        items += (Typed(each.get("items") or {}, value.root) for each in schemas)
    return items or None
