"""Lost access: open streams and calls end, lists change, and other users notice nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import Group, Permission, User
from django.db import transaction
from django.test import Client, override_settings
from django.urls import reverse
from django.utils import timezone

from django_mcp import Context, Extension, Listening, MCPServer
from django_mcp.auth.authenticator import Authenticator
from django_mcp.auth.authenticators import APIKeyAuthenticator
from django_mcp.auth.permissions import GrantWatch
from django_mcp.auth.principal import Principal, make_key
from django_mcp.execution.outages import Warner
from django_mcp.inprocess import MCPError
from django_mcp.models import APIKey
from django_mcp.protocol.meta import SUBSCRIPTION_ID
from django_mcp.push.process_hub import process_hub
from django_mcp.push.upkeep import check_all
from django_mcp.server.streams.messenger import LocalBus
from django_mcp.test import AsyncMCPClient
from tests.support.auth.asking import admit, bearer, refuse
from tests.support.wire import V2025_11_25, V2026_07_28, WireClient

pytestmark = pytest.mark.django_db(transaction=True)
REVISIONS = pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
LISTED = {f"notifications/{name}/list_changed" for name in ("tools", "prompts", "resources")}


@pytest.fixture(autouse=True)
def memory() -> Iterator[None]:
    # One thread, since one database in memory locks its tables against another.
    with override_settings(DJANGO_MCP={"SESSION_STORE": "memory", "SYNC_THREADS": 0}):
        yield


class Started:
    """Records that a handler runs, and how it ended."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.ended: list[str] = []


def make_server(started: Started | None = None) -> MCPServer:
    server = MCPServer("revoking", authenticators=[APIKeyAuthenticator()])

    @server.tool(permission="shop.view_order")
    def hidden() -> str:
        return "seen"

    @server.tool
    async def wait(ctx: Context) -> str:
        assert started is not None
        started.began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            started.ended.append(f"cancelled {ctx.is_cancelled}")
            raise
        return ""

    server.resource("x://1", name="x")(lambda: "x")
    return server


@sync_to_async
def issue(name: str) -> tuple[User, APIKey, str]:
    user, _ = User.objects.get_or_create(username=name)
    key, text = APIKey.objects.issue(user=user, name="test")
    return user, key, text


def client_of(server: MCPServer, text: str, revision: str) -> AsyncMCPClient:
    headers = {"Authorization": f"Bearer {text}"}
    return AsyncMCPClient(server, revision=revision, headers=headers)


async def revoke_key(user: User, key: APIKey) -> None:
    await sync_to_async(APIKey.objects.filter(pk=key.pk).update)(revoked_at=key.created_at)


async def expire_key(user: User, key: APIKey) -> None:
    await sync_to_async(APIKey.objects.filter(pk=key.pk).update)(expires_at=key.created_at)


async def deactivate(user: User, key: APIKey) -> None:
    await sync_to_async(User.objects.filter(pk=user.pk).update)(is_active=False)


async def delete(user: User, key: APIKey) -> None:
    await sync_to_async(user.delete)()


ENDS = pytest.mark.parametrize("end", [revoke_key, expire_key, deactivate, delete])


@REVISIONS
@ENDS
async def test_streams_and_calls_end_when_credentials_are_revoked(revision: str, end: Any) -> None:
    started = Started()
    server = make_server(started)
    user, key, text = await issue("ann")
    _, _, others = await issue("bob")
    theirs, other = client_of(server, text, revision), client_of(server, others, revision)

    async with other.listen() as stays, theirs.listen() as goes:
        call = asyncio.create_task(theirs.call("wait"))
        await started.began.wait()
        await end(user, key)
        await check_all(process_hub())

        with pytest.raises(Exception, match="ancel"):
            await asyncio.wait_for(call, 5)
        assert started.ended == ["cancelled True"]
        ended = await asyncio.wait_for(goes._task, 5)  # type: ignore[arg-type]
        if revision == "2026-07-28":
            # A listener's stream ends as all do that the server ends.
            result = ended.messages[-1]["result"]
            assert result["resultType"] == "complete"
            assert SUBSCRIPTION_ID in result["_meta"]
        await server.anotify_list_changed("tools")
        assert (await stays.next())["method"] == "notifications/tools/list_changed"


def revoke_in_the_list(key: APIKey) -> None:
    browser = Client()
    browser.force_login(User.objects.create_superuser("root"))
    chosen = {"action": "revoke", "_selected_action": [key.pk], "confirmed": "1"}
    browser.post(reverse("admin:django_mcp_apikey_changelist"), chosen)


def revoke_and_save(key: APIKey) -> None:
    key.revoked_at = timezone.now()
    key.save()


TELLING = pytest.mark.parametrize("end", [revoke_in_the_list, revoke_and_save, APIKey.delete])


@TELLING
def test_a_recently_used_key_is_rejected_immediately_after_revocation(end: Any) -> None:
    server = make_server()
    key, text = APIKey.objects.issue(user=User.objects.create(username="ann"), name="k")
    admit(server, bearer(text))
    end(key)

    assert refuse(server, bearer(text)).status == 401


@TELLING
async def test_revoking_a_key_notifies_all_processes(end: Any, monkeypatch: Any) -> None:
    told = asyncio.Queue[Any]()
    server, hub = make_server(), process_hub()
    user, key, text = await issue("ann")
    async with client_of(server, text, V2026_07_28.name).listen():
        monkeypatch.setattr(hub, "bus", Heard(told))
        await sync_to_async(end)(key)
        message = await asyncio.wait_for(told.get(), 5)

    _, _, other = await issue("bob")
    prefix = other.split("_")[1]
    # As it arrives in another process, without any signal.
    async with client_of(server, other, V2026_07_28.name).listen() as goes:
        await revoke_key(user, await APIKey.objects.aget(prefix=prefix))
        hub.receive({**message, "names": [f"mcp_{prefix}"]})
        assert (await sync_to_async(refuse)(server, bearer(other))).status == 401
        await asyncio.wait_for(goes._task, 5)  # type: ignore[arg-type]
    # What was told has tables read, which must not go on while they are emptied.
    while process_hub()._tasks:
        await asyncio.wait(process_hub()._tasks, timeout=5)


class Heard(LocalBus):
    """A bus to other processes that records its messages."""

    is_shared = True

    def __init__(self, told: asyncio.Queue[Any]) -> None:
        self._told = told

    async def send(self, *messages: Any) -> None:
        for message in messages:
            if message["kind"] == "keys":
                await self._told.put(message)


async def test_revoking_one_credential_keeps_the_others_open() -> None:
    class Tokens(Authenticator):
        kind = "tokens"

        async def find_ended(self, principals: Any, **_options: Any) -> set[Principal]:
            return {each for each in principals if each.handle == "old"}

    source = Tokens()

    class Stream:
        def __init__(self, handle: str) -> None:
            key = make_key("tokens", 1, "client")
            self.principal = Principal(key=key, source=source, handle=handle)

    from django_mcp.auth.recheck import recheck

    streams = [Stream("old"), Stream("new")]

    assert await recheck(each.principal for each in streams) == {streams[0].principal}


async def test_credentials_end_even_if_others_cannot_be_checked(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("django_mcp.auth.recheck._trouble", Warner())

    class Away(Authenticator):
        kind = "away"

        async def find_ended(self, principals: Any, **_options: Any) -> set[Principal]:
            raise ConnectionError("away")

    class Tokens(Authenticator):
        kind = "tokens"

        async def find_ended(self, principals: Any, **_options: Any) -> set[Principal]:
            return {each for each in principals if each.handle == "old"}

    from django_mcp.auth.recheck import recheck

    away, old, new = (
        Principal(key=make_key(source.kind, 1, handle), source=source, handle=handle)
        for source, handle in ((Away(), "x"), (Tokens(), "old"), (Tokens(), "new"))
    )

    assert await recheck([away, old, new]) == {old}
    assert "Could not check whether credentials still hold: ConnectionError('away')" in caplog.text
    with pytest.raises(ConnectionError):
        await recheck([away, new])


@sync_to_async
def grant(user: User) -> None:
    with transaction.atomic():
        for codename in ("view_order", "change_order", "add_order"):
            user.user_permissions.add(Permission.objects.get(codename=codename))


@sync_to_async
def grant_to_group(user: User) -> None:
    group = Group.objects.create(name="clerks")
    user.groups.add(group)
    group.permissions.add(Permission.objects.get(codename="view_order"))


@sync_to_async
def grant_in_vain(user: User) -> None:
    with transaction.atomic():
        user.user_permissions.add(Permission.objects.get(codename="view_order"))
        transaction.set_rollback(True)


@REVISIONS
async def test_a_granted_permission_notifies_the_affected_users(revision: str) -> None:
    server = make_server()
    ann, _, anns = await issue("ann")
    _, _, bobs = await issue("bob")
    theirs, other = client_of(server, anns, revision), client_of(server, bobs, revision)

    async with theirs.listen() as listening, other.listen() as unconcerned:
        assert "hidden" not in {tool["name"] for tool in await theirs.list_tools()}
        await grant(ann)
        assert {(await listening.next())["method"] for _ in range(2)} <= LISTED
        assert "hidden" in {tool["name"] for tool in await theirs.list_tools()}
        await server.anotify("notifications/none")
        await server.anotify_list_changed("tools")
        await listening.next()
        await unconcerned.next()

    # Three permissions of one transaction are one change, and none of the other's.
    assert len(unconcerned.heard) == 1
    assert len(listening.heard) == 3


@REVISIONS
async def test_a_group_permission_change_notifies_everybody(revision: str) -> None:
    server = make_server()
    ann, _, anns = await issue("ann")
    theirs = client_of(server, anns, revision)

    async with theirs.listen() as listening:
        await grant_to_group(ann)
        assert (await listening.next())["method"] in LISTED
        assert "hidden" in {tool["name"] for tool in await theirs.list_tools()}


async def test_a_rolled_back_change_sends_no_notification() -> None:
    server = make_server()
    ann, _, anns = await issue("ann")
    theirs = client_of(server, anns, "2026-07-28")

    async with theirs.listen() as listening:
        await grant_in_vain(ann)
        assert "hidden" not in {tool["name"] for tool in await theirs.list_tools()}
        await server.anotify_list_changed("resources")
        assert (await listening.next())["method"] == "notifications/resources/list_changed"


# -- changes without a signal


def change(user: User, **fields: Any) -> Any:
    """Change a user as another program would."""
    return User.objects.filter(pk=user.pk).aupdate(**fields)


@REVISIONS
async def test_a_stream_stays_open_when_its_user_loses_a_resource(revision: str) -> None:
    server = make_server()
    server.resource("stock://{sku}", name="stock")(lambda sku: sku)
    server.resource("secret://{sku}", name="secret", permission="shop.view_order")(lambda sku: sku)
    ann, _, anns = await issue("ann")
    await change(ann, is_superuser=True)
    theirs = client_of(server, anns, revision)

    async def updated(listening: Any) -> str:
        while True:
            message = await listening.next()
            if message["method"] not in LISTED:
                return str(message["params"]["uri"])

    async with theirs.listen("stock://a", "secret://a") as listening:
        for is_superuser in (True, False, True):
            await change(ann, is_superuser=is_superuser)
            await check_all(process_hub())
            # Sent in the order of these, but that a permission is checked in between.
            await server.anotify_resource_updated("secret://a")
            if is_superuser:
                assert await updated(listening) == "secret://a"
            await server.anotify_resource_updated("stock://a")
            assert await updated(listening) == "stock://a"
        assert not listening._task.done()  # type: ignore[union-attr]
    # A client that comes back finds the session, and what it has subscribed to, as it was.
    async with theirs.listen("stock://a") as listening:
        await server.anotify_resource_updated("stock://a")
        assert await updated(listening) == "stock://a"


async def test_what_a_user_never_had_does_not_differ_from_a_missing_resource() -> None:
    server = make_server()
    server.resource("stock://{sku}", name="stock")(lambda sku: sku)
    server.resource("secret://{sku}", name="secret", permission="shop.view_order")(lambda sku: sku)
    _, _, anns = await issue("ann")

    async with client_of(server, anns, "2026-07-28").listen(
        "stock://a", "secret://a", "nope://a"
    ) as listening:
        for _ in range(2):
            await check_all(process_hub())
            for uri in ("secret://a", "nope://a", "stock://a"):
                await server.anotify_resource_updated(uri)
            assert (await listening.next())["params"]["uri"] == "stock://a"


class Prices(Extension):
    identifier = "com.example/prices"
    listen_keys = ("pricesListChanged",)
    permission = staticmethod(lambda user: user.is_staff)
    watching = 0

    def is_active(self, call: Any) -> bool:
        return True

    async def listen(self, call: Any, key: str, wanted: Any) -> Listening:
        async def watch(stream: Any) -> None:
            Prices.watching += 1
            try:
                stream.offer(stream.encode("notifications/tools/list_changed", {}))
                await asyncio.Event().wait()
            finally:
                Prices.watching -= 1

        return Listening(acknowledged=True, watch=watch)


async def test_an_extension_stops_beside_a_stream_while_its_user_may_not_use_it() -> None:
    server = MCPServer("selling", authenticators=[APIKeyAuthenticator()], extensions=[Prices])
    ann, _, anns = await issue("ann")
    await change(ann, is_staff=True)

    # "tools" is what the client of the test understands; the server has no tools.
    async with client_of(server, anns, "2026-07-28").listen(lists=("prices", "tools")) as listening:
        for is_staff in (True, False, True):
            await change(ann, is_staff=is_staff)
            await check_all(process_hub())
            if is_staff:
                await listening.next()
            else:
                await asyncio.sleep(0)
            assert Prices.watching == is_staff
            assert not listening._task.done()  # type: ignore[union-attr]
    assert Prices.watching == 0


@sync_to_async
def close_shop(user: User) -> None:
    Group.objects.filter(name="open").update(name="closed")


async def dismiss(user: User) -> None:
    await change(user, is_staff=False)


@pytest.mark.parametrize(
    ("permission", "end"),
    [
        (lambda user: user.is_staff, dismiss),
        (lambda user: Group.objects.filter(name="open").exists(), close_shop),
    ],
    ids=["over the user", "over something else"],
)
async def test_a_call_ends_when_a_permission_function_denies(permission: Any, end: Any) -> None:
    started = Started()
    server = make_server(started)
    wait = server.registry.tools["wait"].handler.origin
    server.register_tool(wait, name="wait_staff", permission=permission)
    await Group.objects.acreate(name="open")
    ann, _, anns = await issue("ann")
    await change(ann, is_staff=True)

    call = asyncio.create_task(client_of(server, anns, "2026-07-28").call("wait_staff"))
    await started.began.wait()
    for _ in range(2):
        await check_all(process_hub())
        assert not started.ended
    await end(ann)
    await check_all(process_hub())

    with pytest.raises(Exception, match="ancel"):
        await asyncio.wait_for(call, 5)
    assert started.ended == ["cancelled True"]


@REVISIONS
async def test_list_changes_are_sent_without_a_signal(revision: str) -> None:
    server = make_server()
    ann, _, anns = await issue("ann")
    _, _, bobs = await issue("bob")
    theirs, other = client_of(server, anns, revision), client_of(server, bobs, revision)

    async with theirs.listen(lists=["tools"]) as listening, other.listen() as unconcerned:
        for is_superuser in (True, False):
            await change(ann, is_superuser=is_superuser)
            await check_all(process_hub())
            assert (await listening.next())["method"] == "notifications/tools/list_changed"
        await server.anotify_list_changed("tools")
        await unconcerned.next()

    assert len(unconcerned.heard) == 1


async def test_deleting_a_group_affects_its_members() -> None:
    server = make_server()
    ann, _, anns = await issue("ann")
    _, _, bobs = await issue("bob")
    await grant_to_group(ann)
    theirs, other = (client_of(server, text, "2026-07-28") for text in (anns, bobs))

    async with theirs.listen() as listening, other.listen() as unconcerned:
        await Group.objects.all().adelete()
        assert (await listening.next())["method"] in LISTED
        await server.anotify_list_changed("tools")
        await unconcerned.next()

    assert len(unconcerned.heard) == 1


async def test_a_failed_recheck_is_repeated() -> None:
    user, _, _ = await issue("ann")
    ann, watch = Principal(key="ann", user=user), GrantWatch()
    await grant(user)

    found = await watch.find_changed({ann: ()})
    assert list(found) == [ann]
    # The check may have failed.
    assert await watch.find_changed({ann: ()}) == found

    watch.settle(ann, found[ann])
    assert await watch.find_changed({ann: ()}) == {}
    await sync_to_async(user.user_permissions.clear)()
    assert list(await watch.find_changed({ann: ()})) == [ann]


async def test_a_deactivated_user_is_not_reported_as_changed() -> None:
    """They would get list changes just before the next recheck ends their streams."""
    user, _, _ = await issue("ann")
    ann, watch = Principal(key="ann", user=user), GrantWatch()
    watch.settle(ann, (await watch.find_changed({ann: ()}))[ann])

    await type(user).objects.filter(pk=user.pk).aupdate(is_active=False)

    assert await watch.find_changed({ann: ()}) == {}


# -- limits per principal


@REVISIONS
async def test_streams_are_counted_by_principal(revision: str) -> None:
    server = MCPServer(
        "capped", authenticators=[APIKeyAuthenticator()], max_streams_per_principal=1
    )
    server.tool(name="t")(lambda: "")
    _, _, anns = await issue("ann")
    _, _, bobs = await issue("bob")
    first, second = client_of(server, anns, revision), client_of(server, anns, revision)

    async with first.listen():
        with pytest.raises(MCPError) as refused:
            async with second.listen():
                pass
        assert refused.value.status == 429
        async with client_of(server, bobs, revision).listen():
            pass
    async with second.listen():
        pass


async def test_sessions_are_counted_by_principal() -> None:
    server = MCPServer("capped", public=True, max_sessions_per_principal=1)
    server.tool(name="t")(lambda: "")
    ann, bob = (Principal(key=f"named:{name}", user=User(username=name)) for name in "ab")
    first, second, other = (
        WireClient(server, V2025_11_25, principal=each) for each in (ann, ann, bob)
    )
    for client in (first, other, second):
        await client.open()

    # A principal's newest replaces their own oldest, and nobody else's.
    assert (await first.send("tools/list"))[0] == 404
    assert (await second.send("tools/list"))[0] == 200
    assert (await other.send("tools/list"))[0] == 200
