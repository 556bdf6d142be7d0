"""Many changes at once, over a Redis that is as far away as one on another machine."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from tests.live.push.test_processes import LAYERS, PrivateRedis, Site, two_processes
from tests.support.backends import require
from tests.support.push.clients import Listener, call, listening
from tests.support.push.proxy import delaying

COUNT = 3000
MINE = range(0, COUNT, 10)
DELAY_S = 0.001

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@pytest.fixture(scope="module", params=sorted(LAYERS))
def site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    require(shutil.which("redis-server"), "there is no redis-server to start")
    folder = tmp_path_factory.mktemp("bursts")
    redis = PrivateRedis(folder)
    redis.start()
    try:
        with delaying("127.0.0.1", redis.port, DELAY_S) as port:
            url, layer = f"redis://127.0.0.1:{port}", LAYERS[request.param]
            with two_processes(folder, TEST_REDIS_URL=url, TEST_LAYER=layer) as (one, two, extra):
                yield Site(first=one, second=two, extra=extra, redis=redis)
    finally:
        redis.stop()


async def receive_all(listener: Listener) -> set[str]:
    wanted = {f"stock://{number}" for number in MINE}
    received: set[str] = set()
    while not received >= wanted:
        found = await listener.next()
        assert found is not None, "the stream was closed"
        assert found["method"] == "notifications/resources/updated"
        received.add(found["params"]["uri"])
    return received - wanted


@pytest.mark.parametrize("tool", ["change_many", "change_many_from_a_thread"])
async def test_listeners_receive_every_change_of_a_burst_in_both_processes(site: Site, tool: str):
    uris = [f"stock://{number}" for number in MINE]
    async with listening(site.first, *uris) as near, listening(site.second, *uris) as far:
        await call(site.first, tool, count=COUNT)

        assert await receive_all(near) == set()
        assert await receive_all(far) == set()
