"""Sampling requests and results in Python's spelling, with validation."""

from __future__ import annotations

from typing import Any

import pytest

from django_mcp.protocol.asks import ask_sampling, ask_sampling_raw
from django_mcp.protocol.content import Image, Text
from django_mcp.protocol.sampling import (
    ModelPreferences,
    SamplingMessage,
    SamplingResult,
    SamplingTool,
    ToolUse,
    ToolUseResult,
    read_sampling_result,
)

SAID = {"role": "assistant", "content": {"type": "text", "text": "roses"}, "model": "m"}


def test_every_parameter_is_serialized_with_its_protocol_name():
    ask = ask_sampling(
        [SamplingMessage("Hi"), SamplingMessage(Text("Hello"), role="assistant")],
        max_tokens=9,
        system_prompt="Be kind.",
        temperature=0.5,
        stop_sequences=["END"],
        model_preferences=ModelPreferences(
            hints=["haiku"], cost_priority=0, speed_priority=1, intelligence_priority=0.5
        ),
        include_context="this_server",
        metadata={"a": 1},
        tools=[SamplingTool("t", {"type": "object"}, description="A tool.")],
        tool_choice="required",
    )

    assert ask.params == {
        "messages": [
            {"role": "user", "content": {"type": "text", "text": "Hi"}},
            {"role": "assistant", "content": {"type": "text", "text": "Hello"}},
        ],
        "maxTokens": 9,
        "systemPrompt": "Be kind.",
        "temperature": 0.5,
        "stopSequences": ["END"],
        "modelPreferences": {
            "hints": [{"name": "haiku"}],
            "costPriority": 0,
            "speedPriority": 1,
            "intelligencePriority": 0.5,
        },
        "includeContext": "thisServer",
        "metadata": {"a": 1},
        "tools": [{"name": "t", "inputSchema": {"type": "object"}, "description": "A tool."}],
        "toolChoice": {"mode": "required"},
    }


def test_a_none_or_empty_parameter_is_omitted():
    ask = ask_sampling("Hi", max_tokens=1, system_prompt=None, stop_sequences=(), tools=())

    assert ask.params == {
        "messages": [{"role": "user", "content": {"type": "text", "text": "Hi"}}],
        "maxTokens": 1,
    }
    assert ask.capability == {"sampling": {}}


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": "many"}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"messages": [{"role": "user"}]}, "SamplingMessage"),
        ({"messages": SamplingMessage("Hi")}, "SamplingMessage"),
        ({"systemPrompt": "x"}, "no option 'systemPrompt'"),
        ({"system_prompt": 5}, "system_prompt"),
        ({"temperature": -1}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"stop_sequences": "END"}, "stop_sequences"),
        ({"model_preferences": {"costPriority": 1}}, "ModelPreferences"),
        ({"include_context": "thisServer"}, "this_server"),
        ({"metadata": [1]}, "metadata"),
        ({"tools": [{"name": "t"}]}, "SamplingTool"),
        ({"tool_choice": {"mode": "auto"}}, "auto, required, none"),
    ],
    ids=str,
)
def test_an_invalid_parameter_is_rejected_before_the_request(wrong: Any, told: str):
    with pytest.raises((TypeError, ValueError), match=told):
        ask_sampling(**{"messages": "Hi", "max_tokens": 1, **wrong})


@pytest.mark.parametrize(
    "make",
    [
        lambda: SamplingMessage("x", role="system"),  # type: ignore[arg-type]
        lambda: SamplingMessage([]),
        lambda: SamplingMessage([5]),  # type: ignore[list-item]
        lambda: ModelPreferences(cost_priority=1.5),
        lambda: ModelPreferences(hints="haiku"),
        lambda: SamplingTool("", {"type": "object"}),
        lambda: SamplingTool("t", {"type": "string"}),
        lambda: ToolUse("", "t", {}),
        lambda: ToolUse("1", "t", []),  # type: ignore[arg-type]
        lambda: ToolUseResult("1", [ToolUse("1", "t", {})]),  # type: ignore[list-item]
    ],
)
def test_an_invalid_value_cannot_be_constructed(make: Any):
    with pytest.raises((TypeError, ValueError)):
        make()


def test_a_sampling_result_is_parsed():
    answer = {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "Let me "},
            {"type": "text", "text": "look."},
            {"type": "image", "data": "AAEC", "mimeType": "image/png"},
            {"type": "tool_use", "id": "1", "name": "t", "input": {"a": 1}},
        ],
        "model": "m",
        "stopReason": "toolUse",
    }

    result = read_sampling_result(answer)

    assert result == SamplingResult(
        role="assistant",
        content=(
            Text("Let me "),
            Text("look."),
            Image(b"\0\1\2"),
            ToolUse("1", "t", {"a": 1}),
        ),
        model="m",
        stop_reason="toolUse",
    )
    assert (result.text, result.raw) == ("Let me look.", answer)
    assert result.tool_uses == (ToolUse("1", "t", {"a": 1}),)


def test_a_conversation_continues_with_the_result_and_tool_results():
    use = {"type": "tool_use", "id": "1", "name": "t", "input": {}}
    result = read_sampling_result({**SAID, "content": [use]})

    ask = ask_sampling(
        [
            SamplingMessage("Hi"),
            result.to_message(),
            SamplingMessage(ToolUseResult("1", "sunny", is_error=True)),
        ],
        max_tokens=9,
    )

    assert ask.params is not None
    assert ask.params["messages"][1:] == [
        {"role": "assistant", "content": use},
        {
            "role": "user",
            "content": {
                "type": "tool_result",
                "toolUseId": "1",
                "content": [{"type": "text", "text": "sunny"}],
                "isError": True,
            },
        },
    ]
    with pytest.raises(ValueError, match="have no results"):
        ask_sampling([SamplingMessage("Hi"), result.to_message()], max_tokens=9)


@pytest.mark.parametrize(
    "wrong",
    [
        {"role": "system"},
        {"model": None},
        {"stopReason": 5},
        {"content": None},
        {"content": "roses"},
        {"content": {"type": "hologram"}},
        {"content": {"type": "text"}},
        {"content": {"type": "text", "text": 5}},
        {"content": {"type": "image", "data": "%%", "mimeType": "image/png"}},
        {"content": {"type": "image", "data": "AAEC", "mimeType": "text/html"}},
        {"content": {"type": "audio", "data": 5, "mimeType": "audio/wav"}},
        {"content": {"type": "tool_use", "id": "1", "name": "t", "input": None}},
        {"content": {"type": "tool_result", "toolUseId": "1", "content": [{"type": "x"}]}},
    ],
    ids=str,
)
def test_an_invalid_sampling_result_is_rejected(wrong: dict[str, Any]):
    with pytest.raises(ValueError, match=r"^its? "):
        read_sampling_result({**SAID, **wrong})


def test_raw_params_are_unchanged():
    params = {"messages": [], "maxTokens": 9, "systemPrompt": "x", "later": 1}

    assert ask_sampling_raw(params).params == params


@pytest.mark.parametrize("kind", [["text"], {}, None, 5, "video"])
def test_an_unknown_block_type_is_an_invalid_result(kind: Any):
    answer = {"role": "assistant", "model": "m", "content": {"type": kind, "text": "x"}}

    with pytest.raises(ValueError, match="blocks of the types"):
        read_sampling_result(answer)
