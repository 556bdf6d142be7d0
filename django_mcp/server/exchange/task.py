"""Task: what is kept of a call that outlives its request, and the steps it can take.

A step is a function from a task to the next one, or to None where the task cannot take it. None
of them knows where tasks are kept.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from django_mcp.protocol.asks import Ask
from django_mcp.protocol.errors import INTERNAL_ERROR, Refusal
from django_mcp.protocol.json import JSONObject, encode
from django_mcp.protocol.tasks import CANCELLED, FAILED, FINAL, INPUT_REQUIRED, WORKING
from django_mcp.server.exchange.rounds import Answers, AskFailed

__all__ = ["LEASE_S", "Step", "Task", "TooMuchKnown", "new_id"]

LEASE_S = 15.0
"""How long a run is believed in that says nothing of itself. Our own limit."""

MAX_ASKED = 100
"""Questions in the life of one task. Our own limit."""

MAX_KNOWN_BYTES = 1024 * 1024
"""What a task may know between two rounds: it holds what the client answered. Our own limit."""

MAX_MESSAGE = 500
MAX_RUNS = 3
"""How often a run is begun again after its worker has gone. Our own limit."""

Step: TypeAlias = "Callable[[Task, float], Task | None]"
"""Takes a task and the time; returns the task as it is then, None where it stays as it is."""


class TooMuchKnown(Exception):
    """A task was told more than is kept between two rounds."""


def new_id() -> str:
    """Return an id with 192 random bits: without a login it is all that protects a task."""
    return secrets.token_urlsafe(24)


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """One task. Times are seconds since the epoch.

    Attributes:
        id: secret enough to be all that opens it.
        server: the name of the server.
        owner: who may see it; None: nobody is known.
        session: the key of the session it was made in; it gives access to tasks without an owner.
        quota_key: under which it is counted, see `quotas`.
        revision: the name of the revision of the call.
        tool: what is called.
        call: what else a run has to know: arguments, the client, the principal.
        status, status_message: as clients see them.
        rounds: what is known between two runs of the handler, and what is asked.
        result: encoded, once there is one.
        error: the JSON-RPC error object it ended with.
        created_s, updated_s: when it was made, and last changed for clients.
        ttl_ms, poll_ms: how long it is kept, and how often to look.
        run: names the run that works on it; None: none does.
        lease_s: until when that run is believed in.
        version: counts changes, so that none is lost.
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
        """From when on it is not there any more."""
        return self.created_s + self.ttl_ms / 1000

    @property
    def size(self) -> int:
        """Bytes of what it holds, encoded."""
        return len(encode(self.call)) + len(encode(self.rounds)) + len(self.result or b"")

    @property
    def is_final(self) -> bool:
        """Whether it will not change any more."""
        return self.status in FINAL

    @property
    def due(self) -> JSONObject:
        """The questions that wait for an answer, by the key that clients know."""
        found: JSONObject = self.rounds.get("due", {}) if self.status == INPUT_REQUIRED else {}
        return found

    def is_orphaned(self, now_s: float) -> bool:
        """Whether a run began and is believed in no longer."""
        return self.status == WORKING and self.lease_s is not None and self.lease_s < now_s

    # -- steps

    def claim(self, run: str, now_s: float) -> Task | None:
        """Have a run work on it, unless one has begun."""
        if self.status != WORKING or self.lease_s is not None:
            return None
        return replace(self, run=run, lease_s=now_s + LEASE_S)

    def take_over(self, run: str | None, now_s: float) -> Task | None:
        """Have another run begin where one has gone; with None, whichever comes first."""
        runs = self.rounds.get("runs", 1) + 1
        if not self.is_orphaned(now_s) or runs > MAX_RUNS:
            return None
        lease_s = None if run is None else now_s + LEASE_S
        return replace(self, run=run, lease_s=lease_s, rounds={**self.rounds, "runs": runs})

    def release(self, run: str, now_s: float) -> Task | None:
        """Give it up for another worker to begin it again at once. This run does not count."""
        if not self._is_run_by(run):
            return None
        rounds = {**self.rounds, "runs": self.rounds.get("runs", 1) - 1}
        return replace(self, run=None, lease_s=now_s - 1, rounds=rounds)

    def renew(self, run: str, now_s: float, message: str | None = None) -> Task | None:
        """Believe in its run for longer, and take down how far it says it is."""
        if not self._is_run_by(run):
            return None
        renewed = replace(self, lease_s=now_s + LEASE_S)
        if message is None or message == self.status_message:
            return renewed
        return replace(renewed, status_message=message[:MAX_MESSAGE], updated_s=now_s)

    def keep(self, run: str, answers: Answers) -> Task | None:
        """Take down what the handler did once."""
        if not self._is_run_by(run):
            return None
        return replace(self, rounds={**self.rounds, "kept": dict(answers.kept)})

    def park(
        self, run: str, asks: Mapping[str, Ask], state: Any, answers: Answers, now_s: float
    ) -> Task | None:
        """Wait for answers. No run works on it meanwhile."""
        if not self._is_run_by(run):
            return None
        asked: list[str] = list(self.rounds.get("asked", ()))
        due: JSONObject = {}
        for key, ask in asks.items():
            name = _unused(key, asked)
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
        if len(asked) > MAX_ASKED or not asks or len(encode(rounds)) > MAX_KNOWN_BYTES:
            error = Refusal(code=INTERNAL_ERROR, message="The tool asked too much, or nothing")
            return self.fail(run, error, now_s)
        return replace(
            self,
            status=INPUT_REQUIRED,
            rounds=rounds,
            run=None,
            lease_s=None,
            updated_s=now_s,
        )

    def answer(
        self,
        known: Mapping[str, Any],
        failed: Mapping[str, AskFailed],
        now_s: float,
        run: str | None,
    ) -> Task | None:
        """Take answers by the keys that clients know; what is not asked is ignored.

        Args:
            known, failed: what was answered, and what came in place of answers.
            now_s: the time.
            run: takes it over when nothing is left to be answered; None: any may.

        Raises:
            TooMuchKnown: it would not be kept.
        """
        due = dict(self.due)
        answered = {key: due.pop(key) for key in (*known, *failed) if key in due}
        if not answered:
            return None
        rounds = {
            **self.rounds,
            "due": due,
            "known": {
                **self.rounds.get("known", {}),
                **{answered[key]["key"]: value for key, value in known.items() if key in answered},
            },
            "failed": {
                **self.rounds.get("failed", {}),
                **{
                    answered[key]["key"]: [str(each), each.code]
                    for key, each in failed.items()
                    if key in answered
                },
            },
        }
        size = len(encode(rounds))
        if size > MAX_KNOWN_BYTES:
            raise TooMuchKnown(
                f"The answers are too large: {size} bytes with what the task knows already, and at "
                f"most {MAX_KNOWN_BYTES} are kept"
            )
        changed = replace(self, rounds=rounds, updated_s=now_s)
        if due:
            return changed
        lease_s = None if run is None else now_s + LEASE_S
        return replace(changed, status=WORKING, run=run, lease_s=lease_s)

    def complete(self, run: str, status: str, result: bytes, now_s: float) -> Task | None:
        """End with a result."""
        if not self._is_run_by(run):
            return None
        return self._end(status, now_s, result=result)

    def fail(self, run: str | None, refusal: Refusal, now_s: float) -> Task | None:
        """End with an error, which its run or, with None, anybody found."""
        if self.is_final or (run is not None and not self._is_run_by(run)):
            return None
        error: JSONObject = {"code": refusal.code, "message": refusal.message}
        if refusal.data is not None:
            error["data"] = refusal.data
        return self._end(FAILED, now_s, error=error, status_message=refusal.message[:MAX_MESSAGE])

    def cancel(self, now_s: float) -> Task | None:
        """End because its owner wants it to."""
        return None if self.is_final else self._end(CANCELLED, now_s)

    def give_up(self, run: str, now_s: float) -> Task | None:
        """End because its run was stopped, and nobody else has it."""
        return self._end(CANCELLED, now_s) if self._is_run_by(run) else None

    def _end(self, status: str, now_s: float, **changes: Any) -> Task:
        # What the client answered, and what was done on the way, is of no more use.
        return replace(
            self, status=status, run=None, lease_s=None, rounds={}, updated_s=now_s, **changes
        )

    def _is_run_by(self, run: str) -> bool:
        return self.status == WORKING and self.run == run

    # -- what a run begins with

    def read_answers(self) -> Answers:
        """Return what the handler's next round knows."""
        answers, rounds = Answers(), self.rounds
        answers.known = dict(rounds.get("known", {}))
        answers.kept = dict(rounds.get("kept", {}))
        answers.failed = {
            key: AskFailed(message, code)
            for key, (message, code) in rounds.get("failed", {}).items()
        }
        answers.state = rounds.get("state")
        answers.is_resubmit = bool(rounds.get("asked"))
        return answers


def _unused(key: str, taken: list[str]) -> str:
    # Source: the extension, "keys are unique over the task's lifetime".
    name, number = key, 1
    while name in taken:
        number += 1
        name = f"{key}-{number}"
    return name
