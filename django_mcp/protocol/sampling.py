"""Requests to a client's model and its answers as Python values, checked when they are created.

`to_wire` writes the protocol's form. Source: 2025-11-25 client/sampling.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from math import isfinite
from typing import Any, Literal, TypeAlias, TypedDict, get_args

from django_mcp.protocol.annotations import Role, to_tuple
from django_mcp.protocol.content import Audio, Image, Text, to_block
from django_mcp.protocol.json import JSONObject, present

ToolChoice: TypeAlias = Literal["auto", "required", "none"]
IncludeContext: TypeAlias = Literal["none", "this_server", "all_servers"]

_TOOL_CHOICES = get_args(ToolChoice)
_CONTEXTS = get_args(IncludeContext)


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
        blocks: Any = self.content
        content = [block.to_wire() for block in blocks]
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
        _check_choice("role", self.role, get_args(Role))
        if not isinstance(self.content, _BLOCKS):
            blocks = _to_blocks(self.content, _BLOCKS)
            if not blocks:
                raise ValueError("A SamplingMessage needs content")
            object.__setattr__(self, "content", blocks[0] if len(blocks) == 1 else blocks)

    def to_wire(self) -> JSONObject:
        content: Any = self.content
        is_list = isinstance(content, tuple)
        wire = [block.to_wire() for block in content] if is_list else content.to_wire()
        return {"role": self.role, "content": wire}


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelPreferences:
    """How to choose a model: hints are parts of names, best first; priorities go from 0 to 1."""

    hints: Sequence[str] = ()
    cost_priority: float | None = None
    speed_priority: float | None = None
    intelligence_priority: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "hints", to_tuple("hints", self.hints))
        for name in ("cost_priority", "speed_priority", "intelligence_priority"):
            value = getattr(self, name)
            if value is not None and not (_is_number(value) and 0 <= value <= 1):
                raise ValueError(f"{name} is {value!r:.100}: use a number from 0 to 1")

    def to_wire(self) -> JSONObject:
        return present(
            hints=[{"name": hint} for hint in self.hints] or None,
            costPriority=self.cost_priority,
            speedPriority=self.speed_priority,
            intelligencePriority=self.intelligence_priority,
        )


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
        description = None if self.description is None else str(self.description)
        schema = dict(self.input_schema)
        return present(name=self.name, inputSchema=schema, description=description)


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


def sampling_params(
    messages: str | Sequence[SamplingMessage], max_tokens: int, options: SamplingOptions
) -> JSONObject:
    """Return the params of `sampling/createMessage`.

    Raises:
        TypeError: there is no such option, or a value has the wrong type.
        ValueError: a value is out of its range.
    """
    unknown = sorted(options.keys() - _WRITERS.keys())
    if unknown:
        raise TypeError(f"Sampling has no option {unknown[0]!r}: use {', '.join(sorted(_WRITERS))}")
    if type(max_tokens) is not int or max_tokens < 1:
        raise ValueError(f"max_tokens is {max_tokens!r:.100}: use a whole number above 0")
    if isinstance(messages, str):
        messages = (SamplingMessage(messages),)
    wire_messages = [
        sampling_message.to_wire()
        for sampling_message in to_tuple("messages", messages, SamplingMessage)
    ]
    wire: JSONObject = {"messages": wire_messages, "maxTokens": max_tokens}
    for name, value in options.items():
        written = None if value is None else _WRITERS[name](name, value)
        if written is not None and written != []:  # an empty list has no effect
            wire[_to_camel(name)] = written
    return wire


def _write_text(name: str, value: Any) -> str:
    if isinstance(value, bytes | int | float | Sequence) and not isinstance(value, str):
        raise TypeError(f"{name} is a text, not {value!r:.100}")
    # A lazy text becomes a plain one.
    return str.__str__(str(value))


def _write_temperature(name: str, value: float) -> float:
    if not (_is_number(value) and value >= 0):
        raise ValueError(f"{name} is {value!r:.100}: use a number, 0 or more")
    return value


def _write_preferences(name: str, value: Any) -> JSONObject:
    if not isinstance(value, ModelPreferences):
        raise TypeError(f"{name} is a ModelPreferences, not {value!r:.100}")
    return value.to_wire()


_WRITERS: Mapping[str, Callable[[str, Any], Any]] = {
    "system_prompt": _write_text,
    "temperature": _write_temperature,
    "stop_sequences": lambda name, value: list(to_tuple(name, value)),
    "model_preferences": _write_preferences,
    "include_context": lambda name, value: _to_camel(_check_choice(name, value, _CONTEXTS)),
    "metadata": lambda name, value: dict(_check_mapping(name, value)),
    "tools": lambda name, value: [tool.to_wire() for tool in to_tuple(name, value, SamplingTool)],
    "tool_choice": lambda name, value: {"mode": _check_choice(name, value, _TOOL_CHOICES)},
}


def _to_camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(other.capitalize() for other in others)


# -- answers


@dataclass(frozen=True, kw_only=True, slots=True)
class SamplingResult:
    """The answer of the client's model.

    Attributes:
        role: usually `assistant`.
        content: the blocks, in order.
        model: the client's name for the model.
        stop_reason: why it stopped, such as `endTurn`, `maxTokens`, `stopSequence` or `toolUse`; None
            if the client does not say.
        raw: the answer as the client sent it.
    """

    role: Role
    content: tuple[SamplingContent, ...]
    model: str
    stop_reason: str | None = None
    raw: JSONObject = field(default_factory=dict, repr=False, compare=False)

    @property
    def text(self) -> str:
        """The text of all text blocks together."""
        return "".join(block.text for block in self.content if isinstance(block, Text))

    @property
    def tool_uses(self) -> tuple[ToolUse, ...]:
        """The tool calls that the model requests."""
        return tuple(block for block in self.content if isinstance(block, ToolUse))

    def to_message(self) -> SamplingMessage:
        """Return the answer as a message, to continue the conversation."""
        return SamplingMessage(self.content, role=self.role)


def read_sampling_result(answer: Mapping[str, Any]) -> SamplingResult:
    """Return the checked answer of a client's model.

    Raises:
        ValueError: it is not valid; the text says what is missing.
    """
    role, model = answer.get("role"), answer.get("model")
    if role not in ("user", "assistant"):
        raise ValueError("it must have the role 'user' or 'assistant'")
    stop_reason = answer.get("stopReason")
    is_named = isinstance(model, str) and isinstance(stop_reason, str | None)
    if not is_named:
        raise ValueError("its model and its stopReason must be strings")
    content = answer.get("content")
    blocks = content if isinstance(content, list) else [content]
    return SamplingResult(
        role=role,
        content=tuple(map(_read_block, blocks)),
        model=str(model),
        stop_reason=stop_reason,
        raw=dict(answer),
    )


def _read_block(block: object) -> SamplingContent:
    kind = block.get("type") if isinstance(block, Mapping) else None
    if not isinstance(block, Mapping) or not isinstance(kind, str) or kind not in _READERS:
        raise ValueError(f"its content must be blocks of the types {', '.join(_READERS)}")
    try:
        block_read: SamplingContent = _READERS[kind](block)
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"its {kind} block is not complete") from None
    return block_read


def _read_text(block: Mapping[str, Any]) -> Text:
    if not isinstance(block["text"], str):
        raise TypeError("the text of a text block is a string")
    return Text(block["text"])


def _read_result(block: Mapping[str, Any]) -> ToolUseResult:
    content: Any = list(map(_read_block, block["content"]))
    return ToolUseResult(block["toolUseId"], content, is_error=block.get("isError") is True)


_READERS: Mapping[Any, Any] = {
    "text": _read_text,
    "image": lambda block: Image(_from_base64(block["data"]), block["mimeType"]),
    "audio": lambda block: Audio(_from_base64(block["data"]), block["mimeType"]),
    "tool_use": lambda block: ToolUse(block["id"], block["name"], block["input"]),
    "tool_result": _read_result,
}


def _from_base64(data: str) -> bytes:
    return binascii.a2b_base64(data, strict_mode=True)


# -- checks


def _check_text(name: str, value: object) -> None:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{name} is {value!r:.100}: use a string that is not empty")


def _check_mapping(name: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} is a JSON object, not {value!r:.100}")
    return value


def _check_choice(name: str, value: str, choices: Sequence[str]) -> str:
    if value not in choices:
        raise ValueError(f"{name} is {value!r:.100}: use one of {', '.join(choices)}")
    return value


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _to_blocks(content: Any, kinds: tuple[type, ...]) -> tuple[Any, ...]:
    parts = (content,) if isinstance(content, (str, *kinds)) else tuple(content)
    return tuple(to_block(part, kinds) for part in parts)
