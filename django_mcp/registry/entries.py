"""The registered tools, resources, resource templates and prompts.

An entry defines how it is listed and called; other modules decide who may see it.
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
    """The common part of tools, resources, templates and prompts.

    Attributes:
        name: its name for programs.
        title, description: for people and models; lazy texts are read when it is listed.
        icons, meta: as listed.
        source: where its function is defined, for messages.
        access: its access rules.
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
        """Return the entry in the wire form of the newest revision."""
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
        input_validator, output_validator: validate values against them.
        annotations: the hints that the author gave, in wire form.
        header_params: the arguments that clients repeat in headers.
        timeout_s: how long a call may take; None: the server's default.
        throttle: how often each principal may call it; None: no limit.
        required_client_capabilities: capabilities that a client has to declare.
        validate_output: whether results are checked; None: the server's default.
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
        """Return the tool in the wire form of `tools/list`."""
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
        """Whether its author declared that a second run does no harm."""
        hints = self.annotations or {}
        return hints.get("idempotentHint") is True or hints.get("readOnlyHint") is True

    def published(self, schema: JSONObject) -> JSONObject:
        """Return one of the schemas with its texts in the active language."""
        resolved: JSONObject = resolve_texts(schema) if self.has_lazy_texts else schema
        return resolved


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Readable(Entry):
    """The common part of resources and templates."""

    mime_type: str | None = None
    annotations: Annotations | None = None
    cache: CacheHint | None = None

    def convert(self, value: Any, uri: str) -> ReadResult:
        """Return a handler's value as contents of the URI that was read."""
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
        """Return the resource in the wire form of `resources/list`."""
        wire = {"uri": self.uri, **self._head()}
        if self.size is not None:
            wire["size"] = self.size
        self._finish(wire)
        return wire


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class TemplateEntry(_Readable):
    """Resources at all URIs that match a template, with completers by variable."""

    template: UriTemplate
    completers: Mapping[str, Handler] = field(default_factory=dict)

    @property
    def argument_names(self) -> tuple[str, ...]:
        """The names of the template's variables."""
        return self.template.variables

    def match(self, uri: str) -> dict[str, Any] | None:
        """Return the variables of a URI, or None if it does not match."""
        return self.template.match(uri)

    def to_wire(self) -> JSONObject:
        """Return the template in the wire form of `resources/templates/list`."""
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
        """Return the argument in the wire form of a listed prompt."""
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
    """A prompt, with completers by argument."""

    arguments: tuple[PromptArgument, ...] = ()
    completers: Mapping[str, Handler] = field(default_factory=dict)

    @property
    def argument_names(self) -> tuple[str, ...]:
        """The names of the arguments."""
        return tuple(argument.name for argument in self.arguments)

    def convert(self, value: Any) -> PromptResult:
        """Return a handler's value as messages, with the prompt's description."""
        result: PromptResult = self.handler.convert(value)
        if result.description is None and self.description is not None:
            return replace(result, description=self.description)
        return result

    def to_wire(self) -> JSONObject:
        """Return the prompt in the wire form of `prompts/list`."""
        wire = self._head()
        if self.arguments:
            wire["arguments"] = [argument.to_wire() for argument in self.arguments]
        self._finish(wire)
        return wire
