"""Engine: one server as transports call it, made from its ports, registry, options and extensions."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import cache, cached_property, partial
from types import ModuleType
from typing import Any

from django_mcp.log import logger
from django_mcp.registry.registry import ListKind, Registry
from django_mcp.server.delivery.notify import ChangePolicy
from django_mcp.server.exchange.exchange import Exchange, Reply
from django_mcp.server.extension import Extension
from django_mcp.server.operations import Operations
from django_mcp.server.options import Options
from django_mcp.server.ports import Ports
from django_mcp.server.services import ServerHub, Services
from django_mcp.server.streams.messenger import OutageLog
from django_mcp.server.streams.process_messages import ExtensionMessage
from django_mcp.server.streams.stream import Change, PushStream


class Engine(Services):
    """What answers the messages of one server.

    Nothing of it is replaced: when settings change, the server makes another one, and calls that run
    end on this one. What is registered may change at any time.
    """

    def __init__(
        self,
        ports: Ports,
        registry: Registry,
        options: Options,
        extensions: Sequence[Extension] = (),
    ) -> None:
        super().__init__(ports, registry, options, extensions)
        for extension in extensions:
            extension.server_name = options.name
        self._changes = ChangePolicy(self, _may_read)
        self._ticks = [
            make_tick(self, extension)
            for extension in extensions
            if type(extension).tick is not Extension.tick
        ]
        self._shutdowns = {
            extension.identifier: make_shutdown(self, extension)
            for extension in extensions
            if type(extension).shutdown is not Extension.shutdown
        }
        self._changed_lists: set[ListKind] = set()

    def joined(self, hub: ServerHub) -> None:
        """See `Services.joined`: the hub calls the extensions, and passes on what is for them."""
        hub.on_tick += [tick for tick in self._ticks if tick not in hub.on_tick]
        # A process that has nothing to do at its end stops sooner.
        offered = {extension.identifier for extension in self.derived.extensions}
        for identifier, shutdown in self._shutdowns.items():
            if identifier in offered and shutdown not in hub.on_stop:
                hub.on_stop.append(shutdown)
        self.ports.handshakes.join(hub)
        hub.on(ExtensionMessage, partial(_pass_on, hub))

    def replace(self, former: Engine) -> None:
        """Take the place of a former engine of the same server in the hub. From any thread."""
        hub, former.is_replaced = self.hub, True
        if hub.servers.get(former.name) is former:
            # At once, since streams without a server would be sent nothing.
            hub.servers[self.name] = self
            self.joined(hub)
            if self.name != former.name:
                del hub.servers[former.name]
        hub.on_tick = [tick for tick in hub.on_tick if tick not in former._ticks]
        hub.on_stop = [
            shutdown for shutdown in hub.on_stop if shutdown not in former._shutdowns.values()
        ]

    def may_receive(self, change: Change) -> Callable[[PushStream], bool] | None:
        """See `ChangePolicy.may_receive`."""
        return self._changes.may_receive(change)

    def announce_list(self, kind: ListKind) -> None:
        """Publish a change of what is registered, from any thread. Several at once are published once."""
        loop = self.hub.loop
        if loop is not None and loop.is_running() and kind not in self._changed_lists:
            self._changed_lists.add(kind)
            loop.call_soon_threadsafe(self._publish_list, kind)

    def _publish_list(self, kind: ListKind) -> None:
        self._changed_lists.discard(kind)
        self.hub.announce(Change(server=self.name, list=kind))

    def answer(self, exchange: Exchange) -> Coroutine[Any, Any, Reply]:
        """Return the reply to the content of one POST, or of one line.

        It raises only `CancelledError`, if the transport cancels since the client has disconnected.
        """
        return self._load_answer()(exchange)

    def _load_answer(self) -> Callable[[Exchange], Coroutine[Any, Any, Reply]]:
        """Return the function behind `answer`, for callers that store it."""
        return partial(_import_dispatch().dispatch, self)

    @cached_property
    def operations(self) -> Operations:
        """See `Services.operations`."""
        plain, instrument = _import_dispatch().OPERATIONS, self.ports.instrument
        if self.ports.shows_faults:
            from django_mcp.server.handlers.result_mistakes import watch_results

            plain = watch_results(plain)
        return plain if instrument is None else instrument.watch(plain)

    async def open_stream(self, exchange: Exchange) -> Reply:
        """Open the standalone stream of a session, or resume a broken stream; return at its end."""
        if not self.keeps_sessions:
            return self.refuse_method(exchange)
        return await self.ports.handshakes.open_stream(self, exchange)

    async def end_session(self, exchange: Exchange) -> Reply:
        """End the session that the exchange names."""
        if not self.keeps_sessions:
            return self.refuse_method(exchange)
        return await self.ports.handshakes.end_session(self, exchange)

    def within_middleware(
        self, step: Callable[[Exchange], Awaitable[Reply]], exchange: Exchange
    ) -> Awaitable[Reply]:
        """Return the reply of a step that is no answer, such as opening a stream, inside of middleware if there is any."""
        return step(exchange)

    @property
    def authenticate(self) -> Callable[[Exchange], Awaitable[Reply | None]] | None:
        """Called by a transport before it reads the body; None: everybody is anonymous.

        It sets the exchange's principal and returns None, or returns the refusal.
        """
        return None


TICK_LIMIT_S = 30.0
"""How long the regular work of an extension may take."""

SHUTDOWN_LIMIT_S = 2.0
"""How long an extension may take at the end of a process."""


def make_tick(engine: Engine, extension: Extension) -> Callable[[ServerHub], None]:
    """Return a function for the hub that starts the regular work of an extension, unless it still runs."""
    reference = weakref.ref(engine)
    trouble = OutageLog(f"The regular work of the extension {extension.identifier} fails")
    running: tuple[asyncio.AbstractEventLoop, asyncio.Task[None]] | None = None

    async def finish(work: Awaitable[None]) -> None:
        try:
            await asyncio.wait_for(work, TICK_LIMIT_S)
        except Exception as error:  # noqa: BLE001 - code of a third party; the next tick tries again
            trouble.failed(error)
        else:
            trouble.worked()

    def tick(hub: ServerHub) -> None:
        nonlocal running
        server = reference()
        # A task of another event loop, which has ended, is never done.
        is_running = running is not None and running[0] is hub.loop and not running[1].done()
        if server is None or hub.loop is None or is_running:
            return
        try:
            work = extension.tick(server)
        except Exception as error:  # noqa: BLE001 - code of a third party; the next tick tries again
            trouble.failed(error)
            return
        if work is not None:
            running = hub.loop, hub.spawn(finish(work))

    return tick


def make_shutdown(
    engine: Engine, extension: Extension
) -> Callable[[ServerHub], Coroutine[Any, Any, None]]:
    """Return a function for the hub that lets an extension prepare for the end of the process."""
    reference = weakref.ref(engine)

    async def shut_down(_hub: ServerHub) -> None:
        server = reference()
        if server is None:
            return
        try:
            await asyncio.wait_for(extension.shutdown(server), SHUTDOWN_LIMIT_S)
        except Exception:
            logger.exception("The extension %s failed in shutdown()", extension.identifier)

    return shut_down


def _pass_on(hub: ServerHub, message: ExtensionMessage) -> None:
    server = hub.servers.get(message.server)
    extension = None if server is None else server.extensions.get(message.extension)
    if extension is not None:
        extension.receive(server, message.data)


@cache
def _import_dispatch() -> ModuleType:
    """Import the dispatcher, which a process that only registers entries does not need."""
    from django_mcp.server import dispatch

    return dispatch


async def _may_read(call: Any, uri: str) -> bool:
    # Imports what runs handlers, which a process that only registers entries does not need.
    from django_mcp.server.methods.resources import authorize_read

    return await authorize_read(call, uri) is None
