"""The Revision record: a field for each difference between protocol revisions, and what its lowerings are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from msgspec import Struct, field

from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.tasks import TaskRules

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
        result_fields: added to every result, such as `resultType`.
        interim_fields: replace `result_fields` in a result that asks for input; empty if results
            cannot ask.
        asks: what a client can be asked while its request runs, by `Ask.kind`.
        block_types: the types of content blocks.
        structures_objects_only: the structured content of a tool's result is an object.
        has_event_ids: events of a stream have ids, and an interrupted stream can be resumed.
        primes_streams: a stream starts with an id and no message, so that it can be resumed from
            its start, and the server may close it while the call continues.
        tasks: how calls can become tasks; None: they cannot.
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
    block_types: frozenset[str] = frozenset()
    structures_objects_only: bool = True
    has_event_ids: bool = False
    primes_streams: bool = False
    tasks: TaskRules | None = None
    lowerings: Mapping[str, Lowering]

    def status(self, code: int) -> int:
        """Return the HTTP status that carries a JSON-RPC error `code`."""
        return self.statuses.get(code, 200)


# -- what lowerings are made of


def without(*keys: str) -> Lowering:
    """Return a lowering that removes top-level `keys`."""

    def drop(value: JSONObject) -> JSONObject:
        if not any(key in value for key in keys):
            return value
        return {key: each for key, each in value.items() if key not in keys}

    return drop


def each(key: str, lower: Lowering) -> Lowering:
    """Return a lowering that applies `lower` to every object in the array under `key`."""

    def apply(value: JSONObject) -> JSONObject:
        return {**value, key: [lower(item) for item in value[key]]}

    return apply


def chain(*lowerings: Lowering) -> Lowering:
    """Return a lowering that applies `lowerings` one after the other."""

    def apply(value: JSONObject) -> JSONObject:
        for lower in lowerings:
            value = lower(value)
        return value

    return apply


def map_prompt_blocks(lower: Lowering) -> Lowering:
    """Return a lowering for the content block of each message of a prompt."""

    def lower_message(message: JSONObject) -> JSONObject:
        return {**message, "content": lower(message["content"])}

    return each("messages", lower_message)
