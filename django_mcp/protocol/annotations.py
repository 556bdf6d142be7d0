"""Annotations and icons of content, and checks for both."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from typing import Any, Literal, TypeAlias

from django_mcp.protocol.json import JSONObject, present
from django_mcp.protocol.names import is_meta_key

Role: TypeAlias = Literal["user", "assistant"]
Meta: TypeAlias = Mapping[str, Any]

_ROLES = ("user", "assistant")
_THEMES = ("light", "dark")
_MIME_TYPE = re.compile(r"[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+(?:[ \t]*;[ -~]*)?")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")
_URI = re.compile(rf"{_SCHEME.pattern}:[^\x00-\x20\x7f-\x9f]*")
_ICON_SIZE = re.compile(r"[1-9][0-9]*x[1-9][0-9]*|any")


@dataclass(frozen=True, kw_only=True, slots=True)
class Annotations:
    """The intended audience of content, its priority (0 to 1), and its last change.

    `last_modified` is a datetime with a time zone, or ISO 8601 text.

    Raises:
        ValueError: a value is out of its range; the text says what would be right.

    Source: 2026-07-28 server/resources, "Annotations".
    """

    audience: Sequence[Role] | None = None
    priority: float | None = None
    last_modified: str | datetime | None = None

    def __post_init__(self) -> None:
        if self.audience is not None:
            audience = to_tuple("audience", self.audience)
            for role in audience:
                if role not in _ROLES:
                    raise ValueError(f"audience has {role!r}: use 'user' and 'assistant'")
            object.__setattr__(self, "audience", audience)
        if self.priority is not None and not 0 <= self.priority <= 1:
            raise ValueError(f"priority is {self.priority!r}: use a number from 0 to 1")
        if self.last_modified is not None:
            object.__setattr__(self, "last_modified", _to_timestamp(self.last_modified))

    def to_wire(self) -> JSONObject:
        audience = None if self.audience is None else list(self.audience)
        return present(audience=audience, priority=self.priority, lastModified=self.last_modified)


@dataclass(frozen=True, slots=True)
class Icon:
    """A picture that clients show beside a name.

    Args:
        src: an `https:` URL, or a `data:` URI of an image in Base64.
        sizes: such as `("48x48",)`, or `("any",)` for a picture without a fixed size.
        theme: the background it is made for, `"light"` or `"dark"`.

    Raises:
        ValueError: clients would not show it; the text says what would be right.

    Source: 2025-11-25 basic, "Icons".
    """

    src: str
    _: KW_ONLY
    mime_type: str | None = None
    sizes: Sequence[str] = ()
    theme: Literal["light", "dark"] | None = None

    def __post_init__(self) -> None:
        if self.src.startswith("https://"):
            check_uri(self.src)
        elif self.src.startswith("data:"):
            head = self.src[: self.src.find(",") + 1].lower()
            if not head.startswith("data:image/") or not head.endswith(";base64,"):
                raise ValueError(
                    "The data: URI of an icon must be like 'data:image/png;base64,...'"
                )
        else:
            raise ValueError(
                f"The icon source {self.src[:100]!r} is neither https: nor data:, and clients show no "
                "others. Serve the picture over https, or embed it as 'data:image/png;base64,...'"
            )
        check_mime_type(self.mime_type)
        sizes = to_tuple("sizes", self.sizes)
        for size in sizes:
            if not _ICON_SIZE.fullmatch(size):
                raise ValueError(f"The icon size {size!r} is neither like '48x48' nor 'any'")
        object.__setattr__(self, "sizes", sizes)
        if self.theme is not None and self.theme not in _THEMES:
            raise ValueError(f"The icon theme {self.theme!r} is neither 'light' nor 'dark'")

    def to_wire(self) -> JSONObject:
        sizes = list(self.sizes) or None
        return present(src=self.src, mimeType=self.mime_type, sizes=sizes, theme=self.theme)


def check_mime_type(mime_type: object) -> None:
    """Check that a MIME type, if there is one, has the form `type/subtype`; parameters are allowed.

    Source: RFC 6838 section 4.2.
    """
    if mime_type is not None and not _MIME_TYPE.fullmatch(str(mime_type)):
        raise ValueError(f"{mime_type!r} is not a MIME type: write one like 'image/png'")


def check_uri(uri: str) -> None:
    """Check that a URI is absolute, and holds no blanks or control characters.

    Source: RFC 3986 section 4.3.
    """
    if not _URI.fullmatch(uri):
        scheme, colon, _rest = uri.partition(":")
        if colon and not _SCHEME.fullmatch(scheme):
            raise ValueError(
                f"{uri!r} has the scheme {scheme!r}: a scheme begins with a letter, and has letters, digits, '+', '-' and "
                "'.', no '_'"
            )
        raise ValueError(f"{uri!r} is not an absolute URI: write one like 'order://42'")


def check_meta(meta: Meta | None) -> None:
    """Check that `_meta` is a mapping with keys that the protocol allows.

    Source: 2026-07-28 basic, "_meta".
    """
    if not meta:
        return
    if not isinstance(meta, Mapping):
        raise TypeError(f"meta is {meta!r:.80}: use a dict, such as {{'example.com/order': 5}}")
    for key in meta:
        if not is_meta_key(str(key)):
            raise ValueError(
                f"{key!r} is not a _meta key: write a name of letters, digits and - _ . inside, "
                "after a prefix if you like, such as 'example.com/order'"
            )


def to_plain(meta: Meta | None) -> JSONObject | None:
    """Return `_meta` as JSON; None if there is nothing in it."""
    return dict(meta) if meta else None


def to_tuple(field: str, values: Iterable[Any], kind: Any = str) -> tuple[Any, ...]:
    """Return the values; raises TypeError unless they are of a kind, and in a list or the like."""
    if isinstance(values, str | dict | kind) or not isinstance(values, Iterable):
        raise TypeError(
            f"{field} is a list: write [{field.removesuffix('s')}], not {values!r:.100}"
        )
    converted = tuple(values)
    for value in converted:
        if not isinstance(value, kind):
            name = getattr(kind, "__name__", kind)
            raise TypeError(f"{field} is made of {name}, not of {type(value).__name__}")
    return converted


def _to_timestamp(moment: str | datetime) -> str:
    if isinstance(moment, datetime):
        if moment.tzinfo is None:
            raise ValueError("last_modified has no time zone: use django.utils.timezone.now()")
        return moment.isoformat().replace("+00:00", "Z")
    try:
        datetime.fromisoformat(moment)
    except ValueError:
        raise ValueError(
            f"last_modified is {moment!r}: use a datetime, or text like '2030-01-12T15:00:58Z'"
        ) from None
    return moment
