"""The checked answer of a client's model. Source: 2025-11-25 client/sampling."""

from __future__ import annotations

import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django_mcp.protocol.content import Audio, Image, Role, Text
from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.sampling import (
    SamplingContent,
    SamplingMessage,
    ToolUse,
    ToolUseResult,
)

__all__ = ["SamplingResult", "read_sampling_result"]


@dataclass(frozen=True, kw_only=True, slots=True)
class SamplingResult:
    """The answer of the client's model.

    Attributes:
        role: usually `assistant`.
        content: the blocks, in order.
        model: the client's name for the model.
        stop_reason: why it stopped, such as `endTurn`, `maxTokens`, `stopSequence` or `toolUse`; None
            if the client does not say.
        raw: the answer as the client sent it.
    """

    role: Role
    content: tuple[SamplingContent, ...]
    model: str
    stop_reason: str | None = None
    raw: JSONObject = field(default_factory=dict, repr=False, compare=False)

    @property
    def text(self) -> str:
        """The text of all text blocks together."""
        return "".join(block.text for block in self.content if isinstance(block, Text))

    @property
    def tool_uses(self) -> tuple[ToolUse, ...]:
        """The tool calls that the model requests."""
        return tuple(block for block in self.content if isinstance(block, ToolUse))

    def to_message(self) -> SamplingMessage:
        """Return the answer as a message, to continue the conversation."""
        return SamplingMessage(self.content, role=self.role)


def read_sampling_result(answer: Mapping[str, Any]) -> SamplingResult:
    """Return the checked answer of a client's model.

    Raises:
        ValueError: it is not valid; the text says what is missing.
    """
    role, model = answer.get("role"), answer.get("model")
    if role not in ("user", "assistant"):
        raise ValueError("it must have the role 'user' or 'assistant'")
    stop_reason = answer.get("stopReason")
    is_named = isinstance(model, str) and isinstance(stop_reason, str | None)
    if not is_named:
        raise ValueError("its model and its stopReason must be strings")
    content = answer.get("content")
    blocks = content if isinstance(content, list) else [content]
    return SamplingResult(
        role=role,
        content=tuple(map(_read_block, blocks)),
        model=str(model),
        stop_reason=stop_reason,
        raw=dict(answer),
    )


def _read_block(block: object) -> SamplingContent:
    kind = block.get("type") if isinstance(block, Mapping) else None
    if not isinstance(block, Mapping) or not isinstance(kind, str) or kind not in _READERS:
        raise ValueError(f"its content must be blocks of the types {', '.join(_READERS)}")
    try:
        found: SamplingContent = _READERS[kind](block)
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"its {kind} block is not complete") from None
    return found


def _read_text(block: Mapping[str, Any]) -> Text:
    if not isinstance(block["text"], str):
        raise TypeError("the text of a text block is a string")
    return Text(block["text"])


def _read_result(block: Mapping[str, Any]) -> ToolUseResult:
    content: Any = list(map(_read_block, block["content"]))
    return ToolUseResult(block["toolUseId"], content, is_error=block.get("isError") is True)


_READERS: Mapping[Any, Any] = {
    "text": _read_text,
    "image": lambda block: Image(_from_base64(block["data"]), block["mimeType"]),
    "audio": lambda block: Audio(_from_base64(block["data"]), block["mimeType"]),
    "tool_use": lambda block: ToolUse(block["id"], block["name"], block["input"]),
    "tool_result": _read_result,
}


def _from_base64(data: str) -> bytes:
    return binascii.a2b_base64(data, strict_mode=True)
