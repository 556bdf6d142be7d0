"""What is registered: tools, resources, resource templates and prompts, as values.

An entry knows how it is listed and how it is called; who may see it is judged elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from django_mcp.protocol.content import Annotations, Icon
from django_mcp.protocol.headers import HeaderParam
from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.results import CacheHint, PromptResult, ReadResult
from django_mcp.protocol.tasks import NEVER
from django_mcp.protocol.uri_template import UriTemplate
from django_mcp.registry.access import Access, Rate
from django_mcp.registry.arguments import Handler
from django_mcp.registry.schemas import resolve_texts
from django_mcp.registry.validators import Validator

__all__ = [
    "Access",
    "Entry",
    "PromptArgument",
    "PromptEntry",
    "ResourceEntry",
    "TemplateEntry",
    "ToolEntry",
]


_OPEN = Access()


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Entry:
    """What tools, resources, templates and prompts have in common.

    Attributes:
        name: its name for programs.
        title, description: for people and models; lazy texts are read when it is listed.
        icons, meta: as listed.
        source: where its function stands, for messages.
        access: who may use it.
        handler: its function.
    """

    name: str
    handler: Handler
    source: str
    title: Any = None
    description: Any = None
    icons: tuple[Icon, ...] = ()
    meta: Mapping[str, Any] | None = None
    access: Access = _OPEN

    def to_wire(self) -> JSONObject:
        """Return the entry as a list of the newest revision has it."""
        wire = self._head()
        self._finish(wire)
        return wire

    def _head(self) -> JSONObject:
        wire: JSONObject = {"name": self.name}
        if self.title is not None:
            wire["title"] = str(self.title)
        if self.description is not None:
            wire["description"] = str(self.description)
        return wire

    def _finish(self, wire: JSONObject) -> None:
        if self.icons:
            wire["icons"] = [icon.to_wire() for icon in self.icons]
        if self.meta:
            wire["_meta"] = dict(self.meta)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ToolEntry(Entry):
    """A tool.

    Attributes:
        input_schema, output_schema: JSON Schemas as published; may hold lazy texts.
        input_validator, output_validator: what checks values against them.
        annotations: hints in wire form, of those that the author gave.
        header_params: the arguments that clients repeat in headers.
        timeout_s: how long a call may take; None leaves it to the server.
        throttle: how often each principal may call it; None: as often as they like.
        required_client_capabilities: what a client has to offer.
        validate_output: whether results are checked; None leaves it to the server.
        task: whether calls can become tasks: `never`, `allowed`, `required` or `auto`.
        record_arguments: whether a record of calls may keep the arguments.
        has_lazy_texts: whether the schemas hold any.
    """

    input_schema: JSONObject
    input_validator: Validator
    output_schema: JSONObject | None = None
    output_validator: Validator | None = None
    annotations: JSONObject | None = None
    header_params: tuple[HeaderParam, ...] = ()
    timeout_s: float | None = None
    throttle: Rate | None = None
    required_client_capabilities: JSONObject = field(default_factory=dict)
    validate_output: bool | None = None
    task: str = NEVER
    record_arguments: bool = False
    has_lazy_texts: bool = False

    def to_wire(self) -> JSONObject:
        """Return the tool as `tools/list` of the newest revision has it."""
        wire = self._head()
        wire["inputSchema"] = self.published(self.input_schema)
        if self.output_schema is not None:
            wire["outputSchema"] = self.published(self.output_schema)
        if self.annotations:
            wire["annotations"] = self.annotations
        self._finish(wire)
        return wire

    @property
    def may_run_again(self) -> bool:
        """Whether its author says that a second run does no harm."""
        hints = self.annotations or {}
        return hints.get("idempotentHint") is True or hints.get("readOnlyHint") is True

    def published(self, schema: JSONObject) -> JSONObject:
        """Return one of the schemas with its texts in the language of now."""
        resolved: JSONObject = resolve_texts(schema) if self.has_lazy_texts else schema
        return resolved


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Readable(Entry):
    """What resources and templates have in common."""

    mime_type: str | None = None
    annotations: Annotations | None = None
    cache: CacheHint | None = None

    def convert(self, value: Any, uri: str) -> ReadResult:
        """Return what was read, as contents of the URI it was read at."""
        result: ReadResult = self.handler.convert(value, uri=uri)
        return result

    def _finish(self, wire: JSONObject) -> None:
        if self.mime_type is not None:
            wire["mimeType"] = self.mime_type
        if self.annotations is not None:
            wire["annotations"] = self.annotations.to_wire()
        Entry._finish(self, wire)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ResourceEntry(_Readable):
    """A resource at one URI; `size` is in bytes."""

    uri: str
    size: int | None = None

    def to_wire(self) -> JSONObject:
        """Return the resource as `resources/list` of the newest revision has it."""
        wire = {"uri": self.uri, **self._head()}
        if self.size is not None:
            wire["size"] = self.size
        self._finish(wire)
        return wire


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class TemplateEntry(_Readable):
    """Resources at all URIs that match a template; `completers` are by variable."""

    template: UriTemplate
    completers: Mapping[str, Handler] = field(default_factory=dict)

    @property
    def argument_names(self) -> tuple[str, ...]:
        """The names of the template's variables."""
        return self.template.variables

    def match(self, uri: str) -> dict[str, Any] | None:
        """Return the variables of a URI, or None when it does not match."""
        return self.template.match(uri)

    def to_wire(self) -> JSONObject:
        """Return the template as `resources/templates/list` of the newest revision has it."""
        wire = {"uriTemplate": self.template.text, **self._head()}
        self._finish(wire)
        return wire


@dataclass(frozen=True, kw_only=True, slots=True)
class PromptArgument:
    """An argument of a prompt; the texts may be lazy."""

    name: str
    title: Any = None
    description: Any = None
    required: bool = False

    def to_wire(self) -> JSONObject:
        """Return the argument as a listed prompt has it."""
        wire: JSONObject = {"name": self.name}
        if self.title is not None:
            wire["title"] = str(self.title)
        if self.description is not None:
            wire["description"] = str(self.description)
        if self.required:
            wire["required"] = True
        return wire


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PromptEntry(Entry):
    """A prompt; `completers` are by argument."""

    arguments: tuple[PromptArgument, ...] = ()
    completers: Mapping[str, Handler] = field(default_factory=dict)

    @property
    def argument_names(self) -> tuple[str, ...]:
        """The names of the arguments."""
        return tuple(argument.name for argument in self.arguments)

    def convert(self, value: Any) -> PromptResult:
        """Return what was filled in, as messages; it is described as the prompt is."""
        result: PromptResult = self.handler.convert(value)
        if result.description is None and self.description is not None:
            return replace(result, description=self.description)
        return result

    def to_wire(self) -> JSONObject:
        """Return the prompt as `prompts/list` of the newest revision has it."""
        wire = self._head()
        if self.arguments:
            wire["arguments"] = [argument.to_wire() for argument in self.arguments]
        self._finish(wire)
        return wire
