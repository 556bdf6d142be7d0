"""`manage.py mcp_stdio`: serve one client on standard input and output."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from django.core.management.base import CommandError, CommandParser

from django_mcp.auth.principal import Principal
from django_mcp.auth.recheck import recheck
from django_mcp.auth.users import find_users
from django_mcp.execution.threads import run_in_pool
from django_mcp.inprocess.call import principal_of
from django_mcp.management.base import (
    TOKEN_VARIABLE,
    SiteCommand,
    add_narrowing,
    add_pipe_user,
    add_server,
    find_pipe_user,
    get_server,
    read_narrowing,
    take_token,
)
from django_mcp.process import Expiring, Sharing, finish
from django_mcp.protocol.headers import Headers
from django_mcp.server.exchange.exchange import Exchange
from django_mcp.server.exchange.visibility import Narrowing
from django_mcp.servers import MCPServer
from django_mcp.transports.stdio.driver import FindPrincipal, Revoked, serve
from django_mcp.transports.stdio.pipes import take_pipes

FRESH_S = 0.9
"""How long a user or a token is not looked up again.

Less than `driver.RECHECK_S`, so that each recheck makes a new query.
"""

EXIT_S = 0.5
"""How long handlers' threads may run after the client has disconnected, and what is queued be written."""


class Command(SiteCommand):
    """Serve the client that started this process, on its standard input and output."""

    help = (
        "Serves one MCP client on standard input and output. Clients start it themselves; "
        "`mcp_config` prints what they need for that."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        add_server(parser)
        add_pipe_user(parser)
        add_narrowing(parser, "the client sees only")
        parser.add_argument(
            "--token",
            help=f"credentials as over HTTP, in place of --user; better in {TOKEN_VARIABLE}",
        )
        parser.add_argument(
            "--log-level",
            default="warning",
            help="lowest level of log messages on stderr (%(default)s)",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        server = get_server(options["server"])
        level = logging.getLevelName(str(options["log_level"]).upper())
        if not isinstance(level, int):
            raise CommandError(f"There is no log level {options['log_level']!r}.")
        username, token = options["user"], take_token(options["token"])
        if token is not None and username is not None:
            raise CommandError("Use --user or --token, not both.")
        find: FindPrincipal | None = None
        if username is not None:
            user = find_pipe_user(username, may_be_superuser=options["superuser"])
            find = _fresh(partial(_load_user, user))
        elif token is not None:
            find = _fresh(partial(_load_token, server, token))
        elif not server.engine.is_public:
            raise CommandError(
                f"The server {server.name!r} is not public: name the user with "
                f"--user, or give a token in {TOKEN_VARIABLE}."
            )
        reading, writing = take_pipes()
        sys.stdout = sys.stderr
        logger = logging.getLogger("django_mcp")
        logger.setLevel(level)
        if not logger.hasHandlers():
            logging.basicConfig(stream=sys.stderr)
        try:
            from uvloop import new_event_loop
        except ImportError:
            loop = asyncio.new_event_loop()
        else:
            loop = new_event_loop()
        try:
            # Not `asyncio.run`, which waits at the end for all tasks and threads.
            run = _run(server, reading, writing, find, read_narrowing(options))
            loop.run_until_complete(run)
        finally:
            # The process exits, with status 0, even if a handler's thread never ends.
            watchdog = threading.Timer(EXIT_S, _end_now)
            watchdog.daemon = True
            watchdog.start()
            loop.close()


async def _run(
    server: MCPServer,
    reading: int,
    writing: int,
    find: FindPrincipal | None,
    narrowing: Narrowing | None,
) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: loop.call_soon_threadsafe(stop.set))
    if find is not None:
        try:
            await find()
        except Revoked as error:
            raise CommandError(str(error)) from None
    await serve(
        server.engine, reading, writing, find_principal=find, stop=stop, narrowing=narrowing
    )


async def _load_user(user: Any) -> Principal:
    users = await run_in_pool(lambda: find_users([user.pk]))
    if user.pk not in users:
        raise Revoked(f"The user {user.get_username()!r} is not active any more.")
    principal: Principal = principal_of(users[user.pk])
    return principal


async def _load_token(server: MCPServer, token: str) -> Principal:
    authenticate = server.engine.authenticate
    exchange = Exchange(headers=Headers([(b"authorization", f"Bearer {token}".encode())]))
    refusal = None if authenticate is None else await authenticate(exchange)
    principal = exchange.caller.principal
    if refusal is not None or not isinstance(principal, Principal):
        raise Revoked("The token is not accepted.")
    # `authenticate` may return a cached result, two seconds old, which is the whole promise.
    if await recheck([principal]):
        raise Revoked("The token is not accepted any more.")
    return principal


def _fresh(load: Callable[[], Coroutine[Any, Any, Principal]]) -> FindPrincipal:
    """Return a function that looks the principal up at most once in `FRESH_S`."""
    lookups: Sharing[Principal] = Sharing()
    fresh: Expiring[Principal] = Expiring(1)

    async def find() -> Principal:
        principal = fresh.get("")
        if principal is None:
            principal = await lookups.ask("", load)
            fresh.set("", principal, FRESH_S)
        # Handlers that run at the same time do not share a user object.
        return principal.for_request()

    return find


def _end_now() -> None:
    writing = threading.Thread(target=finish, daemon=True)
    writing.start()
    writing.join(EXIT_S)
    with contextlib.suppress(Exception):
        logging.shutdown()
        sys.stderr.flush()
    os._exit(0)
