"""What the texts of skills name, and is not there: tools, resources and files.

A text is for people, and may name anything. Only what is almost the name of something that is there, and a path in the
folder of the skill, are told.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterator
from functools import cached_property
from urllib.parse import unquote

from django_mcp.extensions.skills.core.index import SkillIndex
from django_mcp.extensions.skills.core.skill import SKILL_FILE, Skill, SkillFile, uri_of
from django_mcp.registry.entries import ToolEntry
from django_mcp.registry.problems import LIKENESS, find_near
from django_mcp.servers import MCPServer

_FOLDERS = frozenset(("references", "scripts", "assets"))
"""Of a skill, by convention. Source: agentskills.io/specification."""

_BLOCK = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`([^`\n]{3,160})`")
_NAME = re.compile(r"(?:mcp__\w+?__)?([A-Za-z][\w.-]*)\s*(?:\([^()]*\))?")
_CALLED = re.compile(r"(?:\b(?:call|calls|calling|run|invoke|tool|tools|use|using)\b[^`\n.]{0,20})$", re.IGNORECASE)  # fmt: skip
_LINK = re.compile(r"\]\(\s*<?([^)\s>]+)")
_PATH = re.compile(r"(?<![\w/.:~-])(?:\./)?((?:[\w-]+/)+[\w.-]*\w\.\w{1,8})(?![\w/*<{\[])")
_FILE = re.compile(r"[\w-]+(?:\.[\w-]+)*\.[A-Za-z]\w{0,7}")
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://")


class Names:
    """What the texts of the skills of a server may name."""

    def __init__(self, server: MCPServer) -> None:
        self._registry = server.registry
        self.index = SkillIndex(server.registry)

    @cached_property
    def _tools(self) -> Collection[str]:
        return self._registry.tools.keys()

    @cached_property
    def _known(self) -> set[str]:
        """What a text may mean that is no tool: other entries, arguments, members of results and their values."""
        known = {entry.name for entry in self._registry.entries()}
        for entry in self._registry.entries():
            if isinstance(entry, ToolEntry):
                known.update(_find_words(entry.input_schema))
                known.update(_find_words(entry.output_schema))
        known.update(served.skill.name for served in self.index.skills.values())
        return known

    def find_wrong(self, skill: Skill) -> Iterator[tuple[str, str]]:
        """Yield what the files of a skill name, and is not there, as clauses with hints."""
        for tool in _read_allowed(skill.front_matter.get("allowed-tools")):
            if suggestion := self._find_near_tool(tool):
                yield f"its allowed-tools have {tool!r:.80}, which is no tool", suggestion
        for file in skill.files or ():
            if file.is_text and file.path.endswith(".md"):
                for problem, hint in self.find_wrong_in(file.content.decode(), skill, file.path):
                    yield f"{file.path} {problem}", hint

    def find_wrong_in(
        self, text: str, skill: Skill, path: str = SKILL_FILE
    ) -> Iterator[tuple[str, str]]:
        """Yield what a text of a skill names, and is not there."""
        for name, near in self._find_wrong_names(text):
            yield f"names {name!r:.80}, which is not there", near
        files = skill.files or ()
        for wrong in dict.fromkeys(self._find_wrong_paths(text, skill, files, path)):
            paths = find_near(wrong, [each.path for each in files if each.path != path])
            hint = (
                f"Did you mean {paths[0]!r}?"
                if paths
                else "Name a file by its path in the folder of the skill."
            )
            yield f"names the file {wrong!r:.80}, which is not there", hint

    def _find_wrong_names(self, text: str) -> Iterator[tuple[str, str]]:
        """Yield what is almost the name of a tool, or the URI of a resource, each once."""
        seen: set[str] = set()
        # What stands in a block is an example, of anything.
        text = _BLOCK.sub("", text)
        for match in _CODE.finditer(text):
            token = match[1].strip()
            named = _NAME.fullmatch(token)
            if named is not None and named[1] not in seen:
                name = named[1]
                seen.add(name)
                # A word may be anything.
                is_name = "_" in name or "-" in name or bool(_CALLED.search(text[: match.start()]))
                if is_name and not _FILE.fullmatch(name) and (near := self._find_near_tool(name)):
                    yield name, near
            elif token not in seen and (near := self._find_near_resource(token)):
                seen.add(token)
                yield token, near

    def _find_near_tool(self, name: str) -> str | None:
        if name in self._known:
            return None
        near = find_near(name, self._tools, cutoff=LIKENESS)
        return f"Did you mean {near[0]!r}?" if near else None

    def _find_near_resource(self, uri: str) -> str | None:
        scheme = _SCHEME.match(uri)
        registry = self._registry
        known = {str(each): each for each in registry.resources}
        if scheme is None or uri in known or scheme[1] == "skill":
            return None
        if any(str(each).startswith(scheme[0]) for each in registry.templates):
            return None
        near = find_near(
            uri, [each for each in known if each.startswith(scheme[0])], cutoff=LIKENESS
        )
        return f"Did you mean {near[0]!r}?" if near else None

    def _find_wrong_paths(
        self, text: str, skill: Skill, files: Collection[SkillFile], path: str
    ) -> Iterator[str]:
        folders = _FOLDERS | {each.path.partition("/")[0] for each in files if "/" in each.path}
        own = posixpath.dirname(path)
        for target in _LINK.findall(_BLOCK.sub("", text)):
            link = unquote(target.partition("#")[0].partition("?")[0])
            is_relative = bool(link) and not link.startswith("/") and ":" not in link
            if is_relative and not re.search(r"[{}<>*]", link) and not self._has(skill, own, link):
                yield link
        for named in _PATH.findall(text):
            # The other paths may be those of a project.
            is_own = named.partition("/")[0] in folders
            stem = posixpath.basename(named).partition(".")[0]
            if is_own and not stem.isupper() and not self._has(skill, own, named):
                yield named
        names = {posixpath.basename(each.path) for each in files}
        for token in _CODE.findall(_BLOCK.sub("", text)):
            is_file = _FILE.fullmatch(token) is not None and token not in names | self._known
            if is_file and find_near(token, names - {SKILL_FILE}, cutoff=LIKENESS):
                yield token

    def _has(self, skill: Skill, own: str, named: str) -> bool:
        """Return whether a path leads to a file or a folder of skills, from the file that names it or from its skill."""
        for folder in {own, ""}:
            joined = posixpath.normpath(posixpath.join(skill.path, folder, named))
            uri = uri_of(joined)
            known = self.index.files.keys() | self.index.skills.keys()
            if uri in known or any(each.startswith(f"{uri}/") for each in known):
                return True
        return False


def _read_allowed(value: object) -> list[str]:
    """Return the names of tools in `allowed-tools`, without what they may be called with."""
    texts = value if isinstance(value, list) else [value]
    words = [each for text in texts if isinstance(text, str) for each in re.split(r"[\s,]+", text)]
    return [match[1] for word in words if (match := _NAME.fullmatch(word)) and "_" in match[1]]


def _find_words(schema: object, depth: int = 0) -> Iterator[str]:
    """Yield the names of members and the texts that a schema has as values."""
    if depth > 12:
        return
    if isinstance(schema, dict):
        properties = schema.get("properties")
        yield from properties if isinstance(properties, dict) else ()
        for each in (*(schema.get("enum") or ()), schema.get("const")):
            if isinstance(each, str):
                yield each
        for value in schema.values():
            yield from _find_words(value, depth + 1)
    elif isinstance(schema, list):
        for value in schema:
            yield from _find_words(value, depth + 1)
