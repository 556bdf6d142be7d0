"""Content blocks as text for a terminal."""

from __future__ import annotations

from django_mcp.protocol.json import JSONObject

__all__ = ["size_of", "to_text"]


def to_text(block: JSONObject) -> str:
    """Return a block's text, or a description of it."""
    match block.get("type"):
        case "text":
            return str(block["text"])
        case "resource_link":
            return f"[{block.get('name', '')}: {block.get('uri', '')}]"
        case "resource":
            inner = block["resource"]
            return str(inner["text"]) if "text" in inner else _binary("resource", inner, "blob")
    return _binary(str(block.get("type")), block, "data")


def size_of(encoded: str) -> int:
    """Return the number of bytes in a Base64 text."""
    return len(encoded) * 3 // 4 - encoded[-2:].count("=")


def _binary(kind: str, block: JSONObject, key: str) -> str:
    return f"[{kind}, {block.get('mimeType', 'unknown type')}, {size_of(block.get(key, ''))} bytes]"
