"""Convert the return values of resources, prompts and completers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from enum import Enum
from functools import partial
from types import GeneratorType
from typing import Any

from django_mcp.protocol.content import (
    Audio,
    BlobContents,
    EmbeddedResource,
    File,
    Image,
    ResourceContents,
    Text,
    TextContents,
)
from django_mcp.protocol.json import JSONDecodeError, decode, encode
from django_mcp.protocol.results import Completion, PromptMessage, PromptResult, ReadResult
from django_mcp.registry import hints
from django_mcp.registry.returns import (
    BINARY,
    Output,
    ResultConverter,
    ReturnError,
    block_of,
    is_block,
    plainer,
    promises_data,
    to_json,
)
from django_mcp.registry.signatures import Yielded

_TEXT = "text/plain"
_JSON = "application/json"
_BYTES = "application/octet-stream"


def guess_mime_type(returns: Any) -> str | None:
    """Return the MIME type for a return annotation; None if it does not determine one."""
    plain = hints.strip(returns)
    if plain is str:
        return _TEXT
    if plain is bytes:
        return _BYTES
    return _JSON if promises_data(returns) else None


# -- resources


_BINARY_TYPES = frozenset(
    [*(f"image/{name}" for name in ("avif", "bmp", "gif", "heic", "jpeg", "png", "tiff", "webp")),
     *(f"audio/{name}" for name in ("aac", "flac", "mp4", "mpeg", "ogg", "wav", "webm", "x-wav")),
     *(f"video/{name}" for name in ("mp4", "mpeg", "ogg", "quicktime", "webm")),
     *(f"font/{name}" for name in ("otf", "ttf", "woff", "woff2")),
     *(f"application/{name}" for name in ("gzip", "pdf", "zip"))]
)  # fmt: skip
"""Types of which no text is."""


def resource_converter(
    converter: ResultConverter, mime_type: str | None, output: Output | None, source: str
) -> Callable[..., ReadResult]:
    """Return a function that converts a resource's return values to contents at the URI read.

    Without a MIME type it is `text/plain` for text, `application/json` for data and
    `application/octet-stream` for bytes. `output` is the declared type of the data.
    """
    convert = _content_converter(converter, mime_type, output)
    find_fault = _choose_fault_finder(mime_type)
    if find_fault is None:
        return convert
    is_known = False

    def convert_text(value: Any, *, uri: str) -> ReadResult:
        nonlocal is_known
        # Only the first text is read, since this takes as long as it is.
        if not is_known and isinstance(value, str):
            is_known = True
            fault = find_fault(value)
            if fault is not None:
                converter.report(
                    f"{source} has the MIME type {mime_type} and returned {fault}; this is logged once"
                )
        return convert(value, uri=uri)

    return convert_text


def _choose_fault_finder(mime_type: str | None) -> Callable[[str], str | None] | None:
    """Return a function that says what is wrong with a text of a type; None: nothing can be."""
    essence = (mime_type or "").partition(";")[0].strip().lower()
    if essence in _BINARY_TYPES:
        return _tell_of_text
    return _find_json_fault if essence == _JSON or essence.endswith("+json") else None


def _tell_of_text(_text: str) -> str:
    return "text: return the content as bytes, or File(content)"


def _find_json_fault(text: str) -> str | None:
    try:
        decode(text)
    except JSONDecodeError:
        return "text that is not JSON: return the data itself, such as a dict, or json.dumps(data)"
    return None


def _content_converter(
    converter: ResultConverter, mime_type: str | None, output: Output | None
) -> Callable[..., ReadResult]:

    def convert(value: Any, *, uri: str) -> ReadResult:
        if isinstance(value, ReadResult):
            return value
        if isinstance(value, GeneratorType | Yielded):
            value = list(value)
        elif output is None:
            value = plainer(value, converter)
        if value is None:
            raise ReturnError(
                "a resource returned None: return its contents, or raise an exception that means that it "
                "does not exist (Http404, DoesNotExist)"
            )
        if isinstance(value, list | tuple) and any(map(is_block, value)):
            return ReadResult([_to_contents(content, uri, mime_type, as_json) for content in value])
        to_data = as_json if output is None else output.to_json
        return ReadResult([_to_contents(value, uri, mime_type, to_data)])

    as_json = partial(to_json, converter=converter)
    return convert


def _to_contents(
    value: Any, uri: str, mime_type: str | None, to_data: Callable[[Any], Any]
) -> ResourceContents:
    if isinstance(value, BINARY):
        return BlobContents(uri, bytes(value), mime_type=mime_type or _BYTES)
    if is_block(value):
        return _at(uri, value, mime_type)
    data = value if isinstance(value, str) else to_data(value)
    if isinstance(data, str):
        return TextContents(uri, data, mime_type=mime_type or _TEXT)
    return TextContents(uri, encode(data).decode(), mime_type=mime_type or _JSON)


def _at(uri: str, value: Any, mime_type: str | None) -> ResourceContents:
    """Return contents unchanged, and a block as contents at the URI that was read."""
    if isinstance(value, File):
        # A file has a type of its own, and a generated URI.
        block = value.to_content()
        if isinstance(block, EmbeddedResource):
            return replace(block.resource, uri=uri, meta=block.meta)
        value = block
    if isinstance(value, EmbeddedResource):
        return value.resource
    if isinstance(value, Text):
        return TextContents(uri, value.text, mime_type=mime_type or _TEXT, meta=value.meta)
    if isinstance(value, Image | Audio):
        return BlobContents(uri, value.data, mime_type=value.mime_type, meta=value.meta)
    if isinstance(value, TextContents | BlobContents):
        return value
    raise ReturnError("a resource returned a link: return what it links to")


# -- prompts


def prompt_converter(converter: ResultConverter) -> Callable[[Any], PromptResult]:
    """Return a function that converts a prompt's return values to messages; text is the user's."""

    def message(value: Any) -> PromptMessage:
        if isinstance(value, PromptMessage):
            return value
        if isinstance(value, Mapping) and value.keys() == {"role", "content"}:
            return PromptMessage(value["content"], role=value["role"])
        return PromptMessage(block_of(value, converter))

    def convert(value: Any) -> PromptResult:
        if isinstance(value, PromptResult):
            return value
        is_yielded = isinstance(value, GeneratorType | Yielded)
        value = list(value) if is_yielded else plainer(value, converter)
        if value is None:
            raise ReturnError("a prompt returned None: return its text or its messages")
        values = value if isinstance(value, list | tuple) else [value]
        for each in (values, *values):
            _refuse_roles(each)
        return PromptResult([message(value) for value in values])

    return convert


_ROLES = ("user", "assistant", "system")


def _refuse_roles(value: Any) -> None:
    """Raise `ReturnError` for a message whose role would become a text of its own."""
    role = None
    if isinstance(value, list | tuple) and len(value) == 2:
        role = value[0]
    elif isinstance(value, Mapping) and value.keys() != {"role", "content"}:
        role = value.get("role")
    if isinstance(role, str) and role in _ROLES:
        raise ReturnError(
            f"a prompt returned a {type(value).__name__} with the role {role!r}: return "
            f"PromptMessage(text, role={role if role in _ROLES[:2] else 'user'!r})"
        )


# -- completions


def completion_converter(converter: ResultConverter) -> Callable[[Any], Completion]:
    """Return a function that converts a completer's return values to its first 100 values."""

    def convert(value: Any) -> Completion:
        if isinstance(value, Completion):
            return value
        if value is None:
            return Completion([])
        if not isinstance(value, Iterable):
            value = converter.convert(value)
        if isinstance(value, str) or not isinstance(value, Iterable):
            raise ReturnError(
                f"a completer returned a {type(value).__name__}: return a list of strings"
            )
        total = len(value) if isinstance(value, list | tuple) else None
        # No more rows are fetched than show that there are more.
        return Completion.first_of(map(_read_choice, value), total)

    return convert


def _read_choice(choice: Any) -> str:
    if isinstance(choice, tuple | list | Mapping):
        raise ReturnError(
            f"a completer returned a {type(choice).__name__} for a value: return a list of strings, such as "
            "that of values_list('name', flat=True)"
        )
    value = choice.value if isinstance(choice, Enum) else choice
    if type(value) is not str and not _has_text(value):
        raise ReturnError(
            f"a completer returned a {type(value).__name__}, which is no text: return a list of strings, such as that "
            "of values_list('name', flat=True)"
        )
    return str(value)


def _has_text(value: Any) -> bool:
    """Return whether the text of a value is more than its kind and number, as of an object without `__str__`."""
    kind = type(value)
    own: Any = kind.__str__
    if own is object.__str__:
        return isinstance(value, int | float)
    if isinstance(value, bytes | bytearray | memoryview):
        return False
    # The text of a row of a table without one of its own is `Order object (1)`.
    return not str(value).startswith(f"{kind.__name__} object (")
