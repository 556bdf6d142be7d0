"""A site whose router sends reads to a replica that lags: nothing of the package is read there."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from django_mcp.contrib.oauth import examination
from tests.live.sessions.test_tasks import ACCEPTED, modern
from tests.support import sites
from tests.support.backends import Backends
from tests.support.oauth.browser import SITE as SHOP
from tests.support.oauth.browser import arrive_or_tell, certificate
from tests.support.oauth.local_documents import CERTIFICATE
from tests.support.replica import copied
from tests.support.sessions.client import connected
from tests.support.sessions.cluster import SITE, Cluster, serving
from tests.support.wire import V2026_07_28, headers_for, message

__all__ = ["certificate"]

EVERYWHERE = "tests.support.site.everywhere"


def behind_a_replica(site: str, folder: Path) -> Backends:
    """Return a migrated database with a copy that nothing is written to any more."""
    file = folder / "primary.sqlite3"
    Backends(sqlite=file).manage(site, "migrate", "-v", "0")
    return Backends(sqlite=file, more=copied(file))


@pytest.fixture(scope="module", params=["model", "session_engine"])
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("replica")
    backends = behind_a_replica(SITE, folder)
    with serving(backends, folder, SESSION_DATA=request.param) as cluster:
        yield cluster
    assert "Traceback" not in cluster.logs()


async def test_a_session_and_its_data_are_found_in_another_process(cluster: Cluster):
    async with connected(cluster, user="ann") as client:
        kept = [await client.call("keep", at=at, text=str(at)) for at in (0, 1, 0)]
        ended = await client.send(None, verb="DELETE", at=1)

    assert kept == ["0", "0 1", "0 1 0"]
    assert ended.status_code == 204


async def test_a_subscription_and_a_question_are_found_in_another_process(cluster: Cluster):
    async with connected(cluster, user="ann") as client:
        async with client.listen(at=0) as standalone:
            await standalone.event()
            await client.ask("resources/subscribe", {"uri": "counter://a"}, at=0)
            await client.call("update", uri="counter://a", at=1)
            updated = await standalone.message()
        async with client.begin("ask_dataclass", at=0) as call:
            await client.respond(await call.message(), ACCEPTED, at=1)
            *_, answered = await call.rest()

    assert updated["params"]["uri"] == "counter://a"
    assert answered["result"]["content"][0]["text"] == "red"


async def test_a_stream_is_resumed_in_another_process(
    cluster: Cluster, request: pytest.FixtureRequest
):
    name = f"resumed {request.node.callspec.id}"
    async with connected(cluster, user="ann") as client:
        async with client.begin("hold", name=name, at=0) as call:
            primed = await call.event()
            await cluster.marked(f"{name} runs")
        async with client.listen(at=1, last_event_id=primed.id) as resumed:
            cluster.mark(f"{name} may go")
            rest = await resumed.rest()

    assert rest[-1]["result"]["content"][0]["text"] == f"{name} is done"


async def test_tasks_run_ask_and_end(cluster: Cluster):
    async with modern(cluster, "ann") as client:
        asked = await client.create("ask_job", at=0, name="x")
        done = [await client.create("job", at=number % 2, name="all") for number in range(6)]
        cluster.mark("all may go")
        task = await client.until(asked, "input_required", at=1)
        answers = dict.fromkeys(task["inputRequests"], ACCEPTED)
        await client.ask("tasks/update", at=1, taskId=asked, inputResponses=answers)
        ended = [await client.until(each, "completed", "failed", at=1) for each in (*done, asked)]

    assert {task["status"] for task in ended} == {"completed"}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, Backends]]:
    folder = tmp_path_factory.mktemp("guarded")
    backends = behind_a_replica(EVERYWHERE, folder)
    with serving(backends, folder, site=EVERYWHERE, count=1) as cluster:
        yield cluster, backends
    assert "Traceback" not in cluster.logs()


def test_new_credentials_are_accepted_at_once(guarded: tuple[Cluster, Backends]):
    cluster, backends = guarded
    made = subprocess.run(
        [sys.executable, "-m", f"{EVERYWHERE}.people", "ann"],
        env=sites.environment(EVERYWHERE, backends.environment()),
        cwd=sites.ROOT,
        capture_output=True,
        check=True,
        timeout=60,
    )
    found: dict[str, dict[str, str]] = json.loads(made.stdout)["ann"]
    browser = {"host": "localhost", "origin": "http://localhost", "x-csrftoken": "a" * 32}

    def ask(kind: str) -> int:
        request = message("tools/list", {}, revision=V2026_07_28)
        headers = {**headers_for(request, V2026_07_28), **found[kind], **browser}
        return httpx.post(cluster.url(), json=request, headers=headers, timeout=30).status_code

    assert {kind: ask(kind) for kind in ("key", "session", "token")} == {
        "key": 200,
        "session": 200,
        "token": 200,
    }


def test_a_client_registers_authorizes_refreshes_and_revokes(tmp_path: Path, certificate: Path):
    file = tmp_path / "primary.sqlite3"
    extra: dict[str, Any] = {"SHOP_DATABASE": str(file), CERTIFICATE: str(certificate)}
    subprocess.run(
        [sys.executable, "manage.py", "demo", "--prepare"],
        cwd=sites.ROOT,
        env=sites.environment(SHOP, extra),
        check=True,
        timeout=120,
    )
    extra = {**extra, **copied(file)}
    with sites.running(SHOP, "uvicorn", log=tmp_path / "log", extra=extra) as shop:
        findings = examination.run(shop.url, arrive_or_tell, clients=())

    assert [finding for finding in findings if not finding.ok] == []
    assert "A revoked token is refused." in [finding.text for finding in findings]
