"""The protocol revisions as data, oldest first, each with the conversion of its forms to the one before."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from django_mcp.protocol.errors import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    MISSING_CLIENT_CAPABILITY,
    RESOURCE_NOT_FOUND,
    UNSUPPORTED_PROTOCOL_VERSION,
    URL_ELICITATION_REQUIRED,
)
from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.subschemas import to_object_schema

Lowering: TypeAlias = Callable[[JSONObject], JSONObject]
"""Convert an object from a revision's form to that of the revision before it.

It never changes its argument. It removes fields that a client would not know, and keeps their
contents in another form if there is one.
"""


class MethodRule(Struct, frozen=True, kw_only=True):
    """A revision's rules for one request of the client.

    Attributes:
        feature: what the server must offer for the method to exist (`"tools"`,
            `"resources.subscribe"`); None if it always exists.
        mirrored_param: the parameter that `Mcp-Name` repeats, if headers are mirrored.
        is_cacheable: whether a complete result has a caching hint.
    """

    feature: str | None = None
    mirrored_param: str | None = None
    is_cacheable: bool = False


class Revision(Struct, frozen=True, kw_only=True, eq=False):
    """One protocol revision, as data. Compare by identity only; revisions have no order.

    Attributes:
        name: the version string on the wire; opaque.
        is_stateless: each request carries in `_meta` what a handshake would negotiate.
        methods: the requests a client may make, by name.
        accepts_batches: arrays of messages are accepted.
        mirrors_headers: `Mcp-Method`, `Mcp-Name` and `Mcp-Param-*` repeat the body and must agree.
        disconnect_cancels: a client's disconnect cancels its request.
        logs_by_request: log messages are sent only to a request that asked for a level itself;
            else by the level of the connection.
        has_progress_messages: progress may have a text.
        missing_resource_code: the error code for an unknown resource.
        visit_code: the error code that makes a client visit pages and then retry, if the server
            cannot send it a request to visit them; None: there is none.
        statuses: JSON-RPC error code to HTTP status; 200 if it is not listed.
        result_fields: added to every result, such as `resultType`; only if it is stateless.
        interim_fields: replace `result_fields` in a result that asks for input; empty if results
            cannot ask.
        asks: what a client can be asked while its request runs, by `Ask.kind`.
        structures_objects_only: the structured content of a tool's result is an object.
        links_resources: content can link to a resource; before, the link is a text.
        has_event_ids: events of a stream have ids, and an interrupted stream can be resumed.
        primes_streams: a stream starts with an id and no message, so that it can be resumed from
            its start, and the server may close it while the call continues.
        has_extensions: clients and servers tell each other of protocol extensions.
        lowerings: by method or `"capabilities"`/`"implementation"`: from this revision's form to
            the one before.
    """

    name: str
    is_stateless: bool
    methods: Mapping[str, MethodRule]
    accepts_batches: bool
    mirrors_headers: bool
    disconnect_cancels: bool
    logs_by_request: bool
    has_progress_messages: bool
    missing_resource_code: int
    visit_code: int | None = None
    statuses: Mapping[int, int] = field(default_factory=dict)
    result_fields: Mapping[str, str] = field(default_factory=dict)
    interim_fields: Mapping[str, str] = field(default_factory=dict)
    asks: frozenset[str] = frozenset()
    structures_objects_only: bool = True
    links_resources: bool = False
    has_event_ids: bool = False
    primes_streams: bool = False
    has_extensions: bool = False
    lowerings: Mapping[str, Lowering]

    def status(self, code: int) -> int:
        """Return the HTTP status that carries a JSON-RPC error `code`."""
        return self.statuses.get(code, 200)


# -- what lowerings are made of


def _without(*keys: str) -> Lowering:
    """Return a lowering that removes top-level `keys`."""

    def drop(value: JSONObject) -> JSONObject:
        if not any(key in value for key in keys):
            return value
        return {key: each for key, each in value.items() if key not in keys}

    return drop


def _each(key: str, lower: Lowering) -> Lowering:
    """Return a lowering that applies `lower` to every object in the array under `key`."""

    def apply(value: JSONObject) -> JSONObject:
        return {**value, key: [lower(item) for item in value[key]]}

    return apply


def _map_messages(lower: Lowering) -> Lowering:
    """Return a lowering for the content block of each message."""

    def lower_message(message: JSONObject) -> JSONObject:
        return {**message, "content": lower(message["content"])}

    return _each("messages", lower_message)


# -- 2024-11-05, the first revision


V2024_11_05 = Revision(
    name="2024-11-05",
    is_stateless=False,
    methods={
        "initialize": MethodRule(),
        "ping": MethodRule(),
        "tools/list": MethodRule(feature="tools"),
        "tools/call": MethodRule(feature="tools"),
        "resources/list": MethodRule(feature="resources"),
        "resources/templates/list": MethodRule(feature="resources"),
        "resources/read": MethodRule(feature="resources"),
        "resources/subscribe": MethodRule(feature="resources.subscribe"),
        "resources/unsubscribe": MethodRule(feature="resources.subscribe"),
        "prompts/list": MethodRule(feature="prompts"),
        "prompts/get": MethodRule(feature="prompts"),
        "completion/complete": MethodRule(feature="completions"),
        "logging/setLevel": MethodRule(feature="logging"),
    },
    accepts_batches=False,
    mirrors_headers=False,
    disconnect_cancels=False,
    logs_by_request=False,
    has_progress_messages=False,
    missing_resource_code=RESOURCE_NOT_FOUND,
    asks=frozenset({"sampling", "roots"}),
    lowerings={},
)


# -- 2025-03-26: batches, audio, tool annotations, progress texts, the completions capability


def _audio_to_text(block: JSONObject) -> JSONObject:
    if block.get("type") != "audio":
        return block
    return {"type": "text", "text": f"[audio, {block.get('mimeType', 'unknown type')}]"}


V2025_03_26 = replace(
    V2024_11_05,
    name="2025-03-26",
    accepts_batches=True,
    has_progress_messages=True,
    has_event_ids=True,
    lowerings={
        "tools/list": _each("tools", _without("annotations")),
        "tools/call": _each("content", _audio_to_text),
        "prompts/get": _map_messages(_audio_to_text),
        "capabilities": _without("completions"),
        "sampling/createMessage": _map_messages(_audio_to_text),
    },
)


# -- 2025-06-18: structured output, resource links, titles, `_meta` on objects; no more batches


def _lower_block(block: JSONObject) -> JSONObject:
    if block.get("type") == "resource_link":
        return {"type": "text", "text": f"{block.get('name', '')}: {block.get('uri', '')}"}
    block = _lower_item(block)
    if block.get("type") == "resource":
        block = {**block, "resource": _without("_meta")(block["resource"])}
    return block


def _lower_content(result: JSONObject) -> JSONObject:
    return _each("content", _lower_block)(_without("structuredContent")(result))


def _lower_item(item: JSONObject) -> JSONObject:
    item = _without("title", "_meta")(item)
    annotations = item.get("annotations")
    if isinstance(annotations, dict) and "lastModified" in annotations:
        annotations = _without("lastModified")(annotations)
        item = (
            {**item, "annotations": annotations} if annotations else _without("annotations")(item)
        )
    return item


def _lower_prompt(prompt: JSONObject) -> JSONObject:
    prompt = _lower_item(prompt)
    return _each("arguments", _without("title"))(prompt) if "arguments" in prompt else prompt


V2025_06_18 = replace(
    V2025_03_26,
    name="2025-06-18",
    accepts_batches=False,
    links_resources=True,
    asks=frozenset({"sampling", "roots", "form"}),
    lowerings={
        # A tool's annotations have a title of their own, which is older than the field.
        "tools/list": _each("tools", _without("title", "_meta", "outputSchema")),
        "tools/call": _lower_content,
        "resources/list": _each("resources", _lower_item),
        "resources/templates/list": _each("resourceTemplates", _lower_item),
        "resources/read": _each("contents", _without("_meta")),
        "prompts/list": _each("prompts", _lower_prompt),
        "prompts/get": _map_messages(_lower_block),
        "implementation": _without("title"),
    },
)


# -- 2025-11-25: icons, more details about a server, and tasks that clients request


_no_icons = _without("icons")


def _lower_form(params: JSONObject) -> JSONObject:
    """Write a form as before modes: titles of choices beside them, few defaults."""
    params = _without("mode", "elicitationId")(params)
    form = params.get("requestedSchema")
    if not isinstance(form, dict):
        return params
    fields = {name: _lower_field(field) for name, field in form.get("properties", {}).items()}
    return {**params, "requestedSchema": {**_without("$schema")(form), "properties": fields}}


def _lower_field(field: JSONObject) -> JSONObject:
    choices = field.get("oneOf")
    if choices:
        field = {
            **_without("oneOf")(field),
            "enum": [choice["const"] for choice in choices],
            "enumNames": [choice.get("title", choice["const"]) for choice in choices],
        }
    return field if field.get("type") == "boolean" else _without("default")(field)


V2025_11_25 = replace(
    V2025_06_18,
    name="2025-11-25",
    asks=frozenset(
        {"sampling", "sampling.tools", "sampling.context", "roots", "form", "form.arrays", "url"}
    ),
    visit_code=URL_ELICITATION_REQUIRED,
    primes_streams=True,
    has_extensions=True,
    lowerings={
        "tools/list": _each("tools", _no_icons),
        "tools/call": _each("content", _no_icons),
        "resources/list": _each("resources", _no_icons),
        "resources/templates/list": _each("resourceTemplates", _no_icons),
        "prompts/list": _each("prompts", _no_icons),
        "prompts/get": _map_messages(_no_icons),
        "implementation": _without("description", "websiteUrl", "icons"),
        "capabilities": _without("extensions", "tasks"),
        "elicitation/create": _lower_form,
    },
)


# -- 2026-07-28: no handshake and no session; each request is independent


def _lower_schemas(tool: JSONObject) -> JSONObject:
    """Keep only schemas that the typed keys of 2025-11-25 and before can hold."""
    output_schema = tool.get("outputSchema")
    if output_schema is not None and output_schema.get("type") != "object":
        tool = {**tool, "outputSchema": to_object_schema(output_schema)}
    properties = tool["inputSchema"].get("properties")
    if properties and not all(isinstance(schema, dict) for schema in properties.values()):
        plain = {
            name: schema if isinstance(schema, dict) else ({} if schema else {"not": {}})
            for name, schema in properties.items()
        }
        tool = {**tool, "inputSchema": {**tool["inputSchema"], "properties": plain}}
    return tool


V2026_07_28 = replace(
    V2025_11_25,
    name="2026-07-28",
    is_stateless=True,
    structures_objects_only=False,
    methods={
        "server/discover": MethodRule(is_cacheable=True),
        "tools/list": MethodRule(feature="tools", is_cacheable=True),
        "tools/call": MethodRule(feature="tools", mirrored_param="name"),
        "resources/list": MethodRule(feature="resources", is_cacheable=True),
        "resources/templates/list": MethodRule(feature="resources", is_cacheable=True),
        "resources/read": MethodRule(feature="resources", mirrored_param="uri", is_cacheable=True),
        "prompts/list": MethodRule(feature="prompts", is_cacheable=True),
        "prompts/get": MethodRule(feature="prompts", mirrored_param="name"),
        "completion/complete": MethodRule(feature="completions"),
        "subscriptions/listen": MethodRule(feature="listen"),
    },
    mirrors_headers=True,
    disconnect_cancels=True,
    logs_by_request=True,
    has_event_ids=False,
    primes_streams=False,
    missing_resource_code=INVALID_PARAMS,
    visit_code=None,
    statuses={
        METHOD_NOT_FOUND: 404,
        HEADER_MISMATCH: 400,
        MISSING_CLIENT_CAPABILITY: 400,
        UNSUPPORTED_PROTOCOL_VERSION: 400,
    },
    result_fields={"resultType": "complete"},
    interim_fields={"resultType": "input_required"},
    lowerings={
        "tools/list": _each("tools", _lower_schemas),
    },
)
