"""The ASGI lifespan: the server tells that the process begins and ends, so that nothing queued is lost."""

from __future__ import annotations

import asyncio
from typing import Any

from django_mcp.execution.threads import run_in_pool
from django_mcp.log import logger
from django_mcp.process import finish
from django_mcp.push.process_hub import close_hub, process_hub

FINISH_S = 10.0
"""How long the end of a process waits until what is queued is written."""


class Lifespan:
    """The life of a process as its server tells of it.

    At its end, open streams end before the application is told of it, and what is queued is written after
    the application has ended.
    """

    def __init__(self, receive: Any, send: Any) -> None:
        self._receive = receive
        self._send = send
        self._is_asked = False
        self._has_started = False
        self._is_over = False

    async def serve(self, application: Any, scope: Any) -> None:
        """Have an application served, and speak for it if it does not know the lifespan, like Django's."""
        try:
            await application(scope, self._hear, self._tell)
        except Exception:
            # Django and Channels reject the scope at once. What fails later has failed to start or to end.
            if self._is_asked:
                raise
        if not self._is_asked:
            await self._hear()
        if not self._has_started:
            await self._tell({"type": "lifespan.startup.complete"})
        while not self._is_over:
            if (await self._hear())["type"] == "lifespan.shutdown":
                await self._tell({"type": "lifespan.shutdown.complete"})

    async def _hear(self) -> Any:
        message = await self._receive()
        self._is_asked = True
        if message["type"] == "lifespan.shutdown":
            await close_hub(process_hub())
        return message

    async def _tell(self, message: Any) -> None:
        kind = message["type"]
        self._has_started = True
        self._is_over = kind != "lifespan.startup.complete"
        if kind.startswith("lifespan.shutdown."):
            await _write_all()
        await self._send(message)


async def _write_all() -> None:
    try:
        async with asyncio.timeout(FINISH_S):
            await run_in_pool(finish)
    except Exception:
        logger.exception("Could not write all that was queued before the process ends")
