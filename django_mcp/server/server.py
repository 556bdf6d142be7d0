"""BaseServer: `MCPServer` without Django. It registers entries, notifies clients, and answers messages."""

from __future__ import annotations

import inspect
import threading
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias, TypeVar

from django_mcp.extension_packages import load_parts
from django_mcp.protocol.json import JSONObject, decode, encode
from django_mcp.protocol.names import is_extension_id
from django_mcp.protocol.records import Record
from django_mcp.protocol.results import CacheHint
from django_mcp.registry.building import Providers
from django_mcp.registry.decorators import Registration
from django_mcp.registry.entries import EntryMapping, ToolEntry
from django_mcp.registry.problems import describe_source
from django_mcp.registry.registry import ListKind, Registry
from django_mcp.registry.returns import ResultConverter
from django_mcp.registry.signatures import Provider
from django_mcp.server.clients import ClientMethods
from django_mcp.server.delivery.notify import NotifyMethods
from django_mcp.server.engine import Engine
from django_mcp.server.exchange.caller import ANONYMOUS, Caller
from django_mcp.server.exchange.channel import Channel, ServerRequest
from django_mcp.server.exchange.connection import ConnectionState
from django_mcp.server.exchange.exchange import Exchange
from django_mcp.server.exchange.timers import find_running_loop
from django_mcp.server.extension import Extension
from django_mcp.server.extension_loading import check_identifiers, load_extensions
from django_mcp.server.handlers.context import Context
from django_mcp.server.options import Options
from django_mcp.server.setting import LIST_METHODS

F = TypeVar("F", bound=Callable[[BaseException, Any, str | None], Any])

TextSink: TypeAlias = Callable[[str], Awaitable[None]]
"""Takes one JSON-RPC message as text."""


class BaseServer(Registration, NotifyMethods, ClientMethods):
    """A Model Context Protocol server: what `MCPServer` is without a site."""

    def __init__(self, registry: Registry, converter: ResultConverter) -> None:
        self._registry, self._converter = registry, converter
        self._lock = threading.RLock()
        self._options: Options | None = None
        self._engine: Engine | None = None
        self._former: Engine | None = None
        self._added: set[tuple[EntryMapping, str]] | None = None
        self._finishers: list[Callable[[], None]] = []
        self._unfinished: list[Callable[[], None]] = []
        self._is_finishing = False
        self._finishing = threading.RLock()
        registry.on_change(self._announce_list)

    @property
    def registry(self) -> Registry:
        """What is registered on this server, with the entries of its extensions."""
        if self._added is None:
            with self._lock:
                if self._added is None:
                    self._add_entries()
        if self._unfinished:
            self._finish()
        return self._registry

    def _finish_later(self, register: Callable[[], None]) -> None:
        """Have a function register what depends on the whole site, before the entries are first used.

        It is called again, and registers what is another now, after `_finish_again`.
        """
        with self._lock:
            self._finishers.append(register)
            self._unfinished.append(register)

    def _finish_again(self) -> None:
        """Have what depends on the whole site be registered again, since its URLs are others, as in tests."""
        with self._lock:
            if self._finishers:
                self._former = self._engine or self._former
                self._engine = None
                self._unfinished = list(self._finishers)

    def _finish(self) -> None:
        """Call what `_finish_later` was given. Other threads wait until all of it is registered.

        It may ask the database, which no event loop may, so there it runs in a thread.
        """
        if find_running_loop() is None:
            self._call_unfinished()
            return
        # The thread reads them, and this one may hold their lock.
        _ = self.options
        with ThreadPoolExecutor(1) as threads:
            threads.submit(self._finish_in_thread).result()

    def _finish_in_thread(self) -> None:
        self._call_unfinished()

    def _call_unfinished(self) -> None:
        with self._finishing:
            if self._is_finishing:
                return
            self._is_finishing = True
            try:
                while self._unfinished:
                    # `_finish_again` may put another list in its place meanwhile.
                    unfinished = self._unfinished
                    try:
                        unfinished[0]()
                    finally:
                        del unfinished[0]
            finally:
                self._is_finishing = False

    def _add_entries(self) -> None:
        """Register the entries of the extensions."""
        before = self._find_keys()
        try:
            for extension in self._find_extensions():
                extension.register(_Entries(self))
        except BaseException:
            self._remove(self._find_keys() - before)
            raise
        self._added = self._find_keys() - before

    def _remove(self, keys: Iterable[tuple[EntryMapping, str]]) -> None:
        for mapping, key in keys:
            self._registry.remove(mapping, key)

    def _find_keys(self) -> set[tuple[EntryMapping, str]]:
        registered = self._registry.registered.values()
        return {
            (entry.kind.mapping, key) for entries in registered for key, entry in entries.items()
        }

    def _find_extensions(self) -> list[type[Extension]]:
        """Return the classes of the extensions: those of this package, and the server's own."""
        own = load_extensions(self._own_extensions())
        extensions = [*(part.EXTENSION_CLASS for part in load_parts("core.extension")), *own]
        check_identifiers(extensions)
        return extensions

    def _own_extensions(self) -> Iterable[Any]:
        """Return the extensions that were given to this server, or set for it."""
        return self.options.extensions

    def _read_extension(self, identifier: str, value: Any) -> Any:
        """Return what is kept of an option for an extension; raise `ValueError` if it is wrong."""
        extensions = {extension.identifier: extension for extension in self._find_extensions()}
        if identifier not in extensions:
            raise ValueError(
                f"the server has no such extension. It has {', '.join(extensions) or 'none'}; EXTENSIONS adds one"
            )
        return extensions[identifier].read_option(value)

    def _complete_tool(self, tool: ToolEntry) -> ToolEntry:
        """Return the tool that extensions make of one with options for them."""
        for extension in self._find_extensions() if tool.extensions else ():
            if extension.identifier in tool.extensions:
                tool = extension.complete_tool(tool, self._providers())
        return tool

    @property
    def options(self) -> Options:
        """The current options of this server."""
        options = self._options
        if options is None:
            with self._lock:
                options = self._options = self._options or self._make_options()
        return options

    @property
    def name(self) -> str:
        """The name of this server, for clients and other processes."""
        return self.options.name

    @property
    def engine(self) -> Engine:
        """What answers this server's messages, made on first use and again when settings change.

        It is what the package's own code uses of a server, and may change in any version. The apps of the
        site must be loaded. Sessions and tasks in memory end with their engine.
        """
        engine = self._engine
        if engine is None:
            with self._lock:
                if self._engine is None:
                    made = self._make_engine()
                    former, self._former = self._former, None
                    if former is not None:
                        made.replace(former)
                    self._engine = made
                engine = self._engine
        return engine

    @abstractmethod
    def _make_options(self) -> Options:
        """Return the options by the current settings."""

    @abstractmethod
    def _make_engine(self) -> Engine:
        """Return a new engine with the current options."""

    def forget_settings(self) -> None:
        """Make the options and the engine again on their next use; registrations stay."""
        with self._lock:
            self._former = self._engine or self._former
            self._options = self._engine = None
            added, self._added = self._added or set(), None
            self._remove(added)

    def _announce_list(self, kind: ListKind) -> None:
        # Streams that are open belong to the former engine until there is another one. Without either,
        # nobody listens.
        engine = self._engine or self._former
        if engine is not None:
            engine.announce_list(kind)

    # -- messages without a transport of this package

    async def handle(
        self, message: JSONObject, exchange: Exchange | None = None
    ) -> JSONObject | None:
        """Return the response to one parsed message; None if it gets none.

        Args:
            message: a JSON-RPC message.
            exchange: without one the caller is anonymous and gets no messages ahead of the response.
        """
        exchange = exchange or Exchange()
        exchange.body = encode(message)
        reply = await self.engine.answer(exchange)
        answer: JSONObject | None = None if reply.body is None else decode(reply.body)
        return answer

    async def handle_raw(
        self,
        text: str | bytes,
        *,
        connection: ConnectionState | None = None,
        sink: TextSink | None = None,
        server_request: ServerRequest | None = None,
        principal: Any = ANONYMOUS,
    ) -> str:
        """Return the response to one message or batch, as text; `""` if it gets none.

        Text that is no message gets an error without an id.

        Args:
            text: a message, or a batch if the connection's revision has them.
            connection: the state of a connection that outlives this call; `initialize` settles
                its revision. Without one each message is handled by itself.
            sink: an async function that takes messages ahead of the response, such as progress.
            server_request: an async function that sends the client a request (method and params)
                and returns the result. `ctx.elicit`, `ctx.sample` and `ctx.list_roots` use it at
                revisions with a handshake; it needs a `connection`. A `ProtocolError` that it raises
                counts as the client's refusal. It is cancelled after `ASK_TIMEOUT_S`.
            principal: on whose behalf.
        """
        exchange = Exchange(
            body=text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"),
            connection=connection,
            caller=Caller(principal=principal),
            channel=Channel(
                sink=None if sink is None else _FunctionSink(sink),
                can_stream=sink is not None,
                server_request=server_request,
            ),
        )
        reply = await self.engine.answer(exchange)
        return "" if reply.body is None else reply.body.decode()

    def capabilities(self, revision: str | None = None) -> JSONObject:
        """Return the capabilities for anonymous clients on a transport that streams.

        They follow from what is registered, and from `advertise_extension` and
        `advertise_experimental`.

        Args:
            revision: the revision whose form they have, such as `"2025-11-25"`; None: the newest.

        Raises:
            ValueError: the server does not speak that revision.
        """
        names = self.engine.revisions.names()
        known_revision = self.engine.revisions.find(names[-1] if revision is None else revision)
        if known_revision is None:
            raise ValueError(f"This server does not speak {revision!r}: use {', '.join(names)}.")
        return self.engine.capabilities_for(
            known_revision, Exchange(channel=Channel(can_stream=True))
        )

    def advertise_extension(
        self, identifier: str, settings: Mapping[str, Any] | None = None
    ) -> None:
        """Tell clients that the server has an extension, if the revision has extensions.

        A handler sees those of the client in `ctx.client_extensions`.

        Args:
            identifier: such as `"com.example/receipts"`: a prefix, a slash and a name.
            settings: a JSON object, as the extension defines it.

        Raises:
            ValueError: the identifier is not valid (2026-07-28 basic, Extensions), or the settings
                have no form in JSON.
        """
        if not is_extension_id(identifier):
            raise ValueError(
                f"{identifier!r} is no name for an extension: use a domain of yours backwards, a "
                f"slash and a name, such as 'com.example/receipts'."
            )
        self.registry.advertised[identifier] = _plain(identifier, settings)

    def advertise_experimental(self, name: str, settings: Mapping[str, Any] | None = None) -> None:
        """Tell clients of a capability that is not in the specification.

        Args:
            name: any; clients that do not know it ignore it.
            settings: a JSON object.

        Raises:
            ValueError: the name is empty, or the settings have no form in JSON.
        """
        if not name:
            raise ValueError("An experimental capability needs a name.")
        self.registry.experimental[name] = _plain(name, settings)

    # -- registration

    def on_error(self, function: F) -> F:
        """Call a function with each unexpected error, and return the function.

        It is called as `function(error, ctx, reference)` after the error was logged and before the
        response: a synchronous function in a thread, an asynchronous one on the event loop. It may
        take 5 seconds. Its result is ignored, and its own errors are logged.

        Unexpected errors are those that clients see as internal errors. `ToolError`,
        `ProtocolError`, wrong arguments, timeouts and Django's `Http404`, `PermissionDenied` and
        `ValidationError` are not. `reference` is in the log and in the client's message; it is None
        for an error of this package, and for a `check=` that failed, which looks like a missing entry.

        Raises:
            TypeError: it cannot be called in this way.
        """
        try:
            inspect.signature(function).bind(None, None, None)
        except TypeError:
            raise TypeError(
                f"{describe_source(function)} takes other arguments. Write def "
                f"{getattr(function, '__name__', 'report')}(error, ctx, reference)."
            ) from None
        except ValueError:  # it has no signature
            pass
        self.registry.error_handlers = (*self.registry.error_handlers, function)
        return function

    def set_list_cache_hint(self, method: str, hint: CacheHint) -> None:
        """Set how long clients may cache one of the lists, if the revision supports it.

        Raises:
            ValueError: `method` is none of the four list methods or `server/discover`.
        """
        if method not in (*LIST_METHODS, "server/discover"):
            raise ValueError(f"{method!r} is no list method: use one of {', '.join(LIST_METHODS)}.")
        self.registry.list_hints[method] = hint

    def _find_provider(self, annotation: Any) -> Provider | None:
        """Return the provider of a parameter with this annotation; None for ordinary arguments."""
        if isinstance(annotation, type) and issubclass(annotation, Context):
            return lambda ctx: ctx
        return None


class _Entries(Registration):
    """What an extension registers its entries on, without the rest of the server."""

    def __init__(self, server: BaseServer) -> None:
        self._server, self._registry = server, server._registry

    def _providers(self) -> Providers:
        return self._server._providers()


def _plain(name: str, settings: Mapping[str, Any] | None) -> JSONObject:
    try:
        plain: JSONObject = decode(encode(dict(settings or {})))
    except (TypeError, ValueError) as error:
        raise ValueError(f"The settings of {name!r} have no form in JSON: {error}") from error
    return plain


class _FunctionSink(Record):
    _function: TextSink

    async def send(self, message: bytes) -> None:
        await self._function(message.decode())
