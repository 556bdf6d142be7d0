"""2025-03-26: batches, audio, tool annotations, progress texts, the completions capability."""

from __future__ import annotations

from msgspec.structs import replace

from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.revisions.record import each, map_prompt_blocks, without
from django_mcp.protocol.revisions.v2024_11_05 import V2024_11_05


def _audio_to_text(block: JSONObject) -> JSONObject:
    if block.get("type") != "audio":
        return block
    return {"type": "text", "text": f"[audio, {block.get('mimeType', 'unknown type')}]"}


def _lower_sampling(params: JSONObject) -> JSONObject:
    messages = [
        {**each_, "content": _audio_to_text(each_["content"])} for each_ in params["messages"]
    ]
    return {**params, "messages": messages}


V2025_03_26 = replace(
    V2024_11_05,
    name="2025-03-26",
    accepts_batches=True,
    has_progress_messages=True,
    block_types=V2024_11_05.block_types | {"audio"},
    has_event_ids=True,
    lowerings={
        "tools/list": each("tools", without("annotations")),
        "tools/call": each("content", _audio_to_text),
        "prompts/get": map_prompt_blocks(_audio_to_text),
        "capabilities": without("completions"),
        "sampling/createMessage": _lower_sampling,
    },
)
