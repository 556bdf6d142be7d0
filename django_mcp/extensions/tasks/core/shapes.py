"""Tasks on the wire: their statuses and the two forms in which revisions write them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from django_mcp.protocol.revisions.records import V2025_11_25, V2026_07_28
from django_mcp.registry.entries import Entry

EXTENSION = "io.modelcontextprotocol/tasks"
RELATED_TASK = "io.modelcontextprotocol/related-task"
"""The key in `_meta` of messages that belong to a task."""

WORKING = "working"
INPUT_REQUIRED = "input_required"
COMPLETED = "completed"
FAILED = "failed"
CANCELLED = "cancelled"
FINAL = frozenset({COMPLETED, FAILED, CANCELLED})
"""The statuses that never change."""

NEVER = "never"
REQUIRED = "required"
SUPPORT = {NEVER: "forbidden", "allowed": "optional", REQUIRED: "required", "auto": "optional"}
"""What a tool declares, and its form for clients that request tasks themselves."""


def support_of(entry: Entry) -> str:
    """Return whether calls of a tool can become tasks: `never`, `allowed`, `required` or `auto`."""
    support: str = entry.extensions.get(EXTENSION, NEVER)
    return support


class TaskRules(Struct, frozen=True, kw_only=True, eq=False):
    """How a revision supports tasks.

    Attributes:
        by_client: the client requests a task with its call, fetches the result with a request that
            waits, gets progress meanwhile, and treats a tool's own error as a failure. Otherwise
            the server decides for clients that declared the extension, and `tasks/get` returns everything.
        ttl_key, poll_key: the names of two of the fields.
    """

    by_client: bool
    ttl_key: str
    poll_key: str


RULES: Mapping[str, TaskRules] = {
    V2025_11_25.name: TaskRules(by_client=True, ttl_key="ttl", poll_key="pollInterval"),
    V2026_07_28.name: TaskRules(by_client=False, ttl_key="ttlMs", poll_key="pollIntervalMs"),
}
"""By the names of the revisions that have tasks."""


def read_ttl_ms(params: Any) -> int | str | None:
    """Return the lifetime that a client requests for its task in `params.task`; None: any.

    A text is an error message.
    """
    if type(params) is not dict:
        return "task must be an object"
    ttl = params.get("ttl")
    if ttl is None:
        return None
    if type(ttl) not in (int, float) or not 0 < ttl < 2**53:
        return "task.ttl must be a number of milliseconds above 0"
    return int(ttl) or 1


def to_moment(seconds: float) -> str:
    """Return seconds since the epoch as the protocol writes a time."""
    text = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")
