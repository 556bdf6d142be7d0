"""Principals take turns, and withdrawn entries are removed."""

from __future__ import annotations

from django_mcp.execution.fair_queue import FairQueue


def take_all(queue: FairQueue[str]) -> list[str]:
    found = []
    while (entry := queue.take()) is not None:
        found.append(entry)
    return found


def test_keys_take_turns_and_entries_of_a_key_keep_their_order():
    queue: FairQueue[str] = FairQueue()
    for entry in ("a1", "a2", "a3", "b1", "c1", "b2"):
        queue.put(entry[0], entry)

    assert take_all(queue) == ["a1", "b1", "c1", "a2", "b2", "a3"]
    assert queue.count == 0


def test_a_returning_key_goes_to_the_end():
    queue: FairQueue[str] = FairQueue()
    queue.put("a", "a1")
    queue.put("b", "b1")

    assert queue.take() == "a1"
    queue.put("a", "a2")

    assert take_all(queue) == ["b1", "a2"]


def test_a_discarded_entry_costs_its_key_no_turn():
    queue: FairQueue[str] = FairQueue()
    for entry in ("a1", "a2", "b1"):
        queue.put(entry[0], entry)

    assert queue.discard("a", "a1")
    assert not queue.discard("a", "a1")
    assert queue.discard("b", "b1")

    assert queue.count == 1
    assert take_all(queue) == ["a2"]
