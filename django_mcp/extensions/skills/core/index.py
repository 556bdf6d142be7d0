"""SkillIndex: the skills of a server by URI, for those who may see them.

A file belongs to the innermost skill that it is in, and who sees this skill may read it. So a skill inside of another
that a caller may not see is for them as if its folder did not exist: it is in no list, no entry and no folder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from django_mcp.extensions.skills.core.skill import (
    DIRECTORY_TYPE,
    DYNAMIC,
    EXTENSION,
    SKILL_FILE,
    Skill,
    SkillFile,
    uri_of,
)
from django_mcp.protocol.json import JSONObject
from django_mcp.registry.entries import ResourceEntry
from django_mcp.registry.registry import Registry

Sees: TypeAlias = Callable[[ResourceEntry], bool]
"""Returns whether a caller sees the skill of a resource."""


@dataclass(frozen=True, slots=True)
class Served:
    """A skill, and the resource by which its access is decided: that of its `SKILL.md`."""

    entry: ResourceEntry
    skill: Skill


@dataclass(slots=True)
class _Child:
    wire: JSONObject
    owners: list[Served]


def skill_of(entry: object) -> Skill | None:
    """Return the skill whose `SKILL.md` an entry is; None: it is no skill."""
    if not isinstance(entry, ResourceEntry):
        return None
    skill: Skill | None = entry.extensions.get(EXTENSION)
    return skill


class SkillIndex:
    """The skills of a registry in one state of it.

    Attributes:
        skills: by the URI of their `SKILL.md`, in the order of registration.
        files: by URI, with the skill that each belongs to.
    """

    def __init__(self, registry: Registry) -> None:
        self.skills: Mapping[str, Served] = {
            uri: Served(entry, skill)
            for uri, entry in registry.resources.items()
            if (skill := skill_of(entry)) is not None
        }
        by_path = {served.skill.path: served for served in self.skills.values()}
        self._parts: dict[str, list[Served]] = {path: [] for path in by_path}
        self.files: dict[str, tuple[Served, SkillFile]] = {}
        self._folders: dict[str, dict[str, _Child]] = {}
        for path, served in by_path.items():
            for outer in _outer_paths(path):
                if outer in by_path:
                    self._parts[outer].append(served)
            self._add_files(served)

    def _add_files(self, served: Served) -> None:
        skill = served.skill
        for file in skill.files or ():
            self.files[uri_of(skill.path, file.path)] = served, file
            self._add_child(served, f"{skill.path}/{file.path}", file)
        if skill.files is None:
            self._add_child(served, f"{skill.path}/{SKILL_FILE}", None)

    def _add_child(self, served: Served, path: str, file: SkillFile | None) -> None:
        """Put a file into its folder, and each folder into the one above."""
        uri, name = uri_of(path), path.rpartition("/")[2]
        if path == f"{served.skill.path}/{SKILL_FILE}":
            wire = served.entry.to_wire()
        else:
            wire = {"uri": uri, "name": name}
            if file is not None:
                wire |= {"mimeType": file.mime_type, "size": len(file.content)}
        for outer in _outer_paths(path):
            children = self._folders.setdefault(uri_of(outer), {})
            child = children.setdefault(uri, _Child(wire, []))
            if served not in child.owners[-1:]:
                child.owners.append(served)
            uri = uri_of(outer)
            wire = {"uri": uri, "name": outer.rpartition("/")[2], "mimeType": DIRECTORY_TYPE}

    def to_wire(self, served: Served, sees: Sees) -> JSONObject:
        """Return the entry of a skill for a caller who sees it."""
        skills = [served, *(part for part in self._parts[served.skill.path] if sees(part.entry))]
        resources: list[JSONObject] | str = [
            {
                "uri": uri_of(part.skill.path, file.path),
                "digest": file.digest,
                "size": len(file.content),
            }
            for part in skills
            for file in part.skill.files or ()
        ]
        if any(part.skill.files is None for part in skills):
            # One without stable digests has no complete list of files, nor has what it is a part of.
            resources = DYNAMIC
        skill = served.skill
        return {"uri": skill.uri, "frontmatter": skill.front_matter, "resources": resources}

    def find_children(self, uri: str, sees: Sees) -> list[JSONObject] | None:
        """Return what is directly in a folder, as resources; None: no folder that the caller sees."""
        children = [
            child.wire
            for _, child in sorted(self._folders.get(uri, {}).items())
            if any(sees(owner.entry) for owner in child.owners)
        ]
        return children or None


def _outer_paths(path: str) -> Iterator[str]:
    """Yield the paths of the folders that something is in, the innermost first."""
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path
