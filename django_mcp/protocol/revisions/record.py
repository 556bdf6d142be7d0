"""The Revision record: every question that protocol revisions answer differently."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias

from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.tasks import TaskRules

Lowering: TypeAlias = Callable[[JSONObject], JSONObject]
"""Rewrite an object from a revision's form into the form of the revision before it.

Never changes its argument. Fields that a peer would not know go; what they said is kept in
another form where there is one.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class MethodRule:
    """What a revision says of one request from the client.

    Attributes:
        feature: what the server must offer for the method to exist (`"tools"`,
            `"resources.subscribe"`); None when it always exists.
        mirrored_param: the parameter that `Mcp-Name` repeats, where headers are mirrored.
        is_cacheable: whether a complete result carries a caching hint.
    """

    feature: str | None = None
    mirrored_param: str | None = None
    is_cacheable: bool = False


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Revision:
    """One protocol revision, as data. Compare by identity only; there is no order to ask about.

    Attributes:
        name: the version string on the wire; opaque.
        is_stateless: each request says in `_meta` what a handshake would have settled.
        methods: the requests a client may make, by name.
        accepts_batches: arrays of messages are taken.
        mirrors_headers: `Mcp-Method`, `Mcp-Name` and `Mcp-Param-*` repeat the body and must agree.
        disconnect_cancels: a client that leaves has cancelled its request.
        logs_by_request: log messages are sent only to a request that asked for a level itself;
            else by the level of the connection.
        has_progress_messages: progress may carry a text.
        missing_resource_code: the error code for a resource that is not there.
        visit_code: the error code that sends a client to pages before it asks once more, for where
            it cannot be asked to visit them; None: there is none.
        statuses: JSON-RPC error code to HTTP status; 200 where it is not listed.
        result_fields: added to every result, such as `resultType`.
        interim_fields: stand in place of `result_fields` in a result that asks for input; empty
            where results cannot ask.
        asks: what a client can be asked while its request runs, as `Ask.kind` names it.
        block_types: the kinds of content blocks.
        structures_objects_only: the structured content of a tool's result is an object.
        has_event_ids: events of a stream have ids, and a stream that broke off can be resumed.
        primes_streams: a stream opens with an id and no message, so that it can be resumed from
            its start, and may be closed by the server while the call goes on.
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
    statuses: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))
    result_fields: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    interim_fields: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
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
