"""Looking for the web server of an event loop."""

from __future__ import annotations

import asyncio
import weakref

import uvicorn

from django_mcp.push.web_servers import find_ending


class Value:
    pass


async def test_looking_for_the_server_keeps_no_variable_of_another_coroutine():
    value = Value()
    seen = weakref.ref(value)
    found = find_ending()
    del value

    assert found is None
    assert seen() is None


async def test_a_uvicorn_server_is_asked_whether_it_ends():
    async def app(_scope: object, _receive: object, _send: object) -> None:
        return None

    server = uvicorn.Server(uvicorn.Config(app, port=0, lifespan="off", log_config=None))
    serving = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110
        await asyncio.sleep(0)
    is_ending = find_ending()

    assert is_ending is not None
    assert not is_ending()
    server.should_exit = True
    assert is_ending()
    await serving
