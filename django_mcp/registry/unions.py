"""Make recursive unions cheap to convert: pick one form by its `Literal` fields before trying it.

pydantic tries every form of a union. If two forms lead back to the union, each level of a value
doubles the work. This module gives such a union a discriminator. The published schema does not
change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import combinations
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from pydantic import TypeAdapter

__all__ = ["AmbiguousUnion", "discriminate_unions"]

_Node: TypeAlias = dict[str, Any]
"""One schema of `pydantic_core.core_schema`, or one field of such a schema."""

_DATA = frozenset(
    {
        "cls",
        "computed_fields",
        "config",
        "default",
        "default_factory",
        "expected",
        "generic_origin",
        "members",
        "metadata",
        "post_init",
        "ref",
        "serialization",
    }
)
"""Keys of a node that hold no schemas for the value."""

_OBJECTS = frozenset({"model", "model-fields", "dataclass", "dataclass-args", "typed-dict", "dict"})
_ARRAYS = frozenset({"frozenset", "generator", "list", "set", "tuple"})


class AmbiguousUnion(TypeError):
    """A recursive union cannot be given a discriminator; the text gives the reason and a remedy."""


def discriminate_unions(adapter: TypeAdapter[Any]) -> None:
    """Give a converter's recursive unions a discriminator.

    Raises:
        AmbiguousUnion: two recursive forms of a union accept the same kind of JSON value, and no
            `Literal` field distinguishes them.
    """
    if not isinstance(adapter.core_schema, dict):
        adapter.rebuild()  # pydantic's build was deferred to its first use
    schema: Any = adapter.core_schema
    if schema["type"] != "definitions":
        return  # only a definition can be recursive
    graph = _Graph(schema)
    groups = {id(node): group for node in graph.unions() if (group := graph.find_group(node))}
    if groups:
        graph.check_constructors(groups)
        from pydantic_core import SchemaValidator

        # Prebuilt validators are those of the unchanged models, with their own unions.
        adapter.validator = SchemaValidator(_rebuild(schema, groups), _use_prebuilt=False)


@dataclass(frozen=True, slots=True)
class _Literals:
    """One field's names in a JSON object, its name in Python, and its possible values."""

    names: tuple[str, ...]
    attribute: str
    values: frozenset[tuple[type, Any]]
    may_be_absent: bool

    def match(self, value: Any) -> bool:
        """Return whether this field has one of the possible values, or may be absent and is."""
        if isinstance(value, dict):
            name = next((name for name in self.names if name in value), None)
            if name is None:
                return self.may_be_absent
            found = value[name]
        else:
            found = getattr(value, self.attribute, None)
        try:
            return _key(found) in self.values
        except TypeError:  # a list or an object, which is never a `Literal`
            return False


@dataclass(frozen=True, slots=True)
class _Form:
    """The fields of one form of a union: those that discriminate, and all others."""

    literals: list[_Literals]
    required: list[tuple[str, ...]]
    known: frozenset[str]

    def fit(self, value: Any) -> tuple[bool, int]:
        """Return how well a value fits, to be compared with other forms whose literals match.

        If the discriminating fields are missing, pydantic also takes the form with most of the fields.
        """
        if not isinstance(value, dict):
            return True, 0
        is_whole = all(any(name in value for name in names) for names in self.required)
        return is_whole, len(self.known & value.keys())


_Group: TypeAlias = dict[int, _Form]
"""The forms of a union to choose from, by their position."""


class _Graph:
    """The nodes of a core schema, with resolved references."""

    def __init__(self, schema: _Node) -> None:
        self._definitions: dict[str, _Node] = {}
        self._nodes: list[_Node] = []
        waiting = [schema]
        while waiting:
            node = waiting.pop()
            self._nodes.append(node)
            if isinstance(node.get("ref"), str):
                self._definitions[node["ref"]] = node
            waiting.extend(_parts(node))
        self._recursive = {
            id(node)
            for node in self._definitions.values()
            if any(self._leads_to(part, node) for part in _parts(node))
        }

    def unions(self) -> Iterator[_Node]:
        """Yield the nodes that are unions."""
        return (node for node in self._nodes if node["type"] == "union")

    def find_group(self, union: _Node) -> _Group | None:
        """Return the forms of a union that need a discriminator; None if none do.

        Raises:
            AmbiguousUnion: no field distinguishes two of them.
        """
        forms = [_form(choice) for choice in union["choices"]]
        recursive = [index for index, form in enumerate(forms) if self._holds_recursion(form)]
        for one, other in combinations([forms[index] for index in recursive], 2):
            if (
                (self._leads_to(one, union) or self._leads_to(other, union))
                and self._overlap(one, other)
                and not _differ(self._literals(one), self._literals(other))
            ):
                raise AmbiguousUnion(
                    f"`{self._name(one)}` and `{self._name(other)}` are forms of a recursive union "
                    f"that no field distinguishes, so each level of a value would multiply the work. "
                    f'Give each form a field with a value of its own, such as `kind: Literal["a"]`, '
                    f"or give the union a discriminator: `Field(discriminator=...)`."
                )
        group: _Group = {}
        # The recursive forms come first: others join if a field distinguishes them.
        for index in sorted(range(len(forms)), key=lambda index: index not in recursive):
            literals = self._literals(forms[index])
            if literals and all(_differ(literals, each.literals) for each in group.values()):
                group[index] = self._describe(forms[index], literals)
        return group if len(group.keys() & set(recursive)) > 1 else None

    def check_constructors(self, groups: Mapping[int, _Group]) -> None:
        """Check that no model converts such unions in its own `__init__`.

        Raises:
            AmbiguousUnion: pydantic calls a model's own `__init__`, which converts the fields without
                a discriminator.
        """
        unions = [node for node in self._nodes if id(node) in groups]
        for node in self._nodes:
            if node.get("custom_init") and any(self._leads_to(node, each) for each in unions):
                raise AmbiguousUnion(
                    f"`{self._name(node)}` defines `__init__` and holds a recursive union, whose "
                    f"forms it would try one by one. Give the union a discriminator: "
                    f"`Field(discriminator=...)`."
                )

    def _follow(self, node: _Node) -> _Node:
        seen = set()
        while node["type"] == "definition-ref" and id(node) not in seen:
            seen.add(id(node))
            node = self._definitions.get(node["schema_ref"], node)
        return node

    def _reachable(self, start: _Node) -> Iterator[_Node]:
        seen: set[int] = set()
        waiting = [start]
        while waiting:
            node = self._follow(waiting.pop())
            if id(node) not in seen:
                seen.add(id(node))
                yield node
                waiting.extend(_parts(node))

    def _leads_to(self, start: _Node, target: _Node) -> bool:
        return any(node is target for node in self._reachable(start))

    def _holds_recursion(self, form: _Node) -> bool:
        """Return whether a form is recursive or contains one that is.

        A union that tries such a form walks through all of the value, at each level again.
        """
        return any(id(node) in self._recursive for node in self._reachable(form))

    def _overlap(self, one: _Node, other: _Node) -> bool:
        return bool(self._kinds(one) & self._kinds(other))

    def _inner(self, node: _Node) -> _Node:
        """Return the node that determines the form of a value, without its wrappers."""
        for _ in range(len(self._nodes)):
            node = self._follow(node)
            wrapped = next((node[key] for key in _WRAPPED if isinstance(node.get(key), dict)), None)
            if node["type"] in _OBJECTS or wrapped is None:
                break
            node = wrapped
        return node

    def _kinds(self, node: _Node, seen: frozenset[int] = frozenset()) -> frozenset[str]:
        """Return which container types of JSON a form accepts."""
        inner = self._inner(node)
        if inner["type"] in _OBJECTS and not inner.get("root_model"):
            return frozenset({"object"})
        if inner["type"] in _ARRAYS:
            return frozenset({"array"})
        if inner["type"] in ("union", "tagged-union", "model") and id(inner) not in seen:
            found = [self._kinds(part, seen | {id(inner)}) for part in _parts(inner)]
            return frozenset[str]().union(*found)
        return _SCALARS.get(inner["type"], frozenset({"object", "array"}))

    def _fields(self, node: _Node) -> Iterator[tuple[str, tuple[str, ...], _Node]]:
        """Yield the fields of a form: the name in Python, the names in JSON, the node."""
        inner = self._inner(node)
        config = inner.get("config") or {}
        by_name = config.get("validate_by_name") or config.get("populate_by_name")
        while inner["type"] in ("model", "dataclass"):
            inner = self._inner(inner["schema"])
        fields = inner.get("fields", ())
        named = (
            fields.items()
            if isinstance(fields, dict)
            else [(field["name"], field) for field in fields if isinstance(field, dict)]
        )
        for name, field in named:
            alias = field.get("validation_alias", name)
            # An alias that is not a string is a path into the value.
            if isinstance(alias, str):
                yield name, ((alias, name) if by_name else (alias,)), field

    def _literals(self, node: _Node) -> list[_Literals]:
        """Return the fields of a form that have few possible values."""
        found = []
        for name, names, field in self._fields(node):
            schema = self._follow(field["schema"])
            while schema["type"] == "default":
                schema = self._follow(schema["schema"])
            if schema["type"] == "literal":
                values = frozenset(_key(each) for each in schema["expected"])
                found.append(_Literals(names, name, values, not self._is_required(field)))
        return found

    def _is_required(self, field: _Node) -> bool:
        return bool(field.get("required", self._follow(field["schema"])["type"] != "default"))

    def _describe(self, node: _Node, literals: list[_Literals]) -> _Form:
        fields = list(self._fields(node))
        return _Form(
            literals,
            [names for _name, names, field in fields if self._is_required(field)],
            frozenset(name for _name, names, _field in fields for name in names),
        )

    def _name(self, node: _Node) -> str:
        inner = self._inner(node)
        cls = inner.get("cls")
        return str(getattr(cls, "__name__", None) or inner.get("cls_name") or inner["type"])


_WRAPPED = ("schema", "python_schema", "lax_schema")
_SCALARS = {
    name: frozenset[str]()
    for name in ("bool", "float", "int", "literal", "none", "str", "date", "datetime", "enum")
}


def _form(choice: Any) -> _Node:
    form: _Node = choice[0] if isinstance(choice, tuple) else choice
    return form


def _parts(value: Any) -> Iterator[_Node]:
    """Yield the nodes directly inside a node."""
    for key, each in value.items():
        if key not in _DATA:
            yield from _nodes(each)


def _nodes(value: Any) -> Iterator[_Node]:
    if isinstance(value, dict):
        if isinstance(value.get("type"), str):
            yield value
        else:
            for each in value.values():
                yield from _nodes(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _nodes(each)


def _rebuild(value: Any, groups: Mapping[int, _Group]) -> Any:
    """Return a copy of a core schema in which the groups of forms have a discriminator."""
    if isinstance(value, list | tuple):
        return type(value)([_rebuild(each, groups) for each in value])
    if not isinstance(value, dict):
        return value
    if not isinstance(value.get("type"), str):
        return {key: _rebuild(each, groups) for key, each in value.items()}
    copied = {key: each if key in _DATA else _rebuild(each, groups) for key, each in value.items()}
    group = groups.get(id(value))
    return copied if group is None else _discriminated(copied, group)


def _discriminated(union: _Node, group: _Group) -> _Node:
    choices = union["choices"]
    names = sorted({each.names[0] for form in group.values() for each in form.literals})
    tagged: _Node = {
        "type": "tagged-union",
        "choices": {index: _form(choices[index]) for index in group},
        "discriminator": _picker(group),
        "custom_error_type": "form_not_found",
        "custom_error_message": f"should be one of the forms that {_quoted(names)} distinguishes",
    }
    others = [choice for index, choice in enumerate(choices) if index not in group]
    if not others:
        return {**{key: union[key] for key in union if key in _KEPT}, **tagged}
    return {**union, "choices": [tagged, *others]}


_KEPT = ("ref", "metadata", "serialization")


def _quoted(names: Sequence[str]) -> str:
    return " or ".join(f"`{name}`" for name in names)


def _picker(group: _Group) -> Callable[[Any], int | None]:
    forms = dict(sorted(group.items()))

    def pick(value: Any) -> int | None:
        found = [
            index
            for index, form in forms.items()
            if all(each.match(value) for each in form.literals)
        ]
        # Of forms that fit equally well, the first wins, as in pydantic.
        return max(found, key=lambda index: forms[index].fit(value), default=None)

    return pick


def _differ(one: list[_Literals], other: list[_Literals]) -> bool:
    """Return whether no value with the fields can match those of both forms."""
    return any(
        set(mine.names) & set(theirs.names) and not mine.values & theirs.values
        for mine in one
        for theirs in other
    )


def _key(value: Any) -> tuple[type, Any]:
    """Return a key that differs for `1`, `True` and `"1"`."""
    plain = value.value if isinstance(value, Enum) else value
    hash(plain)
    return (str if isinstance(plain, str) else type(plain), plain)
