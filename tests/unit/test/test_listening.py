"""Listen streams of the test clients."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.test import TestCase, override_settings

from django_mcp import MCPServer
from django_mcp.inprocess import MCPError
from django_mcp.protocol.revisions import REVISIONS
from django_mcp.server.streams.stream import Change
from django_mcp.test import AsyncMCPClient, MCPClient, MCPTestCase
from django_mcp.test.listening import AsyncListening
from example_project.shop.models import Product
from tests.support.databases import make_product
from tests.support.kit import make_server

NAMES = [revision.name for revision in REVISIONS]
SERVER = make_server()


def changed(server: MCPServer, **what: Any) -> int:
    return server.engine.hub.announce(Change(server=server.name, **what))


@pytest.fixture(params=NAMES)
def client(request: pytest.FixtureRequest) -> AsyncMCPClient:
    return AsyncMCPClient(make_server(), revision=request.param)


async def test_notifications_arrive_during_other_calls(client: AsyncMCPClient):
    async with client.listen("kit://1/page") as changes:
        changed(client.server, list="tools")
        assert (await changes.next())["method"] == "notifications/tools/list_changed"
        assert (await client.call("add", a=1)).text == "2"
        changed(client.server, uri="kit://2/page")
        changed(client.server, uri="kit://1/page")
        assert (await changes.next())["params"]["uri"] == "kit://1/page"

    assert len(changes.heard) == 2
    assert changed(client.server, list="tools") == 0


async def test_subscribing_to_resources_only_receives_their_updates(client: AsyncMCPClient):
    async with client.subscribe("kit://1/page") as changes:
        changed(client.server, list="tools")
        changed(client.server, uri="kit://1/page")

        async for change in changes:
            assert change["params"]["uri"] == "kit://1/page"
            break

        with pytest.raises(TimeoutError):
            await changes.next(timeout_s=0.01)


async def test_a_stream_that_cannot_open_raises_with_the_reason():
    server = make_server(max_streams=1)

    async with AsyncMCPClient(server).listen():
        with pytest.raises(MCPError, match="No further stream"):
            async with AsyncMCPClient(server).listen():
                pass
        with pytest.raises(MCPError, match="No further stream"):
            async with AsyncMCPClient(server, revision=NAMES[-2]).listen():
                pass


class InATestCase(MCPTestCase):
    mcp_server = SERVER

    async def test_an_asynchronous_test_listens(self) -> None:
        async with self.async_mcp.listen() as changes:
            await asyncio.sleep(0)
            changed(SERVER, list="prompts")
            assert (await changes.next())["method"] == "notifications/prompts/list_changed"


@pytest.fixture(params=NAMES)
def sync_client(request: pytest.FixtureRequest) -> MCPClient:
    return MCPClient(make_server(), revision=request.param)


def test_a_sync_client_gets_notifications_during_other_calls(sync_client: MCPClient):
    server = sync_client.server
    with sync_client.listen("kit://1/page") as changes:
        assert server.notify_list_changed("tools") == 1
        assert changes.next()["method"] == "notifications/tools/list_changed"
        assert sync_client.call("add", a=1).text == "2"
        assert sync_client.call("thread").text == threading.current_thread().name
        server.notify_resource_updated("kit://2/page")
        server.notify_resource_updated("kit://1/page")
        for change in changes:
            assert change["params"]["uri"] == "kit://1/page"
            break
        with pytest.raises(TimeoutError):
            changes.next(timeout_s=0.01)

    assert len(changes.heard) == 2
    # How many it reaches is unknown with a layer that other processes share.
    assert not server.notify_list_changed("tools")
    assert "mcp-test-loop" not in [each.name for each in threading.enumerate()]


def test_a_sync_client_can_subscribe_to_resources_only(sync_client: MCPClient):
    with sync_client.subscribe("kit://1/page") as changes:
        sync_client.server.notify_list_changed("tools")
        assert sync_client.server.notify_resource_updated("kit://1/page") == 1
        assert changes.next()["params"]["uri"] == "kit://1/page"


def test_several_synchronous_clients_listen_at_once():
    server = make_server()
    one, other = MCPClient(server), MCPClient(server, revision=NAMES[0])
    with one.listen() as first, other.listen() as second:
        assert server.notify_list_changed("prompts") == 2
        assert first.next()
        assert second.next()
        with other.listen("kit://1/page") as third:
            assert one.call("add", a=1).text == other.call("add", a=1).text
            assert server.notify_resource_updated("kit://1/page") == 1
            assert third.next()


def test_a_failed_listen_leaves_nothing_behind():
    server = make_server(max_streams=1)
    with MCPClient(server).listen():
        with pytest.raises(MCPError, match="No further stream"), MCPClient(server).listen():
            pass
        assert server.notify_list_changed("prompts") == 1
    with pytest.raises(RuntimeError, match="only inside its `with`"):
        MCPClient(server).listen().next()
    with MCPClient(server).listen() as changes:
        server.notify_list_changed("prompts")
        assert changes.next()


def test_only_one_thread_listens_at_a_time():
    server = make_server()
    failures: list[BaseException] = []

    def listen() -> None:
        try:
            with MCPClient(server).listen():
                pass
        except RuntimeError as error:
            failures.append(error)

    with MCPClient(server).listen():
        other = threading.Thread(target=listen)
        other.start()
        other.join()
        assert "Another thread" in str(failures)


@contextmanager
def _other_loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def _call_on(loop: asyncio.AbstractEventLoop, function: Callable[[], object]) -> None:
    async def call() -> None:
        function()

    asyncio.run_coroutine_threadsafe(call(), loop).result(20)


def test_streams_that_are_open_on_another_event_loop_stay_open() -> None:
    server = make_server()
    client = AsyncMCPClient(server)

    async def listen() -> AsyncListening:
        return await client.listen().__aenter__()

    with _other_loop() as loop:
        changes = asyncio.run_coroutine_threadsafe(listen(), loop).result(20)
        with MCPClient(server).listen():
            assert server.engine.hub.loop is loop
            assert len(server.engine.hub.streams) == 2
        asyncio.run_coroutine_threadsafe(changes.__aexit__(), loop).result(20)
        asyncio.run_coroutine_threadsafe(server.engine.hub.stop(), loop).result(20)


@pytest.mark.parametrize("store", ["memory", "model"])
class TestInATransaction:
    """These tests commit nothing: only the test's own connection sees the changes."""

    @pytest.fixture(autouse=True)
    def sessions(self, store: str, db: None) -> Iterator[None]:
        with override_settings(DJANGO_MCP={**settings.DJANGO_MCP, "SESSION_STORE": store}):
            yield

    @pytest.mark.parametrize("revision", NAMES)
    def test_notifications_sent_on_commit_arrive(self, revision: str) -> None:
        client = MCPClient(make_server(), revision=revision)

        @client.server.tool
        def restock() -> int:
            """Change a resource."""
            make_product("one", "default")
            client.server.notify_resource_updated("kit://1/page")
            return Product.objects.count()

        make_product("zero", "default")
        with client.subscribe("kit://1/page") as changes:
            with TestCase.captureOnCommitCallbacks(execute=True):
                assert client.call("restock").text == "2"
                assert changes.heard == []
            assert changes.next()["params"]["uri"] == "kit://1/page"

    @pytest.mark.parametrize("revision", NAMES)
    def test_an_uncommitted_change_is_explained(self, revision: str) -> None:
        client = MCPClient(make_server(), revision=revision)
        with client.subscribe("kit://1/page") as changes:
            client.server.notify_resource_updated("kit://1/page")
            with pytest.raises(TimeoutError, match="captureOnCommitCallbacks"):
                changes.next(timeout_s=0.01)

    def test_the_usual_limit_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with (
            MCPClient(make_server()).subscribe("kit://1/page") as changes,
            monkeypatch.context() as patch,
            pytest.raises(TimeoutError, match=r"0\.01 s"),
        ):
            patch.setattr("django_mcp.test.listening.LIMIT_S", 0.01)
            changes.next()

    def test_a_stream_that_has_nothing_to_wait_for_is_explained(self) -> None:
        with (
            pytest.raises(MCPError, match="nothing of what it is for"),
            MCPClient(MCPServer("empty", public=True), revision="2026-07-28").subscribe(),
        ):
            pass

    def test_a_uri_that_no_resource_matches_is_named(self) -> None:
        client = MCPClient(make_server())
        with (
            client.subscribe("kti://1/page") as changes,
            pytest.raises(TimeoutError, match="No resource of this server matches kti://1/page"),
        ):
            changes.next(timeout_s=0.01)

    @pytest.mark.parametrize("revision", NAMES)
    def test_updates_require_access_to_the_resource(self, revision: str) -> None:
        server = make_server()
        server.resource("kit://plan", name="plan", permission="shop.view_order")(lambda: "plan")
        users = get_user_model().objects
        clerk, visitor = users.create_user("clerk"), users.create_user("visitor")
        clerk.user_permissions.add(Permission.objects.get(codename="view_order"))
        theirs = MCPClient(server, user=clerk, revision=revision)
        others = MCPClient(server, user=visitor, revision=revision)
        uris = ("kit://plan", "kit://1/page")
        with theirs.subscribe(*uris) as seen, others.subscribe("kit://1/page") as unseen:
            with TestCase.captureOnCommitCallbacks(execute=True):
                for uri in uris:
                    server.notify_resource_updated(uri)
            assert {seen.next()["params"]["uri"] for _ in uris} == set(uris)
            assert unseen.next()["params"]["uri"] == "kit://1/page"

    def test_updates_arrive_after_a_task_under_wsgi(self) -> None:
        """Its event loop goes on, with the hub."""
        server = make_server()
        server.resource("kit://plan", name="plan", permission="shop.view_order")(lambda: "plan")
        clerk = get_user_model().objects.create_user("clerk")
        clerk.user_permissions.add(Permission.objects.get(codename="view_order"))

        with _other_loop() as loop:
            _call_on(loop, server.engine.join_hub)
            with MCPClient(server, user=clerk).subscribe("kit://plan") as changes:
                with TestCase.captureOnCommitCallbacks(execute=True):
                    server.notify_resource_updated("kit://plan")
                assert changes.next(20)["params"]["uri"] == "kit://plan"

    def test_other_calls_run_as_usual_while_listening(self) -> None:
        server = make_server()
        with MCPClient(server).listen() as changes:
            make_product("zero", "default")
            assert server.call_tool("count", {}).text == "1"
            assert MCPClient(server).call("count", add_one=True).text == "2"
            assert server.call_tool("thread", {}).text == threading.current_thread().name
            with TestCase.captureOnCommitCallbacks(execute=True):
                server.notify_list_changed("tools")
            assert changes.next()


class TestOfAnAsynchronousTest(MCPTestCase):
    mcp_server = SERVER

    async def test_the_listening_user_is_loaded_in_the_test_transaction(self) -> None:
        SERVER.resource("kit://plan", name="plan", permission="shop.view_order")(lambda: "plan")
        clerk = await get_user_model().objects.acreate_user("clerk")
        await clerk.user_permissions.aadd(await Permission.objects.aget(codename="view_order"))
        self.async_mcp.force_login(clerk)
        async with self.async_mcp.subscribe("kit://plan") as changes:
            await SERVER.anotify_resource_updated("kit://plan")
            assert (await changes.next())["params"]["uri"] == "kit://plan"

    def test_a_synchronous_test_listens(self) -> None:
        with self.mcp.listen() as changes:
            with self.captureOnCommitCallbacks(execute=True):
                SERVER.notify_list_changed("prompts")
            assert changes.next()["method"] == "notifications/prompts/list_changed"
