"""Each rejected request is one line in the log, which no client can forge or flood."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from django.test import Client, override_settings
from django.urls import path

from django_mcp import MCPServer
from django_mcp.auth.authenticators import BearerAuthenticator
from django_mcp.auth.principal import Principal, Rejection
from django_mcp.protocol import meta as keys
from django_mcp.protocol.errors import INVALID_PARAMS, Refusal
from django_mcp.server.exchange.exchange import Exchange, Reply, refusal_reply
from django_mcp.transports.http.consumer import MCPConsumer
from django_mcp.transports.http.replies import MAX_LINES, MAX_OWN_LINES, PERIOD_S, RefusalLog
from tests.support.http.harness import GONE, http_scope, part, talk


class Tokens(BearerAuthenticator):
    needs_authorization_server = False

    async def verify(self, token: str, exchange: Exchange) -> Principal | Rejection | None:
        return Principal(key="known") if token == "good" else Rejection(reason="The token is wrong")


OPEN = MCPServer("refusing", public=True, max_body_bytes=1000)
GUARDED = MCPServer("refusing-strangers", authenticators=[Tokens()])
STATEFUL = MCPServer("refusing-news", public=True, revisions=["2025-11-25"])

urlpatterns = [path("", OPEN.urls)]


def call(method: str, params: Any = None, version: str = "2026-07-28") -> bytes:
    meta = {keys.PROTOCOL_VERSION: version, keys.CLIENT_CAPABILITIES: {}}
    params = {**(params or {}), "_meta": meta}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()


def modern(method: str, version: str = "2026-07-28", **more: str) -> dict[str, str]:
    return {"mcp-protocol-version": version, "mcp-method": method, **more}


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("server", "method", "headers", "body", "told"),
    [
        (GUARDED, "POST", {}, b"{}", "401: Authentication is needed"),
        (
            GUARDED, "POST", {"authorization": "Bearer canary"}, b"{}", "401: The token is wrong",
        ),
        (OPEN, "POST", {}, b"{", "400: "),
        (OPEN, "POST", {}, b"[]", "400: "),
        (OPEN, "POST", {}, b"x" * 1001, "413: The body may have at most 1000 bytes"),
        (OPEN, "POST", {"accept": "text/html"}, b"{}", "406: Accept must admit"),
        (OPEN, "POST", {"content-type": "text/plain"}, b"{}", "415: Content-Type must be"),
        (
            OPEN, "POST", {"host": "evil.example"}, b"{}",
            "403: This site is not evil.example. See the setting ALLOWED_HOSTS",
        ),
        (
            OPEN, "POST", {"mcp-session-id": "gone-canary", "mcp-protocol-version": "2025-11-25"},
            b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}', "404: ",
        ),
        (
            OPEN, "POST", modern("tools/list", "1999-01-01"), call("tools/list", None, "1999-01-01"),
            ("400: Unsupported protocol version (2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25 begin with "
            "initialize): 1999-01-01"),
        ),
        (
            STATEFUL, "POST", modern("tools/list"), call("tools/list"),
            "400: This server speaks 2025-11-25; send initialize first",
        ),
        (
            OPEN, "POST", modern("tools/list"), call("prompts/list"),
            "400: The header Mcp-Method must be there once and equal the method",
        ),
        (OPEN, "POST", modern("magic"), call("magic"), "404: Unknown method: magic"),
        (MCPServer("refusing-all"), "POST", {}, b"{}", "403: This server is not configured to accept requests"),
    ],
)  # fmt: skip
async def test_each_rejection_is_logged_as_one_line_with_its_reason(
    server: MCPServer,
    method: str,
    headers: dict[str, str],
    body: bytes,
    told: str,
    caplog: pytest.LogCaptureFixture,
):
    talked = await talk(consumer(server), http_scope(method, headers), part(body))

    lines = [each for each in caplog.records if each.getMessage().startswith("Refused POST")]
    [line] = lines
    assert (line.name, line.levelno) == ("django_mcp", logging.WARNING)
    assert line.getMessage().startswith(f"Refused {method} /mcp from 192.0.2.1 with {told}")
    assert not line.getMessage().endswith(": ")
    assert f"with {talked.status}" in line.getMessage()
    assert "canary" not in caplog.text


@pytest.mark.parametrize("accept", ["text/html", "text/html,*/*;q=0.8"])
async def test_a_browser_is_told_what_the_address_is_for(accept: str):
    talked = await talk(consumer(OPEN), http_scope("GET", {"accept": accept}), GONE)

    assert b"for AI clients" in talked.body


async def test_routine_client_probes_are_logged_below_warning(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.INFO):
        await talk(consumer(OPEN), http_scope("GET", modern("")), GONE)

    [line] = caplog.records
    assert line.levelno == logging.INFO
    assert "with 405: Use POST: this MCP endpoint is for AI clients" in line.getMessage()


async def test_successful_requests_are_not_logged(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.INFO):
        talked = await talk(
            consumer(OPEN), http_scope("POST", modern("tools/list")), part(call("tools/list"))
        )

    assert talked.status in (200, 404)
    assert [each for each in caplog.records if "200" in each.getMessage()] == []


async def test_log_lines_cannot_be_forged(caplog: pytest.LogCaptureFixture):
    forged = "\x1b[2J\u0085ERROR all is lost"
    headers = {"origin": f"http://evil.example{forged}"}
    scope = http_scope(headers=headers, path=f"/mcp\n{forged}\u202e\ud800", query_string=b"canary")

    await talk(consumer(OPEN), scope, part(b"{}"))

    [line] = caplog.records
    assert line.getMessage().isprintable()
    assert "canary" not in line.getMessage()
    assert len(line.getMessage()) < 800


@override_settings(ROOT_URLCONF=__name__)
def test_the_view_logs_as_well(caplog: pytest.LogCaptureFixture):
    Client().post("/mcp", b"{}", content_type="text/plain", headers={"host": "localhost"})

    assert "Refused POST /mcp from 127.0.0.1 with 415: Content-Type" in caplog.text


def consumer(server: MCPServer) -> Any:
    return MCPConsumer.as_asgi(server=server)


# -- the log alone


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


REFUSED = refusal_reply(Refusal(code=-32600, message="No"))


def write(log: RefusalLog, reply: Reply, address: str | None = None) -> None:
    log.write(reply, method="POST", path="/mcp", address=address)


def test_clients_together_cannot_fill_the_log(caplog: pytest.LogCaptureFixture):
    clock = Clock()
    log = RefusalLog(clock)

    for number in range(MAX_LINES + 5):
        write(log, REFUSED, f"192.0.2.{number}")
    assert len(caplog.records) == MAX_LINES + 1
    assert caplog.messages[-2:] == [
        f"Refused POST /mcp from 192.0.2.{MAX_LINES - 1} with 400: No",
        "More refused requests are not logged for up to 60 s",
    ]
    clock.now_s += PERIOD_S
    write(log, REFUSED)

    assert caplog.messages[MAX_LINES + 1 :] == [
        "5 more refused requests were not logged",
        "Refused POST /mcp from an unknown address with 400: No",
    ]


def test_one_client_leaves_lines_for_the_others(caplog: pytest.LogCaptureFixture):
    clock = Clock()
    log = RefusalLog(clock)

    for number in range(MAX_LINES):
        write(log, REFUSED, f"2001:db8::{number}")
    assert len(caplog.records) == MAX_OWN_LINES + 1
    assert caplog.messages[-1] == (
        f"More refused requests from 2001:db8::{MAX_OWN_LINES - 1} are not logged for up to 60 s"
    )
    write(log, REFUSED, "192.0.2.1")

    assert caplog.messages[-1] == "Refused POST /mcp from 192.0.2.1 with 400: No"
    clock.now_s += PERIOD_S
    write(log, REFUSED, "2001:db8::1")
    assert caplog.messages[-2:] == [
        f"{MAX_LINES - MAX_OWN_LINES} more refused requests were not logged",
        "Refused POST /mcp from 2001:db8::1 with 400: No",
    ]


def test_filtered_log_lines_do_not_count(caplog: pytest.LogCaptureFixture):
    log = RefusalLog(Clock())

    with caplog.at_level(logging.WARNING):
        for _ in range(MAX_LINES):
            write(log, refusal_reply(Refusal(code=-32600, message="No", status=405)))
        write(log, refusal_reply(Refusal(code=-32600, message="Yes")))

    [line] = caplog.records
    assert "Yes" in line.getMessage()


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (
            refusal_reply(
                Refusal(code=INVALID_PARAMS, message="/pin: must be 4 digits; not canary")
            ),
            "/pin",
        ),
        (refusal_reply(Refusal(code=-32600, message="x" * 5000)), "x" * 300 + "…"),
        (Reply(404, b"<h1>"), "no reason was given"),
    ],
)
def test_reasons_are_short_and_without_arguments(
    reply: Reply, told: str, caplog: pytest.LogCaptureFixture
):
    write(RefusalLog(Clock()), reply)

    [line] = caplog.records
    assert line.getMessage().endswith(f": {told}")


def test_rejections_with_a_logged_cause_are_below_warning(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.INFO):
        write(
            RefusalLog(Clock()),
            refusal_reply(Refusal(code=-32603, message="The store is down", status=503)),
        )

    [line] = caplog.records
    assert line.levelno == logging.INFO
    assert line.getMessage().endswith("with 503: The store is down")


@pytest.mark.parametrize(
    "reply", [Reply(200), Reply(202), Reply(500), Reply(404, is_dispensable=True)]
)
def test_responses_that_are_no_rejection_are_not_logged(
    reply: Reply, caplog: pytest.LogCaptureFixture
):
    with caplog.at_level(logging.DEBUG):
        write(RefusalLog(Clock()), reply)

    assert caplog.records == []
