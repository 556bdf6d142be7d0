"""Session stores, in memory and in databases, which have to behave the same."""

from __future__ import annotations

import asyncio
from uuid import uuid4

import pytest

from django_mcp.execution.threads import run_in_pool
from django_mcp.protocol.errors import Refusal
from django_mcp.protocol.messages import Request
from django_mcp.server.exchange.session import Closing
from django_mcp.sessions.site.writer import flush_sessions
from tests.support.session_sites import Principal, Time, site

# -- every store


async def test_a_session_is_found_by_its_id(kind: str, clock: Time):
    here = site(kind, clock)
    token, session = await here.open(
        client_info={"name": "a\0b"}, client_capabilities={"roots": {}}
    )

    assert here.store.peek(token) is session
    assert await here.store.find(token) is session
    assert await here.store.get(session.key) is session
    assert here.hub.sessions[session.key] is session
    assert len(token) >= 43


@pytest.mark.parametrize(
    "token", ["", "x", "x" * 43, "x" * 5000, "\0" * 43, "ä" * 43, "a b" * 14 + "c"]
)
async def test_a_made_up_session_id_finds_nothing(kind: str, clock: Time, token: str):
    here = site(kind, clock)
    await here.open()

    assert here.store.peek(token) is None
    assert await here.store.find(token) is None
    assert await here.store.get(uuid4().hex) is None


async def test_an_ended_session_is_not_found(kind: str, clock: Time):
    here = site(kind, clock)
    token, session = await here.open()

    assert await here.store.end([session.key], Closing.SITE) == [session.key]
    assert await here.store.end([session.key], Closing.SITE) == []

    assert session.is_ended
    assert here.store.peek(token) is None
    assert await here.store.find(token) is None
    assert await here.store.get(session.key) is None


async def test_each_session_end_is_signalled_once(kind: str, clock: Time):
    here = site(kind, clock, session_idle_s=100, max_sessions_per_principal=1)
    ended, evicted, expired = [(await here.open(Principal(name))) for name in "abc"]
    await here.store.end([ended[1].key], Closing.CLIENT)
    await here.store.end([ended[1].key], Closing.SITE)
    kept, _ = await here.open(Principal("b"))
    clock.now_s += 101
    assert await here.store.find(expired[0]) is None
    assert await here.store.find(expired[0]) is None
    assert await here.store.find(evicted[0]) is None

    assert here.closed[:3] == [
        (ended[1].key, "a", Closing.CLIENT),
        (evicted[1].key, "b", Closing.EVICTED),
        (expired[1].key, "c", Closing.EXPIRED),
    ]
    assert await here.store.find(kept) is None
    assert len(here.closed) == 4


async def test_an_abandoned_session_is_signalled_when_it_expires(kind: str, clock: Time):
    """Periodic cleanup signals it within two minutes."""
    here = site(kind, clock, session_idle_s=100)
    _, expired = await here.open(Principal("a"))
    clock.now_s += 90
    token, _ = await here.open(Principal("b"))
    clock.now_s += 71
    await here.tick()
    await run_in_pool(lambda: None)
    async with asyncio.timeout(10):
        while not here.closed:  # noqa: ASYNC110
            await asyncio.sleep(0.01)

    assert here.closed == [(expired.key, "a", Closing.EXPIRED)]
    assert await here.store.find(token) is not None


async def test_a_session_with_an_open_stream_is_not_idle(kind: str, clock: Time):
    here = site(kind, clock, session_idle_s=100, session_max_age_s=250)
    token, session = await here.open()
    here.hub.calls.add(Running(), session)  # type: ignore[arg-type]
    for _ in range(4):
        clock.now_s += 60
        await here.tick()
        await run_in_pool(flush_sessions)
    assert not here.closed
    assert await here.store.find(token) is session
    # A row that is being written is not ended now, but at the next tick.
    await run_in_pool(flush_sessions)

    clock.now_s += 11
    await here.tick()

    assert here.closed == [(session.key, None, Closing.EXPIRED)]
    assert session.is_ended


class Running:
    message = Request(id=1, method="tools/call", params={})

    def cancel(self) -> None:
        """A call that ignores its cancellation."""


async def test_an_idle_session_ends(kind: str, clock: Time):
    here = site(kind, clock, session_idle_s=100)
    token, _ = await here.open()
    clock.now_s += 90
    assert await here.store.find(token) is not None
    clock.now_s += 90
    assert await here.store.find(token) is not None

    clock.now_s += 101

    assert here.store.peek(token) is None
    assert await here.store.find(token) is None


async def test_a_busy_session_ends_at_its_maximum_age(kind: str, clock: Time):
    here = site(kind, clock, session_idle_s=100, session_max_age_s=250)
    token, session = await here.open()
    for _ in range(3):
        clock.now_s += 80
        assert await here.store.find(token) is session

    clock.now_s += 11

    assert here.store.peek(token) is None
    assert await here.store.find(token) is None


async def test_the_longest_idle_session_is_evicted(kind: str, clock: Time):
    here = site(kind, clock, max_sessions=3, anonymous_share=1)
    opened = []
    for _ in range(3):
        opened.append((await here.open())[0])
        clock.now_s += 100
    assert await here.store.find(opened[0]) is not None
    await run_in_pool(flush_sessions)

    opened.append((await here.open())[0])

    found = [await here.store.find(token) is not None for token in opened]
    assert found == [True, False, True, True]


async def test_a_principal_does_not_evict_others(kind: str, clock: Time):
    here = site(kind, clock, max_sessions_per_principal=2)
    other, _ = await here.open(Principal("user:2"))
    nobodys = [(await here.open(address=f"192.0.2.{at}"))[0] for at in range(3)]
    own = []
    for _ in range(4):
        clock.now_s += 100
        own.append((await here.open(Principal("user:1")))[0])

    found = [await here.store.find(token) is not None for token in own]
    assert found == [False, False, True, True]
    for token in (other, *nobodys):
        assert await here.store.find(token) is not None


async def test_an_anonymous_address_does_not_evict_others(kind: str, clock: Time):
    here = site(kind, clock, max_sessions_per_principal=2)
    other, _ = await here.open(address="192.0.2.7")
    known, _ = await here.open(Principal("user:1"), address="192.0.2.1")
    own = []
    # An IPv6 client has a whole network of addresses.
    for address in ("2001:db8::1", "2001:db8::2", "2001:db8::3"):
        clock.now_s += 100
        own.append((await here.open(address=address))[0])

    assert [await here.store.find(token) is not None for token in own] == [False, True, True]
    for token in (other, known):
        assert await here.store.find(token) is not None


async def test_anonymous_sessions_never_replace_those_of_authenticated_users(
    kind: str, clock: Time
):
    here = site(kind, clock, max_sessions=6, anonymous_share=0.5)
    users = []
    for at in range(3):
        users.append((await here.open(Principal(f"user:{at}")))[0])
        clock.now_s += 100
    for at in range(20):
        await here.try_to_open(address=f"192.0.2.{at}")
        clock.now_s += 100

    for token in users:
        assert await here.store.find(token) is not None


async def test_a_share_of_the_sessions_is_kept_for_authenticated_users(kind: str, clock: Time):
    here = site(kind, clock, max_sessions=6, anonymous_share=0.5)
    anonymous = []
    for at in range(6):
        anonymous.append((await here.open(address=f"192.0.2.{at}"))[0])
        clock.now_s += 100

    found = [await here.store.find(token) is not None for token in anonymous]
    assert found == [False, False, False, True, True, True]


async def test_authenticated_users_replace_anonymous_sessions_first(kind: str, clock: Time):
    here = site(kind, clock, max_sessions=4, anonymous_share=0.5)
    first, _ = await here.open(Principal("user:0"))
    clock.now_s += 100
    anonymous = []
    for at in range(2):
        anonymous.append((await here.open(address=f"192.0.2.{at}"))[0])
        clock.now_s += 100
    users = [first]
    for at in range(1, 4):
        users.append((await here.open(Principal(f"user:{at}")))[0])
        clock.now_s += 100

    for token in users:
        assert await here.store.find(token) is not None
    for token in anonymous:
        assert await here.store.find(token) is None


async def test_an_anonymous_session_is_rejected_if_only_users_remain(kind: str, clock: Time):
    here = site(kind, clock, max_sessions=3)
    for at in range(3):
        await here.open(Principal(f"user:{at}"))

    refusal, _ = await here.try_to_open(address="192.0.2.1")

    assert isinstance(refusal, Refusal)
    assert (refusal.status, "MAX_SESSIONS" in refusal.message) == (503, True)


async def test_subscriptions_are_added_and_removed(kind: str, clock: Time):
    here = site(kind, clock)
    _, session = await here.open()

    assert await here.store.subscribe(session, "stock://1") is None
    assert await here.store.subscribe(session, "stock://1") is None
    assert await here.store.subscribe(session, "stock://2") is None
    await here.store.unsubscribe(session, "stock://1")
    await here.store.unsubscribe(session, "stock://3")

    assert session.subscriptions == {"stock://2"}
    assert await here.store.read_subscriptions(session) == {"stock://2"}
