"""Convert a tool's return value into its result: blocks for the model, data for programs.

The data's schema comes from the return annotation, if that declares data.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterable, Callable, Iterable, Mapping
from collections.abc import Iterator as IteratorABC
from dataclasses import replace
from io import IOBase
from types import GeneratorType, NoneType
from typing import Any, Literal, Protocol, get_args, get_origin

from django_mcp.protocol.asks import InputRequired
from django_mcp.protocol.content import (
    BLOCKS,
    BlobContents,
    Content,
    EmbeddedResource,
    File,
    Text,
    TextContents,
)
from django_mcp.protocol.json import JSONObject, decode, encode, is_lazy, may_hold_infinite
from django_mcp.protocol.results import ABSENT, PromptMessage, PromptResult, ReadResult, ToolResult
from django_mcp.registry import adapters, finite, hints
from django_mcp.registry.field_validators import ValueRules
from django_mcp.registry.plain_types import LazyAdapter, plain_schema
from django_mcp.registry.problems import RegistrationError, conversion_error, describe_conversion
from django_mcp.registry.reading import compile_reading
from django_mcp.registry.signatures import EMPTY, Yielded
from django_mcp.registry.unions import AmbiguousUnion, NodeGraph
from django_mcp.registry.validators import Validator

BINARY = (bytes, bytearray, memoryview)
CONTENTS = (TextContents, BlobContents)
_RESULTS = (ToolResult, ReadResult, PromptResult, PromptMessage, InputRequired)
_FREE = (None, NoneType, Any, object, EMPTY, str)
_BARE_COLLECTIONS = (list, tuple, set, frozenset)
_PLAIN = (NoneType, str, bool, int, float, dict, *_BARE_COLLECTIONS, *BLOCKS, *CONTENTS, *BINARY)


class ReturnError(TypeError):
    """A handler returned something it did not declare, or that a result cannot represent."""


class ResultConverter(ValueRules, Protocol):
    """Converts the objects of a framework that handlers return, and the values of clients."""

    def convert(self, value: Any) -> Any:
        """Return something plainer for a framework's object, such as a list for a QuerySet.

        Called for values that are neither plain data nor records. If it returns the object unchanged,
        the object is unknown. It may raise an error that tells the handler's author what to return.
        """

    def needs_thread(self, value: Any) -> bool:
        """Return whether converting a value may block, and so must not run on the event loop."""

    def report(self, text: str) -> None:
        """Log what is wrong with a function whose value is sent nevertheless."""


_DIFFERENCE = "returned what its annotation does not allow, which is logged once"


_NOT_AWAITED = (
    "returned a coroutine that it did not await: write `return await ...` in a handler with `async def`, "
    "or call the synchronous method, such as `count()` for `acount()`"
)


def _not_raised(value: BaseException) -> str:
    return f"returned an exception, {type(value).__name__}: raise it instead"


def _refuse_stream(value: Any) -> None:
    """Raise `ReturnError` for an open file or a response of HTTP, which would become a list of its lines or parts."""
    if isinstance(value, _PLAIN) or hints.is_record(type(value)):
        return
    if isinstance(value, BaseException):
        raise ReturnError(_not_raised(value))
    name = f"{type(value).__module__}.{type(value).__qualname__}"
    if isinstance(value, Iterable) and hasattr(value, "status_code"):
        raise ReturnError(
            f"returned a response of HTTP, {name}: return its data instead, or File(data, name=...) for a file"
        )
    if isinstance(value, IOBase) or (_has_method(value, "read") and _has_method(value, "close")):
        raise ReturnError(f"returned an open file, {name}: wrap it, as in `return File(file)`")


def _has_method(value: Any, name: str) -> bool:
    # The class comes first: the file of a model's field has properties that open it.
    return hasattr(type(value), name) or callable(getattr(value, name, None))


def _refuse_inner_streams(value: Any) -> None:
    """Refuse open files directly in a dict, and those that a list has first."""
    if isinstance(value, dict):
        for each in value.values():
            if isinstance(each, IOBase):
                _refuse_stream(each)
    elif isinstance(value, list | tuple) and value and isinstance(value[0], IOBase):
        _refuse_stream(value[0])


def plainer(value: Any, converter: ResultConverter) -> Any:
    """Return a value, converted if it is lazy or an object of the framework."""
    if isinstance(value, _PLAIN) or hints.is_record(type(value)):
        return value
    _refuse_stream(value)
    return str(value) if is_lazy(value) else converter.convert(value)


def to_json(
    value: Any,
    converter: ResultConverter,
    *,
    infinite: Literal["null", "constants"] = "null",
) -> Any:
    """Return a value as plain JSON; mappings, records, dates, enums and iterables are supported.

    With `infinite="constants"`, numbers that JSON does not have stay as they are.
    """
    if type(value) in (str, int, bool, NoneType):
        return value
    _refuse_stream(value)
    _refuse_inner_streams(value)
    from pydantic_core import PydanticSerializationError, to_jsonable_python

    try:
        return to_jsonable_python(
            value,
            bytes_mode="base64",
            by_alias=True,
            inf_nan_mode=infinite,
            fallback=lambda each: unfold(each, converter),
        )
    except (PydanticSerializationError, ValueError) as error:
        raise ReturnError(f"a {type(value).__name__} cannot be written as JSON: {error}") from error


def unfold(value: Any, converter: ResultConverter) -> Any:
    """Return the framework's conversion of an object."""
    if is_lazy(value):
        return str(value)
    converted = converter.convert(value)
    if converted is not value:
        return converted
    if inspect.isawaitable(value):
        raise ReturnError(_NOT_AWAITED)
    if isinstance(value, BaseException):
        raise ReturnError(_not_raised(value))
    name = f"{type(value).__module__}.{type(value).__qualname__}"
    raise ReturnError(
        f"a {name} cannot be represented in JSON: return its fields, or declare them in the return "
        f"annotation with a dataclass, a TypedDict or a pydantic model"
    )


# -- the declared return type


class Output:
    """The declared type of a tool's data: its JSON Schema, and how values become JSON."""

    __slots__ = ("_conversion", "_converter", "_is_unsuspected", "_read", "_source", "schema")

    def __init__(self, annotation: Any, source: str, converter: ResultConverter) -> None:
        """Raise what `adapters.adapt` raises."""
        plain = plain_schema(annotation)
        self._conversion = LazyAdapter(
            lambda: adapters.adapt(annotation, writes=converter), waits=plain is not None
        )
        self.schema = plain or adapters.schema_of(self._conversion.adapter, is_output=True)
        self._source = source
        self._converter = converter
        self._read = compile_reading(annotation, converter.convert)
        # Whether to look for a value that differs from its annotation, which is logged once; None: not
        # decided yet.
        self._is_unsuspected: bool | None = None

    def to_json(self, value: Any) -> Any:
        """Return a value in the form that the schema describes.

        Raises:
            ReturnError: it does not have the declared fields, or not with those types.
        """
        from pydantic_core import PydanticSerializationError

        _refuse_stream(value)
        prepared, adapter = self._read(value), self._conversion.adapter
        try:
            typed = adapter.validate_python(prepared, from_attributes=True)
        except conversion_error() as error:
            if inspect.isawaitable(value):
                raise ReturnError(f"{self._source} {_NOT_AWAITED}") from None
            if isinstance(value, BaseException):
                raise ReturnError(f"{self._source} {_not_raised(value)}") from None
            problems = "; ".join(
                f"{problem.pointer or 'the value'} {problem.message}"
                for problem in describe_conversion(error, prepared)
            )
            raise ReturnError(
                f"{self._source} did not return what it declares: {problems}"
            ) from error
        is_suspected = False
        if self._is_unsuspected is None:
            self._is_unsuspected = not _may_hold_iterators(adapter.core_schema)
        if self._is_unsuspected:
            try:
                return self._serialize(typed, warnings="error")
            except (PydanticSerializationError, ValueError):
                is_suspected = True
        try:
            data = self._serialize(typed, warnings=False)
        except (PydanticSerializationError, ValueError) as error:
            raise ReturnError(f"{self._source} returned what JSON cannot hold: {error}") from error
        if is_suspected:
            self._is_unsuspected = False
            self._log_difference(data)
        return data

    def _serialize(self, typed: Any, *, warnings: bool | Literal["error"]) -> Any:
        return self._conversion.adapter.serializer.to_python(
            typed,
            mode="json",
            by_alias=True,
            warnings=warnings,
            fallback=lambda each: unfold(each, self._converter),
        )

    def _log_difference(self, data: Any) -> None:
        """Log what the schema does not allow in the data, such as a field of a dataclass with another type."""
        # Briefly, since it may run on the event loop.
        problems = Validator(self.schema, self._source, is_input=False).check(data)
        if problems:
            told = "; ".join(f"{problem.pointer or 'it'} {problem.message}" for problem in problems)
            self._converter.report(f"{self._source} {_DIFFERENCE}: {told}")


def _may_hold_iterators(core_schema: Any) -> bool:
    """Return whether values may hold an iterator, so that they can be serialized only once."""
    kinds = {node["type"] for node in NodeGraph(core_schema).nodes}
    return not kinds.isdisjoint(("generator", "any", "is-instance"))


def find_output(annotation: Any, source: str, converter: ResultConverter) -> Output | None:
    """Return the declared data of a return annotation; None for text, blocks and unknown types."""
    data = _find_data(annotation)
    if data is None:
        return None
    try:
        return Output(data, source, converter)
    except AmbiguousUnion as error:
        raise RegistrationError(
            f"{source}: its return type: {error} Or say output_schema=None to publish none."
        ) from None
    except TypeError as error:
        if not _declares_fields(data):
            return None  # a framework's class, for the converter
        advice = "Correct it"
        if isinstance(error, adapters.UnknownClass):
            advice = "Declare its fields with a dataclass, a TypedDict or a pydantic model"
        raise RegistrationError(
            f"{source}: its return type has no form in JSON: {error} "
            f"{advice}, or say output_schema=None to publish none."
        ) from None


def promises_data(annotation: Any) -> bool:
    """Return whether a return annotation declares JSON objects or arrays."""
    return _find_data(annotation) is not None and hints.is_structured(annotation)


def _find_data(annotation: Any) -> Any | None:
    """Return the type of the data that an annotation declares, or None."""
    plain = hints.strip(annotation)
    if _is_free(plain) or plain in _BARE_COLLECTIONS:
        return None
    origin, arguments = get_origin(plain), get_args(plain)
    if isinstance(origin, type) and arguments:
        item = arguments[0]
        if issubclass(origin, IteratorABC | AsyncIterable) or origin is Iterable:
            # Text that is yielded is one result in parts.
            return None if _find_data(item) is None else list[item]  # type: ignore[valid-type]
        may_be_block = any(
            part is not str and part is not NoneType and _is_free(part)
            for part in hints.members(item)
        )
        if issubclass(origin, Iterable) and not issubclass(origin, Mapping) and may_be_block:
            return None
    if any(_is_free(part) and part is not NoneType for part in hints.members(plain)):
        return None
    return annotation


def _is_free(plain: Any) -> bool:
    if any(plain is free_type for free_type in _FREE):
        return True
    return isinstance(plain, type) and issubclass(plain, (*BLOCKS, *CONTENTS, *BINARY, *_RESULTS))


def _declares_fields(annotation: Any) -> bool:
    return hints.is_record(hints.strip(annotation)) or any(
        _declares_fields(argument) for argument in get_args(hints.strip(annotation))
    )


# -- return values


def tool_converter(
    converter: ResultConverter,
    output: Output | None,
    schema: JSONObject | None,
    source: str,
    returns: Any = EMPTY,
) -> Callable[[Any], ToolResult]:
    """Return a function that converts a tool's return values into results.

    With an output schema every value is data; `output` is its type. Without one, `returns` is the
    annotation.
    """
    has_numbers = schema is not None and finite.has_numbers(schema)
    write = _make_writer(schema if has_numbers else None, source)
    note = _make_note(returns, source, converter) if schema is None else None
    infinite: Literal["null", "constants"] = "constants" if has_numbers else "null"

    def structured_of(data: Any) -> ToolResult:
        text, written = write(data)
        return ToolResult((Text(text.decode()),), structured=written)

    def of_result(value: ToolResult) -> ToolResult:
        if value.structured is ABSENT:
            return value
        if has_numbers and not value.is_error:  # the data of an error has no schema
            structured = write(to_json(value.structured, converter, infinite=infinite))[1]
        else:
            structured = to_json(value.structured, converter)
        content = value.content or _structured(structured).content
        return replace(value, content=content, structured=structured)

    def convert(value: Any) -> ToolResult:
        if isinstance(value, ToolResult):
            return of_result(value)
        if output is not None:
            return structured_of(output.to_json(value))
        if schema is not None:
            return structured_of(to_json(value, converter, infinite=infinite))
        if note is not None:
            note(value)
        return _by_value(value, converter)

    return convert


def _make_writer(schema: JSONObject | None, source: str) -> Callable[[Any], tuple[bytes, Any]]:
    """Return a function that returns data in JSON, and as it is read from there.

    It raises `ReturnError` for NaN and the infinities, which become null, where the schema admits no null.
    """
    if schema is None:
        return lambda data: (encode(data), data)

    def write(data: Any) -> tuple[bytes, Any]:
        text = encode(data)
        if b"null" not in text or not may_hold_infinite(data):
            return text, data
        refused = finite.find_refused(data, schema)
        if refused is None:
            return text, decode(text)
        pointer, number = refused
        raise ReturnError(
            f"{source} returned {number} at {pointer or 'the top'}: JSON does not have it, and the type "
            "admits no null"
        )

    return write


def _make_note(
    annotation: Any, source: str, converter: ResultConverter
) -> Callable[[Any], None] | None:
    """Return a function that reports the first value that an annotation without data does not allow."""
    expected = _find_expected(annotation)
    if expected is None:
        return None
    is_reported = False

    def note(value: Any) -> None:
        nonlocal is_reported
        if not (is_reported or isinstance(value, expected) or is_lazy(value)):
            is_reported = True
            what = "None" if value is None else f"of type {type(value).__name__}"
            converter.report(f"{source} {_DIFFERENCE}: it is {what}")

    return note


def _find_expected(annotation: Any) -> tuple[type, ...] | None:
    """Return the classes of text, content and nothing that an annotation consists of; None: of others too."""
    parts = hints.members(annotation)
    known = (NoneType, str, *BLOCKS, *CONTENTS, *BINARY)
    return parts if all(isinstance(part, type) and part in known for part in parts) else None


def is_block(value: Any) -> bool:
    """Return whether a value is a content block, or becomes one."""
    return isinstance(value, (*BLOCKS, *CONTENTS, *BINARY))


def _structured(data: Any) -> ToolResult:
    # The text is for models, and for clients that precede structured content.
    # Source: 2025-06-18 server/tools "Structured Content".
    return ToolResult((Text(encode(data).decode()),), structured=data)


def to_text(data: Any) -> str:
    """Return a JSON value as text for a model: JSON, or a text as it is."""
    return data if isinstance(data, str) else encode(data).decode()


def _by_value(value: Any, converter: ResultConverter) -> ToolResult:
    if isinstance(value, str):
        return ToolResult((Text(value),))
    if value is None:
        return ToolResult()
    if is_block(value):
        return ToolResult((block_of(value, converter),))
    if isinstance(value, GeneratorType | Yielded):
        parts = list(value)
        if all(isinstance(part, str) or is_block(part) for part in parts):
            return ToolResult([block_of(part, converter) for part in parts])
        value = parts
    if isinstance(value, list | tuple) and any(map(is_block, value)):
        return ToolResult([block_of(part, converter) for part in value])
    plain = plainer(value, converter)
    if plain is not value:
        return _by_value(plain, converter)
    data = to_json(value, converter)
    if isinstance(data, dict | list):
        return _structured(data)
    return ToolResult((Text(to_text(data)),))


def block_of(value: Any, converter: ResultConverter) -> Content | File:
    """Return a value as a block of content."""
    if isinstance(value, BINARY):
        return File(value)
    if isinstance(value, CONTENTS):
        return EmbeddedResource(value)
    if isinstance(value, BLOCKS):
        return value
    return Text(to_text(to_json(value, converter)))
