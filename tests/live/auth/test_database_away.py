"""An outage of the accounts' database, closed or silent: clear errors, no pile-up, and recovery."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support import sites
from tests.support.backends import Backends, own_postgres
from tests.support.sessions.cluster import Cluster, serving
from tests.support.sessions.proxy import Proxy, proxied
from tests.support.site.everywhere.people import CSRF
from tests.support.wire import V2026_07_28, headers_for, message

SITE = "tests.support.site.everywhere"
LIMIT_S = 30.0
HEALED_S = 5.0
CROWD = 40


@pytest.fixture(scope="module")
def backends(postgres: tuple[str, int]) -> Iterator[Backends]:
    with own_postgres("away", SITE) as name:
        yield Backends(postgres=name)


@pytest.fixture(scope="module")
def credentials(backends: Backends) -> Mapping[str, Any]:
    """The credentials of one user, by kind."""
    made = subprocess.run(
        [sys.executable, "-m", f"{SITE}.people", "ann"],
        env=sites.environment(SITE, backends.environment()),
        cwd=sites.ROOT,
        capture_output=True,
        check=True,
    )
    found: Mapping[str, Any] = json.loads(made.stdout)["ann"]
    browser = {"host": "localhost", "origin": "http://localhost", "x-csrftoken": CSRF}
    return {kind: {**headers, **browser} for kind, headers in found.items()}


@pytest.fixture
def proxy(postgres: tuple[str, int]) -> Iterator[Proxy]:
    with proxied(*postgres) as found:
        yield found


@pytest.fixture
def site(backends: Backends, proxy: Proxy, tmp_path: Path) -> Iterator[Cluster]:
    more = {"PGHOST": "127.0.0.1", "PGPORT": str(proxy.port)}
    away = Backends(postgres=backends.postgres, more=more)
    with serving(away, tmp_path, site=SITE, count=1) as found:
        yield found
    assert "Traceback" not in found.logs()


@pytest.mark.services
@pytest.mark.parametrize("how", ["cut", "freeze"])
async def test_credentials_that_cannot_be_looked_up_get_503(
    site: Cluster, proxy: Proxy, credentials: Mapping[str, Any], how: str
) -> None:
    async with httpx.AsyncClient(timeout=LIMIT_S) as http:

        async def ask(kind: str) -> httpx.Response:
            request = message("tools/list", {}, revision=V2026_07_28)
            headers = {**headers_for(request, V2026_07_28), **credentials[kind]}
            return await http.post(site.url(), json=request, headers=headers)

        before = [(await ask(kind)).status_code for kind in credentials]
        getattr(proxy, how)()
        async with asyncio.timeout(LIMIT_S):
            for kind in credentials:
                # A process caches the verdict on credentials for a moment.
                while (refused := await ask(kind)).status_code == 200:  # noqa: ASYNC110
                    await asyncio.sleep(0.2)
                assert (refused.status_code, refused.headers.get("retry-after")) == (503, "2")
            crowd = await asyncio.gather(*(ask([*credentials][n % 4]) for n in range(CROWD)))
        proxy.heal()
        async with asyncio.timeout(HEALED_S):
            for kind in credentials:
                while (await ask(kind)).status_code != 200:  # noqa: ASYNC110
                    await asyncio.sleep(0.1)

    assert set(before) == {200}
    assert {answer.status_code for answer in crowd} == {503}
    # Each kind logs once that its database is gone, and once that it is back.
    assert site.logs().count("does not answer") <= 2 * len(credentials)
