"""MCPServer: what is registered, and one way in for every transport.

A transport hands over an `Exchange` and sends the `Reply` it gets back. Nothing here knows how the
bytes travel, and no state of a client is kept here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from django_mcp.protocol.errors import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    REQUEST_CANCELLED,
    Refusal,
)
from django_mcp.protocol.json import JSONObject, decode, encode
from django_mcp.protocol.messages import (
    Batch,
    Malformed,
    Message,
    Notification,
    Request,
    RequestId,
    Response,
    decode_message,
    encode_error,
    encode_result,
)
from django_mcp.protocol.meta import SERVER_INFO
from django_mcp.protocol.results import CacheHint
from django_mcp.protocol.revisions import Revision, RevisionSet, lower
from django_mcp.registry.decorators import Registration
from django_mcp.registry.injection import Provider
from django_mcp.registry.registry import Registry
from django_mcp.registry.returns import PlainConverter
from django_mcp.server.admission import admit, refuse_batch, refuse_version
from django_mcp.server.cache import BoundedCache
from django_mcp.server.capabilities import offered_features, to_capabilities
from django_mcp.server.connection import ConnectionState
from django_mcp.server.context import Context
from django_mcp.server.exchange import ANONYMOUS, Exchange, Reply, Sink
from django_mcp.server.memory import (
    NoKnownExceptions,
    OneLanguage,
    OpenAccess,
    ProcessSealer,
    ThreadScope,
)
from django_mcp.server.methods import METHODS
from django_mcp.server.options import Options

if TYPE_CHECKING:
    from django_mcp.registry.returns import ResultConverter
    from django_mcp.server.interfaces import (
        AccessPolicy,
        ExceptionMapper,
        HandlerScope,
        Language,
        Sealer,
    )

logger = logging.getLogger("django_mcp")

LIST_METHODS = ("tools/list", "resources/list", "resources/templates/list", "prompts/list")


class MCPServer(Registration):
    """A Model Context Protocol server for any transport, free of any framework.

    Args:
        name: who this server is to clients; further texts are options.
        options: see `Options` for all of them.

    The attributes `scope`, `access`, `exceptions`, `sealer`, `language` and `converter` are what
    it needs of its surroundings (`server.interfaces`); each starts as a plain implementation.
    """

    context_class: type[Context[Any]] = Context

    def __init__(self, name: str, **options: Any) -> None:
        self.name = name
        self.registry = Registry()
        self.scope: HandlerScope = ThreadScope()
        self.access: AccessPolicy = OpenAccess()
        self.exceptions: ExceptionMapper = NoKnownExceptions()
        self.sealer: Sealer = ProcessSealer()
        self.language: Language = OneLanguage()
        self.converter: ResultConverter = PlainConverter()
        self._options = Options(name=name, **options)
        self._derived: _Derived | None = None

    @property
    def options(self) -> Options:
        """The settings in force now."""
        return self._options

    # -- the three entries for transports

    async def answer(self, exchange: Exchange) -> Reply:
        """Answer what one POST, or one line, holds.

        Never raises, except `CancelledError` when the transport cancels because the client left.
        """
        message = decode_message(exchange.body)
        if type(message) is Request:
            reply = await self._answer_request(message, exchange)
            return reply if reply is not None else Reply(202)
        if type(message) is Batch:
            return await self._answer_batch(message, exchange)
        return self._take(message, exchange)  # type: ignore[arg-type]

    async def open_stream(self, exchange: Exchange) -> Reply:
        """Open a standalone stream: not offered without sessions.

        Source: 2025-11-25 basic/transports "Listening for Messages from the Server" (405).
        """
        return _not_allowed()

    async def end_session(self, exchange: Exchange) -> Reply:
        """End a session: there is none to end without sessions.

        Source: 2025-11-25 basic/transports "Session Management" (405).
        """
        return _not_allowed()

    authenticate: Callable[[Exchange], Any] | None = None
    """Asked by a transport before the body is read; None: everybody is anonymous."""

    # -- in process, without a transport

    async def handle(
        self, message: JSONObject, exchange: Exchange | None = None
    ) -> JSONObject | None:
        """Answer one parsed message; None when there is nothing to answer.

        Args:
            message: a JSON-RPC message.
            exchange: its surroundings; without one it comes from nobody and cannot be streamed to.
        """
        exchange = exchange or Exchange()
        exchange.body = encode(message)
        reply = await self.answer(exchange)
        answer: JSONObject | None = None if reply.body is None else decode(reply.body)
        return answer

    async def handle_raw(
        self,
        text: str | bytes,
        *,
        connection: ConnectionState | None = None,
        sink: Sink | None = None,
        principal: Any = ANONYMOUS,
    ) -> str:
        """Answer one message or batch given as text; `""` when there is nothing to answer.

        Args:
            text: a message, or a batch where the connection's revision has them.
            connection: the state of a connection that outlives this call; `initialize` settles
                its revision. Without one each message speaks for itself.
            sink: takes messages ahead of the answer, such as progress.
            principal: on whose behalf.
        """
        exchange = Exchange(
            body=text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"),
            connection=connection,
            sink=sink,
            can_stream=sink is not None,
            principal=principal,
        )
        reply = await self.answer(exchange)
        return "" if reply.body is None else reply.body.decode()

    # -- requests

    async def _answer_request(self, request: Request, exchange: Exchange) -> Reply | None:
        """Return the reply, or None when a cancelled request is to get none."""
        derived = self._derive()
        connection = admit(
            request,
            exchange.headers,
            exchange.connection,
            derived.revisions,
            derived.features_if_streaming if exchange.can_stream else derived.features,
        )
        if type(connection) is Refusal:
            return _refuse(request.id, connection, connection.status or 200)
        ctx = self.context_class(self, exchange, request, connection)  # type: ignore[arg-type]
        revision = ctx.rules
        exchange.cancels_on_disconnect = revision.disconnect_cancels
        kept = exchange.connection
        if kept is not None:
            if request.id in kept.in_flight:
                return _refuse(request.id, _DUPLICATE_ID, 400)
            if request.method != "initialize":
                kept.in_flight[request.id] = ctx
                ctx.task = asyncio.current_task()
        try:
            outcome = await self._run(ctx)
        finally:
            ctx.finish()
            if kept is not None and kept.in_flight.get(request.id) is ctx:
                del kept.in_flight[request.id]
        if outcome is None:
            return None
        if type(outcome) is Refusal:
            return _refuse(request.id, outcome, outcome.status or revision.status(outcome.code))
        return Reply(200, encode_result(request.id, outcome))  # type: ignore[arg-type]

    async def _run(self, ctx: Context[Any]) -> bytes | Refusal | None:
        method = METHODS.get(ctx.method)
        if method is None:
            return Refusal(code=METHOD_NOT_FOUND, message=f"Unknown method: {ctx.method[:200]}")
        try:
            outcome = await method(ctx)
            if ctx.method == "initialize" and type(outcome) is not Refusal:
                _settle(ctx)
            return outcome
        except asyncio.CancelledError:
            if ctx.task is None or not ctx.is_cancelled or ctx.exchange.is_disconnected:
                raise
            # Cancelled by the client's own notification: the task itself lives on.
            ctx.task.uncancel()
            if ctx.exchange.headers is None or ctx.rules.is_stateless:
                return None
            return Refusal(code=REQUEST_CANCELLED, message="Cancelled")
        except Exception:
            logger.exception("Could not answer %s", ctx.method)
            return Refusal(code=INTERNAL_ERROR, message="Internal error")

    async def _answer_batch(self, batch: Batch, exchange: Exchange) -> Reply:
        refusal = refuse_batch(
            batch, exchange.headers, exchange.connection, self.revisions, self.options.max_batch
        )
        if refusal is not None:
            return _refuse(None, refusal, refusal.status or 400)
        bodies = []
        for message in batch.messages:
            if type(message) is Request:
                reply = await self._answer_request(message, exchange)
            else:
                reply = self._take(message, exchange)
            if reply is not None and reply.body is not None:
                bodies.append(reply.body)
        return Reply(200, b"[%b]" % b",".join(bodies)) if bodies else Reply(202)

    # -- what needs no answer

    def _take(self, message: Message, exchange: Exchange) -> Reply:
        if isinstance(message, Malformed):
            return _refuse(message.id, message.refusal, 400)
        refusal = refuse_version(exchange.headers, self.revisions)
        if refusal is None and isinstance(message, Response):
            refusal = self._take_response(exchange)
        if refusal is not None:
            return _refuse(None, refusal, refusal.status or 400)
        if isinstance(message, Notification):
            self._take_notification(message, exchange)
        return Reply(202)

    def _take_response(self, exchange: Exchange) -> Refusal | None:
        """Take an answer nobody waits for: drop it, or refuse it where none can be sent.

        Source: 2026-07-28 basic/transports, "the body is a single request or notification".
        """
        header = exchange.headers.get("mcp-protocol-version") if exchange.headers else None
        revision = self.revisions.find(header)
        if revision is not None and revision.is_stateless:
            return Refusal(code=INVALID_REQUEST, message="No response is expected", status=400)
        return None

    def _take_notification(self, message: Notification, exchange: Exchange) -> None:
        connection = exchange.connection
        if connection is None:
            return
        if message.method == "notifications/initialized":
            connection.is_initialized = True
        elif message.method == "notifications/cancelled":
            self._cancel(connection, message.params)

    def _cancel(self, connection: ConnectionState, params: JSONObject) -> None:
        request_id = params.get("requestId")
        if type(request_id) not in (str, int, float):
            return
        running = connection.in_flight.get(request_id)  # type: ignore[arg-type]
        if running is not None:
            logger.info("Request cancelled by the client: %.200r", params.get("reason"))
            running.cancel()

    # -- what methods need

    @property
    def revisions(self) -> RevisionSet:
        """The revisions this server speaks."""
        return self._derive().revisions

    def capabilities(self, revision: Revision, *, can_stream: bool) -> JSONObject:
        """Return the capabilities advertised at a revision on a transport."""
        derived = self._derive()
        features = derived.features_if_streaming if can_stream else derived.features
        return lower("capabilities", to_capabilities(features), revision)

    def implementation(self, revision: Revision) -> JSONObject:
        """Return who this server is, as a revision writes it."""
        return lower("implementation", self.options.implementation(), revision)

    def encode_result(self, result: JSONObject, revision: Revision) -> bytes:
        """Return a result as JSON, with the fields a revision adds to every result."""
        if not revision.is_stateless:
            return encode(result)
        fields = self._result_fields(revision)
        meta = result.get("_meta")
        if meta is not None:
            # The handler's own keys stand beside ours.
            return encode({**result, **fields.parsed, "_meta": {**meta, **fields.meta}})
        encoded = encode(result)
        return b"{%b" % fields.encoded if not result else b"%b,%b" % (encoded[:-1], fields.encoded)

    def _result_fields(self, revision: Revision) -> _ResultFields:
        derived = self._derive()
        language = self.language.current() if derived.has_lazy_identity else None
        key = (revision.name, language)
        found = derived.result_fields.get(key)
        if found is None:
            meta = (
                {SERVER_INFO: self.implementation(revision)}
                if derived.options.has_server_info
                else {}
            )
            found = derived.result_fields[key] = _ResultFields(revision.result_fields, meta)
        return found

    def cache_fields(
        self, ctx: Context[Any], method: str, hint: CacheHint | None = None
    ) -> Mapping[str, Any]:
        """Return the caching fields of a result; none where the revision has no such thing.

        `private` whenever what is visible depends on who asks, whatever the hint says.
        """
        rule = ctx.rules.methods[ctx.method]
        if not rule.is_cacheable:
            return {}
        hint = hint or self.options.list_cache.get(method) or _NO_CACHING
        is_shared = hint.scope == "public" and self.access.variant(ctx.principal) is None
        return {"ttlMs": hint.ttl_ms, "cacheScope": "public" if is_shared else "private"}

    def set_list_cache_hint(self, method: str, hint: CacheHint) -> None:
        """Say how long one of the four lists stays fresh, where the revision can tell it.

        Raises:
            ValueError: `method` is none of the four list methods or `server/discover`.
        """
        if method not in (*LIST_METHODS, "server/discover"):
            raise ValueError(f"{method!r} is no list method: use one of {', '.join(LIST_METHODS)}.")
        self.options.list_cache[method] = hint
        self._derived = None

    def list_cache(self) -> BoundedCache:
        """Return the encoded lists that are still true."""
        return self._derive().lists

    def injectables(self, annotation: Any) -> Provider | None:
        """Return what provides a parameter of this annotation; None for ordinary arguments."""
        if isinstance(annotation, type) and issubclass(annotation, Context):
            return _provide_context
        return None

    def _derive(self) -> _Derived:
        """Return what follows from the registry and the options, made anew when they change."""
        derived, options = self._derived, self.options
        version = self.registry.version
        if derived is None or derived.version != version or derived.options is not options:
            derived = self._derived = _Derived(self.registry, options)
        return derived


class _Derived:
    """What follows from one state of the registry and the options."""

    __slots__ = (
        "features",
        "features_if_streaming",
        "has_lazy_identity",
        "lists",
        "options",
        "result_fields",
        "revisions",
        "version",
    )

    def __init__(self, registry: Registry, options: Options) -> None:
        self.version = registry.version
        self.options = options
        self.revisions = RevisionSet(options.revisions)
        self.features = offered_features(registry, can_stream=False)
        self.features_if_streaming = offered_features(registry, can_stream=True)
        self.lists = BoundedCache(256)
        self.has_lazy_identity = not all(
            text is None or isinstance(text, str) for text in (options.title, options.description)
        )
        self.result_fields: dict[tuple[str, str | None], _ResultFields] = {}


class _ResultFields:
    """What a stateless revision adds to every result, in the forms it is needed in."""

    __slots__ = ("encoded", "meta", "parsed")

    def __init__(self, parsed: Mapping[str, Any], meta: JSONObject) -> None:
        self.parsed = parsed
        self.meta = meta
        whole = encode({**parsed, "_meta": meta} if meta else dict(parsed))
        self.encoded = whole[1:]
        """All of them with the closing brace of the result they are put at the end of."""


_NO_CACHING = CacheHint()
_DUPLICATE_ID = Refusal(
    code=INVALID_REQUEST, message="A request with this id is running on this connection"
)


def _provide_context(ctx: Context[Any]) -> Context[Any]:
    return ctx


def _settle(ctx: Context[Any]) -> None:
    """Write the outcome of a handshake onto the connection that outlives it, if one does."""
    kept, settled = ctx.exchange.connection, ctx.connection
    if kept is not None:
        kept.revision = settled.revision
        kept.client_info = settled.client_info
        kept.client_capabilities = settled.client_capabilities


def _refuse(request_id: RequestId | None, refusal: Refusal, status: int) -> Reply:
    return Reply(status, encode_error(request_id, refusal), refusal.headers)


def _not_allowed() -> Reply:
    refusal = Refusal(code=INVALID_REQUEST, message="Method not allowed: use POST")
    return Reply(405, encode_error(None, refusal), ((b"allow", b"POST, OPTIONS"),))
