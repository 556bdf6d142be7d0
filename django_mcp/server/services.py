"""Services: the interface between a server and its parts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from django_mcp.log import logger
from django_mcp.protocol.byte_ranges import RANGES_CAPABILITY
from django_mcp.protocol.errors import INVALID_REQUEST, Refusal
from django_mcp.protocol.headers import PROTOCOL_VERSION, Headers
from django_mcp.protocol.json import JSONObject, encode
from django_mcp.protocol.messages import Request
from django_mcp.protocol.meta import SERVER_INFO
from django_mcp.protocol.results import CacheHint
from django_mcp.protocol.revisions import Revision, RevisionSet, find_revision, lower
from django_mcp.registry.entries import ResourceEntry, TemplateEntry, ToolEntry
from django_mcp.registry.registry import Registry
from django_mcp.server.capabilities import Derived, ResultFields, to_capabilities
from django_mcp.server.exchange.call import LARGE_BYTES, Call
from django_mcp.server.exchange.connection import ConnectionState
from django_mcp.server.exchange.exchange import Exchange, Reply, refusal_reply
from django_mcp.server.exchange.session import Session
from django_mcp.server.exchange.visibility import Requirements, VisibleEntries
from django_mcp.server.extension import Extension, ask
from django_mcp.server.operations import Operations
from django_mcp.server.options import Options
from django_mcp.server.ports import Ports, Today
from django_mcp.server.streams.hub import Hub
from django_mcp.server.streams.process_messages import ExtensionMessage
from django_mcp.server.streams.stream import Change, PushStream

ServerHub: TypeAlias = "Hub[Services]"
"""The hub of the servers of a process."""


MAX_TOLD_BYTES = 4096
"""Bytes of one message of an extension to other processes: those of a database hold small ones."""


class Services(ABC):
    """The ports of a server, its registry, options and extensions, and values derived from them."""

    def __init__(
        self,
        ports: Ports,
        registry: Registry,
        options: Options,
        extensions: Sequence[Extension] = (),
    ) -> None:
        # Calls read these attributes often. Once something has asked for `__dict__`, as `cached_property` does,
        # Python up to 3.12 reads each faster from a dictionary of its own; a call costs 1 % less.
        self.__dict__ = {}
        self.ports = ports
        self.hub: ServerHub = ports.hub
        self.registry = registry
        self.options = options
        self.extensions: Mapping[str, Extension] = {
            extension.identifier: extension for extension in extensions
        }
        """The extensions of this server, by identifier."""
        self.is_replaced = False
        """Whether another engine has taken the place of this one, on which calls still run."""
        self._derived: Derived | None = None

    def make_call(
        self, exchange: Exchange, message: Request, connection: ConnectionState
    ) -> ServedCall:
        """Return the call of a request."""
        rules = connection.revision
        if rules is None:
            raise ValueError("a call needs a connection with a revision")
        meta = message.params.get("_meta")
        return ServedCall(
            exchange,
            message,
            connection,
            rules,
            self.options,
            message.method,
            meta if type(meta) is dict else {},
            is_large=len(exchange.body) > LARGE_BYTES,
            server=self,
            derived=self._derived or self.derived,
        )

    @property
    @abstractmethod
    def operations(self) -> Operations:
        """What dispatch calls for each message."""

    @property
    def name(self) -> str:
        """The name of this server, for clients and other processes."""
        return self.options.name

    @property
    def is_public(self) -> bool:
        """Whether all callers are served, so that equal results may be shared."""
        return True

    @property
    def derived(self) -> Derived:
        """The values derived from the registry and the options, computed anew when the registry changes."""
        derived = self._derived
        if derived is None or derived.version != self.registry.version:
            extensions = tuple(self.extensions.values())
            derived = self._derived = Derived(
                self.registry, self.options, extensions, self.ports.find_toolset
            )
        return derived

    @property
    def revisions(self) -> RevisionSet:
        """The revisions that this server supports."""
        return self.derived.revisions

    @property
    def keeps_sessions(self) -> bool:
        """Whether clients of the revisions with a handshake get a session over HTTP."""
        return self.derived.keeps_sessions

    def allowed_methods(self, headers: Headers | None, *, can_push: bool = True) -> bytes:
        """Return the HTTP methods that the endpoint serves, as the header `Allow` lists them.

        The headers may name a revision without sessions. Without `can_push` no response stays open.
        Source: RFC 9110 section 10.2.1.
        """
        revision = find_revision(headers.get(PROTOCOL_VERSION) if headers is not None else None)
        if not self.keeps_sessions or (revision is not None and revision.is_stateless):
            return b"POST, OPTIONS"
        return b"GET, POST, DELETE, OPTIONS" if can_push else b"POST, DELETE, OPTIONS"

    def refuse_method(self, exchange: Exchange) -> Reply:
        """Return the response to an HTTP method that is not supported here or in that revision."""
        allowed = self.allowed_methods(exchange.headers, can_push=not exchange.channel.is_buffered)
        message, headers = "Use POST: this MCP endpoint is for AI clients", ((b"allow", allowed),)
        return refusal_reply(Refusal(code=INVALID_REQUEST, message=message, headers=headers), 405)

    def tell(self, extension: str, data: JSONObject) -> None:
        """Send data to an extension of this server in every other process; see `Extension.receive`.

        It is sent once, and is lost if it cannot be. Any thread may send it.

        Raises:
            ValueError: the data is larger than `MAX_TOLD_BYTES`, or has no form in JSON.
        """
        try:
            size = len(encode(data))
        except TypeError as error:
            raise ValueError(f"The data of {extension} has no form in JSON: {error}") from error
        if size > MAX_TOLD_BYTES:
            raise ValueError(
                f"The data of {extension} is larger than {MAX_TOLD_BYTES} bytes: store it, and send what "
                "names it."
            )
        message = ExtensionMessage(server=self.name, extension=extension, data=data)
        self.hub.broadcast(message)

    def join_hub(self) -> ServerHub:
        """Start the hub on the running event loop, add this server to it, and return it."""
        hub, name = self.hub, self.options.name
        if not hub.is_running:
            hub.start()
        if hub.servers.get(name) is not self and not self.is_replaced:
            hub.servers[name] = self
            self.joined(hub)
        return hub

    @abstractmethod
    def joined(self, hub: ServerHub) -> None:
        """Add this server's upkeep to the hub; called when the server is added to the hub."""

    @abstractmethod
    def may_receive(self, change: Change) -> Callable[[PushStream], bool] | None:
        """Return a function that returns whether a stream receives a change; None: each does."""

    async def read_subscriptions(self, session: Session) -> set[str]:
        """See `SessionStore.read_subscriptions`."""
        return await self.ports.sessions.read_subscriptions(session)

    def find_visible(self, exchange: Exchange, requirements: Requirements) -> VisibleEntries | None:
        """Return what the client of an exchange can see and wants to; None if it has to be loaded."""
        visible = self.ports.access.find_visible(exchange, requirements)
        narrowing = exchange.caller.narrowing
        if narrowing is None or visible is None:
            return visible
        return visible.narrowed(requirements, narrowing)

    async def refresh_visible(self, exchange: Exchange) -> VisibleEntries:
        """Set and return what the client of an exchange can see now and wants to."""
        requirements = self.derived.requirements
        visible = self.find_visible(exchange, requirements)
        if visible is None:
            visible = await self.ports.access.load_visible(exchange, requirements)
            if exchange.caller.narrowing is not None:
                visible = visible.narrowed(requirements, exchange.caller.narrowing)
        exchange.caller.visible = visible
        return visible

    def features(self, exchange: Exchange) -> Container[str]:
        """Return the features on the transport of an exchange."""
        transport = (
            exchange.channel.can_stream,
            exchange.channel.is_buffered,
            exchange.connection is None,
        )
        return self.derived.offered[transport]

    def capabilities_for(
        self,
        revision: Revision,
        exchange: Exchange,
        client_info: Mapping[str, Any] | None = None,
    ) -> JSONObject:
        """Return the capabilities for a client at a revision, on the transport of an exchange."""
        features = self.features(exchange)
        can_push = ("listen" if revision.is_stateless else "resources.subscribe") in features
        offered = to_capabilities(features, can_push=can_push)
        experimental = dict(self.registry.experimental)
        if "resources" in features:
            chunk_bytes = self.options.read_chunk_bytes
            clamp = {} if chunk_bytes is None else {"maxChunkBytes": chunk_bytes}
            experimental[RANGES_CAPABILITY] = {"enabled": True, **clamp}
        # Pings go to the standalone streams of sessions, which a pipe and WSGI do not have.
        can_ping = exchange.headers is not None and can_push and self.keeps_sessions
        if not revision.is_stateless:
            experimental = {**self.options.limits(can_ping=can_ping), **experimental}
        if experimental:
            offered["experimental"] = experimental
        advertised = dict(self.registry.advertised)
        for extension in self.derived.extensions:
            nothing: Any = {}
            added = ask(extension, "find_capabilities", nothing, revision, exchange, client_info)
            if not isinstance(added, Mapping):
                logger.error("The extension %s has no capabilities", extension.identifier)
                continue
            advertised.update(added.get("extensions", {}))
            offered.update({key: value for key, value in added.items() if key != "extensions"})
        if advertised:
            offered["extensions"] = advertised
        return lower("capabilities", offered, revision)

    def implementation(self, revision: Revision) -> JSONObject:
        """Return `serverInfo` in the form of a revision."""
        return lower("implementation", self.options.implementation(), revision)

    def encode_result(self, result: JSONObject, revision: Revision) -> bytes:
        """Return a result as JSON, with the fields that a revision adds to every result."""
        if not revision.is_stateless:
            return encode(result)
        fields = self._result_fields(revision)
        meta = result.get("_meta")
        if meta is not None:
            # Beside the handler's own keys.
            return encode({**result, **fields.parsed, "_meta": {**meta, **fields.meta}})
        encoded = encode(result)
        return b"{%b" % fields.encoded if not result else b"%b,%b" % (encoded[:-1], fields.encoded)

    def encode_answer(self, answer: Mapping[str, Any], revision: Revision) -> bytes:
        """Return the answer of an extension as JSON; one that says what it is, as a question, stays that."""
        if not revision.is_stateless:
            return encode(dict(answer))
        fields = self._result_fields(revision)
        meta = {**answer.get("_meta", {}), **fields.meta}
        return encode({**fields.parsed, **answer, **({"_meta": meta} if meta else {})})

    def encode_text(self, text: str, revision: Revision) -> bytes:
        """Do as `encode_result` does, for the result of a tool that is one text."""
        if not revision.is_stateless:
            return b'{"content":[{"type":"text","text":%b}]}' % encode(text)
        fields = self._result_fields(revision).encoded
        return b'{"content":[{"type":"text","text":%b}],%b' % (encode(text), fields)

    def encode_interim(self, result: JSONObject, revision: Revision) -> bytes:
        """Return a result that asks for input, as JSON."""
        meta = self._result_fields(revision).meta
        return encode({**revision.interim_fields, **result, **({"_meta": meta} if meta else {})})

    # -- how long clients may cache a result; source: 2026-07-28 server/utilities/caching

    def list_cache_fields(self, call: Call, today: Today | None = None) -> Mapping[str, Any]:
        """Return the caching fields of a list or of `server/discover`, if the revision has them.

        Args:
            call: of the method.
            today: the day that the result names, if it does: the result is not fresh any more at its end.
        """
        # Texts in the language or the time zone of the caller are not for others, nor is what only some
        # clients are told.
        derived = self.derived
        is_alike = not (
            today is not None
            or derived.has_lazy_texts
            or derived.tells_apart
            or any(extension.is_active(call) for extension in derived.describing)
        )
        hint = self.registry.list_hints.get(call.method) or call.options.list_cache.get(call.method)
        if hint is not None and today is not None:
            hint = replace(hint, ttl_ms=min(hint.ttl_ms, int(today.ends_in_s * 1000)))
        return self._cache_fields(call, hint, is_alike=is_alike)

    def read_cache_fields(
        self, call: Call, entry: ResourceEntry | TemplateEntry | ToolEntry, own: CacheHint | None
    ) -> Mapping[str, Any]:
        """Return the caching fields of a read resource, if the revision has them.

        A handler's own hint counts first: it knows whether its result depends on the caller.
        """
        if call.answers.is_resubmit or isinstance(entry, ToolEntry):
            # It may contain the client's answers, or is the whole result of a tool.
            return self._cache_fields(call, None, is_alike=False)
        access = entry.access
        scopes = access.scopes or call.exchange.caller.visible.scopes_of(entry)
        is_open = not (access.permission or access.listed_if or scopes or access.check)
        is_alike = is_open and (own is not None or not entry.handler.injections)
        return self._cache_fields(call, own or entry.cache, is_alike=is_alike)

    def hint_fields(self, call: Call, hint: CacheHint | None) -> Mapping[str, Any]:
        """Return the caching fields of what an extension has read, which is for this caller."""
        return self._cache_fields(call, hint, is_alike=False)

    def _cache_fields(
        self, call: Call, hint: CacheHint | None, *, is_alike: bool
    ) -> Mapping[str, Any]:
        """Return the fields for a hint; a result is public only if it is the same for everybody."""
        if not call.rules.methods[call.method].is_cacheable:
            return {}
        hint = hint or CacheHint()
        is_public = (
            hint.scope == "public"
            and is_alike
            and self.is_public
            and call.exchange.caller.visible.variant is None
        )
        return {"ttlMs": hint.ttl_ms, "cacheScope": "public" if is_public else "private"}

    def _result_fields(self, revision: Revision) -> ResultFields:
        # Without a check for changes: the call looked at `derived` before.
        derived = self._derived or self.derived
        language = self.ports.find_language() if derived.has_lazy_identity else None
        key = (revision.name, language)
        fields_made = derived.result_fields.get(key)
        if fields_made is None:
            has_info = derived.options.has_server_info
            meta = {SERVER_INFO: self.implementation(revision)} if has_info else {}
            parsed = revision.result_fields
            encoded = encode({**parsed, "_meta": meta} if meta else dict(parsed))
            fields_made = derived.result_fields[key] = ResultFields(parsed, meta, encoded[1:])
        return fields_made


class ServedCall(Call, kw_only=True):
    """A call with the server that answers it."""

    server: Services
    derived: Derived
    """What followed from the registry, the options and the extensions when the request arrived."""
    _context: Any = None

    @property
    def context(self) -> Any:
        """What the handler gets of this call; made when something takes it."""
        if self._context is None:
            self._context = self.server.ports.make_context(self)
        return self._context
