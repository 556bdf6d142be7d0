"""Convert a file into the content block for its type."""

from __future__ import annotations

import mimetypes
import os
from dataclasses import KW_ONLY, dataclass
from pathlib import Path, PurePath
from typing import Any, Protocol, TypeAlias
from urllib.parse import quote

from django_mcp.protocol.annotations import Annotations, Meta, check_optional_mime_type
from django_mcp.protocol.blocks import (
    Audio,
    BlobContents,
    Content,
    EmbeddedResource,
    Image,
    TextContents,
)

__all__ = ["File", "ReadableFile"]

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
        check_optional_mime_type(self.mime_type)

    def to_content(self) -> Content:
        """Return the block: an Image, an Audio, or else an EmbeddedResource.

        Text types in UTF-8 become TextContents, everything else BlobContents, at the URI
        `attachment://<name>`.

        Raises:
            OSError: the path cannot be read.
        """
        data = _read(self.data)
        name = self.name or _find_name(self.data) or "file"
        mime_type = self.mime_type or _guess_type(name)
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

    def to_wire(self) -> dict[str, Any]:
        return self.to_content().to_wire()


def _to_contents(
    uri: str, data: bytes, mime_type: str, essence: str
) -> TextContents | BlobContents:
    if _is_text(essence):
        try:
            return TextContents(uri, data.decode(), mime_type=mime_type)
        except UnicodeDecodeError:
            # Text in another encoding is only safe as bytes.
            pass
    return BlobContents(uri, data, mime_type=mime_type)


def _is_text(essence: str) -> bool:
    return (
        essence.startswith("text/")
        or essence in _TEXT_TYPES
        or essence.endswith(("+json", "+xml", "+yaml"))
    )


def _read(source: FileSource) -> bytes:
    if isinstance(source, bytes | bytearray | memoryview):
        return bytes(source)
    if isinstance(source, str | os.PathLike):
        return Path(source).read_bytes()
    data = source.read()
    return data.encode() if isinstance(data, str) else data


def _find_name(source: FileSource) -> str | None:
    if isinstance(source, str | os.PathLike):
        return PurePath(source).name
    name = getattr(source, "name", None)
    return PurePath(name).name if isinstance(name, str) else None


def _guess_type(name: str) -> str:
    suffix = PurePath(name).suffix.lower()
    if suffix in _TYPES_BY_SUFFIX:
        return _TYPES_BY_SUFFIX[suffix]
    # Only the suffix: the whole name would be read as a URL.
    guessed, encoding = mimetypes.guess_type("file" + suffix)
    return _UNKNOWN_TYPE if guessed is None or encoding is not None else guessed
