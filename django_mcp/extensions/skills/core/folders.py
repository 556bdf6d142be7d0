"""Read skills from folders, whatever is in them.

A folder with a `SKILL.md` is a skill, and its path is that below the folder that is read. Nothing is read that a
symbolic link outside of the skill, a device, a pipe or a name that starts with a dot leads to, and no more than
the limits of a skill. A skill with a problem is left out whole: a part of it could mislead a model.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from django_mcp.extensions.skills.core.front_matter import (
    MAX_FRONT_MATTER_BYTES,
    FrontMatterError,
    read_front_matter,
)
from django_mcp.extensions.skills.core.skill import (
    MAX_BYTES,
    MAX_FILES,
    MAX_PATH,
    SKILL_FILE,
    Skill,
    SkillFile,
    check_front_matter,
    check_path,
)
from django_mcp.protocol.json import JSONObject

MAX_DEPTH = 16
"""Levels of folders below one that is read."""

MAX_ENTRIES = 50_000
"""Folders below one that is read, and files beside the skills in it."""

MAX_TOTAL_BYTES = 128 * 1024 * 1024
"""Of all skills below one folder, which a process keeps in memory."""

_IGNORED = frozenset(("__pycache__", "node_modules"))


def _is_ignored(name: str) -> bool:
    """Return whether a file or a folder is never served, such as `.git` and `.env`."""
    return name.startswith(".") or name in _IGNORED


def _is_text_of_skill(name: str) -> bool:
    """Return whether a file may be the instructions of a skill, by its name: a README is about skills."""
    return name.casefold().endswith(".md") and not name.casefold().startswith("readme.")


def _shown(place: Path) -> str:
    return os.fsencode(place).decode("utf-8", "backslashreplace")


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a skill is not served.

    Attributes:
        kind: `front_matter`, `name`, `link`, `file`, `encoding`, `limit` or `folder`.
        place: the file or the folder.
        text: a clause.
    """

    kind: str
    place: str
    text: str


@dataclass(slots=True)
class Found:
    """What is in a folder of skills."""

    skills: list[Skill] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    without_skill: list[str] = field(default_factory=list)
    """Folders with Markdown files, of which neither they nor one inside of them is a skill."""


@dataclass(slots=True)
class _Draft:
    """A skill while its folder is read. `failed` is set at the first problem."""

    path: str
    folder: Path
    outer: _Draft | None
    front_matter: JSONObject = field(default_factory=dict)
    files: list[SkillFile] = field(default_factory=list)
    count: int = 0
    size: int = 0
    failed: bool = False

    def chain(self) -> Iterator[_Draft]:
        """Yield this skill, and those that it is in."""
        draft: _Draft | None = self
        while draft is not None:
            yield draft
            draft = draft.outer


def read_skills(root: str | os.PathLike[str]) -> Found:
    """Return the skills below a folder, by path, with the problems of those that are left out."""
    reader = _FolderReader(Path(root))
    reader.read()
    return reader.found


class _FolderReader:
    def __init__(self, root: Path) -> None:
        self.found = Found()
        self._root = Path(os.path.realpath(root))
        self._entries = 0
        self._bytes = 0

    def read(self) -> None:
        """Read everything below the root."""
        if not self._root.is_dir():
            self._note("folder", self._root, "it is no folder")
            return
        drafts: list[_Draft] = []
        self._visit(self._root, (), None, drafts)
        for draft in sorted(drafts, key=lambda draft: draft.path):
            # One inside of a skill with a problem stands by itself, and one with a problem is not in another.
            if not draft.failed:
                self.found.skills.append(
                    Skill(
                        path=draft.path,
                        front_matter=draft.front_matter,
                        files=tuple(sorted(draft.files, key=lambda file: file.path)),
                        folder=str(draft.folder),
                    )
                )

    def _note(self, kind: str, place: Path, text: str, draft: _Draft | None = None) -> None:
        if draft is not None:
            if draft.failed:
                return
            draft.failed = True
        self.found.problems.append(Problem(kind, _shown(place), text))

    def _visit(
        self, folder: Path, parts: tuple[str, ...], outer: _Draft | None, drafts: list[_Draft]
    ) -> None:
        if len(parts) > MAX_DEPTH:
            self._note("limit", folder, f"it is more than {MAX_DEPTH} levels deep", outer)
            return
        entries = self._list(folder, outer)
        names = {entry.name for entry in entries}
        before = len(drafts), len(self.found.problems)
        draft = outer
        if SKILL_FILE in names and parts:
            draft = _Draft(path="/".join(parts), folder=folder, outer=outer)
            drafts.append(draft)
        elif outer is None:
            self._note_wrong_name(folder, names)
        for entry in entries:
            place = folder / entry.name
            if entry.is_dir(follow_symlinks=False):
                self._visit(place, (*parts, entry.name), draft, drafts)
            elif draft is not None and not draft.failed:
                self._add(draft, place, entry)
            else:
                self._look_for_skill(place, entry, draft)
        if draft is not None and draft is not outer:
            self._finish(draft)
        if draft is None and parts and before == (len(drafts), len(self.found.problems)):
            self._note_no_skill(folder, names)

    def _note_wrong_name(self, folder: Path, names: set[str]) -> None:
        wrong = [name for name in names if name.casefold() == SKILL_FILE.casefold()]
        if wrong:
            text = f"write {SKILL_FILE} in just this way"
            if SKILL_FILE in names:
                text = "a skill has a folder of its own below this one"
            self._note("name", folder / wrong[0], text)

    def _note_no_skill(self, folder: Path, names: set[str]) -> None:
        if any(map(_is_text_of_skill, names)):
            self.found.without_skill.append(_shown(folder))

    def _look_for_skill(self, place: Path, entry: os.DirEntry[str], draft: _Draft | None) -> None:
        """Note a link to a skill, and a file that is written as a skill is, in no folder of its own."""
        if entry.is_symlink():
            if place.is_dir() and (place / SKILL_FILE).exists():
                self._note("link", place, "it is a symbolic link: move the folder here")
            return
        is_known = draft is not None or entry.name.casefold() == SKILL_FILE.casefold()
        if is_known or not (_is_text_of_skill(entry.name) and entry.is_file(follow_symlinks=False)):
            return
        try:
            with place.open("rb") as file:
                start = file.read(2 * MAX_FRONT_MATTER_BYTES)
            front_matter = read_front_matter(start.decode("utf-8", "replace"))
        except (OSError, FrontMatterError):
            return
        if {"name", "description"} <= front_matter.keys():
            text = f"a skill is a folder: move the file to {place.stem}/{SKILL_FILE}"
            self._note("name", place, text)

    def _list(self, folder: Path, draft: _Draft | None) -> list[os.DirEntry[str]]:
        """Return what is in a folder, in the order of names, without what is never served."""
        entries = []
        try:
            with os.scandir(folder) as scanned:
                for entry in scanned:
                    if _is_ignored(entry.name):
                        continue
                    self._entries += 1
                    if self._entries > MAX_ENTRIES:
                        text = f"there are more than {MAX_ENTRIES} files and folders"
                        self._note("limit", folder, text, draft)
                        return []
                    entries.append(entry)
        except OSError as error:
            self._note("folder", folder, f"it cannot be read: {error.strerror}", draft)
            return []
        return sorted(entries, key=lambda entry: entry.name)

    def _add(self, draft: _Draft, place: Path, entry: os.DirEntry[str]) -> None:
        """Add a file to a skill, which counts for those that it is in as well."""
        inner = str(place.relative_to(draft.folder)).replace(os.sep, "/")
        try:
            inner.encode()
        except UnicodeEncodeError:
            self._note("encoding", place, "its name is not UTF-8", draft)
            return
        if not inner.isprintable() or len(inner) > MAX_PATH:
            self._note("name", place, f"its name is unprintable or longer than {MAX_PATH}", draft)
            return
        content = self._read(draft, place, entry)
        if content is None:
            return
        for each in draft.chain():
            each.count += 1
            each.size += len(content)
            if each.count > MAX_FILES:
                text = f"it has more than {MAX_FILES} files, which hosts need not load"
                self._note("limit", each.folder, text, each)
            elif each.size > MAX_BYTES:
                self._note("limit", each.folder, _TOO_LARGE, each)
        self._bytes += len(content)
        if self._bytes > MAX_TOTAL_BYTES:
            text = f"the skills in {self._root} have more than {MAX_TOTAL_BYTES} bytes together"
            self._note("limit", draft.folder, text, draft)
            return
        draft.files.append(SkillFile.of(inner, content))

    def _read(self, draft: _Draft, place: Path, entry: os.DirEntry[str]) -> bytes | None:
        target = place
        try:
            if entry.is_symlink():
                target = Path(os.path.realpath(place))
                if not target.is_relative_to(draft.folder) or any(
                    map(_is_ignored, target.relative_to(draft.folder).parts)
                ):
                    self._note(
                        "link",
                        place,
                        "the symbolic link leaves the folder of the skill, or leads to what is never served",
                        draft,
                    )
                    return None
                if target.is_dir():
                    self._note("link", place, "it is a symbolic link to a folder", draft)
                    return None
            return self._read_file(draft, place, target)
        except OSError as error:
            # Also for links in a circle.
            self._note("file", place, f"it cannot be read: {error.strerror}", draft)
            return None

    def _read_file(self, draft: _Draft, place: Path, target: Path) -> bytes | None:
        # Looked at before it is opened, since opening some devices does something.
        if not stat.S_ISREG(target.lstat().st_mode):
            self._note("file", place, "it is no regular file", draft)
            return None
        flags = os.O_RDONLY
        for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"):
            flags |= getattr(os, name, 0)
        descriptor = os.open(target, flags)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            left = MAX_BYTES - draft.size
            if not stat.S_ISREG(status.st_mode) or status.st_size > left:
                self._note("limit", draft.folder, _TOO_LARGE, draft)
                return None
            content = file.read(left + 1)
        if len(content) > left:
            self._note("limit", draft.folder, _TOO_LARGE, draft)
            return None
        return content

    def _finish(self, draft: _Draft) -> None:
        """Read the front matter of a skill, and check it."""
        if draft.failed:
            return
        place = draft.folder / SKILL_FILE
        content = next((file.content for file in draft.files if file.path == SKILL_FILE), b"")
        try:
            text = content.decode()
        except UnicodeDecodeError as error:
            self._note("encoding", place, f"it is not UTF-8: byte {error.start + 1}", draft)
            return
        if text.startswith("\ufeff"):
            self._note(
                "encoding",
                place,
                "it begins with a byte order mark: save it as UTF-8 without",
                draft,
            )
            return
        if "\r" in text:
            self._note("encoding", place, "its lines end with CR LF: save it with LF", draft)
            return
        try:
            draft.front_matter = read_front_matter(text)
        except FrontMatterError as error:
            self._note("front_matter", place, str(error), draft)
            return
        problem = check_path(draft.path)
        if problem is not None:
            self._note("name", draft.folder, problem, draft)
            return
        for problem in check_front_matter(draft.front_matter, draft.folder.name):
            kind = "name" if problem.startswith("its name") else "front_matter"
            self._note(kind, place, problem, draft)


_TOO_LARGE = f"its files have more than {MAX_BYTES} bytes, which hosts need not load"
