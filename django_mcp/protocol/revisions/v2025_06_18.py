"""2025-06-18: structured output, resource links, titles, `_meta` on objects; no more batches."""

from __future__ import annotations

from msgspec.structs import replace

from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.revisions.record import chain, each, map_prompt_blocks, without
from django_mcp.protocol.revisions.v2025_03_26 import V2025_03_26


def _lower_block(block: JSONObject) -> JSONObject:
    if block.get("type") == "resource_link":
        return {"type": "text", "text": f"{block.get('name', '')}: {block.get('uri', '')}"}
    block = _lower_item(block)
    if block.get("type") == "resource":
        block = {**block, "resource": without("_meta")(block["resource"])}
    return block


def _lower_item(item: JSONObject) -> JSONObject:
    item = without("title", "_meta")(item)
    annotations = item.get("annotations")
    if isinstance(annotations, dict) and "lastModified" in annotations:
        annotations = without("lastModified")(annotations)
        item = {**item, "annotations": annotations} if annotations else without("annotations")(item)
    return item


def _lower_tool(tool: JSONObject) -> JSONObject:
    # A tool's annotations have a title of their own, which is older than the field.
    return without("title", "_meta", "outputSchema")(tool)


def _lower_prompt(prompt: JSONObject) -> JSONObject:
    prompt = _lower_item(prompt)
    if "arguments" in prompt:
        return {**prompt, "arguments": [without("title")(each_) for each_ in prompt["arguments"]]}
    return prompt


V2025_06_18 = replace(
    V2025_03_26,
    name="2025-06-18",
    accepts_batches=False,
    block_types=V2025_03_26.block_types | {"resource_link"},
    asks=frozenset({"sampling", "roots", "form"}),
    lowerings={
        "tools/list": each("tools", _lower_tool),
        "tools/call": chain(without("structuredContent"), each("content", _lower_block)),
        "resources/list": each("resources", _lower_item),
        "resources/templates/list": each("resourceTemplates", _lower_item),
        "resources/read": each("contents", without("_meta")),
        "prompts/list": each("prompts", _lower_prompt),
        "prompts/get": map_prompt_blocks(_lower_block),
        "implementation": without("title"),
    },
)
