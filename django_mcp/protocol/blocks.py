"""Content blocks and the contents of resources, checked when they are created.

`to_wire` writes the newest revision's form; `revisions` writes older ones.
"""

from __future__ import annotations

import binascii
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, TypeAlias

from django_mcp.protocol.annotations import (
    Annotations,
    Icon,
    Meta,
    check_meta,
    check_mime_type,
    check_optional_mime_type,
    check_uri,
    to_tuple,
)

__all__ = [
    "Audio",
    "BlobContents",
    "Content",
    "EmbeddedResource",
    "Image",
    "ResourceContents",
    "ResourceLink",
    "Text",
    "TextContents",
]


@dataclass(frozen=True, slots=True)
class Text:
    """A block of text; a lazy string is evaluated when the block is created."""

    text: str
    _: KW_ONLY
    annotations: Annotations | None = None
    meta: Meta | None = None

    def __post_init__(self) -> None:
        if type(self.text) is not str:
            object.__setattr__(self, "text", _to_text(self.text))
        check_meta(self.meta)

    def to_wire(self) -> dict[str, Any]:
        return _finish({"type": "text", "text": self.text}, self.annotations, self.meta)


@dataclass(frozen=True, slots=True)
class Image:
    """A picture as the bytes of its file, which `to_wire` writes in Base64."""

    data: bytes
    mime_type: str = "image/png"
    _: KW_ONLY
    annotations: Annotations | None = None
    meta: Meta | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "data", _to_bytes(self.data))
        _check_media_type(self.mime_type, "image")
        check_meta(self.meta)

    def to_wire(self) -> dict[str, Any]:
        wire = {"type": "image", "data": _to_base64(self.data), "mimeType": self.mime_type}
        return _finish(wire, self.annotations, self.meta)


@dataclass(frozen=True, slots=True)
class Audio:
    """A sound as the bytes of its file, which `to_wire` writes in Base64."""

    data: bytes
    mime_type: str
    _: KW_ONLY
    annotations: Annotations | None = None
    meta: Meta | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "data", _to_bytes(self.data))
        _check_media_type(self.mime_type, "audio")
        check_meta(self.meta)

    def to_wire(self) -> dict[str, Any]:
        wire = {"type": "audio", "data": _to_base64(self.data), "mimeType": self.mime_type}
        return _finish(wire, self.annotations, self.meta)


@dataclass(frozen=True, slots=True)
class ResourceLink:
    """A link to a resource that the client may read from this server; `size` is in bytes."""

    uri: str
    name: str
    _: KW_ONLY
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    icons: Sequence[Icon] = ()
    annotations: Annotations | None = None
    meta: Meta | None = None

    def __post_init__(self) -> None:
        check_uri(self.uri)
        check_optional_mime_type(self.mime_type)
        if self.size is not None and self.size < 0:
            raise ValueError(f"size is {self.size}: use a number of bytes")
        object.__setattr__(self, "icons", to_tuple("icons", self.icons))
        check_meta(self.meta)

    def to_wire(self) -> dict[str, Any]:
        wire: dict[str, Any] = {"type": "resource_link", "uri": self.uri, "name": self.name}
        if self.title is not None:
            wire["title"] = _to_text(self.title)
        if self.description is not None:
            wire["description"] = _to_text(self.description)
        if self.mime_type is not None:
            wire["mimeType"] = self.mime_type
        if self.size is not None:
            wire["size"] = self.size
        if self.icons:
            wire["icons"] = [icon.to_wire() for icon in self.icons]
        return _finish(wire, self.annotations, self.meta)


@dataclass(frozen=True, slots=True)
class TextContents:
    """The contents of a resource as text."""

    uri: str
    text: str
    _: KW_ONLY
    mime_type: str | None = None
    meta: Meta | None = None

    def __post_init__(self) -> None:
        check_uri(self.uri)
        if type(self.text) is not str:
            object.__setattr__(self, "text", _to_text(self.text))
        check_optional_mime_type(self.mime_type)
        check_meta(self.meta)

    def to_wire(self) -> dict[str, Any]:
        wire: dict[str, Any] = {"uri": self.uri}
        if self.mime_type is not None:
            wire["mimeType"] = self.mime_type
        wire["text"] = self.text
        return _finish(wire, None, self.meta)


@dataclass(frozen=True, slots=True)
class BlobContents:
    """The contents of a resource as bytes, which `to_wire` writes in Base64."""

    uri: str
    blob: bytes
    _: KW_ONLY
    mime_type: str | None = None
    meta: Meta | None = None

    def __post_init__(self) -> None:
        check_uri(self.uri)
        object.__setattr__(self, "blob", _to_bytes(self.blob))
        check_optional_mime_type(self.mime_type)
        check_meta(self.meta)

    def to_wire(self) -> dict[str, Any]:
        wire: dict[str, Any] = {"uri": self.uri}
        if self.mime_type is not None:
            wire["mimeType"] = self.mime_type
        wire["blob"] = _to_base64(self.blob)
        return _finish(wire, None, self.meta)


ResourceContents: TypeAlias = TextContents | BlobContents
"""One item in the result of `resources/read`."""


@dataclass(frozen=True, slots=True)
class EmbeddedResource:
    """The contents of a resource inside a result; the resource need not be listed."""

    resource: ResourceContents
    _: KW_ONLY
    annotations: Annotations | None = None
    meta: Meta | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.resource, TextContents | BlobContents):
            raise TypeError(
                f"An EmbeddedResource takes TextContents or BlobContents, not {self.resource!r}"
            )
        check_meta(self.meta)

    def to_wire(self) -> dict[str, Any]:
        wire = {"type": "resource", "resource": self.resource.to_wire()}
        return _finish(wire, self.annotations, self.meta)


Content: TypeAlias = Text | Image | Audio | ResourceLink | EmbeddedResource
"""One block of a tool's result or a prompt's message."""


def _check_media_type(mime_type: str, main: str) -> None:
    check_mime_type(mime_type)
    if not mime_type.lower().startswith(main + "/"):
        raise ValueError(
            f"{mime_type!r} is not of the type {main}/...: use File(data, mime_type=...), which "
            "chooses the block by its type"
        )


def _to_text(text: object) -> str:
    if text is None or isinstance(text, bytes | bytearray | memoryview):
        raise TypeError(f"Text is made of a string, not of {type(text).__name__}")
    # The exact type: the codec accepts no subclasses, such as Django's SafeString.
    return str.__str__(str(text))


def _to_bytes(data: object) -> bytes:
    if type(data) is bytes:
        return data
    if isinstance(data, bytes | bytearray | memoryview):
        return bytes(data)
    raise TypeError(
        f"Binary content is made of bytes, not of {type(data).__name__}: it is written in Base64 "
        "for you, so decode what is in Base64 already"
    )


def _to_base64(data: bytes) -> str:
    return binascii.b2a_base64(data, newline=False).decode("ascii")


def _finish(
    wire: dict[str, Any], annotations: Annotations | None, meta: Meta | None
) -> dict[str, Any]:
    if annotations is not None:
        wire["annotations"] = annotations.to_wire()
    if meta:
        wire["_meta"] = dict(meta)
    return wire
