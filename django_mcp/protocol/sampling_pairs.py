"""Check that tool uses and their results are paired in a conversation with a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["SamplingError", "check_sampling"]


class SamplingError(ValueError):
    """Messages that models reject."""


def check_sampling(messages: Sequence[Mapping[str, Any]]) -> None:
    """Raise `SamplingError` unless the results of each message's tool uses follow in the next message.

    That message is the user's and contains only results, one for each use.

    Args:
        messages: `{"role": "user" | "assistant", "content": block or blocks}`, oldest first.

    Source: 2025-11-25 client/sampling "Tool Result Messages", "Tool Use and Result Balance".
    """
    due: list[Any] = []
    for place, message in enumerate(messages):
        blocks = _blocks(message)
        found = [each.get("toolUseId") for each in blocks if each.get("type") == "tool_result"]
        where = f"messages[{place}]"
        if found and (len(found) < len(blocks) or message.get("role") != "user"):
            raise SamplingError(
                f"{where}: results of tools stand in a message of the user's, alone."
            )
        if sorted(map(repr, found)) != sorted(map(repr, due)):
            raise SamplingError(
                f"{where}: holds the results of {found}, and the message before it uses tools as "
                f"{due}: each use is answered once, in the next message."
            )
        due = [each.get("id") for each in blocks if each.get("type") == "tool_use"]
        if due and message.get("role") != "assistant":
            raise SamplingError(f"{where}: only the assistant uses tools.")
    if due:
        raise SamplingError(f"The uses {due} of tools in the last message have no results.")


def _blocks(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    content = message.get("content")
    blocks = content if isinstance(content, list | tuple) else [content]
    return [each for each in blocks if isinstance(each, Mapping)]
