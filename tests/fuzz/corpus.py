"""Realistic messages of each revision, which mutations start from."""

from __future__ import annotations

from random import Random
from typing import Any

from django_mcp.protocol.revisions import Revision
from tests.support.wire import META, V2026_07_28

TASKS = "io.modelcontextprotocol/tasks"
CAPABILITIES: list[dict[str, Any]] = [
    {},
    {"elicitation": {}, "sampling": {}, "roots": {"listChanged": True}},
    {
        "elicitation": {"form": {}, "url": {}},
        "sampling": {"tools": {}, "context": {}},
        "roots": {},
        "extensions": {TASKS: {}, "io.modelcontextprotocol/ui": {"mimeTypes": ["text/html"]}},
        "experimental": {"logLevel": "debug", "x": {"y": [1, 2]}},
        "tasks": {"list": {}, "cancel": {}, "requests": {"elicitation": {"create": {}}}},
    },
]
CLIENT_INFO: list[dict[str, Any]] = [
    {"name": "fuzzer", "version": "1"},
    {
        "name": "fuzzer",
        "title": "A fuzzer",
        "version": "1.2.3",
        "websiteUrl": "https://fuzzer.example",
        "icons": [{"src": "data:image/png;base64,AAAA", "mimeType": "image/png", "sizes": ["8x8"]}],
    },
]


def expression(random: Random, depth: int) -> dict[str, Any]:
    """Return a valid argument of the tool `search`."""
    kind = random.choice(("and", "or", "not", "eq")) if depth else "eq"
    match kind:
        case "eq":
            return {"op": "eq", "name": "n", "value": random.choice((1, "x", None, True, 1.5))}
        case "not":
            return {"op": "not", "part": expression(random, depth - 1)}
    count = random.choice((0, 1, 1, 2, 3))
    return {"op": kind, "parts": [expression(random, depth - 1) for _ in range(count)]}


def node(random: Random, depth: int) -> dict[str, Any]:
    count = random.choice((0, 1, 2, 3)) if depth else 0
    return {"label": "n", "kids": [node(random, depth - 1) for _ in range(count)]}


def arguments(random: Random) -> tuple[str, dict[str, Any]]:
    """Return the name of a tool and arguments that it takes."""
    deep = random.choice((1, 2, 3, 5, 8))
    return random.choice(
        (
            ("search", {"expr": expression(random, min(deep, 5)), "limit": 5}),
            ("search", {"expr": _chain(deep * 4)}),
            ("tree", {"root": node(random, min(deep, 4))}),
            (
                "moments",
                {
                    "day": "2024-02-29",
                    "at": "2024-01-01T10:00:00Z",
                    "clock": "10:00",
                    "took": "PT5S",
                },
            ),
            ("money", {"amount": "12.50", "share": 0.25, "count": 3}),
            (
                "shapes",
                {
                    "choice": random.choice(("a", "b", 3)),
                    "colour": "blue",
                    "ids": ["12345678-1234-5678-1234-567812345678"],
                    "table": {"a": 1, "b": 2},
                    "either": random.choice((1, "x", [1, 2], {"a": 0.5})),
                    "place": {"street": "Main", "number": 1},
                    "data": "aGVsbG8=",
                },
            ),
            (
                "rows",
                {
                    "rows": [
                        {"id": n, "name": "x", "price": "1.5", "tags": ["t"]} for n in range(deep)
                    ]
                },
            ),
            ("region", {"region": "eu", "count": 3}),
            (
                "raw",
                {
                    "tree": [1, [2, {"a": 3}]],
                    "code": "aaa",
                    "unique": [{"a": 1}, 2],
                    "either": 9,
                    "x-y": "z",
                },
            ),
            ("anything", {"value": {"a": [1, None]}}),
            ("count", {"to": 3, "say": "at"}),
            ("fail", {"message": "no"}),
            ("order", {"item": "tea"}),
            ("consult", {"prompt": "Say"}),
            ("steer", {}),
            ("job", {"label": "x"}),
            ("asking_job", {"label": "x"}),
            ("failing_job", {"label": "x"}),
        )
    )


def _chain(depth: int) -> dict[str, Any]:
    found: dict[str, Any] = {"op": "eq", "name": "n", "value": 1}
    for number in range(depth):
        kind = ("and", "or")[number % 2]
        found = {"op": kind, "parts": [found]}
    return found


def initialize(random: Random, revision: Revision) -> dict[str, Any]:
    return {
        "protocolVersion": revision.name,
        "capabilities": random.choice(CAPABILITIES),
        "clientInfo": random.choice(CLIENT_INFO),
    }


def requests(random: Random, memory: dict[str, list[Any]]) -> tuple[str, dict[str, Any]]:
    """Return a method and its parameters; `memory` contains what the server has sent so far."""
    known = {kind: random.choice(found) for kind, found in memory.items() if found}
    cursor = {"cursor": known["cursor"]} if "cursor" in known and random.random() < 0.5 else {}
    uri = random.choice(
        ("text://plain", "bytes://plain", "file:///a/b.txt", "number://x/5?page=2&tags=a")
    )
    task = {"taskId": known.get("task", "0" * 32)}
    ref = random.choice(
        (
            {"type": "ref/prompt", "name": "letter"},
            {"type": "ref/resource", "uri": "file:///{+path}"},
        )
    )
    return random.choice(
        (
            ("ping", {}),
            (
                random.choice(
                    ("tools/list", "resources/list", "resources/templates/list", "prompts/list")
                ),
                cursor,
            ),
            ("server/discover", {}),
            (
                "resources/read",
                {"uri": uri, **({"offset": 3, "length": 5} if random.random() < 0.3 else {})},
            ),
            (random.choice(("resources/subscribe", "resources/unsubscribe")), {"uri": uri}),
            ("prompts/get", {"name": "letter", "arguments": {"to": "Ann", "tone": "cold"}}),
            ("prompts/get", {"name": "interview", "arguments": {"about": "x"}}),
            (
                "completion/complete",
                {"ref": ref, "argument": {"name": "tone", "value": "w"}, "context": {}},
            ),
            ("logging/setLevel", {"level": random.choice(("debug", "info", "emergency"))}),
            ("subscriptions/listen", {"notifications": _wishes(random, uri, task)}),
            (random.choice(("tasks/get", "tasks/result", "tasks/cancel")), task),
            ("tasks/list", cursor),
            ("tasks/update", {**task, "inputResponses": answers(random, memory)}),
        )
    )


def _wishes(random: Random, uri: str, task: dict[str, Any]) -> dict[str, Any]:
    return random.choice(
        (
            {"toolsListChanged": True, "promptsListChanged": True},
            {"resourcesListChanged": True, "resourceSubscriptions": [uri]},
            {"taskIds": [task["taskId"]]},
        )
    )


def answer(random: Random) -> dict[str, Any]:
    """Return an answer to one question of the server: of a user, a model, or the roots."""
    return random.choice(
        (
            {"action": "accept", "content": {"name": "Ann", "age": 5, "yes": True}},
            {"action": random.choice(("decline", "cancel"))},
            {
                "role": "assistant",
                "model": "m",
                "stopReason": "endTurn",
                "content": {"type": "text", "text": "x"},
            },
            {"roots": [{"uri": "file:///a", "name": "a"}]},
        )
    )


def answers(random: Random, memory: dict[str, list[Any]]) -> dict[str, Any]:
    """Return `inputResponses`: to what was asked, or to what never was."""
    asked = memory.get("asked") or []
    keys = random.choice(asked) if asked else ["elicit-1", "name"]
    return {key: answer(random) for key in keys}


def notifications(random: Random, memory: dict[str, list[Any]]) -> tuple[str, dict[str, Any]]:
    request_id = random.choice(memory.get("sent") or [1])
    return random.choice(
        (
            ("notifications/initialized", {}),
            ("notifications/cancelled", {"requestId": request_id, "reason": "enough"}),
            ("notifications/progress", {"progressToken": request_id, "progress": 1, "total": 2}),
            ("notifications/roots/list_changed", {}),
            ("notifications/elicitation/complete", {"elicitationId": "x"}),
            ("notifications/tasks/status", {"taskId": "x", "status": "working"}),
        )
    )


def meta(random: Random, revision: Revision) -> dict[str, Any]:
    """Return the `_meta` of a request."""
    found: dict[str, Any] = {}
    if revision is V2026_07_28:
        found = {
            META + "protocolVersion": revision.name,
            META + "clientInfo": random.choice(CLIENT_INFO),
            META + "clientCapabilities": random.choice(CAPABILITIES),
        }
        if random.random() < 0.2:
            found[META + "logLevel"] = "debug"
    if random.random() < 0.3:
        found["progressToken"] = random.choice((1, "token"))
    if random.random() < 0.1:
        found["traceparent"] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    return found
