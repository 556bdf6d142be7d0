"""The registered tools, resources, resource templates and prompts.

An entry defines how it is listed and called; other modules decide who may see it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from dataclasses import field as dataclass_field
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace as replace_struct

from django_mcp.protocol.annotations import Annotations, Icon
from django_mcp.protocol.header_params import HeaderParam
from django_mcp.protocol.json import JSONObject, present
from django_mcp.protocol.results import CacheHint, PromptResult, ReadResult
from django_mcp.protocol.uri_template import UriTemplate
from django_mcp.registry.access import OPEN, Access, Rate
from django_mcp.registry.arguments import Handler
from django_mcp.registry.caller_texts import Sees, read_for
from django_mcp.registry.schemas import resolve_texts
from django_mcp.registry.thin import make_thin
from django_mcp.registry.validators import Validator

ANSWERS = "answers"
"""The argument of a tool that takes what the user of a client answers, where the client cannot ask."""

FUNCTION = "function"
"""The origin of a tool that a site writes."""

EntryMapping: TypeAlias = Literal["tools", "resources", "templates", "prompts"]


class Kind(NamedTuple):
    """What a kind of entry is called in the registry and on the wire.

    Attributes:
        key: of the list on the wire.
        word: what one is called.
        mapping: the registry's.
        identity: the field that names an entry.
        method: of the server, which lists them.
    """

    key: str
    word: str
    mapping: EntryMapping
    identity: str
    method: str


TOOLS = Kind("tools", "tool", "tools", "name", "list_tools")
RESOURCES = Kind("resources", "resource", "resources", "uri", "list_resources")
TEMPLATES = Kind(
    "resourceTemplates", "resource template", "templates", "uriTemplate", "list_resource_templates"
)
PROMPTS = Kind("prompts", "prompt", "prompts", "name", "list_prompts")
KINDS = (TOOLS, RESOURCES, TEMPLATES, PROMPTS)


def _text(text: Any) -> str | None:
    """Return a text that may be lazy in the active language."""
    return None if text is None else str(text)


class Entry(Struct, frozen=True, kw_only=True, eq=False):
    """The common part of tools, resources, templates and prompts.

    Attributes:
        name: its name for programs.
        title, description: for people and models; lazy texts are read when it is listed.
        icons, meta: as listed.
        source: where its function is defined, for messages.
        access: its access rules.
        handler: its function.
        extensions: its options for extensions, by identifier.
        toolset: the toolset that it was given; None: none.
        kind: what it is called, and the mapping of a registry that it is in.
    """

    kind: ClassVar[Kind]
    name: str
    handler: Handler
    source: str
    title: Any = None
    description: Any = None
    icons: tuple[Icon, ...] = ()
    meta: Mapping[str, Any] | None = None
    access: Access = OPEN
    extensions: Mapping[str, Any] = MappingProxyType({})
    toolset: str | None = None

    @property
    def key(self) -> str:
        """What it is registered by in its mapping."""
        return self.name

    def to_wire(self, sees: Sees = bool) -> JSONObject:
        """Return the entry in the wire form of the newest revision, as a caller sees it; by default, one who sees all."""
        return present(
            name=self.name,
            title=_text(self.title),
            description=_text(self.description),
            **self._members(sees),
            icons=[icon.to_wire() for icon in self.icons] or None,
            _meta=dict(self.meta) if self.meta else None,
        )

    def _members(self, sees: Sees) -> JSONObject:
        """Return what only its kind of entry has, in wire form; None is left out."""
        raise NotImplementedError


Find: TypeAlias = Callable[[str], "ToolEntry | None"]
"""Returns the tool of a name, if the caller sees it."""

Redirect: TypeAlias = Callable[[JSONObject, Find], tuple[str, JSONObject]]
"""Takes the valid arguments of a call, and a function that returns the tools that its caller sees, by name.

It returns the name and the arguments of the call that is made in its place, and may raise `ArgumentErrors`.
"""


@dataclass(kw_only=True, slots=True, eq=False)
class Family:
    """The tools that are generated from one source, such as a model.

    Attributes:
        singular, plural: what one of its objects is called, and several; may be lazy. None: it is not known.
        key: the argument that says which object is meant; None: it is not known.
        members: the members of an object in a result that may have the value for `key`, the likeliest first.
        tools: the names of the tools by their roles: `"search"`, `"get"`, `"create"`, `"update"`, `"delete"` and
            what else is done with the source.
        find_refused: takes a user, a role and values of `key`, and returns those of objects with which this user may
            not do it; None: who sees a tool may call it with every object that they see.
    """

    singular: Any = None
    plural: Any = None
    key: str | None = None
    members: tuple[str, ...] = ()
    tools: dict[str, str] = dataclass_field(default_factory=dict)
    find_refused: Callable[[Any, str, Collection[Any]], Collection[Any]] | None = None


class ToolEntry(Entry, frozen=True, kw_only=True, eq=False):
    """A tool.

    Attributes:
        input_schema, output_schema: JSON Schemas as published; may hold lazy texts.
        form_schema: the input schema as it was written, which says more to a form, such as formats.
        input_validator, output_validator: validate values against them.
        annotations: all hints, in wire form.
        stated_hints: those that were given, as the options name them; the others are defaults.
        header_params: the arguments that clients repeat in headers.
        timeout_s: how long a call may take; None: the server's default.
        throttle: how often each user may call it, with all of their clients and keys; None: no limit.
        required_client_capabilities: capabilities that a client has to declare.
        validate_input: whether arguments are checked even if the server does not check them.
        validate_output: whether results are checked; None: the server's default.
        record_arguments: whether a record of calls may keep the arguments.
        has_lazy_texts: whether the schemas hold any.
        is_listed: whether `tools/list` has it; a tool that it has not can be called by its name.
        is_only_listed: whether `tools/list` has only such tools, if there are any.
        keywords: further words by which it is found.
        asks_by_argument: whether the argument `answers` may have the answers to what it asks.
        asks_itself: whether no call does anything before the user has agreed to it.
        leads_to: returns the names of the tools that calls of this one can stand for. It is visible with any of them.
        redirect: returns the call of another tool that a call of this one stands for; see `Redirect`.
        used_with: the name of the tool without which it is unknown, such as the one whose form it shows; None: it
            stands alone.
        origin: what it is made from: a function, or what it was generated from, such as a model.
        defaulted: the arguments with a default, without those that may be null though the schema does
            not allow it.
        family: the tools that are generated from the same source; None: it is not generated, or alone.
        role: what it does in its family.
    """

    kind: ClassVar[Kind] = TOOLS
    input_schema: JSONObject
    form_schema: JSONObject
    input_validator: Validator
    output_schema: JSONObject | None = None
    output_validator: Validator | None = None
    annotations: Mapping[str, bool]
    stated_hints: frozenset[str] = frozenset()
    header_params: tuple[HeaderParam, ...] = ()
    timeout_s: float | None = None
    throttle: Rate | None = None
    required_client_capabilities: JSONObject = field(default_factory=dict)
    validate_input: bool = False
    validate_output: bool | None = None
    record_arguments: bool = False
    has_lazy_texts: bool = False
    is_listed: bool = True
    is_only_listed: bool = False
    keywords: tuple[str, ...] = ()
    asks_by_argument: bool = False
    asks_itself: bool = False
    leads_to: Callable[[], Collection[str]] | None = None
    redirect: Redirect | None = None
    used_with: str | None = None
    origin: str = FUNCTION
    defaulted: frozenset[str] = frozenset()
    family: Family | None = None
    role: str = ""

    def _members(self, sees: Sees) -> JSONObject:
        output = self.output_schema
        return {
            "inputSchema": self.published(self.input_schema, sees),
            "outputSchema": None if output is None else self.published(output, sees),
            # Older than the field of the tool; some directories read only this one.
            "annotations": {"title": _text(self.title), **self.annotations},
        }

    @property
    def may_run_again(self) -> bool:
        """Whether its author declared that a second run does no harm."""
        return self.annotations["idempotentHint"] or self.annotations["readOnlyHint"]

    @property
    def has_whole_results(self) -> bool:
        """Whether a result of it from which rows were left out can be read whole: by a call that does no harm."""
        return self.origin != FUNCTION and self.annotations["readOnlyHint"] and not self.leads_to

    def with_output(self, form: str) -> ToolEntry:
        """Return the tool with its output schema as a server lists it.

        Args:
            form: `"full"`, `"thin"`, `"none"`, or `"auto"`: `"thin"` for generated tools alone.
        """
        if self.output_schema is None or form == "full":
            return self
        if form == "none":
            return replace_struct(self, output_schema=None)
        if form == "auto" and self.origin == FUNCTION:
            return self
        return replace_struct(self, output_schema=make_thin(self.output_schema))

    def published(self, schema: JSONObject, sees: Sees = bool) -> JSONObject:
        """Return one of the schemas with its texts in the active language.

        Args:
            schema: of the tool.
            sees: says which tools the texts may name; by default, all of them.
        """
        if not self.has_lazy_texts:
            return schema
        resolved: JSONObject = resolve_texts(schema, partial(read_for, sees), is_published=True)
        return resolved


class _Readable(Entry, frozen=True, kw_only=True, eq=False):
    mime_type: str | None = None
    annotations: Annotations | None = None
    cache: CacheHint | None = None

    def convert(self, value: Any, uri: str) -> ReadResult:
        """Return a handler's value as contents of the URI that was read."""
        result: ReadResult = self.handler.convert(value, uri=uri)
        return result

    def _members(self, sees: Sees) -> JSONObject:
        annotations = None if self.annotations is None else self.annotations.to_wire()
        return {"mimeType": self.mime_type, "annotations": annotations}


class ResourceEntry(_Readable, frozen=True, kw_only=True, eq=False):
    """A resource at one URI; `size` is in bytes."""

    kind: ClassVar[Kind] = RESOURCES
    uri: str
    size: int | None = None

    @property
    def key(self) -> str:
        """The URI."""
        return self.uri

    def _members(self, sees: Sees) -> JSONObject:
        return {"uri": self.uri, "size": self.size, **_Readable._members(self, sees)}


class TemplateEntry(_Readable, frozen=True, kw_only=True, eq=False):
    """Resources at all URIs that match a template, with completers by variable."""

    kind: ClassVar[Kind] = TEMPLATES
    template: UriTemplate
    completers: Mapping[str, Handler] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """The text of the template."""
        return self.template.text

    @property
    def argument_names(self) -> tuple[str, ...]:
        """The names of the template's variables."""
        return self.template.variables

    def _members(self, sees: Sees) -> JSONObject:
        return {"uriTemplate": self.template.text, **_Readable._members(self, sees)}


@dataclass(frozen=True, kw_only=True, slots=True)
class PromptArgument:
    """An argument of a prompt; the texts may be lazy."""

    name: str
    title: Any = None
    description: Any = None
    required: bool = False

    def to_wire(self) -> JSONObject:
        """Return the argument in the wire form of a listed prompt."""
        title, description = _text(self.title), _text(self.description)
        required = self.required or None
        return present(name=self.name, title=title, description=description, required=required)


class PromptEntry(Entry, frozen=True, kw_only=True, eq=False):
    """A prompt, with completers by argument."""

    kind: ClassVar[Kind] = PROMPTS
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

    def _members(self, sees: Sees) -> JSONObject:
        return {"arguments": [argument.to_wire() for argument in self.arguments] or None}
