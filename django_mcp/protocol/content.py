"""All types of content, for import from one place.

They are defined in `annotations`, `blocks` and `files`.
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
