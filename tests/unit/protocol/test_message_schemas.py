"""The schemas of messages: complete for each revision, with corrections of upstream errors."""

from __future__ import annotations

from typing import Any

import pytest

from django_mcp.protocol.message_schemas import find_params_schema, find_result_schema
from django_mcp.protocol.meta import CLIENT_CAPABILITIES, PROTOCOL_VERSION
from django_mcp.protocol.revisions import REVISIONS, Revision
from django_mcp.registry.validators import Validator
from tests.support.wire import HANDSHAKE, V2025_11_25, V2026_07_28

TO_CLIENTS = ("elicitation/create", "sampling/createMessage", "roots/list", "ping")
NEEDS_PARAMS = {"tools/call", "resources/read", "prompts/get", "completion/complete", "tasks/get"}


def params_of(method: str, revision: Revision) -> Validator:
    return Validator(find_params_schema(method, revision), method, is_input=False)


def result_of(method: str, revision: Revision, **how: bool) -> Validator:
    return Validator(find_result_schema(method, revision, **how), method, is_input=False)


@pytest.mark.parametrize("revision", REVISIONS)
def test_every_method_has_its_own_schemas(revision: Revision):
    meta = {PROTOCOL_VERSION: revision.name, CLIENT_CAPABILITIES: {}}
    for method in (*revision.methods, *TO_CLIENTS):
        found = params_of(method, revision).problems({"_meta": meta})
        assert bool(found) or method not in NEEDS_PARAMS, method
        assert result_of(method, revision).problems([]) != []
    assert result_of("tools/call", revision).problems({}) != []
    assert result_of("tools/call", revision, is_early=True).problems({}) != []
    assert result_of("tools/call", revision, is_interim=True).problems({}) != []


@pytest.mark.parametrize("revision", HANDSHAKE[2:])
def test_a_form_answer_may_contain_floats(revision: Revision):
    answer = {"action": "accept", "content": {"price": 1.5}}

    assert result_of("elicitation/create", revision).problems(answer) == []


@pytest.mark.parametrize("value", [None, 1.5, [None], {"a": 0.5}])
def test_experimental_capabilities_may_contain_any_json(value: Any):
    capabilities = {"experimental": {"x": {"y": value}}}
    meta = {PROTOCOL_VERSION: V2026_07_28.name, CLIENT_CAPABILITIES: capabilities}

    assert params_of("tools/list", V2026_07_28).problems({"_meta": meta}) == []


def test_only_retryable_methods_may_require_input():
    asking = {"resultType": "input_required", "requestState": "s"}

    assert result_of("prompts/get", V2026_07_28, is_interim=True).problems(asking) == []
    assert result_of("tools/list", V2026_07_28, is_interim=True).problems(asking) != []


def test_the_result_of_a_task_names_the_task():
    result: dict[str, Any] = {"content": []}

    assert result_of("tasks/result", V2025_11_25).problems(result) != []
    result["_meta"] = {"io.modelcontextprotocol/related-task": {"taskId": "1"}}
    assert result_of("tasks/result", V2025_11_25).problems(result) == []
