"""SkillsExtension: instructions for whole tasks, which hosts list, verify and load."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from types import MappingProxyType
from typing import Any

from django_mcp.extensions.skills.core import schemas  # noqa: F401 - declares the schemas
from django_mcp.extensions.skills.core.index import SkillIndex, skill_of
from django_mcp.extensions.skills.core.skill import EXTENSION, Skill
from django_mcp.protocol.byte_ranges import decode_cursor, encode_cursor
from django_mcp.protocol.errors import Refusal, invalid_params
from django_mcp.protocol.json import JSONObject, encode
from django_mcp.protocol.results import ReadResult
from django_mcp.protocol.revisions import REVISIONS, Revision
from django_mcp.registry.registry import Registry
from django_mcp.server.exchange.exchange import Exchange
from django_mcp.server.extension import Answer, Extension, ExtensionMethod
from django_mcp.server.handlers.failures import short
from django_mcp.server.request_checks import check_scopes, note_hidden
from django_mcp.server.services import ServedCall

PAGE_BYTES = 256 * 1024
"""Of entries on a page, which may have 512 files each. One entry is never cut."""

MAX_CACHED = 256
"""Answers that are kept, encoded."""

MAX_CACHED_BYTES = 8 * 1024 * 1024
"""Of all of them."""

MAX_KEPT_BYTES = 64 * 1024
"""Of a file whose contents are kept ready."""

MAX_TOLD = 20
"""Skills that the instructions name for clients that cannot list them."""

_INVALID_CURSOR = invalid_params("Invalid cursor: list again from the start")


class SkillsExtension(Extension):
    """Skills: folders with instructions for whole tasks.

    Source: SEP-2640, io.modelcontextprotocol/skills.
    """

    identifier = EXTENSION
    settings = MappingProxyType({"directoryRead": True})
    uri_schemes = ("skill",)
    # The rules of each skill decide who may see it.
    permission = ()
    scopes = ()
    serves_restricted = True

    def __init__(self) -> None:
        self._index: tuple[int, SkillIndex] | None = None
        self._answers: dict[Hashable, bytes] = {}
        self._answers_bytes = 0
        self._contents: dict[str, ReadResult] = {}

    def is_offered(self, registry: Registry) -> bool:
        return any(skill_of(entry) is not None for entry in registry.resources.values())

    @classmethod
    def read_option(cls, value: Any) -> Skill:
        if not isinstance(value, Skill):
            raise ValueError(  # noqa: TRY004 - what the caller reports
                "write @skill(...), or a folder with a SKILL.md"
            )
        return value

    def find_capabilities(
        self, revision: Revision, exchange: Exchange, client_info: Mapping[str, Any] | None
    ) -> JSONObject:
        """See `Extension.find_capabilities`. Older revisions have the files as resources alone."""
        if not revision.is_stateless:
            return {}
        return super().find_capabilities(revision, exchange, client_info)

    def methods(self) -> Mapping[str, ExtensionMethod]:
        answers = {
            "skills/list": self._list,
            "skills/get": self._get,
            "resources/directory/read": self._read_directory,
        }
        revisions = [revision.name for revision in REVISIONS if revision.is_stateless]
        return {
            # Only servers declare this extension.
            name: ExtensionMethod(answer=answer, revisions=revisions, needs_declaration=False)
            for name, answer in answers.items()
        }

    def find_instructions(self, call: Any) -> str | None:
        """Name the skills for clients of revisions that cannot list them."""
        if call.rules.is_stateless:
            return None
        sees = call.exchange.caller.visible.includes
        skills = [served.skill for served in self._find(call).skills.values() if sees(served.entry)]
        if not skills:
            return None
        lines = [f"- {skill.uri}: {short(skill.description)}" for skill in skills[:MAX_TOLD]]
        if len(skills) > MAX_TOLD:
            lines.append(f"- {len(skills) - MAX_TOLD} more are among the resources.")
        return "\n".join((_HOW, *lines))

    async def read_resource(self, call: ServedCall, uri: str) -> ReadResult | Refusal | None:
        """Return a file of a skill beside its `SKILL.md`, which is a resource of the server."""
        served, file = self._find(call).files.get(uri, (None, None))
        if served is None or file is None:
            return None
        if not call.exchange.caller.visible.includes(served.entry):
            note_hidden(call, served.entry, uri)
            return None
        call.entry = served.entry
        refusal = check_scopes(call, served.entry)
        if refusal is not None:
            return refusal
        contents = self._contents.get(uri)
        if contents is None:
            contents = ReadResult([file.to_contents(uri)])
            if len(file.content) <= MAX_KEPT_BYTES and len(self._contents) < MAX_CACHED:
                self._contents[uri] = contents
        return contents

    # -- methods

    async def _list(self, call: ServedCall) -> Answer:
        """Answer `skills/list`."""
        after, index = self._read_cursor(call), self._find(call)
        if isinstance(after, Refusal):
            return after
        return self._answer(call, after, lambda: self._page(call, index, after))

    def _page(self, call: ServedCall, index: SkillIndex, after: str | None) -> JSONObject | Refusal:
        sees = call.exchange.caller.visible.includes
        visible = [served for served in index.skills.values() if sees(served.entry)]
        start = _find_start([served.skill.uri for served in visible], after)
        if start is None:
            return _INVALID_CURSOR
        skills: list[JSONObject] = []
        size = 0
        most = call.options.page_size or len(visible)
        for served in visible[start:]:
            wire = index.to_wire(served, sees)
            size += len(encode(wire))
            if skills and (size > PAGE_BYTES or len(skills) == most):
                break
            skills.append(wire)
        result: JSONObject = {"skills": skills, **self._cache_fields(call)}
        if start + len(skills) < len(visible):
            result["nextCursor"] = self._write_cursor(call, skills[-1]["uri"])
        return result

    async def _get(self, call: ServedCall) -> Answer:
        """Answer `skills/get`."""
        index, uri = self._find(call), call.params.get("uri")
        if type(uri) is not str:
            return invalid_params("uri must be a string")
        served = index.skills.get(uri)
        if served is None or not call.exchange.caller.visible.includes(served.entry):
            if served is not None:
                note_hidden(call, served.entry, uri)
            return invalid_params(f"No skill is served at {short(uri)}")
        call.entry = served.entry
        refusal = check_scopes(call, served.entry)
        if refusal is not None:
            return refusal
        sees = call.exchange.caller.visible.includes

        def make() -> JSONObject:
            return {"skill": index.to_wire(served, sees), **self._cache_fields(call)}

        return self._answer(call, uri, make)

    async def _read_directory(self, call: ServedCall) -> Answer:
        """Answer `resources/directory/read`."""
        uri, after = call.params.get("uri"), self._read_cursor(call)
        if type(uri) is not str:
            return invalid_params("uri must be a string")
        if isinstance(after, Refusal):
            return after
        index = self._find(call)
        return self._answer(call, (uri, after), lambda: self._folder_page(call, index, uri, after))

    def _folder_page(
        self, call: ServedCall, index: SkillIndex, uri: str, after: str | None
    ) -> JSONObject | Refusal:
        children = index.find_children(uri, call.exchange.caller.visible.includes)
        if children is None:
            return invalid_params(f"{short(uri)} is no folder of a skill")
        start = _find_start([child["uri"] for child in children], after)
        if start is None:
            return _INVALID_CURSOR
        most = call.options.page_size or len(children)
        page = children[start : start + most]
        result: JSONObject = {"resources": page}
        if start + most < len(children):
            result["nextCursor"] = self._write_cursor(call, page[-1]["uri"])
        return result

    # -- internals

    def _answer(
        self, call: ServedCall, asked: Hashable, make: Callable[[], JSONObject | Refusal]
    ) -> bytes | Refusal:
        """Return an answer as it is sent, which is the same for all who see the same."""
        key = (call.method, call.rules.name, asked, call.exchange.caller.visible.variant)
        encoded = self._answers.get(key)
        if encoded is None:
            made = make()
            if isinstance(made, Refusal):
                return made
            encoded = call.server.encode_result(made, call.rules)
            self._answers_bytes += len(encoded)
            if len(self._answers) >= MAX_CACHED or self._answers_bytes > MAX_CACHED_BYTES:
                self._answers, self._answers_bytes = {}, len(encoded)
            self._answers[key] = encoded
        return encoded

    def _find(self, call: ServedCall) -> SkillIndex:
        """Return the skills of the server, as they are registered now."""
        registry = call.server.registry
        version = registry.version
        if self._index is None or self._index[0] != version:
            self._index, self._answers, self._contents = (version, SkillIndex(registry)), {}, {}
            self._answers_bytes = 0
        return self._index[1]

    def _cache_fields(self, call: ServedCall) -> Mapping[str, Any]:
        hint = call.options.list_cache.get("resources/list")
        return {"ttlMs": 0 if hint is None else hint.ttl_ms, "cacheScope": "private"}

    def _read_cursor(self, call: ServedCall) -> str | Refusal | None:
        cursor = call.params.get("cursor")
        if cursor is None:
            return None
        after = decode_cursor(cursor, call.method, call.server.ports.signer.unsign)
        return _INVALID_CURSOR if after is None else after

    def _write_cursor(self, call: ServedCall, last: str) -> str:
        return encode_cursor(call.method, last, call.server.ports.signer.sign)


def _find_start(uris: list[str], after: str | None) -> int | None:
    """Return where a page begins; None: what its cursor names is not there any more."""
    if after is None:
        return 0
    return uris.index(after) + 1 if after in uris else None


_HOW = (
    "This server has skills, which are instructions for whole tasks. Before such a task, read its resource, and "
    "then the files that it names, whose URIs begin alike:"
)

EXTENSION_CLASS = SkillsExtension


def in_memory(_clock: Callable[[], float]) -> SkillsExtension:
    """Return the extension of a server without a site."""
    return SkillsExtension()
