"""Results of tools, resources, prompts and completions.

`to_wire` writes the newest revision's form without the fields that depend on the peer
(`resultType`, `ttlMs`, `cacheScope`, `serverInfo`), which the server adds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import islice
from typing import Any, Final, Literal

from msgspec import UNSET

from django_mcp.protocol.annotations import Meta, Role, check_meta, to_plain, to_tuple
from django_mcp.protocol.content import BLOCKS, Content, File, ResourceContents, to_block
from django_mcp.protocol.json import JSONObject, present

MAX_COMPLETION_VALUES = 100
"""The maximum number of values of one response (all revisions, server/utilities/completion)."""


ABSENT: Final = UNSET
"""No structured content, as opposed to null."""


@dataclass(frozen=True, slots=True)
class CacheHint:
    """How long a client may cache a result, in milliseconds, and whether for this caller only.

    Source: 2026-07-28 server/utilities/caching.
    """

    ttl_ms: int = 0
    scope: Literal["private", "public"] = "private"

    def __post_init__(self) -> None:
        if type(self.ttl_ms) is not int or self.ttl_ms < 0:
            raise ValueError(f"ttl_ms is {self.ttl_ms!r}: use whole milliseconds, 0 or more")
        if self.scope not in ("private", "public"):
            raise ValueError(f"scope is {self.scope!r}: use 'private' or 'public'")


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a tool: blocks for the model, and data for programs.

    Args:
        content: blocks; a string stands for a Text, a File for the block it becomes.
        structured: any JSON value; None is JSON's null. A text copy is not added.
        is_error: the tool failed, and the content tells the model why.
        meta: `_meta` of the result.

    Source: 2026-07-28 server/tools, "Tool Result".
    """

    content: Sequence[Content | File | str] = ()
    _: KW_ONLY
    structured: Any = ABSENT
    is_error: bool = False
    meta: Meta | None = None

    def __post_init__(self) -> None:
        if isinstance(self.content, (str, dict, *BLOCKS)):
            raise TypeError(
                "The content of a ToolResult is a list of blocks and texts, also of a single one: write "
                "ToolResult([content])"
            )
        blocks = tuple(to_block(block, BLOCKS) for block in self.content)
        object.__setattr__(self, "content", blocks)
        if self.is_error and self.is_error is not True:
            raise TypeError(f"is_error is {self.is_error!r:.80}: use True or False")
        if self.meta is not None:
            check_meta(self.meta)

    def to_wire(self) -> JSONObject:
        blocks: Any = self.content
        wire: JSONObject = {"content": [block.to_wire() for block in blocks]}
        if self.structured is not ABSENT:
            wire["structuredContent"] = self.structured
        if self.is_error:
            wire["isError"] = True
        if self.meta:
            wire["_meta"] = dict(self.meta)
        return wire


@dataclass(frozen=True, slots=True)
class PromptMessage:
    """One message of a prompt, with exactly one block and a role.

    A string stands for a Text, a File for the block it becomes.
    """

    content: Content | File | str
    role: Role = "user"

    def __post_init__(self) -> None:
        object.__setattr__(self, "content", to_block(self.content, BLOCKS))
        if self.role not in ("user", "assistant"):
            raise ValueError(f"role is {self.role!r}: use 'user' or 'assistant'")

    def to_wire(self) -> JSONObject:
        block: Any = self.content
        return {"role": self.role, "content": block.to_wire()}


@dataclass(frozen=True, slots=True)
class PromptResult:
    """The messages of a prompt."""

    messages: Sequence[PromptMessage]
    _: KW_ONLY
    description: str | None = None
    meta: Meta | None = None

    def __post_init__(self) -> None:
        messages = to_tuple("messages", self.messages, PromptMessage)
        object.__setattr__(self, "messages", messages)
        check_meta(self.meta)

    def to_wire(self) -> JSONObject:
        description = None if self.description is None else str(self.description)
        messages = [message.to_wire() for message in self.messages]
        return present(description=description, messages=messages, _meta=to_plain(self.meta))


@dataclass(frozen=True, slots=True)
class ReadResult:
    """The contents of a resource; `to_wire` leaves out `cache`, which only some revisions have."""

    contents: Sequence[ResourceContents]
    _: KW_ONLY
    meta: Meta | None = None
    cache: CacheHint | None = None

    def __post_init__(self) -> None:
        contents = to_tuple("contents", self.contents, ResourceContents)
        object.__setattr__(self, "contents", contents)
        check_meta(self.meta)

    def to_wire(self) -> JSONObject:
        contents = [content.to_wire() for content in self.contents]
        return present(contents=contents, _meta=to_plain(self.meta))


@dataclass(frozen=True, slots=True)
class Completion:
    """Proposed values for an argument, best first.

    More than 100 values are cut to 100, with `has_more` set and `total` filled in if it was not.
    """

    values: Sequence[str]
    _: KW_ONLY
    total: int | None = None
    has_more: bool | None = None

    def __post_init__(self) -> None:
        values = to_tuple("values", self.values)
        if self.total is not None and type(self.total) is not int:
            raise TypeError(f"total is {self.total!r:.80}: use a whole number, or None")
        if self.has_more is not None and type(self.has_more) is not bool:
            raise TypeError(f"has_more is {self.has_more!r:.80}: use True, False or None")
        if len(values) > MAX_COMPLETION_VALUES:
            object.__setattr__(self, "has_more", True)
            if self.total is None:
                object.__setattr__(self, "total", len(values))
        object.__setattr__(self, "values", values[:MAX_COMPLETION_VALUES])

    @classmethod
    def matching(cls, prefix: str, candidates: Iterable[str]) -> Completion:
        """Return the first 100 candidates that start with `prefix`, in any case, in their order.

        It stops taking candidates once it is clear that there are more.
        """
        start = prefix.casefold()
        return cls.first_of(
            candidate for candidate in candidates if candidate.casefold().startswith(start)
        )

    @classmethod
    def first_of(cls, values: Iterable[str], total: int | None = None) -> Completion:
        """Return the first 100 of some values, of which no more than 101 are taken."""
        first_values = list(islice(values, MAX_COMPLETION_VALUES + 1))
        if len(first_values) <= MAX_COMPLETION_VALUES:
            return cls(first_values, total=len(first_values), has_more=False)
        return cls(first_values[:MAX_COMPLETION_VALUES], total=total, has_more=True)

    def to_wire(self) -> JSONObject:
        """Return the value of `completion` in the result."""
        return present(values=list(self.values), total=self.total, hasMore=self.has_more)
