"""The kinds of entries, and what each is called in the registry and on the wire."""

from __future__ import annotations

from typing import NamedTuple


class Kind(NamedTuple):
    """A kind of entry.

    Attributes:
        key: of the list on the wire.
        word: what one is called.
        mapping: the registry's.
        identity: the field that names an entry.
        method: of the server, which lists them.
    """

    key: str
    word: str
    mapping: str
    identity: str
    method: str


TOOLS = Kind("tools", "tool", "tools", "name", "list_tools")
RESOURCES = Kind("resources", "resource", "resources", "uri", "list_resources")
TEMPLATES = Kind(
    "resourceTemplates", "resource template", "templates", "uriTemplate", "list_resource_templates"
)
PROMPTS = Kind("prompts", "prompt", "prompts", "name", "list_prompts")
KINDS = (TOOLS, RESOURCES, TEMPLATES, PROMPTS)
