"""Run the validators of Django in `Annotated`, which pydantic does not know, and describe them in JSON Schema.

They are recognized by the module of their class, since this layer does not import Django.
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from functools import partial
from math import isfinite
from types import GenericAlias
from typing import Annotated, Any, Union, get_args, get_origin

from django_mcp.protocol.json import JSONObject
from django_mcp.registry import hints
from django_mcp.registry.problems import show
from django_mcp.registry.rewriting import CoreRewriting
from django_mcp.registry.unions import Node

_MODULE = "django.core.validators"

_LIMITS = {
    "MinValueValidator": ("minimum", max),
    "MaxValueValidator": ("maximum", min),
}
_LENGTHS = {
    "MinLengthValidator": ({"string": "minLength", "array": "minItems"}, max),
    "MaxLengthValidator": ({"string": "maxLength", "array": "maxItems"}, min),
}
"""The keywords that say what a validator does, and which of two values for one holds."""

_SPECIAL = re.compile(r"\\[^dAZ.\-/+*?()\[\]{}|^$\\]|\(\?(?!:)|(?<!^)\\A|\\Z(?!$)")
"""Parts of a pattern that other languages read in another way than Python does."""


def find_fault(metadata: Any) -> str | None:
    """Return why something in `Annotated` is a mistake: a function or a validator that nobody calls; None if it is none."""
    if isinstance(metadata, type):
        if not (
            _class_in(metadata, _MODULE)
            or metadata.__module__.partition(".")[0] == "annotated_types"
            or (metadata.__module__.startswith("pydantic.") and _is_read(metadata))
        ):
            return None
        name = metadata.__name__
        return f"`{name}` in Annotated is a class, and does nothing. Write `{name}(...)` there"
    if isinstance(metadata, _Running):
        return next(filter(None, map(_find_pattern_fault, metadata.validators)), None)
    if not callable(metadata) or _is_read(metadata):
        return None
    name = getattr(metadata, "__name__", type(metadata).__name__)
    return (
        f"`{name}` in Annotated is never called. Write `pydantic.AfterValidator(...)` around a function that "
        f"returns the value and raises ValueError, or use a validator of {_MODULE}"
    )


def is_validator(value: Any) -> bool:
    """Return whether something in `Annotated` is a validator of Django, or of a class that derives from one."""
    if inspect.isfunction(value):
        return value.__module__ == _MODULE
    return callable(value) and _class_in(type(value), _MODULE)


def _class_in(kind: type, module: str) -> bool:
    return any(base.__module__ == module for base in kind.__mro__)


def _is_read(metadata: Any) -> bool:
    """Return whether pydantic reads something in `Annotated`."""
    hooks = ("schema", "core_schema", "json_schema")
    has_hook = any(hasattr(metadata, f"__get_pydantic_{hook}__") for hook in hooks)
    kind = type(metadata)
    return has_hook or kind.__module__.partition(".")[0] in ("pydantic", "annotated_types")


def _find_pattern_fault(validator: Any) -> str | None:
    if not _has_pattern(validator):
        return None
    try:
        _compile(validator)
    except ValueError as error:
        return (
            f"the pattern {_regex(validator).pattern!r:.100} cannot be matched in linear time ({error}), and a client "
            "chooses the text. Write it without look-around and back-references"
        )
    return None


# -- types


def with_validators(annotation: Any) -> Any:
    """Return a type whose validators of Django run wherever `Annotated` has them, also inside of a list or a union."""
    if get_origin(annotation) is Annotated:
        inner = with_validators(annotation.__origin__)
        own = [each for each in annotation.__metadata__ if is_validator(each)]
        if inner is annotation.__origin__ and not own:
            return annotation
        metadata = [each for each in annotation.__metadata__ if not is_validator(each)]
        metadata += [_Running(own)] if own else []
        return Annotated[inner, *metadata] if metadata else inner
    if type(annotation).__name__ == "TypeAliasType":
        # One that holds itself cannot be written out.
        is_plain = not getattr(annotation, "__type_params__", ()) and not _holds(
            annotation, annotation.__value__
        )
        changed = with_validators(annotation.__value__) if is_plain else annotation
        return annotation if is_plain and changed is annotation.__value__ else changed
    arguments = get_args(annotation)
    if not arguments or get_origin(annotation) in (typing.Literal, Callable):
        return annotation
    changed = tuple(map(with_validators, arguments))
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
    """In `Annotated`, it has pydantic run validators of Django."""

    def __init__(self, validators: list[Any]) -> None:
        self.validators = validators
        self._checks: list[Callable[[Any], None]] = []

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        return self.around(handler(source))

    def around(self, schema: Any) -> Node:
        """Return a core schema that runs the validators on the values of another."""
        self._checks = [_make_check(validator) for validator in self.validators]
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
            for validator in self.validators:
                _describe(validator, described)
        return described


# -- fields of records


class HiddenValidator(TypeError):
    """A validator of Django that would never run; the text says where it is."""


class FieldRewriting(CoreRewriting):
    """A copy in which the fields of typed dicts, dataclasses and pydantic models run their validators of Django."""

    def __init__(self) -> None:
        super().__init__()
        self._cls: Any = None
        """The class whose fields are next."""

    def concerns(self, node: Node) -> bool:
        """See `CoreRewriting.concerns`."""
        return any(_validators_of_fields(node.get("cls")).values())

    def rewrite_node(self, node: Node) -> Node:
        """See `CoreRewriting.rewrite_node`."""
        outer = self._cls
        cls = self._cls = node.get("cls") or outer
        rewritten = super().rewrite_node(node)
        self._cls = outer
        if node.get("type") not in _FIELDS:
            return rewritten
        fields, own = rewritten["fields"], _validators_of_fields(cls)
        changed: Any
        if isinstance(fields, dict):
            changed = {name: _run(field, own.get(name)) for name, field in fields.items()}
        else:
            changed = [_run(field, own.get(field["name"])) for field in fields]
        return {**rewritten, "fields": changed}


_FIELDS = ("typed-dict", "model-fields", "dataclass-args")


def _run(field: Node, validators: list[Any] | None) -> Node:
    if not validators:
        return field
    schema, running = field["schema"], _Running(validators)
    if schema["type"] == "default":
        return {**field, "schema": {**schema, "schema": running.around(schema["schema"])}}
    return {**field, "schema": running.around(schema)}


def _validators_of_fields(cls: Any) -> Mapping[str, list[Any]]:
    """Return the validators of Django in the annotations of a record's fields, by their names."""
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
        found[name] = [each for each in metadata if is_validator(each)]
        if len(found[name]) < sum(map(is_validator, find_metadata(annotation))):
            raise HiddenValidator(
                f"the field `{name}` of {cls.__name__} has a validator of Django inside of its type, where it "
                "cannot run. Write it around the whole field, or write `Field(...)` with the limits."
            )
    return found


# -- validators


def _make_check(validator: Any) -> Callable[[Any], None]:
    if _has_pattern(validator):
        return partial(_check_pattern, validator, _compile(validator))
    return partial(_check_value, validator)


def _check_value(validator: Any, value: Any) -> None:
    try:
        validator(value)
    except OverflowError:
        # Of a validator that calculates with floats, such as one of steps.
        raise ValueError("The number is too large.") from None
    except Exception as error:
        messages = getattr(error, "messages", None)  # of Django's ValidationError
        if messages is None:
            raise
        raise ValueError(" ".join(map(str, messages))) from None


def _check_pattern(validator: Any, matches: Callable[[str], bool], value: Any) -> None:
    if matches(str(value)) == bool(validator.inverse_match):
        message = str(validator.message)
        raise ValueError(message.replace("%(value)s", show(str(value))))


def _has_pattern(validator: Any) -> bool:
    """Return whether a validator does no more than match a pattern of its author's."""
    calls = (vars(base)["__call__"] for base in type(validator).__mro__ if "__call__" in vars(base))
    call = next(calls, None)
    return (
        getattr(call, "__module__", "") == _MODULE
        and getattr(call, "__qualname__", "") == "RegexValidator.__call__"
    )


def _regex(validator: Any) -> re.Pattern[str]:
    regex: re.Pattern[str] = validator.regex
    return regex


def _compile(validator: Any) -> Callable[[str], bool]:
    """Return a function that matches the pattern of a validator in linear time; raise ValueError if there is none."""
    from pydantic_core import SchemaError, SchemaValidator, core_schema

    regex = _regex(validator)
    letters = ((re.IGNORECASE, "i"), (re.MULTILINE, "m"), (re.DOTALL, "s"), (re.VERBOSE, "x"))
    flags = "".join(letter for flag, letter in letters if regex.flags & flag)
    pattern = regex.pattern.replace(r"\Z", r"\z")
    try:
        matching = SchemaValidator(
            core_schema.str_schema(
                pattern=f"(?{flags}){pattern}" if flags else pattern, regex_engine="rust-regex"
            )
        )
    except (SchemaError, UnicodeEncodeError, TypeError) as error:
        lines = str(error).splitlines()
        told = next((line[7:] for line in lines if line.startswith("error: ")), lines[-1])
        raise ValueError(told) from error
    return matching.isinstance_python


def _describe(validator: Any, schema: JSONObject) -> None:
    """Add to a schema what it can say of a validator."""
    name, limit = _compared_as(validator), _number(getattr(validator, "limit_value", None))
    if name in _LIMITS and limit is not None:
        keyword, choose = _LIMITS[name]
        schema[keyword] = choose(schema.get(keyword, limit), limit)
    elif name in _LENGTHS and limit is not None:
        keywords, choose = _LENGTHS[name]
        branches = [schema, *schema.get("anyOf", ())]
        kinds = {branch.get("type") for branch in branches if isinstance(branch, dict)}
        for keyword in (keywords[kind] for kind in keywords if kind in kinds):
            schema[keyword] = choose(schema.get(keyword, limit), limit)
    elif _has_pattern(validator) and not validator.inverse_match and "pattern" not in schema:
        regex = _regex(validator)
        if regex.flags == re.UNICODE and not _SPECIAL.search(regex.pattern):
            schema["pattern"] = re.sub(r"\\Z$", "$", re.sub(r"^\\A", "^", regex.pattern))


def _compared_as(validator: Any) -> str:
    """Return the name of Django's validator that compares as this one does; `""` if its class has its own way."""
    for base in type(validator).__mro__:
        if base.__module__ == _MODULE:
            return base.__name__
        if not vars(base).keys().isdisjoint(("compare", "clean", "__call__")):
            return ""
    return ""


def _number(limit: Any) -> int | float | None:
    """Return a limit as JSON has it; None for a date, a function or what is no number in JSON."""
    if isinstance(limit, Decimal):
        limit = (
            int(limit) if limit.is_finite() and limit == limit.to_integral_value() else float(limit)
        )
    if type(limit) is int or (type(limit) is float and isfinite(limit)):
        return limit
    return None
