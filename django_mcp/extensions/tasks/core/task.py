"""Task: a call that outlives its request, and the steps from one of its states to the next.

A step returns the changed task, or None if it does not apply. No step depends on the store.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from django_mcp.extensions.tasks.core.shapes import (
    CANCELLED,
    FAILED,
    FINAL,
    INPUT_REQUIRED,
    WORKING,
)
from django_mcp.protocol.asks import Ask
from django_mcp.protocol.errors import INTERNAL_ERROR, Refusal
from django_mcp.protocol.json import JSONObject, encode
from django_mcp.server.exchange.call import MAX_STATE_BYTES, AskFailed, RetryAnswers, StateTooLarge

LEASE_S = 15.0
"""How long a run counts as alive after it last renewed its lease."""

GRACE_S = 6.0
"""How much longer a run counts as alive once its lease has lapsed, since the store may have been locked
or unavailable when the run had to renew it."""

MAX_EXTENSIONS = 2
"""How often that is done. Each time the store was writable, so the run could have renewed its lease."""

MAX_ASKED = 100
"""Questions in the life of one task."""

MAX_MESSAGE = 500
MAX_RUNS = 3
"""How often a task is started, if its workers end."""

Step: TypeAlias = "Callable[[Task, float], Task | None]"
"""Takes a task and the time; returns the changed task, or None if it is not changed."""

ROW_BYTES = 1024
"""What a task takes besides its call and its result: its columns and indexes."""


def new_id() -> str:
    """Return an id with 192 random bits, which alone protect the tasks of anonymous callers."""
    return secrets.token_urlsafe(24)


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """One task. Times are seconds since the epoch.

    Attributes:
        id: secret; it alone gives access to tasks of anonymous callers.
        owner: the key of the principal that may see it; None: anonymous.
        session: the key of the session it was made in; it gives access to tasks without an owner.
        quota_key: the quota that is charged for it, see `quotas`.
        call: what else a run needs: arguments, the client, the principal.
        rounds: the questions, answers and state between two runs of the handler.
        created_s, updated_s: the times of its creation and of its last change for clients.
        ttl_ms, poll_ms: how long it is stored, and how often clients should poll.
        run: the id of the run that works on it, if any.
        lease_s: the time until which that run counts as alive.
        version: the number of changes, so that none is lost.
    """

    id: str
    server: str
    owner: str | None
    session: str | None
    revision: str
    tool: str
    call: JSONObject
    quota_key: str = ""
    status: str = WORKING
    status_message: str | None = None
    rounds: JSONObject = field(default_factory=dict)
    result: bytes | None = None
    error: JSONObject | None = None
    created_s: float
    updated_s: float
    ttl_ms: int
    poll_ms: int
    run: str | None = None
    lease_s: float | None = None
    version: int = 0

    @property
    def expires_s(self) -> float:
        """When it is deleted."""
        return self.created_s + self.ttl_ms / 1000

    @property
    def size(self) -> int:
        """Its encoded bytes, with those of a row without them."""
        encoded = len(encode(self.call)) + len(encode(self.rounds)) + len(self.result or b"")
        return ROW_BYTES + encoded

    @property
    def is_final(self) -> bool:
        """Whether it has ended."""
        return self.status in FINAL

    @property
    def due(self) -> JSONObject:
        """The open questions, by the key that clients know."""
        questions: JSONObject = self.rounds.get("due", {}) if self.status == INPUT_REQUIRED else {}
        return questions

    def is_orphaned(self, now_s: float) -> bool:
        """Whether the lease of its run has lapsed."""
        return self.status == WORKING and self.lease_s is not None and self.lease_s < now_s

    def claim(self, run: str, now_s: float) -> Task | None:
        """Assign it to a run, unless one has started."""
        if self.status != WORKING or self.lease_s is not None:
            return None
        return replace(self, run=run, lease_s=now_s + LEASE_S)

    def extend(self, now_s: float) -> Task | None:
        """Extend a lapsed lease: a run that is alive renews it as soon as the store is writable."""
        count = int(self.rounds.get("extended", 0)) + 1
        if not self.is_orphaned(now_s) or self.run is None or count > MAX_EXTENSIONS:
            return None
        return replace(self, lease_s=now_s + GRACE_S, rounds={**self.rounds, "extended": count})

    def take_over(self, run: str | None, now_s: float) -> Task | None:
        """Assign it to another run after a lease has lapsed; None: to any run that claims it."""
        runs = self.rounds.get("runs", 1) + 1
        if not self.is_orphaned(now_s) or runs > MAX_RUNS:
            return None
        lease_s = None if run is None else now_s + LEASE_S
        rounds = {key: each for key, each in self.rounds.items() if key != "extended"}
        return replace(self, run=run, lease_s=lease_s, rounds={**rounds, "runs": runs})

    def release(self, run: str, now_s: float) -> Task | None:
        """Let another worker start it again at once. This run does not count."""
        if not self._is_run_by(run):
            return None
        rounds = {**self.rounds, "runs": self.rounds.get("runs", 1) - 1}
        return replace(self, run=None, lease_s=now_s - 1, rounds=rounds)

    def renew(self, run: str, now_s: float, message: str | None = None) -> Task | None:
        """Renew the run's lease, and set the status message."""
        if not self._is_run_by(run):
            return None
        rounds = {key: each for key, each in self.rounds.items() if key != "extended"}
        renewed = replace(self, lease_s=now_s + LEASE_S, rounds=rounds)
        if message is None or message == self.status_message:
            return renewed
        return replace(renewed, updated_s=now_s, **_note(message))

    def keep(self, run: str, answers: RetryAnswers) -> Task | None:
        """Store the results of `once`."""
        if not self._is_run_by(run):
            return None
        return replace(self, rounds={**self.rounds, "kept": dict(answers.kept)})

    def park(
        self,
        run: str,
        asks: Mapping[str, Ask],
        state: Any,
        answers: RetryAnswers,
        now_s: float,
        message: str | None = None,
    ) -> Task | None:
        """Wait for answers, without a run. The message is the last status message of the run."""
        if not self._is_run_by(run):
            return None
        asked: list[str] = list(self.rounds.get("asked", ()))
        due: JSONObject = {}
        for key, ask in asks.items():
            # Source: the extension, "keys are unique over the task's lifetime".
            name, number = key, 1
            while name in asked:
                number += 1
                name = f"{key}-{number}"
            asked.append(name)
            due[name] = {"key": key, "capability": ask.capability, **ask.to_wire()}
        rounds: JSONObject = {
            "known": answers.known,
            "failed": {key: [str(each), each.code] for key, each in answers.failed.items()},
            "kept": answers.kept,
            "state": state,
            "asked": asked,
            "due": due,
        }
        if len(asked) > MAX_ASKED or not asks or len(encode(rounds)) > MAX_STATE_BYTES:
            error = Refusal(code=INTERNAL_ERROR, message="The tool asked too much, or nothing")
            return self.fail(run, error, now_s)
        changes: JSONObject = {"rounds": rounds, "run": None, "lease_s": None, "updated_s": now_s}
        return replace(self, status=INPUT_REQUIRED, **changes, **_note(message))

    def answer(
        self,
        known: Mapping[str, Any],
        failed: Mapping[str, AskFailed],
        now_s: float,
        run: str | None,
    ) -> Task | None:
        """Accept answers by the keys that clients know; those to no open question are ignored.

        Without a question left it goes on: by the given run, or by any. Raises `StateTooLarge`.
        """
        due = dict(self.due)
        keys = {key: due.pop(key)["key"] for key in (*known, *failed) if key in due}
        if not keys:
            return None
        rounds = {**self.rounds, "due": due}
        answered = {keys[key]: each for key, each in known.items() if key in keys}
        rounds["known"] = {**rounds.get("known", {}), **answered}
        missed = {keys[key]: [str(each), each.code] for key, each in failed.items() if key in keys}
        rounds["failed"] = {**rounds.get("failed", {}), **missed}
        size = len(encode(rounds))
        if size > MAX_STATE_BYTES:
            raise StateTooLarge(
                f"The answers are too large: {size} bytes with what the task knows already, and at "
                f"most {MAX_STATE_BYTES} are kept"
            )
        changed = replace(self, rounds=rounds, updated_s=now_s)
        if due:
            return changed
        lease_s = None if run is None else now_s + LEASE_S
        return replace(changed, status=WORKING, run=run, lease_s=lease_s)

    def complete(
        self, run: str, status: str, result: bytes, now_s: float, message: str | None = None
    ) -> Task | None:
        """End with a result. The message is the last status message of the run."""
        if not self._is_run_by(run):
            return None
        return self._end(status, now_s, result=result, **_note(message))

    def fail(self, run: str | None, refusal: Refusal, now_s: float) -> Task | None:
        """End with an error of its run, or of anything else if `run` is None."""
        if self.is_final or (run is not None and not self._is_run_by(run)):
            return None
        message = refusal.message[:MAX_MESSAGE]
        return self._end(FAILED, now_s, error=refusal.to_error(), status_message=message)

    def cancel(self, now_s: float) -> Task | None:
        """End at the request of its owner."""
        return None if self.is_final else self._end(CANCELLED, now_s)

    def give_up(self, run: str, now_s: float) -> Task | None:
        """End since its run was stopped."""
        return self._end(CANCELLED, now_s) if self._is_run_by(run) else None

    def _end(self, status: str, now_s: float, **changes: Any) -> Task:
        # The answers and the results of `once` are not needed any more.
        return replace(
            self, status=status, run=None, lease_s=None, rounds={}, updated_s=now_s, **changes
        )

    def _is_run_by(self, run: str) -> bool:
        return self.status == WORKING and self.run == run

    def read_answers(self) -> RetryAnswers:
        """Return the answers for the handler's next round."""
        rounds = self.rounds
        failed = rounds.get("failed", {}).items()
        return RetryAnswers(
            known=dict(rounds.get("known", {})),
            failed={key: AskFailed(message, code) for key, (message, code) in failed},
            kept=dict(rounds.get("kept", {})),
            state=rounds.get("state"),
            is_resubmit=bool(rounds.get("asked")),
        )


def _note(message: str | None) -> JSONObject:
    return {} if message is None else {"status_message": message[:MAX_MESSAGE]}
