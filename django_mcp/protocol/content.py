"""Content blocks, files, and the contents of resources, checked when they are created.

`to_wire` writes the newest revision's form; `revisions` writes older ones.
"""

from __future__ import annotations

import binascii
import mimetypes
import os
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path, PurePath
from typing import Any, ClassVar, Protocol, TypeAlias
from urllib.parse import quote

from django_mcp.protocol.annotations import (
    Annotations,
    Icon,
    Meta,
    check_meta,
    check_mime_type,
    check_uri,
    to_plain,
    to_tuple,
)
from django_mcp.protocol.json import JSONObject, present

_UNKNOWN_TYPE = "application/octet-stream"
# Some platforms' tables lack these types, or have obsolete ones.
_TYPES_BY_SUFFIX = {
    ".flac": "audio/flac",
    ".gz": "application/gzip",
    ".log": "text/plain",
    ".md": "text/markdown",
    ".ogg": "audio/ogg",
    ".opus": "audio/ogg",
    ".toml": "application/toml",
    ".wav": "audio/wav",
    ".webp": "image/webp",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
}
_TEXT_TYPES = frozenset(
    {
        "application/ecmascript",
        "application/graphql",
        "application/javascript",
        "application/json",
        "application/sql",
        "application/toml",
        "application/x-sh",
        "application/xml",
        "application/yaml",
    }
)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Block:
    annotations: Annotations | None = None
    meta: Meta | None = None

    def _finish(self, **members: Any) -> JSONObject:
        annotations = None if self.annotations is None else self.annotations.to_wire()
        return present(**members, annotations=annotations, _meta=to_plain(self.meta))


@dataclass(frozen=True, slots=True)
class Text(_Block):
    """A block of text; a lazy string is evaluated when the block is created."""

    text: str

    def __post_init__(self) -> None:
        if type(self.text) is not str:
            object.__setattr__(self, "text", _to_text(self.text))
        check_meta(self.meta)

    def to_wire(self) -> JSONObject:
        if self.annotations is None and self.meta is None:
            # As nearly every result has it.
            return {"type": "text", "text": self.text}
        return self._finish(type="text", text=self.text)


@dataclass(frozen=True, slots=True)
class _Media(_Block):
    """A file of one main type as its bytes, which `to_wire` writes in Base64."""

    main_type: ClassVar[str]
    data: bytes
    mime_type: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "data", _to_bytes(self.data))
        check_mime_type(self.mime_type)
        if not self.mime_type.lower().startswith(f"{self.main_type}/"):
            raise ValueError(
                f"{self.mime_type!r} is not of the type {self.main_type}/...: use "
                "File(data, mime_type=...), which chooses the block by its type"
            )
        check_meta(self.meta)

    def to_wire(self) -> JSONObject:
        return self._finish(
            type=self.main_type, data=_to_base64(self.data), mimeType=self.mime_type
        )


@dataclass(frozen=True, slots=True)
class Image(_Media):
    """A picture as the bytes of its file, which `to_wire` writes in Base64."""

    main_type: ClassVar[str] = "image"
    mime_type: str = "image/png"


@dataclass(frozen=True, slots=True)
class Audio(_Media):
    """A sound as the bytes of its file, which `to_wire` writes in Base64."""

    main_type: ClassVar[str] = "audio"


@dataclass(frozen=True, slots=True)
class ResourceLink(_Block):
    """A link to a resource that the client may read from this server; `size` is in bytes."""

    uri: str
    name: str
    _: KW_ONLY
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    icons: Sequence[Icon] = ()

    def __post_init__(self) -> None:
        check_uri(self.uri)
        check_mime_type(self.mime_type)
        if self.size is not None and self.size < 0:
            raise ValueError(f"size is {self.size}: use a number of bytes")
        object.__setattr__(self, "icons", to_tuple("icons", self.icons, Icon))
        check_meta(self.meta)

    def to_wire(self) -> JSONObject:
        return self._finish(
            type="resource_link",
            uri=self.uri,
            name=self.name,
            title=None if self.title is None else _to_text(self.title),
            description=None if self.description is None else _to_text(self.description),
            mimeType=self.mime_type,
            size=self.size,
            icons=[icon.to_wire() for icon in self.icons] or None,
        )


@dataclass(frozen=True, slots=True)
class _Contents:
    uri: str
    _: KW_ONLY
    mime_type: str | None = None
    meta: Meta | None = None

    def _check(self) -> None:
        check_uri(self.uri)
        check_mime_type(self.mime_type)
        check_meta(self.meta)

    def _write(self, **data: str) -> JSONObject:
        meta = to_plain(self.meta)
        return present(uri=self.uri, mimeType=self.mime_type, **data, _meta=meta)


@dataclass(frozen=True, slots=True)
class TextContents(_Contents):
    """The contents of a resource as text."""

    text: str

    def __post_init__(self) -> None:
        if type(self.text) is not str:
            object.__setattr__(self, "text", _to_text(self.text))
        self._check()

    def to_wire(self) -> JSONObject:
        return self._write(text=self.text)


@dataclass(frozen=True, slots=True)
class BlobContents(_Contents):
    """The contents of a resource as bytes, which `to_wire` writes in Base64."""

    blob: bytes

    def __post_init__(self) -> None:
        object.__setattr__(self, "blob", _to_bytes(self.blob))
        self._check()

    def to_wire(self) -> JSONObject:
        return self._write(blob=_to_base64(self.blob))


ResourceContents: TypeAlias = TextContents | BlobContents
"""One item in the result of `resources/read`."""


@dataclass(frozen=True, slots=True)
class EmbeddedResource(_Block):
    """The contents of a resource inside a result; the resource need not be listed."""

    resource: ResourceContents

    def __post_init__(self) -> None:
        if not isinstance(self.resource, ResourceContents):
            raise TypeError(
                f"An EmbeddedResource takes TextContents or BlobContents, not {self.resource!r}"
            )
        check_meta(self.meta)

    def to_wire(self) -> JSONObject:
        return self._finish(type="resource", resource=self.resource.to_wire())


Content: TypeAlias = Text | Image | Audio | ResourceLink | EmbeddedResource
"""One block of a tool's result or a prompt's message."""


class ReadableFile(Protocol):
    """An open file, or Django's `FieldFile`."""

    def read(self) -> bytes | str: ...


FileSource: TypeAlias = bytes | bytearray | memoryview | str | os.PathLike[str] | ReadableFile


@dataclass(frozen=True, slots=True)
class File:
    """A file for a result: `File("report.pdf")`, `File(data, name="chart.png")`.

    Args:
        data: bytes, a path, or an object with `read`. A path is read by `to_content`.
        name: the name of the file; by default the last part of its path.
        mime_type: by default guessed from the name.
        annotations: passed on to the block.
        meta: passed on to the block.
    """

    data: FileSource
    _: KW_ONLY
    name: str | None = None
    mime_type: str | None = None
    annotations: Annotations | None = None
    meta: Meta | None = None

    def __post_init__(self) -> None:
        check_mime_type(self.mime_type)

    def to_content(self) -> Content:
        """Return the block: an Image, an Audio, or else an EmbeddedResource.

        Text types in UTF-8 become TextContents, everything else BlobContents, at the URI
        `attachment://<name>`.

        Raises:
            OSError: the path cannot be read.
        """
        data = _read(self.data)
        name = self.name or _find_name(self.data) or "file"
        mime_type = self.mime_type or guess_type(name)
        essence = mime_type.partition(";")[0].strip().lower()
        if essence.startswith("image/"):
            return Image(data, mime_type, annotations=self.annotations, meta=self.meta)
        if essence.startswith("audio/"):
            return Audio(data, mime_type, annotations=self.annotations, meta=self.meta)
        return EmbeddedResource(
            _to_contents(f"attachment://{quote(name, safe='')}", data, mime_type, essence),
            annotations=self.annotations,
            meta=self.meta,
        )

    def to_wire(self) -> JSONObject:
        return self.to_content().to_wire()


BLOCKS = (Text, Image, Audio, ResourceLink, EmbeddedResource, File)
"""The kinds of blocks, and what becomes one."""


def to_block(value: Any, kinds: tuple[type, ...]) -> Any:
    """Return a block of one of these kinds; a string becomes a Text, a File the block for its type.

    Raises:
        TypeError: it is of another kind.
    """
    if isinstance(value, str):
        return Text(value)
    if not isinstance(value, kinds):
        names = ", ".join(kind.__name__ for kind in kinds)
        raise TypeError(f"Content is made of {names} or str, not of {type(value).__name__}")
    return value.to_content() if isinstance(value, File) else value


def _to_text(text: object) -> str:
    if text is None or isinstance(text, bytes | bytearray | memoryview):
        raise TypeError(f"Text is made of a string, not of {type(text).__name__}")
    # The exact type: the codec accepts no subclasses, such as Django's SafeString.
    return str.__str__(str(text))


def _to_bytes(data: object) -> bytes:
    if isinstance(data, bytes | bytearray | memoryview):
        return bytes(data)
    raise TypeError(
        f"Binary content is made of bytes, not of {type(data).__name__}: it is written in Base64 "
        "for you, so decode what is in Base64 already"
    )


def _to_base64(data: bytes) -> str:
    return binascii.b2a_base64(data, newline=False).decode("ascii")


def _to_contents(uri: str, data: bytes, mime_type: str, essence: str) -> ResourceContents:
    is_known_text = essence.startswith("text/") or essence in _TEXT_TYPES
    if is_known_text or essence.endswith(("+json", "+xml", "+yaml")):
        try:
            return TextContents(uri, data.decode(), mime_type=mime_type)
        except UnicodeDecodeError:
            # Text in another encoding is only safe as bytes.
            pass
    return BlobContents(uri, data, mime_type=mime_type)


def _read(source: FileSource) -> bytes:
    if isinstance(source, bytes | bytearray | memoryview):
        return bytes(source)
    if isinstance(source, str | os.PathLike):
        return Path(source).read_bytes()
    data = source.read()
    return data.encode() if isinstance(data, str) else data


def _find_name(source: FileSource) -> str | None:
    path = source if isinstance(source, str | os.PathLike) else getattr(source, "name", None)
    return PurePath(path).name if isinstance(path, str | os.PathLike) else None


def guess_type(name: str) -> str:
    """Return the MIME type that the name of a file stands for."""
    suffix = PurePath(name).suffix.lower()
    if suffix in _TYPES_BY_SUFFIX:
        return _TYPES_BY_SUFFIX[suffix]
    # Only the suffix: the whole name would be read as a URL.
    guessed, encoding = mimetypes.guess_type("file" + suffix)
    return _UNKNOWN_TYPE if guessed is None or encoding is not None else guessed
