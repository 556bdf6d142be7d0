from __future__ import annotations

import copy
from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import fields

from django_mcp.protocol.errors import RESOURCE_NOT_FOUND
from django_mcp.protocol.revisions import REVISIONS, Revision, RevisionSet, find_revision, lower

V2024_11_05, V2025_03_26, V2025_06_18, V2025_11_25, V2026_07_28 = REVISIONS
names = [revision.name for revision in REVISIONS]

TOOL: dict[str, Any] = {
    "name": "t",
    "title": "T",
    "description": "d",
    "icons": [{"src": "https://x/i.png"}],
    "annotations": {"readOnlyHint": True},
    "inputSchema": {"type": "object", "properties": {"a": True, "b": False, "c": {"type": "null"}}},
    "outputSchema": {"type": "array"},
    "_meta": {"k": 1},
}
CALL: dict[str, Any] = {
    "content": [
        {"type": "text", "text": "x", "_meta": {"a": 1}, "annotations": {"lastModified": "2026"}},
        {"type": "audio", "data": "AA==", "mimeType": "audio/wav"},
        {"type": "resource_link", "uri": "a://b", "name": "n", "icons": [{"src": "https://x"}]},
        {"type": "resource", "resource": {"uri": "a://b", "text": "t", "_meta": {"a": 1}}},
    ],
    "structuredContent": {"a": 1},
}


def test_each_revision_is_found_by_name() -> None:
    assert [find_revision(name) for name in names] == list(REVISIONS)
    assert find_revision("1900-01-01") is None
    assert find_revision(5) is None


def test_revisions_cannot_be_ordered() -> None:
    with pytest.raises(TypeError):
        sorted(REVISIONS)  # type: ignore[type-var]


@pytest.mark.parametrize("revision", REVISIONS, ids=names)
def test_no_revision_has_both_discover_and_a_handshake(
    revision: Revision,
) -> None:
    assert ("initialize" in revision.methods) is not revision.is_stateless
    assert ("server/discover" in revision.methods) is revision.is_stateless


def test_each_revision_declares_only_its_changes() -> None:
    for older, newer in pairwise(REVISIONS):
        assert newer.lowerings is not older.lowerings
        shared = set(newer.lowerings.values()) & set(older.lowerings.values())
        assert not shared
        assert any(getattr(newer, f.name) != getattr(older, f.name) for f in fields(newer))


def test_a_negotiation_never_ends_at_a_stateless_revision() -> None:
    spoken = RevisionSet()

    for revision in (V2024_11_05, V2025_03_26, V2025_06_18, V2025_11_25):
        assert spoken.negotiate(revision.name) is revision
    assert spoken.negotiate(V2026_07_28.name) is V2025_11_25
    assert spoken.negotiate("1900-01-01") is V2025_11_25
    assert RevisionSet([V2026_07_28.name]).negotiate(V2025_11_25.name) is None


def test_an_unknown_revision_cannot_be_switched_on() -> None:
    with pytest.raises(ValueError, match="2999"):
        RevisionSet(["2999-01-01"])
    with pytest.raises(ValueError, match="choose from"):
        RevisionSet([])


@pytest.mark.parametrize(
    ("revision", "kept"),
    [
        (V2026_07_28, {*TOOL}),
        (V2025_11_25, {*TOOL}),
        (V2025_06_18, {*TOOL} - {"icons"}),
        (V2025_03_26, {"name", "description", "inputSchema", "annotations"}),
        (V2024_11_05, {"name", "description", "inputSchema"}),
    ],
    ids=reversed(names),
)
def test_tool_fields_unknown_to_a_revision_are_removed(revision: Revision, kept: set[str]) -> None:
    before = copy.deepcopy(TOOL)

    lowered = lower("tools/list", {"tools": [TOOL]}, revision)["tools"][0]

    assert set(lowered) == kept
    assert before == TOOL


def test_boolean_schemas_become_objects_before_the_newest_revision() -> None:
    newest = lower("tools/list", {"tools": [TOOL]}, V2026_07_28)["tools"][0]
    older = lower("tools/list", {"tools": [TOOL]}, V2025_11_25)["tools"][0]

    assert newest["inputSchema"]["properties"]["a"] is True
    assert older["inputSchema"]["properties"] == {"a": {}, "b": {"not": {}}, "c": {"type": "null"}}


def test_blocks_unknown_to_a_revision_become_text() -> None:
    kinds = {
        revision.name: [b["type"] for b in lower("tools/call", CALL, revision)["content"]]
        for revision in REVISIONS
    }

    assert kinds[V2026_07_28.name] == kinds[V2025_11_25.name] == kinds[V2025_06_18.name]
    assert kinds[V2025_06_18.name] == ["text", "audio", "resource_link", "resource"]
    assert kinds[V2025_03_26.name] == ["text", "audio", "text", "resource"]
    assert kinds[V2024_11_05.name] == ["text", "text", "text", "resource"]


def test_blocks_for_an_older_revision_contain_no_newer_fields() -> None:
    for revision in (V2024_11_05, V2025_03_26):
        text = repr(lower("tools/call", CALL, revision))
        for key in ("_meta", "lastModified", "structuredContent", "icons"):
            assert key not in text
    assert "icons" not in repr(lower("tools/call", CALL, V2025_06_18))
    assert "a://b" in lower("tools/call", CALL, V2024_11_05)["content"][2]["text"]


def test_prompts_are_downgraded_like_tool_results() -> None:
    messages = [{"role": "user", "content": block} for block in CALL["content"]]

    lowered = lower("prompts/get", {"messages": messages}, V2024_11_05)["messages"]

    assert [each["content"]["type"] for each in lowered] == ["text", "text", "text", "resource"]


def test_titles_and_icons_in_lists_are_downgraded() -> None:
    item = {
        "name": "n",
        "title": "T",
        "icons": [],
        "_meta": {},
        "annotations": {"priority": 1, "lastModified": "x"},
    }
    prompt = {"name": "p", "title": "T", "arguments": [{"name": "a", "title": "A"}]}

    for method, key in (
        ("resources/list", "resources"),
        ("resources/templates/list", "resourceTemplates"),
    ):
        assert "icons" not in lower(method, {key: [item]}, V2025_06_18)[key][0]
        assert lower(method, {key: [item]}, V2025_03_26)[key] == [
            {"name": "n", "annotations": {"priority": 1}}
        ]
    assert lower("prompts/list", {"prompts": [prompt]}, V2025_03_26)["prompts"] == [
        {"name": "p", "arguments": [{"name": "a"}]}
    ]
    assert lower(
        "resources/read", {"contents": [{"uri": "a", "text": "b", "_meta": {}}]}, V2025_03_26
    ) == {"contents": [{"uri": "a", "text": "b"}]}


def test_server_info_is_limited_to_fields_of_the_revision() -> None:
    whole = {
        "name": "n",
        "version": "1",
        "title": "T",
        "description": "d",
        "websiteUrl": "w",
        "icons": [],
    }

    assert set(lower("implementation", whole, V2025_11_25)) == set(whole)
    assert set(lower("implementation", whole, V2025_06_18)) == {"name", "version", "title"}
    assert set(lower("implementation", whole, V2025_03_26)) == {"name", "version"}


def test_the_completions_capability_came_with_the_second_revision() -> None:
    assert lower("capabilities", {"completions": {}}, V2025_03_26) == {"completions": {}}
    assert lower("capabilities", {"completions": {}}, V2024_11_05) == {}


def test_a_missing_resource_has_its_own_code_only_before_the_newest() -> None:
    codes = [revision.missing_resource_code for revision in REVISIONS]

    assert codes == [RESOURCE_NOT_FOUND] * 4 + [-32602]


def test_batches_belong_to_one_revision() -> None:
    assert [revision.name for revision in REVISIONS if revision.accepts_batches] == [
        V2025_03_26.name
    ]
