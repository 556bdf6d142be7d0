"""One client's conversation: it opens a session where there are sessions, and uses what the server sent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from django_mcp.protocol.headers import encode_value
from django_mcp.protocol.revisions import REVISIONS
from tests.fuzz import corpus
from tests.fuzz.mutate import Line, mutate, mutate_bytes, mutate_headers, write
from tests.support.wire import MIRRORED, V2026_07_28

MAX_REMEMBERED = 8
MAX_SHOTS = 40
MUTATED_SHARE = 0.7
"""The others keep the conversation going: a mutated message mostly gets no further than a check."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Shot:
    """One HTTP request, or one line of a pipe."""

    verb: str
    lines: list[Line]
    body: bytes = b""
    is_waiting: bool = False
    """Its answer may come late: it opens a stream, or asks for the end of a task."""

    def __str__(self) -> str:
        return f"{self.verb} {self.lines!r}\n{self.body[:4000]!r} ({len(self.body)} bytes)"


class Conversation:
    """Makes the requests of one client, in turn; `learn` passes it what the server sent."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.revision = random.choice(REVISIONS)
        self.memory: dict[str, list[Any]] = {}
        self.questions: list[Any] = []
        self.session_id: bytes | None = None
        self.user = random.choice((None, None, b"ann", b"bob"))
        self._others: list[Any] = []
        self._sent: Any = None
        self._last_id = 0

    def shots(self) -> Iterator[Shot]:
        """Yield the requests; what was learned since the last one goes into the next."""
        random = self.random
        if self.revision is not V2026_07_28:
            opening = self._request("initialize", corpus.initialize(random, self.revision))
            yield self._post(opening, is_mutated=random.random() < 0.1)
            if random.random() < 0.99:
                ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
                yield self._post(ready, is_mutated=False)
        for _ in range(random.randint(1, MAX_SHOTS)):
            yield self._next()

    def _next(self) -> Shot:
        random = self.random
        if random.random() < 0.04:
            return self._other_verb()
        message = self._message()
        self._others = [*self._others[-30:], message]
        if random.random() < 0.04:
            batch = [self._message() for _ in range(random.choice((0, 1, 2, 3, 21)))]
            return self._post(message, is_mutated=True, batch=batch)
        return self._post(message, is_mutated=random.random() < MUTATED_SHARE)

    def _message(self) -> dict[str, Any]:
        random = self.random
        if self.questions and random.random() < 0.7:
            return self._answer(self.questions.pop(random.randrange(len(self.questions))))
        pick = random.random()
        if pick < 0.08:
            method, params = corpus.notifications(random, self.memory)
            return {"jsonrpc": "2.0", "method": method, "params": params}
        if pick < 0.1:
            return self._answer(random.choice((1, "x", "0" * 32)))
        if pick < 0.6:
            return self._call()
        method, params = corpus.requests(random, self.memory)
        return self._request(method, params)

    def _answer(self, question_id: Any) -> dict[str, Any]:
        if self.random.random() < 0.2:
            return {"jsonrpc": "2.0", "id": question_id, "error": {"code": -1, "message": "no"}}
        return {"jsonrpc": "2.0", "id": question_id, "result": corpus.answer(self.random)}

    def _call(self) -> dict[str, Any]:
        random = self.random
        name, given = corpus.arguments(random)
        params: dict[str, Any] = {"name": name, "arguments": given}
        paused = self.memory.get("paused")
        if paused and random.random() < 0.6:
            # The same call again, with the answers to what it asked.
            method, first, state, keys = random.choice(paused)
            params = {key: value for key, value in first.items() if key != "_meta"}
            params["inputResponses"] = {key: corpus.answer(random) for key in keys}
            params["requestState"] = state
            return self._request(method, params)
        if random.random() < 0.1:
            params["inputResponses"] = corpus.answers(random, self.memory)
        if random.random() < (0.5 if "job" in name else 0.1):
            params["task"] = {"ttl": random.choice((1, 60_000))}
        return self._request("tools/call", params)

    def _request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        random = self.random
        self._last_id += 1
        request_id = random.choice((self._last_id, self._last_id, f"id-{self._last_id}"))
        self._remember("sent", request_id)
        meta = corpus.meta(random, self.revision)
        if meta:
            params = {**params, "_meta": meta}
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": request_id, "method": method}
        if params or random.random() < 0.5:
            message["params"] = params
        return message

    def _post(
        self, message: dict[str, Any], *, is_mutated: bool, batch: list[Any] | None = None
    ) -> Shot:
        random = self.random
        lines = self._lines(message)
        value: Any = message if batch is None else [message, *batch]
        pick = random.random() if is_mutated else 1.0
        if pick < 0.65:
            value = mutate(value, random, self._others or [message])
        body = write(value, ascii_only=random.random() < 0.7)
        if 0.55 < pick < 0.75:
            body = mutate_bytes(body, random)
        if 0.7 < pick < 0.95:
            lines = mutate_headers(lines, random)
        waits = ("subscriptions/listen", "tasks/result")
        is_waiting = message.get("method") in waits or batch is not None
        self._sent = value
        return Shot(verb="POST", lines=lines, body=body, is_waiting=is_waiting)

    def _other_verb(self) -> Shot:
        random = self.random
        verb = random.choice((*["GET"] * 8, "DELETE", "OPTIONS", "PUT", "HEAD", "PATCH", "TRACE"))
        lines = [*self._common(), (b"accept", b"text/event-stream")]
        events = self.memory.get("event")
        if verb == "GET" and events and random.random() < 0.6:
            lines.append((b"last-event-id", random.choice(events).encode()))
        if random.random() < 0.4:
            lines = mutate_headers(lines, random)
        self._sent = None
        return Shot(verb=verb, lines=lines, is_waiting=True)

    def _common(self) -> list[Line]:
        found: list[Line] = [(b"host", b"localhost")]
        if self.user is not None:
            found.append((b"authorization", b"Bearer " + self.user))
        if self.session_id is not None:
            found.append((b"mcp-session-id", self.session_id))
        return found

    def _lines(self, message: dict[str, Any]) -> list[Line]:
        found = [
            *self._common(),
            (b"content-type", b"application/json"),
            (b"accept", b"application/json, text/event-stream"),
        ]
        method = message.get("method")
        if method != "initialize":
            found.append((b"mcp-protocol-version", self.revision.name.encode()))
        if self.revision is V2026_07_28 and isinstance(method, str):
            found.append((b"mcp-method", method.encode()))
            params = message.get("params", {})
            mirrored = params.get(MIRRORED.get(method, ""))
            if isinstance(mirrored, str):
                found.append((b"mcp-name", encode_value(mirrored).encode("latin-1", "replace")))
            given = params.get("arguments")
            for name in ("region", "count"):
                value = given.get(name) if isinstance(given, dict) else None
                if params.get("name") == "region" and value is not None:
                    found.append((b"mcp-param-" + name.encode(), str(value).encode()))
        return found

    # -- messages of the server

    def learn(
        self, lines: Iterable[Line], payloads: Iterable[Any], event_ids: Iterable[str]
    ) -> None:
        """Take note of the ids, states, cursors and questions in what the server sent."""
        for name, value in lines:
            if name.lower() == b"mcp-session-id":
                self.session_id = value
        for event_id in event_ids:
            self._remember("event", event_id)
        for payload in payloads:
            for each in payload if isinstance(payload, list) else [payload]:
                if isinstance(each, dict):
                    self._learn(each)

    def _learn(self, payload: dict[str, Any]) -> None:
        if "method" in payload and "id" in payload:
            self.questions = [*self.questions[-MAX_REMEMBERED:], payload["id"]]
        result = payload.get("result")
        if not isinstance(result, dict):
            return
        task = result.get("task", result)
        if isinstance(task, dict) and isinstance(task.get("taskId"), str):
            self._remember("task", task["taskId"])
        if "nextCursor" in result:
            self._remember("cursor", result["nextCursor"])
        asked = result.get("inputRequests")
        if asked:
            self._remember("asked", list(asked))
        sent = self._sent if isinstance(self._sent, dict) else {}
        method, params = sent.get("method"), sent.get("params")
        if "requestState" in result and isinstance(params, dict):
            self._remember("paused", (method, params, result["requestState"], list(asked or ())))

    def _remember(self, kind: str, value: Any) -> None:
        self.memory[kind] = [*self.memory.get(kind, [])[-MAX_REMEMBERED:], value]
