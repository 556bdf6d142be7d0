"""Object checks: a forbidden object gets the error of a missing one."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.backends import BaseBackend
from django.contrib.auth.models import AnonymousUser, User
from django.core.exceptions import ObjectDoesNotExist, PermissionDenied
from django.http import Http404
from django.test import override_settings

from django_mcp import Context, MCPServer, ToolError, object_permission
from django_mcp.auth.principal import Principal
from django_mcp.protocol.revisions import REVISIONS, Revision
from django_mcp.registry.problems import RegistrationError
from django_mcp.test import MCPClient
from example_project.shop.models import Product
from tests.support.databases import make_product
from tests.support.wire import V2026_07_28, WireClient

ann = Principal(key="ann", user=User(username="ann"))

ENDS: dict[str, Any] = {
    "refusal": lambda: False,
    "nothing": lambda: None,
    "denied": PermissionDenied("because"),
    "missing": Product.DoesNotExist("it"),
    "gone": ObjectDoesNotExist(),
    "404": Http404("here"),
    "told": ToolError("the reason"),
    "broken": LookupError("canary"),
    "exit": SystemExit("canary"),
}


def end(how: str) -> Any:
    found = ENDS[how]
    if isinstance(found, BaseException):
        # A new one, since its traceback keeps all it passed through alive.
        raise type(found)(*found.args)
    return found()


@pytest.fixture
def server() -> MCPServer:
    server = MCPServer("checked", public=True)

    def check(user: Any, how: str) -> bool:
        return user.get_username() == "ann" and (how not in ENDS or bool(end(how)))

    async def acheck(ctx: Context, how: str) -> bool:
        return check(ctx.user, how)

    def act(how: str, n: int = 0) -> str:
        # Exceptions of a handler that finds nothing: those that mean "not found".
        if how.startswith("handler "):
            end(how.removeprefix("handler "))
        return how

    async def aact(how: str, n: int = 0) -> str:
        return act(how, n)

    def template(how: str) -> str:
        return act(how)

    server.register_tool(act, name="sync", check=check)
    server.register_tool(aact, name="hop", check=check)
    server.register_tool(aact, name="async", check=acheck)
    server.register_resource("x://{how}", template, name="x", check=check)
    server.register_prompt(template, name="prompt", check=check)
    return server


def asks(how: str) -> list[tuple[str, dict[str, Any]]]:
    return [
        *(("tools/call", {"name": n, "arguments": {"how": how}}) for n in ("sync", "hop", "async")),
        ("resources/read", {"uri": f"x://{how.replace(' ', '%20')}"}),
        ("prompts/get", {"name": "prompt", "arguments": {"how": how}}),
    ]


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("index", range(5), ids=["sync", "hop", "async", "template", "prompt"])
async def test_every_denial_looks_the_same(
    server: MCPServer, revision: Revision, index: int
) -> None:
    client = WireClient(server, revision, principal=ann)
    method, fine = asks("fine")[index]
    assert "fine" in json.dumps((await client.send(method, fine))[1]["result"])

    found = []
    missing = [f"handler {how}" for how in ("denied", "missing", "gone", "404")]
    for how in [*ENDS, *missing]:
        method, params = asks(how)[index]
        status, body = await client.send(method, params)
        text = json.dumps({**body, "id": 0}).replace(how.replace(" ", "%20"), "*")
        found.append((status, text))

    assert set(found) == {found[0]}
    assert "canary" not in str(found)
    assert "because" not in str(found)


async def test_a_forbidden_resource_looks_like_a_missing_one(server: MCPServer) -> None:
    client = WireClient(server, V2026_07_28, principal=ann)

    forbidden = await client.send("resources/read", {"uri": "x://refusal"})
    unknown = await client.send("resources/read", {"uri": "y://refusal"})

    swapped = json.dumps({**unknown[1], "id": 0}).replace("y:", "x:")
    assert (forbidden[0], json.dumps({**forbidden[1], "id": 0})) == (unknown[0], swapped)


async def test_a_broken_check_is_logged(
    server: MCPServer, caplog: pytest.LogCaptureFixture
) -> None:
    client = WireClient(server, V2026_07_28, principal=ann)
    await client.call("sync", {"how": "denied"})
    assert caplog.text == ""

    await client.call("sync", {"how": "broken"})
    await client.call("async", {"how": "exit"})

    assert "LookupError: canary" in caplog.text
    assert "SystemExit: canary" in caplog.text


async def test_arguments_are_validated_before_they_are_checked(server: MCPServer) -> None:
    seen: list[Any] = []

    def note(user: Any, n: int, **others: Any) -> bool:
        seen.append((n, others))
        return True

    @server.tool(check=note)
    def number(n: int, text: str = "none", more: bool = False) -> str:
        return "ok"

    client = WireClient(server, V2026_07_28, principal=ann)
    assert (await client.call("number", {"n": "x"}))["isError"]
    assert seen == []
    await client.call("number", {"n": 5, "more": True})
    assert seen == [(5, {"text": "none", "more": True})]


async def test_a_check_runs_in_the_same_thread_hop_as_its_handler() -> None:
    threads: list[int] = []
    server = MCPServer("hop", public=True)

    def check(user: Any) -> bool:
        threads.append(threading.get_ident())
        return True

    @server.tool(check=check)
    def work() -> str:
        threads.append(threading.get_ident())
        return "done"

    await WireClient(server, V2026_07_28, principal=ann).call("work")

    assert threads[0] == threads[1] != threading.get_ident()


def handler(n: int) -> str:
    return ""


async def later(user: Any) -> bool:
    return True


@pytest.mark.parametrize(
    ("check", "says"),
    [
        (lambda: True, "has no parameter"),
        (lambda **all_of_it: True, "has no parameter"),
        (lambda user, m: True, "takes m"),
        (later, "asynchronous"),
        (object_permission("shop.view_product", Product, pk="m"), "takes m"),
        ("no", "must be a function"),
    ],
)
def test_an_invalid_check_is_rejected_at_registration(check: Any, says: str) -> None:
    with pytest.raises(RegistrationError, match=says):
        MCPServer("x").register_tool(handler, name="x", check=check)


async def test_a_check_returning_an_unawaited_coroutine_denies(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = MCPServer("x", public=True)

    async def really(n: int) -> bool:
        return True

    server.register_tool(handler, name="x", check=lambda user, n: really(n))
    result = await WireClient(server, V2026_07_28, principal=ann).call("x", {"n": 1})

    assert result["isError"]
    assert "it returned a coroutine, which is always true" in caplog.text


async def test_a_check_returning_a_function_denies(caplog: pytest.LogCaptureFixture) -> None:
    server = MCPServer("x", public=True)

    async def ahandler(n: int) -> str:
        return ""

    async def acheck(user: Any, n: int) -> Any:
        return user.has_perm

    server.register_tool(handler, name="x", check=lambda user, n: user.has_perm)
    server.register_tool(ahandler, name="y", check=acheck)
    client = WireClient(server, V2026_07_28, principal=ann)

    for name in ("x", "y"):
        assert (await client.call(name, {"n": 1}))["isError"]
        assert f"The check of tool {name} failed" in caplog.text
    assert "call it, as in has_perm(...)" in caplog.text


class OwnOnly(BaseBackend):
    """Ann may view what begins with her letter."""

    def has_perm(self, user_obj: Any, perm: str, obj: Any = None) -> bool:
        return (
            perm == "shop.view_product"
            and isinstance(obj, Product)
            and obj.sku.startswith(user_obj.get_username()[:1] or "?")
        )


@pytest.fixture
def own_only() -> Iterator[None]:
    with override_settings(AUTHENTICATION_BACKENDS=[f"{__name__}.OwnOnly"]):
        yield


@pytest.mark.django_db(transaction=True)
def test_object_permissions_are_checked_with_the_backends(own_only: None) -> None:
    server = MCPServer("objects", public=True)

    @server.tool(check=object_permission("shop.view_product", Product, sku="sku"))
    def look(sku: str) -> str:
        return Product.objects.get(sku=sku).name

    for sku in ("a1", "b1"):
        make_product(sku, using="default")
    user = User(username="ann")

    assert server.call_tool("look", {"sku": "a1"}, user=user).text == "a1"
    refused = [
        server.call_tool("look", {"sku": sku}, user=who)
        for sku, who in (("b1", user), ("zz", user), ("a1", AnonymousUser()))
    ]
    assert {(each.is_error, each.text) for each in refused} == {(True, "Not found.")}


def test_an_object_permission_requires_a_lookup() -> None:
    with pytest.raises(TypeError, match="lookup"):
        object_permission("shop.view_product", Product)


def is_of_ann(user: Any, number: str) -> bool:
    return number.startswith(user.get_username())


@pytest.mark.parametrize(
    "check", [is_of_ann, lambda user, **arguments: arguments["number"].startswith("ann")]
)
def test_a_dict_handler_is_checked_with_its_schema_properties(check: Any):
    server = MCPServer("dicts", public=True)
    schema = {"type": "object", "properties": {"number": {"type": "string"}}}
    server.register_tool(
        lambda arguments: arguments["number"], name="of", input_schema=schema, check=check
    )
    client = MCPClient(server, user=User(username="ann"))

    assert client.call("of", number="ann-1").text == "ann-1"
    assert client.call("of", number="bob-1").text == "Not found."
