"""2025-11-25: icons, and more of what a server tells about itself."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

from django_mcp.protocol.revisions.shapes import each, map_blocks, map_prompt_blocks, without
from django_mcp.protocol.revisions.v2025_06_18 import V2025_06_18

_no_icons = without("icons")

V2025_11_25 = replace(
    V2025_06_18,
    name="2025-11-25",
    lowerings=MappingProxyType(
        {
            "tools/list": each("tools", _no_icons),
            "tools/call": map_blocks(_no_icons),
            "resources/list": each("resources", _no_icons),
            "resources/templates/list": each("resourceTemplates", _no_icons),
            "prompts/list": each("prompts", _no_icons),
            "prompts/get": map_prompt_blocks(_no_icons),
            "implementation": without("description", "websiteUrl", "icons"),
            "capabilities": without("extensions", "tasks"),
        }
    ),
)
