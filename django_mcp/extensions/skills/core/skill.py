"""Skill and SkillFile: what a server has of a skill, and the rules for names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final
from urllib.parse import quote

from django_mcp.protocol.content import BlobContents, ResourceContents, TextContents, guess_type
from django_mcp.protocol.json import JSONObject

EXTENSION: Final = "io.modelcontextprotocol/skills"
"""Source: SEP-2640, Skills."""

SKILL_FILE: Final = "SKILL.md"
DYNAMIC: Final = "dynamic"
DIRECTORY_TYPE: Final = "inode/directory"

MAX_FILES: Final = 512
"""Of a skill, with those of the skills inside of it, that every host loads (SEP-2640, Limits)."""

MAX_BYTES: Final = 16 * 1024 * 1024
"""The size of all of them together."""

MAX_PATH: Final = 512
"""Characters of the path of a skill, and of a file inside of it."""

DRAFTED: Final = "EDIT ME"
"""What the description of a draft begins with, until a person has written another one."""

_MAX_DESCRIPTION = 1024
_MAX_COMPATIBILITY = 500
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_SEGMENT = re.compile(r"[A-Za-z0-9_~-][A-Za-z0-9._~-]*")
_RESERVED = "io.modelcontextprotocol/"


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillFile:
    """A file of a skill, in memory.

    Attributes:
        path: below the folder of the skill, with `/`.
        content: its bytes.
        digest: as in entries of skills.
    """

    path: str
    content: bytes
    digest: str
    mime_type: str
    is_text: bool

    @classmethod
    def of(cls, path: str, content: bytes) -> SkillFile:
        """Return the file with this content."""
        is_text = _is_text(content)
        mime_type = guess_type(path)
        if is_text and mime_type == "application/octet-stream":
            mime_type = "text/plain"
        digest = f"sha256:{sha256(content).hexdigest()}"
        return cls(path=path, content=content, digest=digest, mime_type=mime_type, is_text=is_text)

    def to_contents(self, uri: str) -> ResourceContents:
        """Return the contents for a client, which turn into the same bytes there."""
        if self.is_text:
            return TextContents(uri, self.content.decode(), mime_type=self.mime_type)
        return BlobContents(uri, self.content, mime_type=self.mime_type)


def _is_text(content: bytes) -> bool:
    if b"\0" in content:
        return False
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """A skill of a server.

    Attributes:
        path: such as `"reports/daily"`; its last part is the name.
        front_matter: of its `SKILL.md`.
        files: those in its folder, without those of skills inside of it; None: it is generated for each read.
        folder: where its files are; for messages.
    """

    path: str
    front_matter: JSONObject
    files: tuple[SkillFile, ...] | None
    folder: str = ""

    @property
    def name(self) -> str:
        """The name, which need not be the only one of its kind."""
        return self.path.rpartition("/")[2]

    @property
    def description(self) -> str:
        """What it does, and when to use it."""
        description: str = self.front_matter["description"]
        return description

    @property
    def uri(self) -> str:
        """The URI of its `SKILL.md`."""
        return uri_of(self.path, SKILL_FILE)


def uri_of(*parts: str) -> str:
    """Return the URI of a folder or a file of a skill by the parts of its path."""
    return f"skill://{quote('/'.join(parts), safe='/~')}"


def check_path(path: Any) -> str | None:
    """Return what is wrong with the path of a skill, as a clause; None: nothing."""
    if not isinstance(path, str) or not path or len(path) > MAX_PATH:
        return f"the path {path!r:.60} has to be a text of at most {MAX_PATH} characters"
    *prefix, name = path.split("/")
    if len(name) > 64 or not _NAME.fullmatch(name):
        return (
            f"the name {name!r:.80} has to consist of at most 64 lower-case letters a to z, digits and single "
            "hyphens, with none at the start or end"
        )
    for segment in prefix:
        if not _SEGMENT.fullmatch(segment):
            return f"{segment!r:.80} in its path has to consist of letters, digits and - . _ ~"
    return None


def check_front_matter(front_matter: JSONObject, name: str) -> Iterator[str]:
    """Yield what is wrong with the front matter of a skill in a folder of a name, as clauses.

    Source: agentskills.io/specification, and SEP-2640.
    """
    given = front_matter.get("name")
    if given != name:
        yield f"its name is {given!r:.80}, and that of its folder {name!r}: make them the same"
    description = front_matter.get("description")
    if not isinstance(description, str) or not description.strip():
        yield "it has no description, by which a model finds it"
    elif len(description) > _MAX_DESCRIPTION:
        yield f"its description has {len(description)} characters, of at most {_MAX_DESCRIPTION}"
    compatibility = front_matter.get("compatibility", "any")
    if not isinstance(compatibility, str) or not 0 < len(compatibility) <= _MAX_COMPATIBILITY:
        yield f"compatibility has to be a text of at most {_MAX_COMPATIBILITY} characters"
    if not isinstance(front_matter.get("license", ""), str):
        yield "license has to be a text"
    metadata = front_matter.get("metadata", {})
    if not isinstance(metadata, dict):
        yield "metadata has to be a mapping"
    elif any(key.startswith(_RESERVED) for key in metadata):
        yield f"keys of metadata that begin with {_RESERVED} are reserved"
