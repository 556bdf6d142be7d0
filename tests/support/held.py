"""Block the threads of a pool, and release them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from django_mcp.auth.principal import Principal
from django_mcp.servers import MCPServer
from tests.support.wire import V2026_07_28, WireClient

LIMIT_S = 10.0


class Holder:
    """A server whose tool `hold` keeps its thread until it is released."""

    def __init__(self, name: str, **options: Any) -> None:
        self.server = MCPServer(name, atomic=False, **options)
        self._begun = threading.Semaphore(0)
        self._may_go = threading.Semaphore(0)
        self.server.tool(self.hold)

    def hold(self) -> str:
        self._begun.release()
        self._may_go.acquire(timeout=LIMIT_S)
        return "held"

    def client(self, name: str = "ann") -> WireClient:
        return WireClient(self.server, V2026_07_28, principal=Principal(key=name))

    def let_go(self, count: int = 100) -> None:
        """Release so many threads, those that are held later included."""
        self._may_go.release(count)

    @asynccontextmanager
    async def holding(self, count: int, name: str = "ann") -> AsyncIterator[None]:
        """Keep so many threads busy for one principal while the block runs."""
        calls = [asyncio.create_task(self.client(name).call("hold")) for _ in range(count)]
        try:
            for _ in range(count):
                assert await asyncio.to_thread(self._begun.acquire, timeout=LIMIT_S)
            yield
        finally:
            self.let_go()
            await asyncio.gather(*calls)
