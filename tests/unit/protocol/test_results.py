"""The results of tools, resources, prompts and completions."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_mcp.protocol.asks import InputRequired, ask_roots
from django_mcp.protocol.content import BlobContents, File, Image, Text, TextContents
from django_mcp.protocol.results import (
    ABSENT,
    CacheHint,
    Completion,
    PromptMessage,
    PromptResult,
    ReadResult,
    ToolResult,
)

HI = {"type": "text", "text": "hi"}


def later(kind: Any, *args: Any, **kwargs: Any) -> Callable[[], Any]:
    return lambda: kind(*args, **kwargs)


@pytest.mark.parametrize(
    ("result", "wire"),
    [
        (ToolResult(), {"content": []}),
        (ToolResult([Text("hi")]), {"content": [HI]}),
        (ToolResult(content=["hi"], is_error=True), {"content": [HI], "isError": True}),
        (ToolResult(structured=None), {"content": [], "structuredContent": None}),
        (ToolResult(structured=[1]), {"content": [], "structuredContent": [1]}),
        (ToolResult(structured=ABSENT, meta={"a": 1}), {"content": [], "_meta": {"a": 1}}),
        (
            ToolResult(block for block in [File(b"\x00", name="a.png")]),  # type: ignore[arg-type]
            {"content": [{"type": "image", "data": "AA==", "mimeType": "image/png"}]},
        ),
        (PromptMessage("hi"), {"role": "user", "content": HI}),
        (PromptMessage(Text("hi"), "assistant"), {"role": "assistant", "content": HI}),
        (
            PromptResult([PromptMessage("hi")], description="d", meta={"a": 1}),
            {
                "description": "d",
                "messages": [{"role": "user", "content": HI}],
                "_meta": {"a": 1},
            },
        ),
        (PromptResult([]), {"messages": []}),
        (
            ReadResult([TextContents("a:b", "x"), BlobContents("a:c", b"")], meta={"a": 1}),
            {
                "contents": [{"uri": "a:b", "text": "x"}, {"uri": "a:c", "blob": ""}],
                "_meta": {"a": 1},
            },
        ),
        (ReadResult([], cache=CacheHint(5, "public")), {"contents": []}),
        (Completion([]), {"values": []}),
        (Completion(["a"], total=9, has_more=True), {"values": ["a"], "total": 9, "hasMore": True}),
        (Completion(["a"], has_more=False), {"values": ["a"], "hasMore": False}),
    ],
)
def test_results_are_serialized_without_unset_fields(result: Any, wire):
    assert result.to_wire() == wire


@pytest.mark.parametrize(
    ("make", "remedy"),
    [
        (later(ToolResult, "hi"), r"write ToolResult\(\[content\]\)"),
        (later(ToolResult, Text("hi")), r"write ToolResult\(\[content\]\)"),
        (later(ToolResult, File(b"")), r"write ToolResult\(\[content\]\)"),
        (later(ToolResult, {"total": 5}), r"write ToolResult\(\[content\]\)"),
        (later(ToolResult, [5]), "not of int"),
        (later(ToolResult, [TextContents("a:b", "")]), "not of TextContents"),
        (later(ToolResult, meta={"": 1}), "_meta key"),
        (later(ToolResult, meta="abc"), "meta is 'abc': use a dict"),
        (later(ToolResult, is_error="false"), "is_error is 'false': use True or False"),
        (later(ToolResult, ["Failed"], is_error=1), "is_error is 1"),
        (later(Completion, ["a"], total="3"), "total is '3': use a whole number"),
        (later(Completion, ["a"], has_more="no"), "has_more is 'no': use True, False"),
        (later(PromptMessage, [Text("hi")]), "not of list"),
        (later(PromptMessage, "hi", role="system"), "'user' or 'assistant'"),
        (later(PromptResult, "hi"), r"write \[message\]"),
        (later(PromptResult, PromptMessage("hi")), r"write \[message\]"),
        (later(PromptResult, ["hi"]), "made of PromptMessage, not of str"),
        (later(ReadResult, TextContents("a:b", "")), r"write \[content\]"),
        (later(ReadResult, ["hi"]), "not of str"),
        (later(Completion, "abc"), r"write \[value\]"),
        (later(Completion, {"a": 1}), r"write \[value\]"),
        (later(InputRequired, [ask_roots()]), "a dict of questions by their keys"),
        (later(Completion, [1]), "made of str, not of int"),
        (later(CacheHint, -1), "0 or more"),
        (later(CacheHint, 1.5), "whole milliseconds"),
        (later(CacheHint, True), "whole milliseconds"),
        (later(CacheHint, 0, "shared"), "'private' or 'public'"),
    ],
)
def test_unserializable_results_are_rejected_with_a_hint(make, remedy):
    with pytest.raises((TypeError, ValueError), match=remedy):
        make()


def test_content_is_stored_as_blocks():
    assert ToolResult(["hi", File(b"", name="a.png")]).content == (Text("hi"), Image(b""))
    assert PromptMessage("hi").content == Text("hi")


def test_results_are_not_cacheable_by_default():
    assert CacheHint() == CacheHint(ttl_ms=0, scope="private")


def test_at_most_100_values_are_completed():
    wire = Completion([str(number) for number in range(150)]).to_wire()

    assert wire == {"values": [str(n) for n in range(100)], "total": 150, "hasMore": True}


def test_an_explicit_total_is_kept():
    assert Completion(["a"] * 101, total=5000).to_wire()["total"] == 5000


def test_matching_candidates_keep_their_order_and_case():
    found = Completion.matching("st", ["Straße", "Post", "STADT", "st", ""])

    assert found == Completion(["Straße", "STADT", "st"], total=3, has_more=False)


def test_matching_stops_after_the_limit():
    found = Completion.matching("", (str(number) for number in count()))

    assert len(found.values) == 100
    assert (found.total, found.has_more) == (None, True)


@given(st.text(max_size=3), st.lists(st.text(max_size=4)))
def test_matching_completes_by_prefix(prefix, candidates):
    found = Completion.matching(prefix, candidates)

    assert list(found.values) == [
        each for each in candidates if each.casefold().startswith(prefix.casefold())
    ]
