"""Convert a tool's return value into its result: blocks for the model, data for programs.

The data's schema comes from the return annotation, if that declares data.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterable, Callable, Iterable, Mapping
from collections.abc import Iterator as IteratorABC
from dataclasses import replace
from types import GeneratorType, NoneType
from typing import Any, Protocol, get_args, get_origin

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
from django_mcp.protocol.json import encode, is_lazy
from django_mcp.protocol.results import ABSENT, PromptMessage, PromptResult, ReadResult, ToolResult
from django_mcp.registry import adapters, hints
from django_mcp.registry.plain_types import Conversion, plain_schema
from django_mcp.registry.problems import RegistrationError, conversion_error, describe_conversion
from django_mcp.registry.reading import compile_reading
from django_mcp.registry.signatures import EMPTY, Yielded
from django_mcp.registry.unions import AmbiguousUnion

BINARY = (bytes, bytearray, memoryview)
CONTENTS = (TextContents, BlobContents)
_RESULTS = (ToolResult, ReadResult, PromptResult, PromptMessage, InputRequired)
_FREE = (None, NoneType, Any, object, EMPTY, str)
_BARE_COLLECTIONS = (list, tuple, set, frozenset)
_PLAIN = (NoneType, str, bool, int, float, dict, *_BARE_COLLECTIONS, *BLOCKS, *CONTENTS, *BINARY)


class ReturnError(TypeError):
    """A handler returned something it did not declare, or that a result cannot represent."""


class ResultConverter(Protocol):
    """Converts the objects of a framework that handlers return."""

    def convert(self, value: Any) -> Any:
        """Return something plainer for a framework's object, such as a list for a QuerySet.

        Called for values that are neither plain data nor records. If it returns the object unchanged,
        the object is unknown. It may raise an error that tells the handler's author what to return.
        """

    def needs_thread(self, value: Any) -> bool:
        """Return whether converting a value may block, and so must not run on the event loop."""


_NOT_AWAITED = (
    "returned a coroutine that it did not await: write `return await ...` in a handler with `async def`, "
    "or call the synchronous method, such as `count()` for `acount()`"
)


def plainer(value: Any, converter: ResultConverter) -> Any:
    """Return a value, converted if it is lazy or an object of the framework."""
    if isinstance(value, _PLAIN) or hints.is_record(type(value)):
        return value
    return str(value) if is_lazy(value) else converter.convert(value)


def to_json(value: Any, converter: ResultConverter) -> Any:
    """Return a value as plain JSON; mappings, records, dates, enums and iterables are supported."""
    if type(value) in (str, int, bool, NoneType):
        return value
    from pydantic_core import PydanticSerializationError, to_jsonable_python

    try:
        return to_jsonable_python(
            value,
            bytes_mode="base64",
            by_alias=True,
            inf_nan_mode="null",
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
    name = f"{type(value).__module__}.{type(value).__qualname__}"
    raise ReturnError(
        f"a {name} cannot be represented in JSON: return its fields, or declare them in the return "
        f"annotation with a dataclass, a TypedDict or a pydantic model"
    )


# -- the declared return type


class Output:
    """The declared type of a tool's data: its JSON Schema, and how values become JSON."""

    __slots__ = ("_conversion", "_converter", "_read", "_source", "schema")

    def __init__(self, annotation: Any, source: str, converter: ResultConverter) -> None:
        """Raise what `adapters.adapt` raises."""
        plain = plain_schema(annotation)
        self._conversion = Conversion(lambda: adapters.adapt(annotation), waits=plain is not None)
        self.schema = plain or adapters.schema_of(self._conversion.adapter, is_output=True)
        self._source = source
        self._converter = converter
        self._read = compile_reading(annotation, converter.convert)

    def to_json(self, value: Any) -> Any:
        """Return a value in the form that the schema describes.

        Raises:
            ReturnError: it does not have the declared fields, or not with those types.
        """
        from pydantic_core import PydanticSerializationError

        prepared, adapter = self._read(value), self._conversion.adapter
        try:
            typed = adapter.validate_python(prepared, from_attributes=True)
        except conversion_error() as error:
            if inspect.isawaitable(value):
                raise ReturnError(f"{self._source} {_NOT_AWAITED}") from None
            problems = "; ".join(
                f"{each.pointer or 'the value'} {each.message}"
                for each in describe_conversion(error, prepared)
            )
            raise ReturnError(
                f"{self._source} did not return what it declares: {problems}"
            ) from error
        try:
            return adapter.serializer.to_python(
                typed,
                mode="json",
                by_alias=True,
                warnings=False,
                fallback=lambda each: unfold(each, self._converter),
            )
        except (PydanticSerializationError, ValueError) as error:
            raise ReturnError(f"{self._source} returned what JSON cannot hold: {error}") from error


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
    if any(plain is each for each in _FREE):
        return True
    return isinstance(plain, type) and issubclass(plain, (*BLOCKS, *CONTENTS, *BINARY, *_RESULTS))


def _declares_fields(annotation: Any) -> bool:
    return hints.is_record(hints.strip(annotation)) or any(
        _declares_fields(each) for each in get_args(hints.strip(annotation))
    )


# -- return values


def tool_converter(
    converter: ResultConverter, output: Output | None, *, is_data: bool
) -> Callable[[Any], ToolResult]:
    """Return a function that converts a tool's return values into results.

    With `is_data` every value is data, because there is an output schema; `output` is its type.
    """

    def convert(value: Any) -> ToolResult:
        if isinstance(value, ToolResult):
            if value.structured is ABSENT:
                return value
            structured = to_json(value.structured, converter)
            content = value.content or _structured(structured).content
            return replace(value, content=content, structured=structured)
        if output is not None:
            return _structured(output.to_json(value))
        if is_data:
            return _structured(to_json(value, converter))
        return _by_value(value, converter)

    return convert


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
    found = plainer(value, converter)
    if found is not value:
        return _by_value(found, converter)
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
