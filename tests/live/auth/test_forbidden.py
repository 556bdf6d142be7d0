"""Entries that a principal may not use look like missing ones, for everything that has a name."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest

from django_mcp.protocol.revisions import REVISIONS, Revision
from tests.support.auth.entry_points import ENTRY_POINTS, LISTEN, EntryPoint, opened, renamed
from tests.support.http.rawhttp import connect, post
from tests.support.sites import Running, running
from tests.support.wire import HANDSHAKE, V2025_11_25, V2026_07_28, headers_for, message

COMPLETE = "completion/complete"


@dataclass(frozen=True, kw_only=True)
class Case:
    """A request that names a hidden entry.

    Attributes:
        revisions: those that have it.
        is_told: whoever may use it is answered otherwise than for what is not there.
    """

    method: str
    params: dict[str, Any]
    revisions: tuple[Revision, ...] = REVISIONS
    is_told: bool = True


def completing(ref: dict[str, str], argument: str) -> Case:
    params = {"ref": ref, "argument": {"name": argument, "value": ""}}
    return Case(method=COMPLETE, params=params)


PROMPT = {"type": "ref/prompt", "name": "hidden"}
TEMPLATE = {"type": "ref/resource", "uri": "hidden://{n}"}


def calling(revisions: tuple[Revision, ...] = REVISIONS, **params: Any) -> Case:
    return Case(method="tools/call", params={"name": "hidden", **params}, revisions=revisions)


def about_task(method: str, revision: Revision, **params: Any) -> Case:
    key = "hidden-4" if revision is V2025_11_25 else "hidden-5"
    return Case(method=f"tasks/{method}", params={"taskId": key, **params}, revisions=(revision,))


def listening(**notifications: Any) -> Case:
    # For a resource, later notifications distinguish them.
    return Case(
        method=LISTEN,
        params={"notifications": notifications},
        revisions=(V2026_07_28,),
        is_told="taskIds" in notifications,
    )


def subscribing(verb: str, uri: str) -> Case:
    is_told = verb == "subscribe"
    return Case(
        method=f"resources/{verb}", params={"uri": uri}, revisions=HANDSHAKE, is_told=is_told
    )


CASES = {
    "call": calling(arguments={"region": "eu"}),
    "call with other arguments": calling(arguments={"region": "x"}),
    "call with wrong arguments": calling(arguments={"no": 1}),
    "call as a task": calling((V2025_11_25,), arguments={"region": "eu"}, task={"ttl": 1000}),
    "read": Case(method="resources/read", params={"uri": "x://hidden"}),
    "read by template": Case(method="resources/read", params={"uri": "hidden://1"}),
    "get": Case(method="prompts/get", params={"name": "hidden", "arguments": {"no": "such"}}),
    "complete a prompt": completing(PROMPT, "n"),
    "complete a template": completing(TEMPLATE, "n"),
    "complete what has no such argument": completing(PROMPT, "zz"),
    "subscribe": subscribing("subscribe", "x://hidden"),
    "subscribe by template": subscribing("subscribe", "hidden://1"),
    "unsubscribe": subscribing("unsubscribe", "x://hidden"),
    "unsubscribe by template": subscribing("unsubscribe", "hidden://1"),
    "listen": listening(resourceSubscriptions=["x://hidden"]),
    "listen by template": listening(resourceSubscriptions=["x://shown", "hidden://1"]),
    "listen to a task": listening(taskIds=["hidden-5"]),
    "get a task asked for": about_task("get", V2025_11_25),
    "get a task": about_task("get", V2026_07_28),
    "wait for a task": about_task("result", V2025_11_25),
    "answer a task": about_task("update", V2026_07_28, inputResponses={}),
    "cancel a task asked for": about_task("cancel", V2025_11_25),
    "cancel a task": about_task("cancel", V2026_07_28),
}
HERE = {
    f"{name}, {entry_point}": (entry_point, case)
    for name, case in CASES.items()
    for entry_point, (_transport, revision) in ENTRY_POINTS.items()
    if revision in case.revisions
}
everywhere = pytest.mark.parametrize(("entry_point", "case"), HERE.values(), ids=HERE)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    log = tmp_path_factory.mktemp("guarded") / "server.log"
    with running("tests.support.site.guarded", "uvicorn", log=log) as found:
        yield found
    assert "Traceback" not in found.log.read_text()


@pytest.fixture(scope="module")
def find_entry_point(site: Running) -> Iterator[Callable[[str, str], EntryPoint]]:
    """Return a function that opens each entry point once for each person."""
    known: dict[tuple[str, str], EntryPoint] = {}
    with ExitStack() as stack:

        def find(name: str, who: str) -> EntryPoint:
            if (name, who) not in known:
                known[name, who] = stack.enter_context(opened(name, who, site))
            return known[name, who]

        yield find


@everywhere
@pytest.mark.parametrize("who", ["bob", "nobody"])
def test_forbidden_entries_look_like_unknown_ones(
    find_entry_point: Callable[[str, str], EntryPoint], entry_point: str, who: str, case: Case
) -> None:
    asking = find_entry_point(entry_point, who)

    seen = asking.ask(case.method, case.params)
    unknown = asking.ask(case.method, renamed(case.params))

    assert b"canary" not in seen.body
    assert seen.body.replace(b"hidden", b"absent") == unknown.body
    assert (seen.status, seen.headers) == (unknown.status, unknown.headers)


@everywhere
def test_permitted_principals_can_use_the_entries(
    find_entry_point: Callable[[str, str], EntryPoint], entry_point: str, case: Case
) -> None:
    """Without this, the test above would pass on an empty server."""
    asking = find_entry_point(entry_point, "ann")

    seen = asking.ask(case.method, case.params)
    absent = asking.ask(case.method, renamed(case.params))

    assert (seen.body.replace(b"hidden", b"absent") != absent.body) is case.is_told


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


@pytest.mark.parametrize(
    "method", ["tools/list", "resources/list", "resources/templates/list", "prompts/list"]
)
async def test_lists_differ_per_principal_over_a_socket(site: Running, method: str) -> None:
    """One worker repeatedly serves ann, bob and an anonymous client in turn."""
    for _ in range(2):
        _, _, anns = await over_the_wire(site, "ann", method, {}, V2026_07_28)
        _, _, bobs = await over_the_wire(site, "bob", method, {}, V2026_07_28)
        _, _, nobodys = await over_the_wire(site, "nobody", method, {}, V2026_07_28)

        assert b"hidden" in anns
        assert b"hidden" not in bobs + nobodys
        assert b"shown" in bobs
        assert b"shown" in nobodys
        assert b'"private"' in anns
        assert b'"private"' in bobs
        assert b'"private"' in nobodys


async def test_a_hidden_completer_looks_like_a_missing_one(site: Running) -> None:
    params = {
        "ref": {"type": "ref/prompt", "name": "shown"},
        "argument": {"name": "n", "value": ""},
    }

    _, _, anns = await over_the_wire(site, "ann", "completion/complete", params, V2026_07_28)
    _, _, bobs = await over_the_wire(site, "bob", "completion/complete", params, V2026_07_28)

    assert json.loads(anns)["result"]["completion"]["values"] == ["canary"]
    assert json.loads(bobs)["result"]["completion"]["values"] == []


async def test_a_missing_scope_is_challenged_and_the_tool_stays_listed(site: Running) -> None:
    params = {"name": "scoped", "arguments": {}}

    status, headers, body = await over_the_wire(site, "bob", "tools/call", params, V2026_07_28)
    listed = await over_the_wire(site, "bob", "tools/list", {}, V2026_07_28)
    done = await over_the_wire(site, "ann", "tools/call", params, V2026_07_28)
    unknown_status, unknown_headers, _ = await over_the_wire(
        site, "nobody", "tools/call", params, V2026_07_28
    )

    assert status == 403
    assert 'error="insufficient_scope"' in headers["www-authenticate"]
    assert 'scope="write"' in headers["www-authenticate"]
    assert "error" in json.loads(body)
    assert b'"scoped"' in listed[2]
    assert b"written" in done[2]
    assert unknown_status == 401
    assert "insufficient_scope" not in unknown_headers["www-authenticate"]
