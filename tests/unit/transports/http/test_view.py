import asyncio
import gc
import json
import weakref
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from types import ModuleType
from typing import Any, cast

import pytest
from asgiref.sync import iscoroutinefunction
from django.core.handlers.asgi import ASGIHandler
from django.core.handlers.wsgi import WSGIRequest
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.test import AsyncRequestFactory, Client, RequestFactory, override_settings
from django.urls import path
from django.utils.decorators import async_only_middleware

from django_mcp.server.exchange.exchange import Exchange, Reply
from django_mcp.transports.http.view import MAX_KEPT_BYTES, MAX_MESSAGES, MCPView
from tests.support.events import Parser
from tests.support.http.harness import GONE, LIMIT_S, Conversation, http_scope, part, until
from tests.support.http.scripted import ScriptedServer, script

HOSTILE_MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.middleware.gzip.GZipMiddleware",
    "django.middleware.http.ConditionalGetMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.auth.middleware.LoginRequiredMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]


@contextmanager
def site(server: ScriptedServer, middleware: list[str] | None = None) -> Iterator[None]:
    """Let the site serve `server` at `/mcp`, by the view."""
    urls = ModuleType("urls")
    urls.urlpatterns = [  # type: ignore[attr-defined]
        path("mcp", MCPView(cast("Any", server))),
        path("at/<slug:tenant>/mcp", MCPView(cast("Any", server))),
    ]
    with override_settings(
        ROOT_URLCONF=urls, MIDDLEWARE=middleware or [], ALLOWED_HOSTS=["localhost"]
    ):
        yield


@async_only_middleware
def throw_away(get_response: Callable[[HttpRequest], Awaitable[HttpResponseBase]]) -> Any:
    """Middleware that replaces the response of the view."""

    async def answer(request: HttpRequest) -> HttpResponse:
        await get_response(request)
        return HttpResponse(b"another")

    return answer


@async_only_middleware
def stall(get_response: Callable[[HttpRequest], Awaitable[HttpResponseBase]]) -> Any:
    """Middleware that never finishes a response."""

    async def answer(request: HttpRequest) -> HttpResponseBase:
        response = await get_response(request)
        stalled.append(weakref.ref(response))
        await asyncio.Event().wait()
        return response

    return answer


stalled: list[weakref.ref[HttpResponseBase]] = []
"""The responses that `stall` holds back."""


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    server = ScriptedServer()
    with site(server):
        yield server


async def ask(
    *steps: Any, method: str = "POST", path: str = "/mcp", **headers: str
) -> Conversation:
    """Return a conversation with the site under ASGI."""
    scope = http_scope(
        method,
        {name.replace("_", "-"): value for name, value in headers.items()},
        path=path,
        raw_path=path.encode(),
    )
    return await Conversation(ASGIHandler(), scope, part(script(*steps))).end()


def ask_wsgi(*steps: Any, method: str = "POST", **headers: str) -> Any:
    """Return the response of the site under WSGI."""
    found = {"accept": "application/json, text/event-stream", "host": "localhost", **headers}
    client = Client(headers={name.replace("_", "-"): value for name, value in found.items()})
    return client.generic(method, "/mcp", script(*steps), content_type="application/json")


async def test_a_single_response_is_json(server: ScriptedServer):
    talked = await ask(["reply", 200, {"x": 1}])

    assert talked.status == 200
    assert talked.headers["Content-Type"] == "application/json"
    assert talked.headers["Content-Length"] == "7"
    assert talked.body == b'{"x":1}'


async def test_messages_before_the_response_open_a_stream(server: ScriptedServer):
    talked = await ask(["send", 1], ["send", 2], ["reply", 200, "answer"])

    assert talked.headers["Content-Type"] == "text/event-stream"
    assert talked.headers["X-Accel-Buffering"] == "no"
    assert talked.headers["Cache-Control"] == "no-cache, no-transform"
    assert [event.data for event in talked.events] == ["1", "2", '"answer"']


async def test_the_first_message_does_not_wait_for_the_second(server: ScriptedServer):
    steps = script(["send", 1], ["wait", "later"], ["reply", 200, 2])
    talk = Conversation(ASGIHandler(), http_scope(), part(steps))
    await talk.until_sent(2)
    assert [event.data for event in talk.events] == ["1"]

    server.events["later"].set()
    await talk.end()
    assert [event.data for event in talk.events] == ["1", "2"]


@pytest.mark.parametrize("status", [400, 404])
async def test_the_status_can_be_set_until_streaming_starts(server: ScriptedServer, status: int):
    assert (await ask(["reply", status, "no"])).status == status


async def test_an_accepted_notification_has_no_body(server: ScriptedServer):
    talked = await ask(["reply", 202, None])

    assert (talked.status, talked.body) == (202, b"")
    assert talked.headers["Content-Length"] == "0"
    assert "Content-Type" not in talked.headers


async def test_a_client_that_accepts_only_json_gets_only_json(server: ScriptedServer):
    talked = await ask(["send", 1], ["tell", "can_stream"], accept="application/json")

    assert json.loads(talked.body) == [False, False]


async def test_a_client_that_accepts_only_sse_gets_an_event(server: ScriptedServer):
    talked = await ask(["reply", 200, "x"], accept="text/event-stream")

    assert [event.data for event in talked.events] == ['"x"']


async def test_the_handlers_request_is_the_view_request(server: ScriptedServer):
    """It has its body, though the view did not read it the usual way."""
    talked = await ask(["tell", "request"], x_test="yes")

    assert json.loads(talked.body) == ["POST", "/mcp", "yes", len(script(["tell", "request"]))]


async def test_the_exchange_contains_the_request_data(server: ScriptedServer):
    await ask(["reply", 200, 1], path="/at/home/mcp", mcp_session_id="s1")

    (exchange,) = server.exchanges
    assert exchange.caller.url_kwargs == {"tenant": "home"}
    assert exchange.headers is not None
    assert exchange.headers.get("mcp-session-id") == "s1"
    assert exchange.caller.address == "192.0.2.1"


async def test_a_silent_call_is_kept_alive():
    server = ScriptedServer(keepalive_s=0.01)
    with site(server):
        steps = script(["wait", "later"], ["reply", 200, "answer"])
        talk = Conversation(ASGIHandler(), http_scope(), part(steps))
        await talk.until_sent(4)
        server.events["later"].set()
        await talk.end()

    assert talk.body.startswith(b":\n\n" * 3)
    assert [event.data for event in talk.events] == ['"answer"']


@pytest.mark.parametrize("begun", [[], [["send", 1]]], ids=["before a stream", "in a stream"])
async def test_a_disconnect_cancels_the_call(server: ScriptedServer, begun: list[Any]):
    steps = script(["cancels", True], *begun, ["set", "running"], ["wait", "never"])
    talk = Conversation(ASGIHandler(), http_scope(), part(steps))
    async with asyncio.timeout(LIMIT_S):
        await server.events["running"].wait()
        await talk.until_sent(2 * len(begun))
        talk.put(GONE)
        await server.events["call:cancelled"].wait()
        await talk.end()

    assert server.exchanges[0].channel.is_disconnected


async def test_a_disconnect_before_streaming_cancels_the_call(
    server: ScriptedServer,
):
    """Django cancels at the headers, before the first event is requested."""
    heads = asyncio.Event()

    async def send(message: Any) -> None:
        heads.set()
        await asyncio.Event().wait()

    steps = script(["cancels", True], ["send", 1], ["wait", "never"])
    incoming: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    incoming.put_nowait(part(steps))
    task = asyncio.create_task(ASGIHandler()(http_scope(), incoming.get, send))
    async with asyncio.timeout(LIMIT_S):
        await heads.wait()
        incoming.put_nowait(GONE)
        await server.events["call:cancelled"].wait()
        await task

    assert server.exchanges[0].channel.is_disconnected


async def test_a_disconnect_during_middleware_cancels_the_call(
    server: ScriptedServer,
):
    with site(server, ["tests.unit.transports.http.test_view.stall"]):
        steps = script(["cancels", True], ["send", 1], ["wait", "never"])
        talk = Conversation(ASGIHandler(), http_scope(), part(steps))
        async with asyncio.timeout(LIMIT_S):
            await until(lambda: bool(stalled))
            response = stalled.pop()
            assert getattr(response(), "streaming", False)
            talk.put(GONE)
            await talk.end()
            # Some versions of Django leave the response in a cycle of frames and tracebacks. A collection
            # does nothing while another thread collects. It takes long in a process with many tests, so
            # none is made for the steps that follow.
            await until(lambda: response() is None or gc.collect() < 0)
            await server.events["call:cancelled"].wait()

    assert server.exchanges[0].channel.is_disconnected
    assert talk.sent == []


async def test_a_stream_discarded_by_middleware_cancels_the_call(server: ScriptedServer):
    with site(server, ["tests.unit.transports.http.test_view.throw_away"]):
        talked = await ask(["cancels", True], ["send", 1], ["wait", "never"])
        async with asyncio.timeout(LIMIT_S):
            await server.events["call:cancelled"].wait()

    assert talked.body == b"another"


@pytest.mark.parametrize("begun", [[], [["send", 1]]], ids=["before a stream", "in a stream"])
@pytest.mark.parametrize("accept", ["*/*", "application/json"])
async def test_a_call_can_outlive_a_disconnect(
    server: ScriptedServer, begun: list[Any], accept: str
):
    ahead = [["send", number] for number in range(50)]
    steps = script(*begun, ["set", "running"], ["wait", "later"], *ahead, ["reply", 200, 1])
    talk = Conversation(ASGIHandler(), http_scope(headers={"accept": accept}), part(steps))
    async with asyncio.timeout(LIMIT_S):
        await server.events["running"].wait()
        await talk.until_sent(2 * len(begun) if accept == "*/*" else 0)
        talk.put(GONE)
        await talk.end()
        server.events["later"].set()
        await server.events["call:finished"].wait()

    assert not server.events["call:cancelled"].is_set()


async def test_an_exception_is_logged_and_sent_without_details(
    server: ScriptedServer, caplog: pytest.LogCaptureFixture
):
    talked = await ask(["fail", "the secret"])

    assert talked.status == 500
    assert json.loads(talked.body)["error"] == {"code": -32603, "message": "Internal error"}
    assert "the secret" in caplog.text


async def test_an_exception_while_streaming_is_the_last_event(
    server: ScriptedServer, caplog: pytest.LogCaptureFixture
):
    talked = await ask(["send", 1], ["fail", "late"])

    assert [json.loads(event.data) for event in talked.events][1]["error"]["code"] == -32603
    assert "late" in caplog.text


async def test_no_asyncio_task_is_left_behind(server: ScriptedServer):
    before = asyncio.all_tasks()
    await ask(["send", 1], ["reply", 200, 1])
    await ask(["reply", 200, 1])
    await asyncio.sleep(0)

    assert asyncio.all_tasks() == before


# -- under WSGI


def test_under_wsgi_a_single_response_is_json(server: ScriptedServer):
    response = ask_wsgi(["tell", "is_buffered"])

    assert response.status_code == 200
    assert response["Content-Type"] == "application/json"
    assert response.json() is True


def test_under_wsgi_messages_arrive_with_the_response(server: ScriptedServer):
    """The response has the same events in one body."""
    response = ask_wsgi(["send", 1], ["send", 2], ["tell", "can_stream"])

    assert response["Content-Type"] == "text/event-stream"
    assert not response.streaming
    assert events_of(response) == ["1", "2", "[true,true]"]


def test_under_wsgi_a_client_that_accepts_only_json_gets_only_json(server: ScriptedServer):
    response = ask_wsgi(["send", 1], ["tell", "can_stream"], accept="application/json")

    assert response.json() == [False, False]


def test_under_wsgi_a_client_that_accepts_only_sse_gets_an_event(server: ScriptedServer):
    assert events_of(ask_wsgi(["reply", 200, "x"], accept="text/event-stream")) == ['"x"']


@pytest.mark.parametrize("status", [400, 404])
def test_under_wsgi_the_status_can_still_be_set(server: ScriptedServer, status: int):
    response = ask_wsgi(["send", 1], ["reply", status, "no"])

    assert (response.status_code, response.json()) == (status, "no")


def test_under_wsgi_buffered_messages_are_limited(
    server: ScriptedServer, caplog: pytest.LogCaptureFixture
):
    many = ask_wsgi(*([["send", 1]] * (MAX_MESSAGES + 5)), ["reply", 200, "many"])
    large = ask_wsgi(*([["send", "x" * 100_000]] * 20), ["reply", 200, "large"])

    assert len(events_of(many)) == MAX_MESSAGES + 1
    assert events_of(many)[-1] == '"many"'
    assert len(large.content) < MAX_KEPT_BYTES + 1000
    assert [record.getMessage() for record in caplog.records] == [
        "Dropped 5 messages ahead of an answer under WSGI",
        "Dropped 10 messages ahead of an answer under WSGI",
    ]


def events_of(response: Any) -> list[str]:
    return [event.data for event in Parser().feed(response.content)]


def test_under_wsgi_the_guard_applies(server: ScriptedServer):
    refused = [
        ask_wsgi(host="evil.example"),
        ask_wsgi(origin="http://evil.example"),
        ask_wsgi(accept="text/html"),
        ask_wsgi(method="PUT"),
        ask_wsgi(method="GET"),
        ask_wsgi(x_long="x" * 40_000),
    ]

    assert [response.status_code for response in refused] == [403, 403, 406, 405, 405, 431]
    assert {response["Content-Type"] for response in refused} == {"application/json"}


def test_under_wsgi_a_preflight_is_answered(server: ScriptedServer):
    response = ask_wsgi(method="OPTIONS", origin="http://localhost:6274")

    assert response.status_code == 204
    assert response["Access-Control-Allow-Origin"] == "http://localhost:6274"
    assert "Content-Length" not in response


def wsgi_request(body: bytes, declared: int) -> WSGIRequest:
    return WSGIRequest(
        {
            "REQUEST_METHOD": "POST",
            "PATH_INFO": "/mcp",
            "SERVER_NAME": "localhost",
            "SERVER_PORT": "80",
            "HTTP_HOST": "localhost",
            "CONTENT_TYPE": "application/json",
            "CONTENT_LENGTH": str(declared),
            "wsgi.input": BytesIO(body),
            "wsgi.url_scheme": "http",
        }
    )


@override_settings(ALLOWED_HOSTS=["localhost"])
async def test_a_body_over_the_cap_is_rejected_whatever_its_content_length():
    view = MCPView(cast("Any", ScriptedServer(max_body_bytes=100)))
    scope = http_scope(headers={"content-length": "10"})
    request = AsyncRequestFactory().post("/mcp", b"x" * 101, content_type="application/json")
    cast("Any", request.scope)["headers"] = scope["headers"]

    responses = [await view(wsgi_request(b"x" * 101, 101)), await view(request)]

    assert [response.status_code for response in responses] == [413, 413]


@override_settings(ALLOWED_HOSTS=["localhost"], DATA_UPLOAD_MAX_MEMORY_SIZE=10)
async def test_data_upload_max_memory_size_does_not_limit_the_body():
    view = MCPView(cast("Any", ScriptedServer()))
    body = script(["tell", "size"])

    response = await view(wsgi_request(body, len(body)))

    assert response.status_code == 200


@override_settings(ALLOWED_HOSTS=["localhost"])
async def test_a_body_read_by_middleware_is_still_available():
    view = MCPView(cast("Any", ScriptedServer()))
    body = script(["tell", "size"])
    request = wsgi_request(body, len(body))
    assert request.body == body

    response = cast("Any", await view(request))

    assert json.loads(response.content) == len(body)


@override_settings(ALLOWED_HOSTS=["localhost"])
async def test_an_aborted_body_is_not_an_error(caplog: pytest.LogCaptureFixture):
    class BrokenOff(BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            raise OSError("connection reset")

    request = wsgi_request(b"", 10)
    request._stream = BrokenOff()

    response = await MCPView(cast("Any", ScriptedServer()))(request)

    assert response.status_code == 400
    assert caplog.records == []


# -- site middleware and view decorators


def test_the_view_is_exempt_from_csrf_login_and_transactions():
    view = MCPView(cast("Any", ScriptedServer()))

    assert iscoroutinefunction(view)
    assert view.csrf_exempt is True
    assert view.login_required is False
    assert "default" in view._non_atomic_requests
    assert "an alias of tomorrow" in view._non_atomic_requests


@pytest.mark.parametrize("steps", [[], [["send", 1]]], ids=["json", "stream"])
async def test_site_middleware_does_not_interfere(steps: list[Any]):
    """No response is a login page, a CSRF page or a compressed stream."""
    with site(ScriptedServer(), HOSTILE_MIDDLEWARE):
        talked = await ask(
            *steps, ["reply", 200, "x" * 500], accept_encoding="gzip", accept_language="de"
        )

    assert talked.status == 200
    if steps:
        assert talked.headers["Content-Encoding"] == "identity"
        assert [event.data for event in talked.events] == ["1", '"' + "x" * 500 + '"']


def test_no_csrf_token_is_required():
    with site(ScriptedServer(), ["django.middleware.csrf.CsrfViewMiddleware"]):
        client = Client(enforce_csrf_checks=True, headers={"host": "localhost"})
        response = client.post("/mcp", script(["reply", 200, 1]), content_type="application/json")

    assert response.status_code == 200


async def test_atomic_requests_does_not_apply_to_the_view(server: ScriptedServer):
    from django.db import connections

    before = connections.settings["default"]["ATOMIC_REQUESTS"]
    connections.settings["default"]["ATOMIC_REQUESTS"] = True
    try:
        talked = await ask(["reply", 200, 1])
    finally:
        connections.settings["default"]["ATOMIC_REQUESTS"] = before

    assert talked.status == 200


async def test_challenges_are_joined_in_one_header():
    class Guarded(ScriptedServer):
        async def authenticate(self, exchange: Exchange) -> Reply | None:
            assert exchange.caller.build_request is not None
            assert isinstance(exchange.caller.build_request(), HttpRequest)
            headers = ((b"www-authenticate", b"Bearer"), (b"www-authenticate", b"Basic"))
            return Reply(401, b"{}", headers)

    with site(Guarded()):
        talked = await ask(["reply", 200, 1])

    assert talked.status == 401
    assert talked.headers["Www-Authenticate"] == "Bearer, Basic"


async def test_an_unconsumed_response_does_not_stop_the_handler():
    """Middleware may replace the response."""
    server = ScriptedServer()
    with override_settings(ALLOWED_HOSTS=["localhost"]):
        request = AsyncRequestFactory().post(
            "/mcp",
            script(["send", 1], ["set", "running"], ["reply", 200, 1]),
            content_type="application/json",
        )
        cast("Any", request.scope)["headers"] = http_scope()["headers"]
        response = await MCPView(cast("Any", server))(request)
    async with asyncio.timeout(LIMIT_S):
        await server.events["call:finished"].wait()

    assert response.status_code == 200


def test_the_test_client_of_django_needs_no_host_header(server: ScriptedServer):
    answered = Client(SERVER_NAME="localhost").post(
        "/mcp", script(), content_type="application/json", headers={"accept": "application/json"}
    )
    refused = Client(SERVER_NAME="evil.example").post(
        "/mcp", script(), content_type="application/json", headers={"accept": "application/json"}
    )

    assert answered.status_code == 200
    assert refused.status_code == 403


async def test_a_request_of_a_server_needs_a_host_header(server: ScriptedServer):
    request = RequestFactory(SERVER_NAME="localhost").post(
        "/mcp", script(), content_type="application/json", headers={"accept": "application/json"}
    )

    response = await MCPView(cast("Any", server))(request)

    assert response.status_code == 400
