"""How many functions and files a call passes before its handler's thread."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from django.test import override_settings

from django_mcp.asgi import django_mcp_application
from django_mcp.protocol.json import encode
from django_mcp.servers import MCPServer
from tests.support.http.harness import Conversation, http_scope, part
from tests.support.wire import R5, headers_for, message

MAX_FUNCTIONS = 60
MAX_FILES = 24

server = MCPServer("path", public=True)
urls = ModuleType("urls")
urls.urlpatterns = server.urls[0]  # type: ignore[attr-defined]


@server.tool(read_only=True)
def echo(text: str) -> str:
    return text


@pytest.fixture(autouse=True)
def mounted() -> Iterator[None]:
    with override_settings(ROOT_URLCONF=urls, ALLOWED_HOSTS=["localhost"]):
        yield


def make_call(application: Any) -> Conversation:
    request = message("tools/call", {"name": "echo", "arguments": {"text": "x"}}, revision=R5)
    scope = http_scope("POST", {"host": "localhost", **headers_for(request, R5)})
    return Conversation(application, scope, part(encode(request)))


async def nothing(scope: Any, receive: Any, send: Any) -> None:
    raise AssertionError("the endpoint is not there")


async def find_passed(application: Any) -> set[tuple[str, str]]:
    """Return the files and functions that one call passes on the event loop."""
    measured = make_call(application)
    passed: set[tuple[str, str]] = set()

    def note(frame: Any, event: str, _argument: Any) -> None:
        file = frame.f_code.co_filename
        if event == "call" and "/django_mcp/" in file:
            passed.add((file.rpartition("/django_mcp/")[2], frame.f_code.co_qualname))

    sys.setprofile(note)
    try:
        await measured.end()
    finally:
        sys.setprofile(None)
    return passed


async def test_a_warm_call_uses_few_functions_and_files():
    application = django_mcp_application(nothing)
    assert (await make_call(application).end()).status == 200

    # A call passes more while the thread of the one before is not idle yet, or a timer is due, which on a
    # busy machine may be so many times in a row.
    passed = min([await find_passed(application) for _ in range(200)], key=len)

    assert len(passed) <= MAX_FUNCTIONS, sorted(passed)
    assert len({file for file, _ in passed}) <= MAX_FILES
