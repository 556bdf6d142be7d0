"""What a principal may not use looks to them as what does not exist: for all that can be named."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import override_settings

from django_mcp.protocol.revisions import REVISIONS, Revision
from django_mcp.server.exchange import ANONYMOUS
from tests.auth.guarded.people import principal
from tests.auth.guarded.servers import make_server
from tests.sites import Running, running
from tests.transports.http.rawhttp import connect, post
from tests.wire import HANDSHAKE, R4, R5, WireClient, headers_for, message

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "call": ("tools/call", {"name": "hidden", "arguments": {"region": "eu"}}),
    "call without its header": ("tools/call", {"name": "hidden", "arguments": {"region": "x"}}),
    "call with wrong arguments": ("tools/call", {"name": "hidden", "arguments": {"no": 1}}),
    "read": ("resources/read", {"uri": "x://hidden"}),
    "read by template": ("resources/read", {"uri": "hidden://1"}),
    "get": ("prompts/get", {"name": "hidden", "arguments": {"no": "such"}}),
    "complete a prompt": (
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "hidden"}, "argument": {"name": "n", "value": ""}},
    ),
    "complete a template": (
        "completion/complete",
        {
            "ref": {"type": "ref/resource", "uri": "hidden://{n}"},
            "argument": {"name": "n", "value": ""},
        },
    ),
    "complete what has no such argument": (
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "hidden"}, "argument": {"name": "zz", "value": ""}},
    ),
}
every_case = pytest.mark.parametrize(("method", "params"), CASES.values(), ids=CASES)
WHO = ("bob", "nobody")


def renamed(value: Any) -> Any:
    """Return the same request for a name of equal length that there is not."""
    return json.loads(json.dumps(value).replace("hidden", "absent"))


@pytest.fixture(autouse=True)
def backend() -> Iterator[None]:
    with override_settings(AUTHENTICATION_BACKENDS=["tests.auth.guarded.people.Backend"]):
        yield


@every_case
@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("revision", REVISIONS, ids=lambda each: each.name)
@pytest.mark.django_db(transaction=True)
async def test_forbidden_looks_like_unknown(
    revision: Revision, who: str, method: str, params: dict[str, Any]
) -> None:
    """AUT-17, TOOL-03, RSC-02, PRM-06, CMP-05"""
    server = make_server()
    asking = ANONYMOUS if who == "nobody" else principal(who)
    client = WireClient(server, revision, principal=asking)

    async def ask(params: dict[str, Any]) -> tuple[int, bytes | None, Any]:
        request = message(method, params, revision=revision)
        reply = await client.post(json.dumps(request).encode(), headers_for(request, revision))
        return reply.status, reply.body, reply.headers

    status, body, headers = await ask(params)
    unknown_status, unknown_body, unknown_headers = await ask(renamed(params))

    assert body is not None
    assert b"error" in body
    assert (status, body.replace(b"hidden", b"absent"), headers) == (
        unknown_status,
        unknown_body,
        unknown_headers,
    )


@pytest.mark.parametrize("method", ["resources/subscribe", "resources/unsubscribe"])
@pytest.mark.parametrize("uri", ["x://hidden", "hidden://1"])
@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("revision", HANDSHAKE, ids=lambda each: each.name)
@pytest.mark.django_db(transaction=True)
async def test_a_hidden_resource_is_subscribed_to_as_an_unknown_one(
    revision: Revision, who: str, uri: str, method: str
) -> None:
    asking = ANONYMOUS if who == "nobody" else principal(who)
    client = WireClient(make_server(), revision, principal=asking)

    status, seen = await client.send(method, {"uri": uri})
    unknown_status, unknown = await client.send(method, renamed({"uri": uri}))

    same = json.loads(json.dumps({**seen, "id": 0}).replace("hidden", "absent"))
    assert (status, same) == (unknown_status, {**unknown, "id": 0})


@every_case
@pytest.mark.django_db(transaction=True)
async def test_it_is_there_for_those_who_may(method: str, params: dict[str, Any]) -> None:
    """Without this, the test above would pass on a server that has nothing."""
    client = WireClient(make_server(), R4, principal=principal("ann"))

    _, seen = await client.send(method, params)
    _, absent = await client.send(method, renamed(params))

    seen, absent = {**seen, "id": 0}, {**absent, "id": 0}
    assert json.dumps(seen).replace("hidden", "absent") != json.dumps(absent)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    log = tmp_path_factory.mktemp("guarded") / "server.log"
    with running("tests.auth.guarded", "uvicorn", log=log) as found:
        yield found


async def over_the_wire(
    site: Running, who: str, method: str, params: dict[str, Any], revision: Revision
) -> tuple[int, dict[str, str], bytes]:
    request = message(method, params, revision=revision)
    headers = headers_for(request, revision)
    if who != "nobody":
        headers["authorization"] = f"Bearer {who}"
    async with connect(site.host, site.port) as client:
        answer = await client.ask(post("/mcp", json.dumps(request).encode(), headers))
    kept = {key: value for key, value in answer.headers.items() if key != "date"}
    return answer.status, kept, answer.body


@every_case
@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("revision", [R5], ids=lambda each: each.name)
async def test_forbidden_looks_like_unknown_over_a_socket(
    site: Running, revision: Revision, who: str, method: str, params: dict[str, Any]
) -> None:
    status, headers, body = await over_the_wire(site, who, method, params, revision)
    unknown = await over_the_wire(site, who, method, renamed(params), revision)

    assert b"error" in body
    assert (status, headers, body.replace(b"hidden", b"absent")) == unknown


@pytest.mark.parametrize(
    "method", ["tools/list", "resources/list", "resources/templates/list", "prompts/list"]
)
async def test_lists_are_each_ones_own_over_a_socket(site: Running, method: str) -> None:
    """CCH-04: one worker answers ann, bob and nobody in turn, again and again."""
    for _ in range(2):
        _, _, anns = await over_the_wire(site, "ann", method, {}, R5)
        _, _, bobs = await over_the_wire(site, "bob", method, {}, R5)
        _, _, nobodys = await over_the_wire(site, "nobody", method, {}, R5)

        assert b"hidden" in anns
        assert b"hidden" not in bobs + nobodys
        assert b"shown" in bobs
        assert b"shown" in nobodys
        assert b'"private"' in anns
        assert b'"private"' in bobs
        assert b'"private"' in nobodys


async def test_a_hidden_completer_is_as_none(site: Running) -> None:
    params = {
        "ref": {"type": "ref/prompt", "name": "shown"},
        "argument": {"name": "n", "value": ""},
    }

    _, _, anns = await over_the_wire(site, "ann", "completion/complete", params, R5)
    _, _, bobs = await over_the_wire(site, "bob", "completion/complete", params, R5)

    assert json.loads(anns)["result"]["completion"]["values"] == ["canary"]
    assert json.loads(bobs)["result"]["completion"]["values"] == []


async def test_a_missing_scope_is_challenged_and_the_tool_stays_listed(site: Running) -> None:
    """AUT-09"""
    params = {"name": "scoped", "arguments": {}}

    status, headers, body = await over_the_wire(site, "bob", "tools/call", params, R5)
    listed = await over_the_wire(site, "bob", "tools/list", {}, R5)
    done = await over_the_wire(site, "ann", "tools/call", params, R5)
    unknown_status, unknown_headers, _ = await over_the_wire(
        site, "nobody", "tools/call", params, R5
    )

    assert status == 403
    assert 'error="insufficient_scope"' in headers["www-authenticate"]
    assert 'scope="write"' in headers["www-authenticate"]
    assert "error" in json.loads(body)
    assert b'"scoped"' in listed[2]
    assert b"written" in done[2]
    assert unknown_status == 401
    assert "insufficient_scope" not in unknown_headers["www-authenticate"]
