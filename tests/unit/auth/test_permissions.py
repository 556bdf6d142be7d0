"""Django permissions decide visibility; changes apply; cached permissions are not shared."""

from __future__ import annotations

import asyncio
import sys
import threading
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import AnonymousUser, Group, Permission, User
from django.db import transaction
from django.test import TestCase

from django_mcp import MCPServer, signed_in
from django_mcp.auth.access import MAX_AGE_S, DjangoAccess, permissions_changed
from django_mcp.auth.authenticators import APIKeyAuthenticator
from django_mcp.auth.permissions import find_near_permission
from django_mcp.auth.principal import AuthInfo, Principal, make_key
from django_mcp.inprocess import MCPError
from django_mcp.models import APIKey
from django_mcp.protocol.results import CacheHint
from django_mcp.registry.problems import RegistrationError
from django_mcp.server.exchange.caller import ANONYMOUS, Caller
from django_mcp.server.exchange.exchange import Exchange
from django_mcp.test import MCPClient
from tests.support.ports import use_ports
from tests.support.wire import V2026_07_28, WireClient

pytestmark = pytest.mark.django_db(transaction=True)


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def server(clock: Clock) -> MCPServer:
    server = MCPServer("permitted", public=True)
    use_ports(server, access=DjangoAccess(clock))

    @server.tool(permission="shop.view_order")
    def view() -> str:
        return "viewed"

    @server.tool(permission=["shop.view_order", "shop.change_order"])
    def change() -> str:
        return "changed"

    @server.tool(permission=lambda user: user.is_staff)
    def staff() -> str:
        return "staffed"

    @server.tool
    def free() -> str:
        return "free"

    return server


def test_a_tool_may_be_for_whoever_is_signed_in():
    server = MCPServer("for users", public=True, permission=signed_in)
    server.tool(name="mine")(lambda: "")
    server.tool(name="ours", permission=())(lambda: "")
    server.tool(name="listed", permission=(), listed_if=signed_in)(lambda: "")
    gone = make_user("gone", is_active=False)

    def names(user: Any) -> list[str]:
        return [tool["name"] for tool in MCPClient(server, user=user).list_tools()]

    assert names(make_user("ann")) == ["mine", "ours", "listed"]
    assert names(None) == names(gone) == ["ours"]
    assert not signed_in(object())


def grant(user: User, *codenames: str) -> None:
    for codename in codenames:
        user.user_permissions.add(Permission.objects.get(codename=codename))


def make_user(name: str, *codenames: str, **more: Any) -> User:
    user = User.objects.create_user(name, **more)
    grant(user, *codenames)
    return user


@sync_to_async
def make(name: str, *codenames: str, **more: Any) -> User:
    return make_user(name, *codenames, **more)


def principal(user: User, **auth: Any) -> Principal:
    info = AuthInfo(subject=str(user.pk), authenticator="api-key", **auth) if auth else None
    return Principal(key=make_key("test", user.pk), user=user, auth=info)


async def tools_of(server: MCPServer, who: Any) -> set[str]:
    listed = await WireClient(server, V2026_07_28, principal=who).result("tools/list")
    names = {tool["name"] for tool in listed["tools"]}
    for name in ("view", "change", "staff", "free"):
        _, body = await WireClient(server, V2026_07_28, principal=who).send(
            "tools/call", {"name": name}
        )
        assert ("result" in body) == (name in names), name
    return names


async def test_entries_are_visible_by_permission(server: MCPServer) -> None:
    """Exactly the listed tools can be called."""
    nothing, some, all_of_it = await make("n"), await make("s", "view_order"), None
    all_of_it = await make("a", "view_order", "change_order", is_staff=True)
    root = await make("root", is_superuser=True)
    asleep = await make("z", "view_order", is_active=False, is_superuser=True, is_staff=True)

    for wrap in (principal, lambda user: user):
        assert await tools_of(server, wrap(nothing)) == {"free"}
        assert await tools_of(server, wrap(some)) == {"view", "free"}
        assert await tools_of(server, wrap(all_of_it)) == {"view", "change", "staff", "free"}
        assert await tools_of(server, wrap(root)) == {"view", "change", "free"}
        assert await tools_of(server, wrap(asleep)) == {"free"}
    for nobody in (ANONYMOUS, AnonymousUser()):
        assert await tools_of(server, nobody) == {"free"}


async def test_a_permission_change_applies_immediately_in_the_same_process(
    server: MCPServer,
) -> None:
    user = await make("ann")
    staff = await sync_to_async(Group.objects.create)(name="clerks")
    await sync_to_async(staff.permissions.add)(await Permission.objects.aget(codename="view_order"))
    who = principal(user)
    assert "view" not in await tools_of(server, who)

    await sync_to_async(user.groups.add)(staff)
    assert "view" in await tools_of(server, who)
    await sync_to_async(staff.permissions.clear)()
    assert "view" not in await tools_of(server, who)
    await sync_to_async(grant)(user, "view_order")
    assert "view" in await tools_of(server, who)
    await sync_to_async(staff.user_set.remove)(user)
    user.is_active = False
    await user.asave()
    assert "view" not in await tools_of(server, who)


async def test_a_permission_change_elsewhere_applies_within_two_seconds(
    server: MCPServer, clock: Clock
) -> None:
    """This also holds for a principal as old as its stream."""
    who = principal(await make("ann", "view_order", is_superuser=True))
    assert "change" in await tools_of(server, who)

    # As in another process: no signal is sent.
    await User.objects.aupdate(is_superuser=False)
    assert "change" in await tools_of(server, who)
    clock.now += MAX_AGE_S + 0.01

    assert await tools_of(server, who) == {"view", "free"}
    await User.objects.all().adelete()
    clock.now += MAX_AGE_S + 0.01
    assert await tools_of(server, who) == {"free"}


async def test_permissions_changed_invalidates_cached_permissions(server: MCPServer) -> None:
    ann, bob = await make("ann", is_staff=True), await make("bob", is_staff=True)
    for user in (ann, bob):
        assert "staff" in await tools_of(server, principal(user))
    await User.objects.aupdate(is_staff=False)

    permissions_changed({ann.pk})
    assert "staff" not in await tools_of(server, principal(ann))
    assert "staff" in await tools_of(server, principal(bob))
    permissions_changed(None)
    assert "staff" not in await tools_of(server, principal(bob))


async def test_cached_permissions_are_queried_once(server: MCPServer, clock: Clock) -> None:
    asked: list[str] = []

    def judge(user: Any) -> bool:
        asked.append(user.get_username())
        return True

    server.register_tool(lambda: "", name="judged", permission=judge)
    who = principal(await make("ann"))
    for _ in range(3):
        await WireClient(server, V2026_07_28, principal=who).result("tools/list")

    assert asked == ["ann"]
    clock.now += MAX_AGE_S + 0.01
    await WireClient(server, V2026_07_28, principal=who).result("tools/list")
    assert asked == ["ann", "ann"]


async def test_concurrent_permission_lookups_share_one_query(
    server: MCPServer, clock: Clock
) -> None:
    asked: list[str] = []
    may_answer, is_asked = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def judge(user: Any) -> bool:
        asked.append(user.get_username())
        loop.call_soon_threadsafe(is_asked.set)
        assert may_answer.wait(10)
        return True

    server.register_tool(lambda: "", name="judged", permission=judge)
    who = principal(await make("ann"))
    first, *others = [
        asyncio.ensure_future(WireClient(server, V2026_07_28, principal=who).result("tools/list"))
        for _ in range(5)
    ]
    await is_asked.wait()
    # The others wait for the query of the first, even if that is cancelled.
    first.cancel()
    await asyncio.wait([first])
    may_answer.set()

    for listed in await asyncio.gather(*others):
        assert "judged" in {tool["name"] for tool in listed["tools"]}
    assert asked == ["ann"]


async def test_concurrent_lookups_get_their_own_permissions(server: MCPServer) -> None:
    users = [
        await make(f"u{n}", *(["view_order"] if n % 2 else []), is_staff=n % 3 == 0)
        for n in range(12)
    ]
    expected = [
        {"free", *(["view"] if n % 2 else []), *(["staff"] if n % 3 == 0 else [])}
        for n in range(12)
    ]

    found = await asyncio.gather(
        *(tools_of(server, principal(user)) for user in users for _ in range(4))
    )

    assert found == [each for each in expected for _ in range(4)]


async def test_a_broken_permission_grants_nothing_and_is_logged(
    server: MCPServer, caplog: pytest.LogCaptureFixture
) -> None:
    async def later(user: Any) -> bool:
        return True

    def broken(user: Any) -> bool:
        raise LookupError("gone")

    with pytest.raises(RegistrationError, match="a synchronous function"):
        server.register_tool(lambda: "", name="waiting", permission=later)
    server.register_tool(lambda: "", name="broken", permission=broken)
    server.register_tool(lambda: "", name="exiting", permission=lambda each: sys.exit(str(each)))
    server.register_tool(lambda: "", name="late", permission=lambda each: later(user=each))

    found = await tools_of(server, principal(await make("ann")))

    assert not found & {"broken", "exiting", "late"}
    assert "call the synchronous method, such as has_perm() for ahas_perm()" in caplog.text
    assert "LookupError: gone" in caplog.text
    assert f"<locals>.broken ({__file__}:" in caplog.text
    assert f"<locals>.<lambda> ({__file__}:" in caplog.text
    assert "of tool broken failed, so it was refused" in caplog.text


async def test_a_permission_that_returns_a_function_or_yields_grants_nothing(
    server: MCPServer, caplog: pytest.LogCaptureFixture
) -> None:
    def yields(user: Any) -> Any:
        yield user.is_staff

    server.register_tool(lambda: "", name="uncalled", permission=lambda user: user.has_perm)
    server.register_tool(lambda: "", name="listed", listed_if=lambda user: user.has_perm)
    server.register_tool(lambda: "", name="yields", permission=yields)

    found = await tools_of(server, principal(await make("ann")))

    assert not found & {"uncalled", "listed", "yields"}
    assert "call it, as in has_perm(...)" in caplog.text
    assert "return True or False" in caplog.text


def say_nothing(user: Any) -> Any:
    user.is_authenticated  # noqa: B018 - the mistake that is tested


@pytest.mark.parametrize("option", ["permission", "listed_if", "check"])
def test_a_rule_that_never_returns_a_value_is_rejected_at_registration(option: str) -> None:
    rule: Any = {option: say_nothing}

    with pytest.raises(RegistrationError, match=f"{option}= cannot be .*never returns a value"):
        MCPServer("silent").register_tool(lambda: "", name="silent", **rule)


def sometimes(user: Any) -> Any:
    if user.is_staff:
        return True
    return None


def raises(user: Any) -> Any:
    raise LookupError


@pytest.mark.parametrize(
    "rule",
    [
        sometimes,
        raises,
        lambda user: user.is_staff or None,
        lambda user: None if user.is_staff else user,
    ],
)
def test_a_rule_that_may_return_a_value_is_accepted(rule: Any) -> None:
    MCPServer("speaking").register_tool(lambda: "", name="spoken", permission=rule, check=rule)


def test_a_permission_of_a_server_takes_the_user_alone() -> None:
    with pytest.raises(ValueError, match="a synchronous function of the user alone"):
        MCPServer("wrong", permission=lambda user, arguments: True)


async def test_a_key_for_some_tools_hides_the_others(server: MCPServer) -> None:
    user = await make("ann", "view_order", is_staff=True)
    some = principal(user, allowed_tools=frozenset({"view", "change"}))
    none = principal(user, allowed_tools=frozenset())

    assert await tools_of(server, some) == {"view"}
    assert await tools_of(server, none) == set()
    assert await tools_of(server, principal(user)) == {"view", "staff", "free"}


async def test_a_key_narrows_a_server_without_permissions_too() -> None:
    server = MCPServer("plain", public=True)
    server.set_list_cache_hint("tools/list", _SHARED)
    server.register_tool(lambda: "", name="one")
    server.register_tool(lambda: "", name="two")
    user = User(username="ann")
    user.pk = 5

    listed = [
        await WireClient(server, V2026_07_28, principal=who).result("tools/list")
        for who in (principal(user, allowed_tools=frozenset({"one"})), ANONYMOUS)
    ]

    assert [[tool["name"] for tool in each["tools"]] for each in listed] == [
        ["one"],
        ["one", "two"],
    ]
    assert [each["cacheScope"] for each in listed] == ["private", "public"]


_SHARED = CacheHint(ttl_ms=1000, scope="public")


async def test_the_server_permission_applies_to_entries_without_their_own() -> None:
    server = MCPServer("d", public=True, permission="shop.view_order", scopes=["orders"])
    server.register_tool(lambda: "", name="view")
    server.register_tool(lambda: "", name="change", permission="shop.change_order", scopes=())
    server.register_tool(lambda: "", name="free", permission=(), scopes=())
    server.register_tool(lambda: "", name="staff", permission=lambda user: user.is_staff)
    changer = await make("c", "change_order", is_staff=True)

    assert await tools_of(server, principal(changer)) == {"change", "free", "staff"}
    token = principal(changer, scopes=frozenset({"other"}))
    status, error = await WireClient(server, V2026_07_28, principal=token).error(
        "tools/call", {"name": "staff"}
    )
    assert (status, error["data"]) == (403, {"scopes": ["orders"]})


async def test_tenants_do_not_share_cached_permissions(server: MCPServer) -> None:
    answers = iter([True, False, True])
    server.register_tool(lambda: "", name="tenant", permission=lambda user: next(answers))
    user = await make("ann")

    found = []
    for _ in range(3):
        exchange = Exchange(caller=Caller(principal=principal(user)))
        exchange.caller.is_of_tenant = True
        visible = await server.engine.refresh_visible(exchange)
        found.append(visible.includes(server.registry.tools["tenant"]))

    assert found == [True, False, True]


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("cause", ["lost", "disabled"])
def test_a_finished_task_is_unknown_once_its_tool_is(cause: str, revision: str) -> None:
    """Its result is kept for a day, and neither read nor listed meanwhile."""
    server = MCPServer("kept", authenticators=[APIKeyAuthenticator(cache_s=0)])

    @server.tool(permission="shop.view_order", task="allowed")
    def view() -> str:
        return "viewed"

    @server.tool(task="allowed")
    def other() -> str:
        return "other"

    user = make_user("ann", "view_order")
    _key, text = APIKey.objects.issue(user=user, name="tests")
    bearer = {"Authorization": f"Bearer {text}"}
    tasks: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
    client = MCPClient(server, revision=revision, headers=bearer, capabilities=tasks)
    assert client.call_as_task("view").text == "viewed"
    assert client.task is not None
    key = client.task["taskId"]

    if cause == "lost":
        user.user_permissions.clear()
    else:
        server.registry.set_disabled(frozenset({("tools", "view")}))

    is_by_client = revision == "2025-11-25"
    for method in ("get", "result", "cancel") if is_by_client else ("get", "cancel"):
        with pytest.raises(MCPError, match="Unknown task"):
            client.send(f"tasks/{method}", {"taskId": key})
    if is_by_client:
        assert client.send("tasks/list", {})["tasks"] == []


async def test_an_unresolved_exchange_sees_no_entries(server: MCPServer) -> None:
    assert not Exchange().caller.visible.includes(server.registry.tools["free"])


class InTransaction(TestCase):
    """Rolled-back data of a test case is not cached."""

    def test_permissions_read_in_a_transaction_are_not_cached(self) -> None:
        server = MCPServer("rolled back", public=True)
        server.register_tool(lambda: "", name="view", permission="shop.view_order")
        user = User.objects.create_user("ann")

        with transaction.atomic():
            grant(user, "view_order")
            assert [tool["name"] for tool in server.list_tools(user=user)] == ["view"]
            transaction.set_rollback(True)

        assert server.list_tools(user=user) == []


@pytest.mark.parametrize("page_size", [1000, 3])
async def test_pages_contain_only_visible_entries(page_size: int) -> None:
    """A cursor of a user with more permissions reveals nothing."""
    server = MCPServer("paged", public=True, page_size=page_size)
    for n in range(10):
        server.register_tool(
            lambda: "", name=f"t{n}", permission="shop.view_order" if n % 2 else None
        )
    ann, bob = principal(await make("ann", "view_order")), principal(await make("bob"))
    cursors: list[str] = []

    async def walk(who: Principal) -> list[str]:
        names: list[str] = []
        params: dict[str, str] = {}
        while True:
            page = await WireClient(server, V2026_07_28, principal=who).result("tools/list", params)
            names += [tool["name"] for tool in page["tools"]]
            if "nextCursor" not in page:
                return names
            params = {"cursor": page["nextCursor"]}
            cursors.append(page["nextCursor"])

    assert await walk(ann) == [f"t{n}" for n in range(10)]
    for cursor in cursors.copy():
        _, body = await WireClient(server, V2026_07_28, principal=bob).send(
            "tools/list", {"cursor": cursor}
        )
        shown = {tool["name"] for tool in body.get("result", {}).get("tools", ())}
        assert shown <= {"t0", "t2", "t4", "t6", "t8"}
    assert await walk(bob) == ["t0", "t2", "t4", "t6", "t8"]


async def test_listed_if_applies_in_addition_to_the_server_permission(clock: Clock):
    server = MCPServer("narrow", public=True, permission="shop.view_order")
    use_ports(server, access=DjangoAccess(clock))
    server.register_tool(lambda: "", name="named", listed_if=lambda user: user.is_staff)
    server.register_tool(lambda: "", name="free", permission=(), listed_if=lambda _: True)
    viewer = await sync_to_async(make_user)("viewer", "view_order")
    staff = await sync_to_async(make_user)("staff", is_staff=True)
    both = await sync_to_async(make_user)("both", "view_order", is_staff=True)

    seen = {
        user.get_username(): [each["name"] for each in await server.alist_tools(user=user)]
        for user in (viewer, staff, both)
    }

    assert seen == {"viewer": ["free"], "staff": ["free"], "both": ["named", "free"]}


def test_listed_if_requires_a_sync_function():
    async def ask(user: User) -> bool:
        return True

    server = MCPServer("narrow")
    with pytest.raises(RegistrationError, match=r"listed_if= cannot be .* must be a synchronous"):
        server.register_tool(lambda: "", name="asked", listed_if=ask)
    with pytest.raises(RegistrationError, match=r"listed_if= cannot be 'x'"):
        server.register_tool(lambda: "", name="staff", listed_if="x")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("shop.viwe_order", "shop.view_order"),
        ("shop.Change_Order", "shop.change_order"),
        ("shpo.change_order", "shop.change_order"),
        ("orders.change_order", "shop.change_order"),
        ("change_order", "shop.change_order"),
        ("chnage_order", "shop.change_order"),
        ("shop.view_orders", "shop.view_order"),
        ("shop.view_categories", "shop.view_category"),
        ("shop.view_orderline", "shop.view_order_line"),
        ("shop.view-order", "shop.view_order"),
        ("shop.refund_order", None),
        ("shop.order", None),
        ("shop.view_customer", None),
        ("shop.unpublish_order", None),
        ("shop.read_order", None),
        ("shop.update_order", None),
        ("blog.refund_order", None),
        ("nonsense", None),
        ("", None),
        (".", None),
        ("shop.view_order", None),
    ],
)
def test_only_near_misses_of_a_permission_are_suggested(name: str, near: str | None):
    models = ("order", "order_line", "category")
    usual = {
        f"shop.{action}_{model}"
        for action in ("add", "change", "delete", "view")
        for model in models
    }

    assert find_near_permission(name, {*usual, "shop.publish_order"}) == near
