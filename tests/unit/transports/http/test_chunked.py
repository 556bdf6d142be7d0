"""Chunked bodies: trailers give no rights, and WSGI servers that can read them do."""

from __future__ import annotations

import json
import socket
from io import BytesIO
from typing import Any, cast

import pytest
from asgiref.sync import async_to_sync
from django.core.handlers.wsgi import WSGIRequest

from django_mcp.protocol.errors import Refusal
from django_mcp.server.exchange.exchange import Exchange, Reply, refusal_reply
from django_mcp.server.options import Options
from django_mcp.transports.http.chunked import read_chunked
from django_mcp.transports.http.consumer import MCPConsumer
from django_mcp.transports.http.view import MCPView
from tests.support.http.harness import http_scope, part, talk
from tests.support.http.scripted import ScriptedServer, script

KEY = (b"authorization", b"Bearer secret")
CHUNKED = (b"transfer-encoding", b"chunked")
TYPE = (b"content-type", b"application/json")
HEAD = [(b"host", b"localhost"), (b"accept", b"application/json, text/event-stream")]


class Guarded(ScriptedServer):
    """Lets in who sends the key."""

    def __init__(self) -> None:
        super().__init__()
        self.authenticate = self._authenticate

    async def _authenticate(self, exchange: Exchange) -> Reply | None:
        if (
            exchange.headers is not None
            and exchange.headers.get("authorization") == "Bearer secret"
        ):
            return None
        return refusal_reply(Refusal(code=-32600, message="no"), 401)


async def status_of(lines: list[tuple[bytes, bytes]]) -> int:
    app = MCPConsumer.as_asgi(server=cast("Any", Guarded()))
    scope = {**http_scope(), "headers": lines}
    return (await talk(app, scope, part(script(["reply", 200, 1])))).status


async def test_credentials_that_may_be_trailers_do_not_count():
    """uvicorn with httptools adds trailers to the headers of the scope."""
    assert await status_of([*HEAD, TYPE, CHUNKED, KEY]) == 411
    assert await status_of([*HEAD, TYPE, CHUNKED, KEY, CHUNKED]) == 411


async def test_credentials_before_the_transfer_encoding_count():
    assert await status_of([*HEAD, KEY, CHUNKED, TYPE]) == 200
    assert await status_of([*HEAD, TYPE, KEY]) == 200


@pytest.mark.parametrize("name", [b"cookie", b"x-api-key", b"mcp-session-id", b"x-forwarded-for"])
async def test_no_header_that_may_give_rights_is_taken_from_a_trailer(name: bytes):
    assert await status_of([*HEAD, KEY, TYPE, CHUNKED, (name, b"x")]) == 411


async def test_a_request_that_is_built_later_has_no_trailers():
    of = ScriptedServer()
    scope = {**http_scope(), "headers": [*HEAD, TYPE, CHUNKED]}
    await talk(MCPConsumer.as_asgi(server=cast("Any", of)), scope, part(script(["reply", 200, 1])))
    scope["headers"].append(KEY)
    build = of.exchanges[0].caller.build_request

    assert build is not None
    assert "HTTP_AUTHORIZATION" not in build().META


def wsgi_request(body: bytes, **environ: Any) -> WSGIRequest:
    return WSGIRequest(
        {
            "REQUEST_METHOD": "POST",
            "PATH_INFO": "/mcp",
            "CONTENT_TYPE": "application/json",
            "CONTENT_LENGTH": "",
            "HTTP_ACCEPT": "application/json",
            "HTTP_HOST": "localhost",
            "HTTP_TRANSFER_ENCODING": "chunked",
            "SERVER_NAME": "localhost",
            "SERVER_PORT": "80",
            "wsgi.url_scheme": "http",
            "wsgi.input": BytesIO(body),
            **environ,
        }
    )


def view_status(request: WSGIRequest) -> int:
    view = MCPView(cast("Any", ScriptedServer(max_body_bytes=1000)))
    response = async_to_sync(view)(request)
    # A WSGI application must not send it.
    assert "Connection" not in response
    return response.status_code


def test_a_chunked_body_is_read_under_wsgi():
    body = script(["reply", 200, 1])

    assert view_status(wsgi_request(body, **{"wsgi.input_terminated": True})) == 200


def test_a_server_that_cannot_read_chunked_bodies_says_so():
    assert view_status(wsgi_request(script(["reply", 200, 1]))) == 411


def test_a_chunked_body_under_wsgi_has_a_limit():
    body = b" " * 10**6

    assert view_status(wsgi_request(body, **{"wsgi.input_terminated": True})) == 413


def test_malformed_chunks_are_refused():
    class Broken:
        def read(self, _size: int) -> bytes:
            raise OSError("no chunk")

        readline = read

    environ = {"wsgi.input_terminated": True, "wsgi.input": Broken()}

    assert view_status(wsgi_request(b"", **environ)) == 400


def test_a_chunked_body_that_never_ends_is_refused_at_the_deadline():
    ours, theirs = socket.socketpair()
    with ours, theirs, ours.makefile("rb") as stream:
        theirs.sendall(b"x")
        request = wsgi_request(
            b"",
            **{"wsgi.input_terminated": True, "wsgi.input": stream, "gunicorn.socket": ours},
        )
        refused = read_chunked(request, Options(body_timeout_s=0.05))

        assert isinstance(refused, Reply)
        assert refused.status == 408
        # The answer can still be sent.
        ours.sendall(b"answer")
        assert theirs.recv(6) == b"answer"


def test_the_refusal_of_a_chunked_body_is_json():
    view = MCPView(cast("Any", ScriptedServer()))
    response: Any = async_to_sync(view)(wsgi_request(b""))

    assert "Content-Length" in json.loads(response.content)["error"]["message"]
