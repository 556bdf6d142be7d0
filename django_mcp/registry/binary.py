"""Read and write bytes as the text that JSON has for them: Base64."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from django_mcp.protocol.json import JSONObject
from django_mcp.registry.rewriting import CoreRewriting
from django_mcp.registry.unions import Node

if TYPE_CHECKING:
    from pydantic_core.core_schema import BytesSchema

_URL_SAFE = str.maketrans("-_", "+/")


def decode_base64(value: Any) -> Any:
    """Return the bytes of a text in Base64, in either alphabet; anything else is returned unchanged."""
    if not isinstance(value, str):
        return value
    try:
        return binascii.a2b_base64(value.translate(_URL_SAFE).encode(), strict_mode=True)
    except (ValueError, UnicodeEncodeError):
        raise ValueError("must be bytes in Base64") from None


def encode_base64(value: Any) -> Any:
    """Return bytes in Base64."""
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    from pydantic_core import PydanticSerializationUnexpectedValue

    raise PydanticSerializationUnexpectedValue("Expected bytes")


def _decode_hex(value: Any) -> Any:
    return bytes.fromhex(value) if isinstance(value, str) else value


_DECODERS: dict[str, Callable[[Any], Any] | None] = {
    "base64": decode_base64,
    "hex": _decode_hex,
    "utf8": None,
}


def describe_bytes(
    schema: BytesSchema, config: Mapping[str, Any], *, is_output: bool
) -> JSONObject | None:
    """Return the JSON Schema of bytes in Base64, whose limits are those of the text.

    None: the configuration of their model chooses another form.
    """
    option = (BytesWriting if is_output else BytesReading).option
    if config.get(option, "base64") != "base64":
        return None
    encoding = "base64url" if is_output and option in config else "base64"
    described: JSONObject = {"type": "string", "contentEncoding": encoding}
    for keyword, name in (("minLength", "min_length"), ("maxLength", "max_length")):
        if name in schema:
            described[keyword] = -(-schema[name] // 3) * 4  # type: ignore[literal-required]
    return described


class _Bytes(CoreRewriting):
    """A copy that changes the bytes for which no author has chosen a form."""

    kind = "bytes"
    option = ""
    """The key of a model's configuration by which its author chooses the form of bytes."""

    def __init__(self) -> None:
        super().__init__()
        self._form: str | None = None

    def rewrite_node(self, node: Node) -> Node:
        """See `CoreRewriting.rewrite_node`."""
        if is_encoded(node):
            return node
        outer = self._form
        if isinstance(node.get("config"), dict):
            self._form = node["config"].get(self.option)
        try:
            if node.get("type") == "bytes":
                return self.rewrite_bytes(node, self._form)
            rewritten = super().rewrite_node(node)
            if node.get("computed_fields"):
                rewritten["computed_fields"] = self.rewrite(node["computed_fields"])
            return rewritten
        finally:
            self._form = outer

    def rewrite_bytes(self, node: Node, form: str | None) -> Node:
        """Return a node for bytes, in the form that a model's author has chosen; None: no form."""
        raise NotImplementedError


class BytesReading(_Bytes):
    """A copy that reads bytes from Base64."""

    option = "val_json_bytes"

    def rewrite_bytes(self, node: Node, form: str | None) -> Node:
        """See `_Bytes.rewrite_bytes`."""
        decode = _DECODERS[form or "base64"]
        if decode is None:
            return node
        return {
            "type": "function-before",
            "function": {"type": "no-info", "function": decode},
            "schema": node,
        }


class BytesWriting(_Bytes):
    """A copy that writes bytes in Base64."""

    option = "ser_json_bytes"

    def concerns(self, node: Node) -> bool:
        """See `CoreRewriting.concerns`; values of no declared type may be bytes."""
        return super().concerns(node) or node["type"] in _MAY_HOLD_BYTES

    def rewrite_bytes(self, node: Node, form: str | None) -> Node:
        """See `_Bytes.rewrite_bytes`."""
        if form is not None or "serialization" in node:
            return node
        writing: Node = {
            "type": "function-plain",
            "function": encode_base64,
            "when_used": "json-unless-none",
        }
        return {**node, "serialization": writing}


_MAY_HOLD_BYTES = frozenset(["any", "dict", "list", "set", "frozenset", "generator", "is-instance"])
"""Nodes that may have values of no declared type, some without a node for these."""


def is_encoded(node: Any) -> bool:
    """Return whether a node is one of pydantic's types of encoded bytes, such as `Base64Bytes`."""
    if node.get("type") != "function-after":
        return False
    from pydantic import EncodedBytes

    return isinstance(getattr(node["function"]["function"], "__self__", None), EncodedBytes)
