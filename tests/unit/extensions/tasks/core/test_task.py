"""State transitions of a task: in any order, it only moves forward."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from django_mcp.extensions.tasks.core.shapes import (
    COMPLETED,
    FAILED,
    FINAL,
    INPUT_REQUIRED,
    WORKING,
)
from django_mcp.extensions.tasks.core.task import LEASE_S, Task
from django_mcp.protocol.asks import ask_roots
from django_mcp.protocol.errors import INTERNAL_ERROR, Refusal
from django_mcp.server.exchange.call import RetryAnswers

RUNS = ("a", "b")
FAULT = Refusal(code=INTERNAL_ERROR, message="No")
MOVES = {
    WORKING: {WORKING, INPUT_REQUIRED, *FINAL},
    INPUT_REQUIRED: {WORKING, INPUT_REQUIRED, *FINAL},
}

runs = st.sampled_from(RUNS)
steps = st.one_of(
    st.tuples(st.just("claim"), runs),
    st.tuples(st.just("take_over"), st.one_of(st.none(), runs)),
    st.tuples(st.just("renew"), runs),
    st.tuples(st.just("park"), runs),
    st.tuples(st.just("answer"), st.one_of(st.none(), runs)),
    st.tuples(st.just("complete"), runs),
    st.tuples(st.just("fail"), st.one_of(st.none(), runs)),
    st.tuples(st.just("cancel"), st.none()),
)


def take(task: Task, name: str, run: Any, now_s: float) -> Task | None:
    match name:
        case "park":
            return task.park(run, {"it": ask_roots()}, None, RetryAnswers(), now_s)
        case "answer":
            return task.answer(dict.fromkeys(task.due, 1), {}, now_s, run)
        case "complete":
            return task.complete(run, COMPLETED, b"{}", now_s)
        case "fail":
            return task.fail(run, FAULT, now_s)
        case "cancel":
            return task.cancel(now_s)
    found: Task | None = getattr(task, name)(run, now_s)
    return found


@given(st.lists(st.tuples(steps, st.sampled_from([0.0, 1.0, LEASE_S + 1])), max_size=30))
def test_a_task_only_moves_forward_and_terminal_states_are_final(
    taken: list[tuple[tuple[str, Any], float]],
):
    """A task leaves working and input_required for a terminal state, and never returns."""
    now_s = 1000.0
    task = Task(
        id="x",
        server="tests",
        owner=None,
        session=None,
        revision="any",
        tool="t",
        call={},
        created_s=now_s,
        updated_s=now_s,
        ttl_ms=1000,
        poll_ms=1,
    )
    asked: list[str] = []
    for (name, run), later_s in taken:
        now_s += later_s
        changed = take(task, name, run, now_s)
        if task.is_final:
            assert changed is None, name
        if changed is None:
            continue
        assert changed.status in MOVES[task.status], name
        if name in ("complete", "renew", "park"):
            assert task.run == run, "a run that was given up still writes"
        if name == "park" and changed.status == INPUT_REQUIRED:
            # No key is ever used twice.
            assert not set(changed.due) & set(asked)
            asked += changed.due
        assert (changed.error is not None) is (changed.status == FAILED)
        task = changed
