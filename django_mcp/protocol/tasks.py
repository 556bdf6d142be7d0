"""Tasks on the wire: their statuses and the two forms in which revisions write them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

EXTENSION = "io.modelcontextprotocol/tasks"

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


class TaskRules(Struct, frozen=True, kw_only=True, eq=False):
    """How a revision supports tasks.

    Attributes:
        by_client: the client requests a task with its call, fetches the result with a request that
            waits, gets progress meanwhile, and treats a tool's own error as a failure. Otherwise
            the server decides, and `tasks/get` returns everything.
        extension: the capability that a client must have declared; None: nothing.
        ttl_key, poll_key: the names of two of the fields.
    """

    by_client: bool
    extension: str | None = None
    ttl_key: str
    poll_key: str


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
