"""Requests to a client's model as Python values, checked when they are created.

`to_wire` writes the protocol's form. Source: 2025-11-25 client/sampling.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from math import isfinite
from typing import Any, Literal, TypeAlias, TypedDict

from django_mcp.protocol.content import Audio, Image, Role, Text
from django_mcp.protocol.json import JSONObject

__all__ = [
    "IncludeContext",
    "ModelPreferences",
    "SamplingContent",
    "SamplingMessage",
    "SamplingOptions",
    "SamplingTool",
    "ToolChoice",
    "ToolUse",
    "ToolUseResult",
    "sampling_params",
]

ToolChoice: TypeAlias = Literal["auto", "required", "none"]
IncludeContext: TypeAlias = Literal["none", "this_server", "all_servers"]

_ROLES = ("user", "assistant")
_TOOL_CHOICES = ("auto", "required", "none")
_CONTEXTS = {"none": "none", "this_server": "thisServer", "all_servers": "allServers"}


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A tool call that the model requests."""

    id: str
    name: str
    input: Mapping[str, Any]

    def __post_init__(self) -> None:
        _check_text("id", self.id)
        _check_text("name", self.name)
        _check_mapping("input", self.input)

    def to_wire(self) -> JSONObject:
        return {"type": "tool_use", "id": self.id, "name": self.name, "input": dict(self.input)}


@dataclass(frozen=True, slots=True)
class ToolUseResult:
    """The result of a tool call; `tool_use_id` is the id of the `ToolUse`."""

    tool_use_id: str
    content: Sequence[Text | Image | Audio | str] | str = ()
    _: KW_ONLY
    is_error: bool = False

    def __post_init__(self) -> None:
        _check_text("tool_use_id", self.tool_use_id)
        blocks = _to_blocks(self.content, (Text, Image, Audio))
        object.__setattr__(self, "content", blocks)

    def to_wire(self) -> JSONObject:
        content = [block.to_wire() for block in _to_blocks(self.content, (Text, Image, Audio))]
        wire = {"type": "tool_result", "toolUseId": self.tool_use_id, "content": content}
        return {**wire, "isError": True} if self.is_error else wire


SamplingContent: TypeAlias = Text | Image | Audio | ToolUse | ToolUseResult
"""One block of a message to or from the model."""

_BLOCKS = (Text, Image, Audio, ToolUse, ToolUseResult)


@dataclass(frozen=True, slots=True)
class SamplingMessage:
    """One message of a conversation with the model; a string stands for a `Text`."""

    content: SamplingContent | str | Sequence[SamplingContent | str]
    role: Role = "user"

    def __post_init__(self) -> None:
        _check_choice("role", self.role, _ROLES)
        if not isinstance(self.content, _BLOCKS):
            blocks = _to_blocks(self.content, _BLOCKS)
            if not blocks:
                raise ValueError("A SamplingMessage needs content")
            object.__setattr__(self, "content", blocks[0] if len(blocks) == 1 else blocks)

    def to_wire(self) -> JSONObject:
        blocks = _to_blocks(self.content, _BLOCKS)
        content: Any = [block.to_wire() for block in blocks]
        return {"role": self.role, "content": content if len(content) > 1 else content[0]}


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelPreferences:
    """How to choose a model: hints are parts of names, best first; priorities go from 0 to 1."""

    hints: Sequence[str] = ()
    cost_priority: float | None = None
    speed_priority: float | None = None
    intelligence_priority: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "hints", _to_texts("hints", self.hints))
        for name in ("cost_priority", "speed_priority", "intelligence_priority"):
            value = getattr(self, name)
            if value is not None and not (_is_number(value) and 0 <= value <= 1):
                raise ValueError(f"{name} is {value!r:.100}: use a number from 0 to 1")

    def to_wire(self) -> JSONObject:
        wire: JSONObject = {"hints": [{"name": hint} for hint in self.hints]} if self.hints else {}
        priorities = {
            "costPriority": self.cost_priority,
            "speedPriority": self.speed_priority,
            "intelligencePriority": self.intelligence_priority,
        }
        return {**wire, **{key: value for key, value in priorities.items() if value is not None}}


@dataclass(frozen=True, slots=True)
class SamplingTool:
    """A tool that the model may use; the handler gets its `ToolUse`."""

    name: str
    input_schema: Mapping[str, Any]
    _: KW_ONLY
    description: str | None = None

    def __post_init__(self) -> None:
        _check_text("name", self.name)
        _check_mapping("input_schema", self.input_schema)
        if self.input_schema.get("type") != "object":
            raise ValueError('The input_schema of a SamplingTool has "type": "object" at its root')

    def to_wire(self) -> JSONObject:
        wire: JSONObject = {"name": self.name, "inputSchema": dict(self.input_schema)}
        if self.description is not None:
            wire["description"] = str(self.description)
        return wire


class SamplingOptions(TypedDict, total=False):
    """Options of a sampling request.

    Keys:
        system_prompt: the system prompt of the model.
        temperature: 0 or more; higher is more random.
        stop_sequences: texts after which the model stops.
        model_preferences: the model that the client should choose.
        include_context: which of the client's servers the model sees; left out for clients that did
            not declare `sampling.context`.
        metadata: for the provider of the model; a JSON object.
        tools: tools for the model; only for clients that declared `sampling.tools`.
        tool_choice: whether it must use one.
    """

    system_prompt: str | None
    temperature: float | None
    stop_sequences: Sequence[str]
    model_preferences: ModelPreferences | None
    include_context: IncludeContext | None
    metadata: Mapping[str, Any] | None
    tools: Sequence[SamplingTool]
    tool_choice: ToolChoice | None


_OPTIONS = frozenset(SamplingOptions.__annotations__)


def sampling_params(
    messages: str | Sequence[SamplingMessage], max_tokens: int, options: SamplingOptions
) -> JSONObject:
    """Return the params of `sampling/createMessage`.

    Raises:
        TypeError: there is no such option, or a value has the wrong type.
        ValueError: a value is out of its range.
    """
    unknown = sorted(set(options) - _OPTIONS)
    if unknown:
        raise TypeError(f"Sampling has no option {unknown[0]!r}: use {', '.join(sorted(_OPTIONS))}")
    if type(max_tokens) is not int or max_tokens < 1:
        raise ValueError(f"max_tokens is {max_tokens!r:.100}: use a whole number above 0")
    if isinstance(messages, str):
        messages = (SamplingMessage(messages),)
    found = [each.to_wire() for each in _all_of(SamplingMessage, "messages", messages)]
    return {"messages": found, "maxTokens": max_tokens, **_write_options(options)}


def _write_options(options: SamplingOptions) -> JSONObject:
    wire: JSONObject = {}
    given = {name: value for name, value in options.items() if value is not None}
    for name, value in given.items():
        key, write = _WRITERS[name]
        written = write(name, value)
        # An empty list has no effect.
        if written != []:
            wire[key] = written
    return wire


def _write_text(name: str, value: Any) -> str:
    if isinstance(value, bytes | int | float | Sequence) and not isinstance(value, str):
        raise TypeError(f"{name} is a text, not {value!r:.100}")
    # A lazy text becomes a plain one.
    return str.__str__(str(value))


def _write_temperature(name: str, value: Any) -> float:
    if not (_is_number(value) and value >= 0):
        raise ValueError(f"{name} is {value!r:.100}: use a number, 0 or more")
    found: float = value
    return found


def _write_texts(name: str, value: Any) -> list[str]:
    return list(_to_texts(name, value))


def _write_preferences(name: str, value: Any) -> JSONObject:
    if not isinstance(value, ModelPreferences):
        raise TypeError(f"{name} is a ModelPreferences, not {value!r:.100}")
    return value.to_wire()


def _write_context(name: str, value: Any) -> str:
    _check_choice(name, value, tuple(_CONTEXTS))
    return _CONTEXTS[value]


def _write_mapping(name: str, value: Any) -> JSONObject:
    _check_mapping(name, value)
    return dict(value)


def _write_tools(name: str, value: Any) -> list[JSONObject]:
    return [each.to_wire() for each in _all_of(SamplingTool, name, value)]


def _write_tool_choice(name: str, value: Any) -> JSONObject:
    _check_choice(name, value, _TOOL_CHOICES)
    return {"mode": value}


_WRITERS: Mapping[str, tuple[str, Any]] = {
    "system_prompt": ("systemPrompt", _write_text),
    "temperature": ("temperature", _write_temperature),
    "stop_sequences": ("stopSequences", _write_texts),
    "model_preferences": ("modelPreferences", _write_preferences),
    "include_context": ("includeContext", _write_context),
    "metadata": ("metadata", _write_mapping),
    "tools": ("tools", _write_tools),
    "tool_choice": ("toolChoice", _write_tool_choice),
}


# -- checks


def _check_text(name: str, value: object) -> None:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{name} is {value!r:.100}: use a string that is not empty")


def _check_mapping(name: str, value: object) -> None:
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} is a JSON object, not {value!r:.100}")


def _check_choice(name: str, value: object, choices: Sequence[str]) -> None:
    if value not in choices:
        raise ValueError(f"{name} is {value!r:.100}: use one of {', '.join(choices)}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _to_texts(name: str, values: Iterable[str]) -> tuple[str, ...]:
    if isinstance(values, str) or not all(isinstance(each, str) for each in values):
        raise TypeError(f"{name} is a list of strings, not {values!r:.100}")
    return tuple(values)


def _all_of(kind: type, name: str, values: Iterable[Any]) -> tuple[Any, ...]:
    if not isinstance(values, Sequence) or not all(isinstance(each, kind) for each in values):
        raise TypeError(f"{name} is a list of {kind.__name__}, not {values!r:.100}")
    return tuple(values)


def _to_blocks(content: Any, kinds: tuple[type, ...]) -> tuple[Any, ...]:
    parts = (content,) if isinstance(content, (str, *kinds)) else tuple(content)
    blocks = tuple(Text(each) if isinstance(each, str) else each for each in parts)
    for block in blocks:
        if not isinstance(block, kinds):
            names = ", ".join(kind.__name__ for kind in kinds)
            raise TypeError(f"Content is made of {names} or str, not of {type(block).__name__}")
    return blocks
