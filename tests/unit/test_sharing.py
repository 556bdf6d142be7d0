"""One shared database query for all concurrent calls of a busy session."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from typing import Any

import pytest
from django.test import override_settings

from django_mcp.models import Session as SessionRow
from django_mcp.process import Sharing
from tests.support.session_sites import Time, ToFirst, site


class CountingRouter(ToFirst):
    """Counts session lookups in their threads; writers and watchers have their own.

    Lookups use the database that is written to.
    """

    def __init__(self) -> None:
        self.asked = 0

    def db_for_write(self, model: type[Any], **_hints: Any) -> str:
        in_pool = threading.current_thread().name.startswith("django-mcp-own")
        self.asked += in_pool and model is SessionRow
        return "first"


@pytest.mark.usefixtures("databases")
async def test_concurrent_calls_refresh_a_stale_session_with_one_query():
    router, clock = CountingRouter(), Time()
    with override_settings(DATABASE_ROUTERS=[router], DJANGO_MCP={}):
        here = site("database", clock)
        token, session = await here.open()
        clock.now_s += 2
        router.asked = 0

        found = await asyncio.gather(*(here.store.find(token) for _ in range(20)))

        assert found == [session] * 20
        assert router.asked == 1

        clock.now_s += 2
        await here.store.find(token)
        assert router.asked == 2


async def test_a_cancelled_waiter_does_not_cancel_the_shared_query():
    release: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    sharing: Sharing[str] = Sharing()

    async def find() -> str:
        return await release

    first, second = (asyncio.create_task(sharing.ask("q", find)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait([first])
    release.set_result("answer")

    assert first.cancelled()
    assert await second == "answer"


async def test_a_failure_reaches_all_current_waiters_and_is_not_cached():
    answers = iter([ConnectionError("away"), None])
    sharing: Sharing[str] = Sharing()

    async def find() -> str:
        error = next(answers)
        await asyncio.sleep(0)
        if error is not None:
            raise error
        return "answer"

    failed = await asyncio.gather(
        *(sharing.ask("q", find) for _ in range(3)), return_exceptions=True
    )

    assert [type(each) for each in failed] == [ConnectionError] * 3
    assert await sharing.ask("q", find) == "answer"


async def test_different_queries_have_their_own_results():
    sharing: Sharing[str] = Sharing()

    async def find(answer: str) -> str:
        await asyncio.sleep(0)
        return answer

    asked = [sharing.ask(name, partial(find, name)) for name in ("a", "b")]

    assert await asyncio.gather(*asked) == ["a", "b"]
