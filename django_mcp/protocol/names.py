"""Check the syntax of names: tools, header tokens, `_meta` keys, extensions, display texts.

The registry checks whether a name is taken.
"""

from __future__ import annotations

import re
import unicodedata

_TOOL_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_TOOLSET_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_LABEL = re.compile(r"[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?")
_META_NAME = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)?")
EXTENSION_ID_PATTERN = (
    rf"^{_LABEL.pattern}(?:\.{_LABEL.pattern})*/[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?$"
)
"""What `is_extension_id` accepts, for schemas."""
_RESERVED_LABELS = frozenset({"modelcontextprotocol", "mcp"})
_W3C_TRACE_KEYS = frozenset({"traceparent", "tracestate", "baggage"})
# Everything that can reach a person or a model without being visible: C0 and C1 controls except
# tab and line ends, the bidirectional embeddings, overrides and isolates (not the plain LRM and RLM
# marks, which right-to-left text needs), the tag block, and halves of surrogate pairs.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f\ud800-\udfff]"
)


def is_tool_name(name: str) -> bool:
    """Return whether a tool may have this name: 1 to 128 of `A-Z a-z 0-9 _ . -`.

    Source: 2025-11-25 server/tools, Tool Names.
    """
    return _TOOL_NAME.fullmatch(name) is not None


def is_toolset_name(name: str) -> bool:
    """Return whether a toolset may have this name, which stands in paths and headers: 1 to 64 of `A-Z a-z 0-9 _ . -`."""
    return _TOOLSET_NAME.fullmatch(name) is not None


def is_token(text: str) -> bool:
    """Return whether the text is a token, the form of an HTTP header name.

    Source: RFC 9110 section 5.6.2.
    """
    return _TOKEN.fullmatch(text) is not None


def is_meta_key(key: str) -> bool:
    """Return whether a `_meta` key is well formed: an optional `label.label/` and a name.

    A label starts with a letter and ends with a letter or digit, with hyphens inside; the name
    starts and ends with a letter or digit, with `- _ .` inside, or is empty after a prefix.

    Source: 2026-07-28 basic, `_meta`.
    """
    prefix, slash, name = key.rpartition("/")
    if slash and not all(map(_LABEL.fullmatch, prefix.split("."))):
        return False
    return bool(key) and _META_NAME.fullmatch(name) is not None


def is_reserved_meta_key(key: str) -> bool:
    """Return whether the protocol reserves a `_meta` key, so that a site may not use it.

    It reserves prefixes whose second label is `modelcontextprotocol` or `mcp` (`com.example.mcp/`
    is free), and the W3C trace keys, which have no prefix.

    Source: 2025-11-25 basic, `_meta`.
    """
    prefix, slash, _ = key.rpartition("/")
    if not slash:
        return key in _W3C_TRACE_KEYS or key == "progressToken"
    labels = prefix.split(".")
    return len(labels) > 1 and labels[1] in _RESERVED_LABELS


def is_extension_id(identifier: str) -> bool:
    """Return whether an extension may have this id: a `_meta` key with a prefix and a name.

    Source: 2026-07-28 basic, Extensions.
    """
    return re.fullmatch(EXTENSION_ID_PATTERN, identifier) is not None


def find_hidden_character(text: str) -> str | None:
    """Return a name for the first invisible character of a display text, or None.

    People and models read titles and descriptions; control characters, bidirectional overrides and
    tag characters can make them read different things.

    Returns:
        For example `"U+202E RIGHT-TO-LEFT OVERRIDE at character 5"`; the count starts at 0.

    Source: Unicode UTS 55.
    """
    match = _HIDDEN.search(text)
    if match is None:
        return None
    character = match.group()
    name = unicodedata.name(character, "control character")
    return f"U+{ord(character):04X} {name} at character {match.start()}"


SEGMENT = "/x/"
"""Stands between the path of an endpoint and names of toolsets, so that none has the path of something else."""
