"""Replays the calls of a transcript, each task on a fresh copy of the site's database."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from django.contrib.auth.models import User
from django.db import connection

from django_mcp.inprocess import MCPError
from django_mcp.test import MCPClient
from tests.usability.tasks import Site, Task
from tests.usability.transcripts import Run, changes, fill_in


@dataclass
class Outcome:
    """What became of the tasks of a site. Tokens are characters / 4.

    Attributes:
        failed: the ids of tasks that are not solved, with the reasons.
        listed: tokens of the lists that the model reads, by server and user.
    """

    solved: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    calls: int = 0
    errors: int = 0
    result_tokens: int = 0
    listed: dict[tuple[str, str | None], int] = field(default_factory=dict)


def tokens_of(value: Any) -> int:
    """Return an estimate of the tokens of a text, or of JSON."""
    text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
    return -(-len(text) // 4)


@contextmanager
def snapshot() -> Iterator[Any]:
    """Return a function that brings the database in memory back to what it is now."""
    connection.ensure_connection()
    with sqlite3.connect(":memory:") as copy:
        connection.connection.backup(copy)
        yield lambda: copy.backup(connection.connection)
    copy.close()


def replay(site: Site, transcript: dict[str, Run]) -> Outcome:
    """Replay the runs of a site's tasks; the database of the site is loaded."""
    outcome = Outcome()
    before = site.state()
    with snapshot() as restore:
        for task in site.tasks:
            restore()
            # Users keep the permissions that they were asked for.
            user = User.objects.get(username=task.user) if task.user else None
            client = MCPClient(site.servers[task.server], user=user)
            key = (task.server, task.user)
            if key not in outcome.listed:
                outcome.listed[key] = tokens_of(as_a_model_reads(client))
            run = transcript.get(task.id, Run())
            reason = _replay_task(task, run, client, outcome)
            if not reason and task.facts:
                answer = run.answer.lower()
                missing = [fact for fact in task.facts if fact.lower() not in answer]
                reason = f"the answer lacks {', '.join(missing)}" if missing else ""
            if not reason and not task.is_done():
                reason = "the database is not as it should be"
            if not reason and task.is_done is Task.is_done and site.state() != before:
                reason = "a question changed the database"
            if reason:
                outcome.failed[task.id] = reason
            else:
                outcome.solved += 1
    return outcome


def as_a_model_reads(client: MCPClient) -> Any:
    """Return what a model is told of a server: instructions, and of each tool what it has to know."""
    tools = [
        {name: tool[name] for name in ("name", "description", "inputSchema") if name in tool}
        for tool in client.list_tools()
    ]
    return [client.discover().get("instructions", ""), tools]


def _replay_task(task: Task, run: Run, client: MCPClient, outcome: Outcome) -> str:
    """Make the calls of a task, and return why that cannot go on; empty if it went well."""
    results: list[Any] = []
    changed: dict[Any, Any] = {}
    if not run.calls:
        return "the transcript has no call"
    for number, call in enumerate(run.calls, 1):
        outcome.calls += 1
        try:
            if "resource" in call:
                text = client.read(call["resource"]).text
                results.append(text)
            else:
                arguments = fill_in(call.get("arguments", {}), results, changed)
                client.answer(*call.get("answers", ()))
                result = client.call(call["tool"], arguments)
                text = " ".join(part["text"] for part in result.content if part["type"] == "text")
                results.append(result.raw.get("structuredContent", text))
                outcome.errors += result.is_error
        except MCPError as error:
            outcome.errors += 1
            text = str(error)
            results.append(text)
        except (KeyError, IndexError, TypeError) as error:
            return f"call {number} names what an earlier result has not: {error!r}"
        outcome.result_tokens += tokens_of(text)
        changed.update(changes(call.get("result"), results[-1]))
    return ""
