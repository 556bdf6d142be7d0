"""Values that expire: bounded by their number and their age."""

from __future__ import annotations

from django_mcp.process import Expiring


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_values_are_bounded_by_their_number():
    values: Expiring[int] = Expiring(3, Clock())
    for number, key in enumerate("abcad"):
        values.set(key, number, 60)

    assert [values.get(key) for key in "abcd"] == [3, None, 2, 4]
    values.discard("a")
    values.discard("x")
    assert values.find_all() == [("c", 2), ("d", 4)]


def test_values_expire():
    clock = Clock()
    values: Expiring[int] = Expiring(3, clock)
    values.set("a", 1, 10)
    values.set("b", 2, 20)
    clock.now_s = 10

    assert [values.get(key) for key in "ab"] == [None, 2]
    assert values.find_all() == [("b", 2)]
    assert len(values) == 2
