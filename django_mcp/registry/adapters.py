"""Turn type hints into JSON Schemas and converters with pydantic."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Sequence
from math import isfinite
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, NotRequired

from msgspec.structs import replace

from django_mcp.protocol.header_params import ANNOTATION
from django_mcp.protocol.json import JSONObject, has_more_values
from django_mcp.registry import hints
from django_mcp.registry.binary import (
    BytesReading,
    BytesWriting,
    describe_bytes,
    encode_base64,
    is_encoded,
)
from django_mcp.registry.field_validators import (
    FieldRewriting,
    FieldValidators,
    HiddenValidator,
    ValueRules,
)
from django_mcp.registry.moments import MomentReading, Moments, MomentWriting
from django_mcp.registry.plain_types import LazyAdapter, plain_schema
from django_mcp.registry.problems import RegistrationError
from django_mcp.registry.rewriting import rewrite_adapter
from django_mcp.registry.signatures import EMPTY, Parameter
from django_mcp.registry.tagging import tag_unions
from django_mcp.registry.unions import AmbiguousUnion, check_unions

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from pydantic.json_schema import GenerateJsonSchema


class UnsupportedType(TypeError):
    """A type that has no form in JSON, or none in JSON Schema; the text says why."""


class SlowPattern(UnsupportedType):
    """A type matches texts of clients in more than linear time; the text says why."""


class UnknownClass(UnsupportedType):
    """The type is, or contains, a class whose objects JSON cannot represent."""


def adapt(
    annotation: Any,
    *,
    reads: Moments | None = None,
    writes: Moments | None = None,
    validators: FieldValidators | None = None,
) -> TypeAdapter[Any]:
    """Return the converter of one type, which chooses the forms of unions by their tags.

    Args:
        annotation: the type.
        reads: the rules by which it reads date-times; None: those of pydantic.
        writes: the rules by which it writes date-times; None: it does not write, but reads bytes from Base64.
        validators: those that run on what it reads.

    Raises:
        UnsupportedType: pydantic does not support the type.
        AmbiguousUnion, SlowPattern: see `check_adapter`.
    """
    try:
        adapter = make_adapter(annotation)
        if validators is not None:
            rewrite_adapter(adapter, FieldRewriting(validators), is_described=True)
        tag_unions(adapter)
        try:
            check_adapter(adapter)
        except AmbiguousUnion:
            if not tag_unions(adapter, has_defaults=True):
                raise
            check_adapter(adapter)
        if writes is None:
            moments = () if reads is None else (MomentReading(reads),)
            rewrite_adapter(adapter, BytesReading(), *moments)
        else:
            rewrite_adapter(adapter, BytesWriting(), MomentWriting(writes))
        return adapter
    except HiddenValidator as error:
        raise UnsupportedType(str(error)) from None
    except RecursionError as error:
        raise _explain(error) from None


def make_adapter(annotation: Any) -> TypeAdapter[Any]:
    """Return pydantic's own converter of one type.

    Raises:
        UnsupportedType: pydantic does not support the type.
    """
    import pydantic

    try:
        adapter = pydantic.TypeAdapter(annotation)
        _complete_build(adapter)
        return adapter
    except (pydantic.errors.PydanticUserError, NameError, RecursionError, ValueError) as error:
        # A cause would have its text, with advice for authors of types, printed before ours.
        raise _explain(error) from None


def _complete_build(adapter: TypeAdapter[Any]) -> None:
    if not isinstance(adapter.core_schema, dict):
        adapter.rebuild()  # its author had it deferred to its first use


def check_adapter(adapter: TypeAdapter[Any]) -> int:
    """Check that a converter takes linear time, and return what `unions.check_unions` does.

    Raises:
        AmbiguousUnion: see `unions.check_unions`.
        SlowPattern: it matches texts with Python's `re`, or compiles them.
    """
    _complete_build(adapter)
    schema: Any = adapter.core_schema
    width = check_unions(schema)
    fault = _find_pattern_fault(schema)
    if fault is not None:
        raise SlowPattern(fault)
    return width


_PATTERN = (
    "it holds an `re.Pattern`, and to compile or match a regular expression of a client may take for ever. "
    "Take its text, and match it with an engine that needs linear time."
)

_SLOW_PATTERN = (
    "it matches texts with Python's `re`, which may take for ever with a text of a client. Write the pattern "
    'as a string, without `re.compile` and without `regex_engine="python-re"`.'
)


def _find_pattern_fault(schema: Any) -> str | None:
    """Return why regular expressions of a core schema may take longer than linear time."""
    # With each part, whether the model that it is in chooses Python's engine.
    waiting, seen = [(schema, False)], set[tuple[int, bool]]()
    while waiting:
        each, is_slow = waiting.pop()
        if isinstance(each, re.Pattern):
            return _SLOW_PATTERN
        # Another dict has the fields of a model by their names.
        if isinstance(each, dict) and isinstance(each.get("type"), str):
            engine = (each.get("config") or each).get("regex_engine")
            is_slow = engine == "python-re" if engine or "config" in each else is_slow
            if is_slow and each["type"] == "str" and "pattern" in each:
                return _SLOW_PATTERN
        if isinstance(each, dict | list | tuple):
            if (id(each), is_slow) not in seen:
                seen.add((id(each), is_slow))
                inner = each.values() if isinstance(each, dict) else each
                waiting.extend((part, is_slow) for part in inner)
        elif _PATTERN_VALIDATOR.fullmatch(f"{_of(each, '__module__')}.{_of(each, '__name__')}"):
            return _PATTERN
    return None


def _of(value: Any, name: str) -> str:
    return str(getattr(value, name, ""))


_PATTERN_VALIDATOR = re.compile(r"pydantic\..*\.pattern_\w+_validator")

_UNKNOWN = re.compile(r"Unable to generate pydantic-core schema for <class '([^']+)'>")


def _explain(error: Exception) -> UnsupportedType:
    """Return an error of pydantic in our terms: its own advice is for those who write types."""
    from pydantic.errors import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError

    text = str(error)
    if isinstance(error, PydanticSchemaGenerationError):
        named = _UNKNOWN.match(text)
        if named:
            return UnknownClass(f"{named[1]} is a class whose objects JSON cannot represent.")
        return UnsupportedType("it is not a type of data.")
    if isinstance(error, PydanticInvalidForJsonSchema):
        return UnsupportedType("its values are not data.")
    return UnsupportedType(text.partition("\n\nFor further information")[0])


def adapt_arguments(parameters: Sequence[Parameter], source: str, rules: ValueRules) -> LazyAdapter:
    """Return the converter from a JSON object to the keyword arguments of a call.

    It leaves out missing arguments, so that the function's own defaults apply.
    """
    return LazyAdapter(lambda: _adapt_all(parameters, source, rules), waits=_are_plain(parameters))


def _are_plain(parameters: Sequence[Parameter]) -> bool:
    return all(plain_schema(parameter.annotation) is not None for parameter in parameters)


def _adapt_all(parameters: Sequence[Parameter], source: str, rules: ValueRules) -> TypeAdapter[Any]:
    # Any name is possible, because the keys of a TypedDict collide with nothing.
    from pydantic import ConfigDict
    from typing_extensions import TypedDict

    fields = {
        parameter.name: parameter.annotation
        if parameter.is_required
        else NotRequired[parameter.annotation]
        for parameter in parameters
    }
    make: Any = TypedDict
    arguments = make("Arguments", fields)
    arguments.__pydantic_config__ = ConfigDict(extra="forbid")
    try:
        return adapt(arguments, reads=rules, validators=rules.validators)
    except TypeError as error:
        raise _blame(parameters, source, rules, error) from None


def adapt_strings(
    parameters: Sequence[Parameter], source: str, rules: ValueRules, lists: Collection[str] = ()
) -> LazyAdapter:
    """Return the converter of the string arguments of prompts and URI templates.

    It reads numbers, dates, choices and the like from their text, and lists and objects from JSON,
    except for the parameters in `lists`, which arrive as lists of strings.
    """

    def make() -> TypeAdapter[Any]:
        converted = [
            parameter
            if parameter.name in lists
            else replace(parameter, annotation=_from_string(parameter.annotation))
            for parameter in parameters
        ]
        return _adapt_all(converted, source, rules)

    return LazyAdapter(make, waits=_are_plain(parameters))


def _from_string(annotation: Any) -> Any:
    import pydantic

    if hints.is_structured(annotation):
        json: Any = pydantic.Json
        checks = [pydantic.BeforeValidator(_check_size)]
        if hints.is_list(annotation):
            checks.append(pydantic.BeforeValidator(_check_list))
        return Annotated[json[annotation], *checks]
    choices = hints.find_choices(annotation)
    if choices is None or all(type(value) is str for value in choices.values()):
        return annotation
    return Annotated[annotation, pydantic.BeforeValidator(lambda text: choices.get(text, text))]


MAX_TEXT_VALUES = 20_000
"""Values in one JSON argument inside a string, which pydantic decodes at once."""


def _check_size(text: Any) -> Any:
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else b""
    if has_more_values(data, MAX_TEXT_VALUES):
        raise ValueError(f"it holds more than {MAX_TEXT_VALUES} values; send less at once")
    return text


def _check_list(text: Any) -> Any:
    """Tell people who type a list how to write it."""
    if isinstance(text, str) and text.strip() != "null" and not text.lstrip().startswith("["):
        raise ValueError('must be a list in JSON, such as [1, 2] or ["a", "b"]')
    return text


def _blame(
    parameters: Sequence[Parameter], source: str, rules: ValueRules, error: TypeError
) -> RegistrationError:
    """Return the error that names the parameter whose type fails."""
    for parameter in parameters:
        fault = "has no form in JSON"
        try:
            adapter = adapt(parameter.annotation, validators=rules.validators)
            fault = "cannot be described in JSON Schema"
            schema_of(adapter)
        except AmbiguousUnion as reason:
            return RegistrationError(
                f"{source}: the type of the parameter `{parameter.name}`: {reason}"
            )
        except TypeError as reason:
            advice = "Use plain types, a dataclass, a TypedDict or a pydantic model."
            if isinstance(reason, UnknownClass):
                advice = (
                    "Take what identifies the object, such as the primary key of a model "
                    f"(`{parameter.name}: int`), or declare its fields with a dataclass, a TypedDict or "
                    "a pydantic model."
                )
            return RegistrationError(
                f"{source}: the type of the parameter `{parameter.name}` {fault}: {reason} {advice}"
            )
    return RegistrationError(f"{source}: its parameters: {error}")


def input_schema(
    arguments: LazyAdapter, parameters: Sequence[Parameter], source: str, rules: ValueRules
) -> JSONObject:
    """Return the JSON Schema (2020-12) of the arguments that `adapt_arguments` takes."""
    generated: JSONObject = {
        "properties": {
            parameter.name: plain_schema(parameter.annotation) for parameter in parameters
        },
        "required": [parameter.name for parameter in parameters if parameter.is_required],
    }
    if None in generated["properties"].values():
        try:
            generated = schema_of(arguments.adapter)
        except TypeError as error:
            raise _blame(parameters, source, rules, error) from None
    schema: JSONObject = {"type": "object", "properties": generated["properties"]}
    for described in parameters:
        _complete(schema["properties"][described.name], described)
    if generated.get("required"):
        schema["required"] = generated["required"]
    schema["additionalProperties"] = False
    if "$defs" in generated:
        schema["$defs"] = generated["$defs"]
    _close(schema)
    return schema


def _close(schema: Any) -> None:
    """Forbid unknown members of the objects of a schema, which pydantic drops without a word."""
    pending = [schema]
    while pending:
        each = pending.pop()
        if isinstance(each, list):
            pending.extend(each)
        elif isinstance(each, dict):
            if each.get("type") == "object" and isinstance(each.get("properties"), dict):
                # What stands beside the properties may know more of them.
                if each.keys().isdisjoint({"$ref", "allOf", "anyOf", "oneOf", "if"}):
                    each.setdefault("additionalProperties", False)
                pending.extend(each["properties"].values())
            pending.extend(
                each[key] for key in ("items", "prefixItems", "anyOf", "oneOf") if key in each
            )
            pending.extend(each.get("$defs", {}).values())
            if isinstance(each.get("additionalProperties"), dict):
                pending.append(each["additionalProperties"])


def _complete(schema: JSONObject, parameter: Parameter) -> None:
    if parameter.description is not None:
        schema["description"] = parameter.description
    default = parameter.default
    if default is EMPTY:
        return
    if default is None and (ANNOTATION in schema or not hints.is_nullable(parameter.annotation)):
        return  # `x: int = None`, or a header: to say None, leave it out
    published = _to_json(default)
    if published is not EMPTY and (published is not None or default is None):
        schema["default"] = published


def _to_json(value: Any) -> Any:
    """Return a default as JSON; `EMPTY` if it cannot be represented."""
    if type(value) in (str, int, bool, NoneType) or (type(value) is float and isfinite(value)):
        return value
    if isinstance(value, bytes):
        return encode_base64(value)
    from pydantic_core import PydanticSerializationError, to_jsonable_python

    try:
        return to_jsonable_python(value, inf_nan_mode="null", bytes_mode="base64")
    except (PydanticSerializationError, UnicodeDecodeError, ValueError):
        return EMPTY


def schema_of(adapter: TypeAdapter[Any], *, is_output: bool = False) -> JSONObject:
    """Return the JSON Schema (2020-12) of a converter's type, for reading or for writing.

    Titles that pydantic derives from names are left out: they cost tokens and add nothing.

    Raises:
        UnsupportedType: the type has no JSON Schema.
    """
    from pydantic.errors import PydanticUserError

    try:
        return adapter.json_schema(
            by_alias=True,
            mode="serialization" if is_output else "validation",
            schema_generator=_generator(),
        )
    except (PydanticUserError, RecursionError) as error:
        # A cause would have its text, with advice for authors of types, printed before ours.
        raise _explain(error) from None


@functools.cache
def _generator() -> type[GenerateJsonSchema]:
    from pydantic.json_schema import GenerateJsonSchema

    class Generator(GenerateJsonSchema):
        def field_title_should_be_set(self, schema: Any) -> bool:
            return False

        model_schema = _open(_untitled(GenerateJsonSchema.model_schema))
        dataclass_schema = _open(_untitled(GenerateJsonSchema.dataclass_schema))
        typed_dict_schema = _open(_untitled(GenerateJsonSchema.typed_dict_schema))
        enum_schema = _untitled(GenerateJsonSchema.enum_schema)

        def tagged_union_schema(self, schema: Any) -> JSONObject:
            # `discriminator` is a keyword of OpenAPI, and not every client reads `oneOf`. The tags
            # of the forms exclude each other.
            described = super().tagged_union_schema(schema)
            described.pop("discriminator", None)
            return {"anyOf" if key == "oneOf" else key: value for key, value in described.items()}

        def decimal_schema(self, schema: Any) -> JSONObject:
            # pydantic's pattern uses look-ahead, which linear-time validators do not support.
            described = super().decimal_schema(schema)
            for branch in (described, *described.get("anyOf", ())):
                if branch.get("type") == "string" and "pattern" in branch:
                    branch["pattern"] = _DECIMAL
            return described

        def bytes_schema(self, schema: Any) -> JSONObject:
            is_output = self.mode == "serialization"
            described = describe_bytes(schema, self._config.config_dict, is_output=is_output)
            return super().bytes_schema(schema) if described is None else described

        def function_after_schema(self, schema: Any) -> JSONObject:
            described = super().function_after_schema(schema)
            if is_encoded(schema):
                described.pop("contentEncoding", None)
            return described

        def emit_warning(self, kind: Any, detail: str) -> None:
            """Ignore defaults that JSON cannot represent: they are not published."""

    return Generator


_DECIMAL = r"^[-+]?(\d+\.?\d*|\.\d+)$"


def _open(describe: Callable[[Any, Any], JSONObject]) -> Any:
    def describe_open(generator: Any, schema: Any) -> JSONObject:
        described = describe(generator, schema)
        cls = schema.get("cls")
        config = getattr(cls, "model_config", None) or getattr(cls, "__pydantic_config__", None)
        if (config or {}).get("extra") == "ignore":
            # Its author says what is only pydantic's default elsewhere.
            described.setdefault("additionalProperties", True)
        return described

    return describe_open


def _untitled(describe: Callable[[Any, Any], JSONObject]) -> Any:
    def describe_untitled(generator: Any, schema: Any) -> JSONObject:
        described = describe(generator, schema)
        if described.get("title") == getattr(schema.get("cls"), "__name__", None):
            described.pop("title", None)
        return described

    return describe_untitled
