"""Django's part of push: transactions, signals, the choice of a bus, and checks."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from datetime import timedelta
from io import StringIO
from types import SimpleNamespace
from typing import Any, cast

import pytest
from channels.layers import InMemoryChannelLayer, get_channel_layer
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.db import transaction
from django.dispatch import Signal
from django.test import override_settings
from django.utils import timezone

from django_mcp import MCPServer, default_server, notify_list_changed, signals
from django_mcp.checks.serving import check_bus, check_layer
from django_mcp.models import Session
from django_mcp.protocol.json import encode
from django_mcp.push.clients import _courier
from django_mcp.push.layer_bus import LayerBus
from django_mcp.push.process_hub import choose_bus
from django_mcp.server.exchange.quotas import Limits
from django_mcp.server.exchange.session import Session as CoreSession
from django_mcp.server.streams import messenger
from django_mcp.server.streams.messenger import OutageLog
from django_mcp.sessions.site.rows import add_subscription
from tests.support.server.streams import StreamClient
from tests.support.wire import V2025_11_25, V2026_07_28

REDIS = {"default": {"BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer"}}


@pytest.fixture
def server() -> MCPServer:
    server = MCPServer("push-tests", public=True)
    server.register_tool(lambda: "x", name="x")
    return server


@pytest.fixture
def received() -> Iterator[list[tuple[str, dict[str, Any]]]]:
    found: list[tuple[str, dict[str, Any]]] = []
    receivers = []
    for name, signal in vars(signals).items():
        if not isinstance(signal, Signal):
            continue

        def receive(name: str = name, **values: Any) -> None:
            found.append((name, values))

        signal.connect(receive, weak=False)
        receivers.append((signal, receive))
    yield found
    for signal, receive in receivers:
        signal.disconnect(receive)


def test_all_servers_share_the_process_hub(server: MCPServer):
    assert server.engine.hub is default_server.engine.hub


def test_outside_a_transaction_notifications_are_sent_immediately(transactional_db: None):
    assert notify_list_changed("tools") == 0


@pytest.mark.parametrize("is_kept", [True, False])
def test_inside_a_transaction_notifications_wait_for_the_commit(
    transactional_db: None, server: MCPServer, monkeypatch: pytest.MonkeyPatch, is_kept: bool
):
    told: list[Any] = []
    monkeypatch.setattr(server.engine.hub.bus, "send_now", told.append)
    with transaction.atomic():
        assert server.notify_list_changed("tools") is None
        assert told == []
        transaction.set_rollback(not is_kept)

    assert len(told) == (1 if is_kept else 0)


def flush_signals() -> None:
    """Return when the signals sent so far have reached their receivers."""
    done = threading.Event()
    _courier.get().pool.leave(done.set)
    done.wait()


async def test_signals_report_a_session_and_its_stream(
    server: MCPServer, received: list[tuple[str, dict[str, Any]]]
):
    client = StreamClient(server, V2025_11_25)
    await client.open()
    await client.tell({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"})
    async with client.standalone():
        (handle,) = await server.aconnected_sessions()
    await server.aclose_session(handle.key)
    flush_signals()

    assert [name for name, _ in received] == [
        "session_opened",
        "client_notification",  # that it is initialized
        "client_notification",
        "roots_list_changed",
        "stream_opened",
        "stream_closed",
        "session_closed",
    ]
    assert all(values["sender"] is server for _, values in received)
    assert received[0][1]["session"].key == handle.key
    assert received[2][1]["method"] == "notifications/roots/list_changed"
    assert received[5][1]["reason"] == "the client has gone"


@pytest.mark.parametrize("how", ["site", "command", "user"])
def test_the_end_of_a_session_is_signalled_once_for_every_cause(
    transactional_db: None, received: list[tuple[str, dict[str, Any]]], how: str
):
    """The site, `mcp_prune` of an abandoned session, or the deletion of its account ends it."""
    server = MCPServer(f"ended by {how}", public=True)
    user = get_user_model().objects.create_user("ann")
    row = Session.objects.create(
        digest="0" * 64,
        server=server.name,
        revision=V2025_11_25.name,
        principal_key="user:1",
        user=user,
        client_info={"name": "c"},
        expires_at=timezone.now() - timedelta(hours=1),
    )
    if how == "user":
        user.delete()
    elif how == "command":
        call_command("mcp_prune", stdout=StringIO())
        call_command("mcp_prune", stdout=StringIO())
    else:
        with override_settings(DJANGO_MCP={"SESSION_STORE": "model"}):
            assert server.close_session(row.pk.hex)
            assert not server.close_session(row.pk.hex)
    flush_signals()

    ((name, told),) = received
    assert name == "session_closed"
    assert told["sender"] is server
    assert told["session"].key == row.pk.hex
    assert told["session"].principal == "user:1"
    assert told["session"].client_info == {"name": "c"}
    assert told["session"].revision == V2025_11_25.name
    assert (
        told["reason"]
        == {
            "site": "the site ended it",
            "command": "it expired",
            "user": "its row was deleted",
        }[how]
    )


async def test_signals_report_notifications_outside_a_session(
    server: MCPServer, received: list[tuple[str, dict[str, Any]]]
):
    client = StreamClient(server, V2026_07_28)
    for method in ("notifications/own", "notifications/roots/list_changed"):
        body = {"jsonrpc": "2.0", "method": method, "params": {"n": 1}}
        await client.post(
            encode(body), {"mcp-protocol-version": V2026_07_28.name, "mcp-method": method}
        )
    flush_signals()

    assert [(name, values["session"], values.get("method")) for name, values in received] == [
        ("client_notification", None, "notifications/own"),
        ("client_notification", None, "notifications/roots/list_changed"),
        ("roots_list_changed", None, None),
    ]


async def test_notifications_that_wait_for_slow_receivers_are_limited_by_size(
    server: MCPServer,
    received: list[tuple[str, dict[str, Any]]],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
):
    limits = Limits(own_count=10, own_bytes=1000, count=20, bytes=2000)
    monkeypatch.setattr("django_mcp.push.clients.WAITING_LIMITS", limits)
    _courier.close()
    go = threading.Event()
    _courier.get().pool.leave(go.wait)
    client = StreamClient(server, V2026_07_28)
    for text in ("x" * 600, "y" * 600, "z"):
        body = {"jsonrpc": "2.0", "method": "notifications/own", "params": {"text": text}}
        headers = {"mcp-protocol-version": V2026_07_28.name, "mcp-method": "notifications/own"}
        await client.post(encode(body), headers)
    go.set()
    flush_signals()
    _courier.close()

    assert [values["params"]["text"][0] for _, values in received] == ["x", "z"]
    assert "Receivers of signals are too slow" in caplog.text


async def test_notifications_of_one_caller_keep_out_no_signals_of_others(
    server: MCPServer, received: list[tuple[str, dict[str, Any]]]
):
    go = threading.Event()
    _courier.get().pool.leave(go.wait)
    loud = StreamClient(server, V2026_07_28, principal=SimpleNamespace(key="user:loud"))
    body = encode({"jsonrpc": "2.0", "method": "notifications/loud", "params": {}})
    headers = {"mcp-protocol-version": V2026_07_28.name, "mcp-method": "notifications/loud"}
    for _ in range(10_001):
        await loud.post(body, headers)
    quiet = StreamClient(server, V2025_11_25, principal=SimpleNamespace(key="user:quiet"))
    await quiet.open()
    go.set()
    flush_signals()

    assert [name for name, _ in received[-2:]] == ["session_opened", "client_notification"]
    assert received[-1][1]["method"] == "notifications/initialized"
    assert 0 < len(received) < 5000

    await loud.post(body, headers)
    flush_signals()

    assert received[-1][1]["method"] == "notifications/loud"


def test_subscriptions_of_sessions_are_visible_to_every_process(transactional_db: None):
    """A command, which is no server, can read them too."""
    server = MCPServer("subscribed", public=True)
    with override_settings(DJANGO_MCP={"SESSION_STORE": "model"}):
        for name, left in (("subscribed", 1), ("another", 1), ("subscribed", -1)):
            row = Session.objects.create(
                digest=f"{name} {left}",
                server=name,
                revision=V2025_11_25.name,
                expires_at=timezone.now() + timedelta(hours=left),
            )
            uri = "stock://mug" if (name, left) == ("subscribed", 1) else "stock://cup"
            session = CoreSession(key=row.pk.hex, server_name=name, principal_key=None)
            add_subscription(session, uri)

        assert server.is_subscribed("stock://mug")
        assert not server.is_subscribed("stock://cup")


async def test_a_failing_signal_receiver_is_isolated(
    server: MCPServer, received: list[tuple[str, dict[str, Any]]], caplog: pytest.LogCaptureFixture
):
    def fail(**_values: Any) -> None:
        raise ValueError("no")

    signals.session_opened.connect(fail)
    try:
        await StreamClient(server, V2025_11_25).open()
        flush_signals()
    finally:
        signals.session_opened.disconnect(fail)

    assert [name for name, _ in received] == ["session_opened", "client_notification"]
    assert "A receiver of a signal failed" in caplog.text


@pytest.mark.parametrize(
    ("settings", "layers", "kind"),
    [
        ({}, REDIS, "layer"),
        ({"PUSH_BUS": "local"}, REDIS, "local"),
        ({"PUSH_BUS": "database"}, None, "database"),
        ({"SESSION_STORE": "memory"}, None, "local"),
    ],
)
def test_the_best_available_bus_is_chosen(settings: dict[str, Any], layers: Any, kind: str):
    with override_settings(DJANGO_MCP=settings, CHANNEL_LAYERS=layers or {}):
        assert choose_bus() == kind
        assert bool(check_bus()) is (kind != "layer")


def test_a_missing_channel_layer_is_reported():
    with override_settings(DJANGO_MCP={"PUSH_BUS": "layer"}, CHANNEL_LAYERS={}):
        assert [each.id for each in check_layer()] == ["django_mcp.W009"]


class Unending(InMemoryChannelLayer):
    """Swallows one cancellation, as layers over a connection may."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.was_entered = asyncio.Event()

    async def group_add(self, group: str, channel: str) -> None:
        await self._swallow()
        await super().group_add(group, channel)

    async def group_send(self, group: str, message: dict[str, Any]) -> None:
        await self._swallow()
        raise ConnectionError("the connection was cut")

    async def _swallow(self) -> None:
        self.was_entered.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()


async def test_a_layer_that_ignores_cancellation_does_not_block_shutdown():
    with override_settings(CHANNEL_LAYERS={"default": {"BACKEND": f"{__name__}.Unending"}}):
        bus, layer = LayerBus(OutageLog("test")), cast("Any", get_channel_layer())
        bus.start(lambda _message: None)
        async with asyncio.timeout(10):
            await layer.was_entered.wait()
            await bus.stop()


@override_settings(CHANNEL_LAYERS={"default": {"BACKEND": f"{__name__}.Unending"}})
async def test_a_message_is_not_sent_again_after_a_cancellation_that_the_layer_swallows():
    bus = LayerBus(OutageLog("test"))
    sending = asyncio.create_task(bus.send({"kind": "test"}))
    await cast("Any", get_channel_layer()).was_entered.wait()
    sending.cancel()

    with pytest.raises(asyncio.CancelledError):
        await sending


@override_settings(CHANNEL_LAYERS={"default": {"BACKEND": f"{__name__}.Unending"}})
def test_an_event_loop_closes_though_the_layer_swallows_the_cancellation():
    async def run() -> None:
        LayerBus(OutageLog("test")).start(lambda _message: None)
        await cast("Any", get_channel_layer()).was_entered.wait()

    running = threading.Thread(target=lambda: asyncio.run(run()), daemon=True)
    running.start()
    running.join(60)

    assert not running.is_alive()


class Failing(InMemoryChannelLayer):
    """Fails to send, like an unavailable Redis, although it still answers some calls."""

    is_away = True

    async def group_send(self, group: str, message: dict[str, Any]) -> None:
        if type(self).is_away:
            raise ConnectionError("away")
        await super().group_send(group, message)


async def test_an_outage_is_logged_when_it_begins_and_when_it_ends(
    server: MCPServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    """Messages that cannot be sent meanwhile are not logged."""
    monkeypatch.setattr(messenger, "OUTAGE_QUIET_S", 0.0)
    monkeypatch.setattr(Failing, "is_away", True)
    with override_settings(CHANNEL_LAYERS={"default": {"BACKEND": f"{__name__}.Failing"}}):
        client = StreamClient(server, V2025_11_25)
        await client.open()
        async with client.standalone() as stream:
            for number in range(100):
                await server.anotify("notifications/x", {"n": number})
                await server.engine.hub.flush()
                await stream.sink.message()
            begun = _lines(caplog)
            Failing.is_away = False
            await server.anotify("notifications/x", {"n": 100})
            await server.engine.hub.flush()
            ended = _lines(caplog)[len(begun) :]
        await server.engine.hub.stop()

    assert len(begun) == 1
    assert begun[0].startswith(
        "Could not reach the other processes by the channel layer of CHANNEL_LAYERS, Failing, so that "
        "notifications between them are late or lost: ConnectionError"
    )
    assert len(ended) == 1
    assert "over, after" in ended[0]


def _lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what was logged of the outage; on a slow machine, a tick of the hub logs something else."""
    return [each.getMessage() for each in caplog.records if each.module == "messenger"]
