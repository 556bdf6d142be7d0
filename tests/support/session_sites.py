"""Processes of a site with sessions, for tests of session stores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast
from uuid import uuid4

from django.test import override_settings

from django_mcp.known_servers import _servers, remember
from django_mcp.protocol.errors import Refusal
from django_mcp.protocol.revisions import REVISIONS
from django_mcp.server.exchange.caller import ANONYMOUS, Caller
from django_mcp.server.exchange.exchange import Exchange
from django_mcp.server.exchange.session import Closing, Session
from django_mcp.server.options import Options
from django_mcp.server.ports import SessionStore
from django_mcp.server.services import ServerHub
from django_mcp.server.streams.hub import Hub
from django_mcp.server.streams.messenger import LocalBus
from django_mcp.sessions.core.memory import MemorySessions
from django_mcp.sessions.site.store import DatabaseSessions
from tests.support.background import wait_for_ended_threads, wait_for_pools

V2025_11_25 = next(revision for revision in REVISIONS if revision.name == "2025-11-25")


class ToFirst:
    """Routes everything to a database that only these tests use."""

    def db_for_read(self, *_args: Any, **_hints: Any) -> str:
        return "first"

    db_for_write = db_for_read


@contextmanager
def in_first(**options: Any) -> Iterator[None]:
    """Keep the package's tables in `first` in a block, under these options of `DJANGO_MCP`.

    At its end the threads that write end first: one in the middle of a write would go on in the next
    database that a router leads to.
    """
    with override_settings(DATABASE_ROUTERS=[ToFirst()]):
        with override_settings(DJANGO_MCP=options):
            yield
            wait_for_pools()
        wait_for_ended_threads()


class Principal:
    is_authenticated = True
    user = None

    def __init__(self, key: str) -> None:
        self.key = key


class Site:
    """A process of a site: its hub, its store, its ended sessions, and its own clock."""

    name = given_name = "shop"

    def __init__(self, kind: str, options: Options, clock: Callable[[], float]) -> None:
        self.hub: ServerHub = Hub(LocalBus())
        self.options = options
        self.closed: list[tuple[str, str | None, Closing]] = []
        self.store: SessionStore

        def closed(session: Session, reason: Closing) -> None:
            self.session_closed(session, reason.value)

        if kind == "memory":
            self.store = MemorySessions(self.hub, lambda: self.options, clock, closed)
        else:
            self.engine = server = cast("Any", self)
            self.ports = server
            self.store = DatabaseSessions(self.hub, options, clock)
            # The store finds whom to notify by the name of the session's server.
            self.connection_observer = self
            remember(server)

    def forget_settings(self) -> None:
        """Keep the options, which come from no settings."""

    def session_closed(self, session: Session, reason: str) -> None:
        """See `ConnectionObserver`."""
        self.closed.append((session.key, session.principal_key, Closing(reason)))

    async def tick(self) -> None:
        """Run the periodic work of a hub."""
        for recheck in (*self.hub.on_tick, *(store.recheck for store in self.hub.stores)):
            done = recheck(self.hub)
            if done is not None:
                await done

    async def open(
        self, principal: Any = ANONYMOUS, *, address: str | None = None, **settled: Any
    ) -> tuple[str, Session]:
        token, session = await self.try_to_open(principal, address, **settled)
        assert isinstance(token, str)
        return token, session

    async def try_to_open(
        self, principal: Any = ANONYMOUS, address: str | None = None, **settled: Any
    ) -> tuple[str | Refusal, Session]:
        session = Session(
            key=uuid4().hex,
            server_name="shop",
            principal_key=principal.key,
            revision=V2025_11_25,
            **settled,
        )
        exchange = Exchange(caller=Caller(principal=principal, address=address))
        return await self.store.open(session, exchange), session


class Time:
    """A clock that is set by hand; starts at 2026-01-01."""

    now_s = 1_767_225_600.0

    def __call__(self) -> float:
        return self.now_s


def forget_sites() -> None:
    """Take the sites of a test from the servers of the process: they have not all that a server has."""
    for each in list(_servers):
        if isinstance(each, Site):
            del _servers[each]


def site(kind: str, clock: Time, **options: Any) -> Site:
    return Site(kind, Options(name="shop", **options), clock)
