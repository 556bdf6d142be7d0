"""Run the validators of the site's framework in `Annotated`, which pydantic does not know, and describe them in JSON Schema."""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterator, Mapping
from types import GenericAlias
from typing import Annotated, Any, Protocol, Union, get_args, get_origin

from django_mcp.protocol.json import JSONObject
from django_mcp.registry import hints
from django_mcp.registry.moments import Moments
from django_mcp.registry.rewriting import CoreRewriting
from django_mcp.registry.unions import Node


class FieldValidators(Protocol):
    """The validators of a framework: objects that are called with a value, and that may stand in `Annotated`.

    Attributes:
        advice: what a message adds for authors who may use one of them; "" if there are none.
    """

    advice: str

    def __hash__(self) -> int: ...

    def is_validator(self, value: Any) -> bool:
        """Return whether something is such a validator."""

    def is_validator_class(self, cls: type) -> bool:
        """Return whether the objects of a class are such validators."""

    def find_fault(self, validator: Any) -> str | None:
        """Return why a validator cannot be used for what clients send; None if it can."""

    def make_check(self, validator: Any) -> Callable[[Any], None]:
        """Return a function that raises ValueError, with the validator's own text, for a wrong value.

        Raises:
            ValueError: see `find_fault`.
        """

    def describe(self, validator: Any, schema: JSONObject) -> None:
        """Add to a JSON Schema what it can say of a validator."""


class ValueRules(Moments, Protocol):
    """The rules of a site for the values of clients: those for date-times, and the validators of its framework."""

    @property
    def validators(self) -> FieldValidators: ...


def find_fault(metadata: Any, validators: FieldValidators) -> str | None:
    """Return why something in `Annotated` is a mistake: a function or a validator that nobody calls; None if it is none."""
    if isinstance(metadata, type):
        if not (
            validators.is_validator_class(metadata)
            or metadata.__module__.partition(".")[0] == "annotated_types"
            or (metadata.__module__.startswith("pydantic.") and _is_read(metadata))
        ):
            return None
        name = metadata.__name__
        return f"`{name}` in Annotated is a class, and does nothing. Write `{name}(...)` there"
    if isinstance(metadata, _Running):
        return next(filter(None, map(validators.find_fault, metadata.own)), None)
    if not callable(metadata) or _is_read(metadata):
        return None
    name = getattr(metadata, "__name__", type(metadata).__name__)
    return (
        f"`{name}` in Annotated is never called. Write `pydantic.AfterValidator(...)` around a function that "
        f"returns the value and raises ValueError{validators.advice}"
    )


def _is_read(metadata: Any) -> bool:
    """Return whether pydantic reads something in `Annotated`."""
    hooks = ("schema", "core_schema", "json_schema")
    has_hook = any(hasattr(metadata, f"__get_pydantic_{hook}__") for hook in hooks)
    kind = type(metadata)
    return has_hook or kind.__module__.partition(".")[0] in ("pydantic", "annotated_types")


# -- types


def with_validators(annotation: Any, validators: FieldValidators) -> Any:
    """Return a type whose validators of the framework run wherever `Annotated` has them, also inside of a list or a union."""
    if get_origin(annotation) is Annotated:
        inner = with_validators(annotation.__origin__, validators)
        own = [each for each in annotation.__metadata__ if validators.is_validator(each)]
        if inner is annotation.__origin__ and not own:
            return annotation
        metadata = [each for each in annotation.__metadata__ if not validators.is_validator(each)]
        metadata += [_Running(own, validators)] if own else []
        return Annotated[inner, *metadata] if metadata else inner
    if type(annotation).__name__ == "TypeAliasType":
        # One that holds itself cannot be written out.
        is_plain = not getattr(annotation, "__type_params__", ()) and not _holds(
            annotation, annotation.__value__
        )
        changed = with_validators(annotation.__value__, validators) if is_plain else annotation
        return annotation if is_plain and changed is annotation.__value__ else changed
    arguments = get_args(annotation)
    if not arguments or get_origin(annotation) in (typing.Literal, Callable):
        return annotation
    changed = tuple(with_validators(argument, validators) for argument in arguments)
    if all(before is after for before, after in zip(arguments, changed, strict=True)):
        return annotation
    if get_origin(annotation) in hints.UNIONS:
        return Union[changed]  # noqa: UP007 - made at run time
    if hasattr(annotation, "copy_with"):
        return annotation.copy_with(changed)
    return GenericAlias(get_origin(annotation), changed)


def _holds(alias: Any, annotation: Any) -> bool:
    if annotation is alias:
        return True
    inner = (
        annotation.__value__
        if type(annotation).__name__ == "TypeAliasType"
        else annotation.__origin__
        if get_origin(annotation) is Annotated
        else None
    )
    parts = get_args(annotation) if inner is None else (inner,)
    return any(_holds(alias, part) for part in parts)


def find_metadata(annotation: Any, seen: frozenset[int] = frozenset()) -> Iterator[Any]:
    """Yield what `Annotated` has beside the types, wherever it is in a type, without the fields of records."""
    if id(annotation) in seen:
        return
    seen |= {id(annotation)}
    if get_origin(annotation) is Annotated:
        yield from annotation.__metadata__
        yield from find_metadata(annotation.__origin__, seen)
    elif type(annotation).__name__ == "TypeAliasType":
        yield from find_metadata(annotation.__value__, seen)
    elif get_origin(annotation) is not typing.Literal:
        for part in get_args(annotation):
            yield from find_metadata(part, seen)


class _Running:
    """In `Annotated`, it has pydantic run validators of the framework."""

    def __init__(self, own: list[Any], validators: FieldValidators) -> None:
        self.own = own
        self._validators = validators
        self._checks: list[Callable[[Any], None]] = []

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        return self.around(handler(source))

    def around(self, schema: Any) -> Node:
        """Return a core schema that runs the validators on the values of another."""
        self._checks = [self._validators.make_check(validator) for validator in self.own]
        return {
            "type": "function-after",
            "function": {"type": "no-info", "function": self._check},
            "schema": schema,
            "metadata": {"pydantic_js_functions": [self._describe]},
        }

    def _check(self, value: Any) -> Any:
        if value is not None:
            for check in self._checks:
                check(value)
        return value

    def _describe(self, schema: Any, handler: Any) -> JSONObject:
        described: JSONObject = handler(schema)
        if "$ref" not in described:
            for validator in self.own:
                self._validators.describe(validator, described)
        return described


# -- fields of records


class HiddenValidator(TypeError):
    """A validator of the framework that would never run; the text says where it is."""


class FieldRewriting(CoreRewriting):
    """A copy in which the fields of typed dicts, dataclasses and pydantic models run their validators of the framework."""

    def __init__(self, validators: FieldValidators) -> None:
        super().__init__()
        self._validators = validators
        self._cls: Any = None
        """The class whose fields are next."""

    def concerns(self, node: Node) -> bool:
        """See `CoreRewriting.concerns`."""
        return any(_validators_of_fields(node.get("cls"), self._validators).values())

    def rewrite_node(self, node: Node) -> Node:
        """See `CoreRewriting.rewrite_node`."""
        outer = self._cls
        cls = self._cls = node.get("cls") or outer
        rewritten = super().rewrite_node(node)
        self._cls = outer
        if node.get("type") not in _FIELDS:
            return rewritten
        fields, own = rewritten["fields"], _validators_of_fields(cls, self._validators)
        changed: Any
        if isinstance(fields, dict):
            changed = {name: self._run(field, own.get(name)) for name, field in fields.items()}
        else:
            changed = [self._run(field, own.get(field["name"])) for field in fields]
        return {**rewritten, "fields": changed}

    def _run(self, field: Node, own: list[Any] | None) -> Node:
        if not own:
            return field
        schema, running = field["schema"], _Running(own, self._validators)
        if schema["type"] == "default":
            return {**field, "schema": {**schema, "schema": running.around(schema["schema"])}}
        return {**field, "schema": running.around(schema)}


_FIELDS = ("typed-dict", "model-fields", "dataclass-args")


def _validators_of_fields(cls: Any, validators: FieldValidators) -> Mapping[str, list[Any]]:
    """Return the validators of the framework in the annotations of a record's fields, by their names."""
    if not hints.is_record(cls):
        return {}
    try:
        annotations = typing.get_type_hints(cls, include_extras=True)
    except (NameError, TypeError, AttributeError):
        return {}
    found = {}
    for name, annotation in annotations.items():
        inner, metadata = hints.strip_with_metadata(annotation)
        optional = hints.find_optional(inner)
        if optional is not None:
            metadata = (*hints.strip_with_metadata(optional)[1], *metadata)
        found[name] = [each for each in metadata if validators.is_validator(each)]
        if len(found[name]) < sum(map(validators.is_validator, find_metadata(annotation))):
            raise HiddenValidator(
                f"the field `{name}` of {cls.__name__} has a validator inside of its type, where it cannot run. "
                "Write it around the whole field, or write `Field(...)` with the limits."
            )
    return found
