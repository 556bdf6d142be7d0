"""What a task is: a question as a person asks it, and a check of what is true in the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Task:
    """A task.

    Attributes:
        id: its name in transcripts.
        question: what the person writes to the model.
        user: who asks, by username; None for a visitor.
        server: the server that the client is connected to.
        facts: what the answer has to say, each in any upper or lower case.
        is_done: whether the database is as the person wants it; for a question, nothing is changed.
    """

    id: str
    question: str
    user: str | None
    server: str
    facts: tuple[str, ...] = ()
    is_done: Callable[[], bool] = lambda: True


@dataclass(frozen=True, kw_only=True)
class Site:
    """A site with its tasks.

    Attributes:
        load: adds the data of the site to an empty database.
        servers: the servers that tasks name.
        state: everything that a question must not change.
    """

    load: Callable[[], None]
    servers: dict[str, Any]
    tasks: tuple[Task, ...]
    state: Callable[[], Any]
