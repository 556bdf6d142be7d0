"""Everything a result may hold; import it from here.

The parts: `annotations` (what is said about content), `blocks`, and `files` (a block from a file).
"""

from __future__ import annotations

from django_mcp.protocol.annotations import Annotations, Icon, Meta, Role, check_meta
from django_mcp.protocol.blocks import (
    Audio,
    BlobContents,
    Content,
    EmbeddedResource,
    Image,
    ResourceContents,
    ResourceLink,
    Text,
    TextContents,
)
from django_mcp.protocol.files import File

__all__ = [
    "Annotations",
    "Audio",
    "BlobContents",
    "Content",
    "EmbeddedResource",
    "File",
    "Icon",
    "Image",
    "Meta",
    "ResourceContents",
    "ResourceLink",
    "Role",
    "Text",
    "TextContents",
    "check_meta",
]
