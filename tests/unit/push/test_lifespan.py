"""The ASGI lifespan, with applications that know it and some that do not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from channels.routing import ProtocolTypeRouter
from django.core.handlers.asgi import ASGIHandler

from django_mcp.asgi import django_mcp_application

SCOPE = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}}
LIMIT_S = 30.0


async def live(application: Any) -> list[str]:
    """Start and end a process; return what its server is told."""
    told: list[str] = []
    is_told = asyncio.Event()
    messages: asyncio.Queue[dict[str, str]] = asyncio.Queue()
    messages.put_nowait({"type": "lifespan.startup"})

    async def send(message: dict[str, str]) -> None:
        told.append(message["type"])
        is_told.set()

    async with asyncio.timeout(LIMIT_S):
        serving = asyncio.ensure_future(
            django_mcp_application(application)(SCOPE, messages.get, send)
        )
        telling = asyncio.ensure_future(is_told.wait())
        await asyncio.wait((serving, telling), return_when=asyncio.FIRST_COMPLETED)
        telling.cancel()
        messages.put_nowait({"type": "lifespan.shutdown"})
        await serving
    return told


class Knowing:
    """An application with a lifespan of its own.

    Attributes:
        answer: what it sends when it has heard of the start.
        heard: the messages that it was given.
    """

    def __init__(self, answer: str = "complete") -> None:
        self.answer = answer
        self.heard: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.heard.append((await receive())["type"])
        await send({"type": f"lifespan.startup.{self.answer}"})
        if self.answer == "complete":
            self.heard.append((await receive())["type"])
            await send({"type": "lifespan.shutdown.complete"})


async def ignore(scope: Any, receive: Any, send: Any) -> None:
    """Serve nothing."""


async def hear_and_ignore(scope: Any, receive: Any, send: Any) -> None:
    """Take the first message for that of a request."""
    await receive()


async def break_down(scope: Any, receive: Any, send: Any) -> None:
    await receive()
    raise RuntimeError("cannot start")


BOTH = ["lifespan.startup.complete", "lifespan.shutdown.complete"]


@pytest.mark.parametrize(
    "application",
    [ASGIHandler(), ProtocolTypeRouter({"http": ASGIHandler()}), ignore, hear_and_ignore],
    ids=["Django", "Channels", "one that returns", "one that returns after a message"],
)
async def test_a_server_is_answered_though_the_application_knows_no_lifespan(application: Any):
    assert await live(application) == BOTH


async def test_an_application_with_a_lifespan_hears_and_says_all_itself():
    application = Knowing()

    assert await live(application) == BOTH
    assert application.heard == ["lifespan.startup", "lifespan.shutdown"]


async def test_an_application_that_cannot_start_says_so():
    assert await live(Knowing("failed")) == ["lifespan.startup.failed"]
    with pytest.raises(RuntimeError, match="cannot start"):
        await live(break_down)
