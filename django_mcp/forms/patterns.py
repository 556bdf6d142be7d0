"""Find patterns of Python's `re` whose match takes exponential time.

A match takes exponential time if one text leads from a place of a pattern back to it in two ways: with each
time that the text is repeated the ways double, and all are tried if the rest does not match.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from re import _compiler as compiler  # type: ignore[attr-defined]
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, NamedTuple

MANY_WAYS = 2**20
"""Ways of a repetition to match, as an estimate, from which on it is treated as one without an end. They take a second."""

ENDLESS = 500
"""Ways that a repetition without an end counts for."""

WIDEST = 64
"""Characters of a repetition that is written out. One of more is treated as one without an end too."""

MANY_STEPS = 1_000_000
"""Steps of the search for two ways. A pattern that takes more counts as slow."""

Modes = tuple[tuple[int, int], ...]
"""The flags that each group around an item adds and removes."""

_REPETITIONS = (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT)

_CHARACTERS = (codes.LITERAL, codes.NOT_LITERAL, codes.ANY, codes.IN)

_WORD = (codes.IN, [(codes.CATEGORY, codes.CATEGORY_WORD)])

_SAMPLES = (*range(384), 0x3A9, 0x3C9, 0x660, 0x2028, 0x4E2D, 0x1F600)


def may_take_exponential_time(pattern: re.Pattern[Any]) -> bool:
    """Return whether a pattern may take exponential time, as `(a+)+`, `(a|a)*` and `(x+x+)+y` do.

    A look-around of more than one character counts as one that always matches, and a back-reference as any
    text. Time that grows with a power of the length, as with `a*a*b`, is let pass.
    """
    return _may_take_exponential_time(pattern.pattern, pattern.flags)


@functools.lru_cache(maxsize=1024)
def _may_take_exponential_time(pattern: str | bytes, flags: int) -> bool:
    return _Places(pattern, flags).have_two_ways()


class _Gap(NamedTuple):
    """What is between two characters: those that may be before it and after it, as bits."""

    before: int
    after: int

    def __and__(self, other: _Gap) -> _Gap:
        return _Gap(self.before & other.before, self.after & other.after)


@dataclass
class _Part:
    """A part of a pattern: each way for it to be empty, and its first and last places."""

    empty: list[_Gap]
    first: list[tuple[_Gap, int]] = field(default_factory=list)
    last: list[tuple[_Gap, int]] = field(default_factory=list)


class _Places:
    """The places of a pattern, which are its characters, and the steps from each to those that may follow it."""

    def __init__(self, pattern: str | bytes, flags: int) -> None:
        tree = parser.parse(pattern, flags)
        self._state = tree.state
        if isinstance(pattern, bytes):
            self._samples: list[Any] = [bytes([number]) for number in range(256)]
        else:
            self._samples = sorted({*map(chr, _SAMPLES), *_characters_near(tree)})
        self._matched: dict[str, int] = {}
        everything = (1 << len(self._samples)) - 1
        self._anything = _Gap(everything, everything)
        self._steps: dict[int, list[tuple[_Gap, int]]] = defaultdict(list)
        self._count = 0
        self._loops: list[range] = []
        self._has_many_ways = False
        self._sequence(tree, ())

    def have_two_ways(self) -> bool:
        """Return whether one text leads from a place back to it in two ways."""
        return self._has_many_ways or any(map(self._doubles, self._loops))

    def _doubles(self, loop: range) -> bool:
        steps = {
            place: [(gap, following) for gap, following in self._steps[place] if following in loop]
            for place in loop
        }
        return any(_leads_back(place, steps) for place in loop)

    # -- from the tree of the pattern to its places

    def _sequence(self, tree: Any, modes: Modes) -> _Part:
        part = _Part([self._anything])
        for code, argument in tree:
            part = self._join(part, self._item(code, argument, modes))
        return part

    def _item(self, code: Any, argument: Any, modes: Modes) -> _Part:
        if code in _CHARACTERS:
            return self._place(self._characters(code, argument, modes))
        if code is codes.SUBPATTERN:
            return self._sequence(argument[3], (*modes, argument[1:3]))
        if code in _REPETITIONS:
            low, high, tree = argument
            return self._repetition(code, low, high, tree, modes)
        if code is codes.BRANCH:
            return _either(self._sequence(branch, modes) for branch in argument[1])
        if code is codes.GROUPREF_EXISTS:
            return _either(self._sequence(branch or (), modes) for branch in argument[1:])
        if code is codes.ATOMIC_GROUP:
            return self._atomic_group(argument, modes)
        if code is codes.GROUPREF:
            part = self._place(self._anything.before)
            self._connect(part, part)
            return _either([part, _Part([self._anything])])
        if code in (codes.ASSERT, codes.ASSERT_NOT):
            direction, tree = argument
            return _Part([self._look_around(code, direction, tree, modes)])
        return _Part(self._anchor(argument, modes) if code is codes.AT else [])

    def _place(self, characters: int) -> _Part:
        place, self._count = self._count, self._count + 1
        before = _Gap(self._anything.before, characters)
        return _Part([], [(before, place)], [(_Gap(characters, self._anything.after), place)])

    def _join(self, one: _Part, other: _Part) -> _Part:
        self._connect(one, other)
        first = [(empty & gap, place) for empty in one.empty for gap, place in other.first]
        last = [(gap & empty, place) for gap, place in one.last for empty in other.empty]
        empty = [gap & another for gap in one.empty for another in other.empty]
        return _Part(_twice(empty), _twice(one.first + first), _twice(other.last + last))

    def _connect(self, one: _Part, other: _Part) -> None:
        for (ends, place), (begins, following) in itertools.product(one.last, other.first):
            gap = ends & begins
            if gap.before and gap.after:
                self._steps[place].append((gap, following))

    def _repetition(self, code: Any, low: int, high: int, tree: Any, modes: Modes) -> _Part:
        ways, may_be_empty = _ways_of(tree), tree.getwidth()[0] == 0
        if may_be_empty and ways ** min(low, 64) >= MANY_WAYS:
            self._has_many_ways = True  # even a short text can be any of them
        nothing = _Part([self._anything])
        is_short = high == 2 or tree.getwidth()[1] * high <= WIDEST
        if high <= 1 or (is_short and ways ** min(high, 64) < MANY_WAYS):
            part = nothing
            for _ in range(low, high):
                part = _either([self._join(self._sequence(tree, modes), part), nothing])
            for _ in range(low):
                part = self._join(self._sequence(tree, modes), part)
            return part
        start = self._count
        part = self._sequence(tree, modes)
        self._connect(part, part)
        inside = [loop for loop in self._loops if loop.start >= start]
        self._loops = [*self._loops[: len(self._loops) - len(inside)], range(start, self._count)]
        if low == 0:
            part = _either([part, nothing])
        if code is codes.POSSESSIVE_REPEAT:
            part = self._join(part, self._end_of_possessive(high, tree, modes))
        return part

    def _atomic_group(self, tree: Any, modes: Modes) -> _Part:
        part = self._sequence(tree, modes)
        while len(tree) == 1 and tree[0][0] is codes.SUBPATTERN:
            modes, tree = (*modes, tree[0][1][1:3]), tree[0][1][3]
        if len(tree) == 1 and tree[0][0] is codes.MAX_REPEAT:
            _, high, repeated = tree[0][1]
            return self._join(part, self._end_of_possessive(high, repeated, modes))
        return part

    def _end_of_possessive(self, high: int, tree: Any, modes: Modes) -> _Part:
        """Return that none of its characters follows a repetition that gives none back."""
        if high < codes.MAXREPEAT or len(tree) != 1 or tree[0][0] not in _CHARACTERS:
            return _Part([self._anything])
        code, argument = tree[0]
        others = self._anything.after & ~self._characters(code, argument, modes)
        return _Part([_Gap(self._anything.before, others)])

    def _look_around(self, code: Any, direction: int, tree: Any, modes: Modes) -> _Gap:
        if len(tree) != 1 or tree[0][0] not in _CHARACTERS:
            self._sequence(tree, modes)
            return self._anything
        characters = self._characters(tree[0][0], tree[0][1], modes)
        if code is codes.ASSERT_NOT:
            characters = self._anything.after & ~characters
        before, after = self._anything
        return _Gap(characters, after) if direction < 0 else _Gap(before, characters)

    def _anchor(self, where: Any, modes: Modes) -> list[_Gap]:
        everything = self._anything.before
        if where in (codes.AT_BEGINNING, codes.AT_BEGINNING_STRING):
            return [_Gap(self._characters(codes.LITERAL, 10, modes), everything)]
        if where in (codes.AT_END, codes.AT_END_STRING):
            return [_Gap(everything, self._characters(codes.LITERAL, 10, modes))]
        word = self._characters(*_WORD, modes)
        others = everything & ~word
        if where is codes.AT_BOUNDARY:
            return [_Gap(word, others), _Gap(others, word)]
        return [_Gap(word, word), _Gap(others, others)]

    def _characters(self, code: Any, argument: Any, modes: Modes) -> int:
        """Return which of the samples an item matches, as bits."""
        key = repr((code, argument, modes))
        if key not in self._matched:
            item = parser.SubPattern(self._state, [(code, argument)])
            for add, remove in reversed(modes):
                group = (codes.SUBPATTERN, (None, add, remove, item))
                item = parser.SubPattern(self._state, [group])
            match = compiler.compile(item).match
            bits = (1 << bit for bit, each in enumerate(self._samples) if match(each))
            self._matched[key] = sum(bits)
        return self._matched[key]


def _leads_back(place: int, steps: Mapping[int, list[tuple[_Gap, int]]]) -> bool:
    """Return whether a text leads from a place to itself in two ways."""
    seen = set(_pairs(itertools.combinations(steps[place], 2)))
    waiting, count = list(seen), 0
    while waiting and count < MANY_STEPS:
        one, other = waiting.pop()
        if one == other == place:
            return True
        count += len(steps[one]) * len(steps[other])
        reached = set(_pairs(itertools.product(steps[one], steps[other]))) - seen
        seen |= reached
        waiting.extend(reached)
    return bool(waiting)


def _pairs(of_steps: Any) -> Iterator[tuple[int, int]]:
    """Yield where each two steps lead that one text can take."""
    for (gap, place), (another, other) in of_steps:
        if gap.before & another.before and gap.after & another.after:
            yield (place, other) if place < other else (other, place)


def _either(parts: Iterable[_Part]) -> _Part:
    joined = _Part([])
    for part in parts:
        joined.empty += part.empty
        joined.first += part.first
        joined.last += part.last
    return _Part(_twice(joined.empty), _twice(joined.first), _twice(joined.last))


def _twice(found: list[Any]) -> list[Any]:
    """Return a list with each of its items twice at most, since two ways are as bad as more."""
    counts: dict[Any, int] = defaultdict(int)
    kept = []
    for place in found:
        counts[place] += 1
        if counts[place] <= 2:
            kept.append(place)
    return kept


def _ways_of(tree: Any) -> int:
    """Return an estimate of the ways in which a part can match a text, at most `MANY_WAYS`."""
    ways = 1
    for code, argument in tree:
        if code in _REPETITIONS:
            low, high, repeated = argument
            ways *= min(high - low + 1, ENDLESS) * _ways_of(repeated) ** min(high, 64)
        elif code is codes.BRANCH:
            ways *= sum(map(_ways_of, argument[1]))
        elif code is codes.GROUPREF_EXISTS:
            ways *= sum(_ways_of(branch or ()) for branch in argument[1:])
        elif code in (codes.SUBPATTERN, codes.ATOMIC_GROUP):
            ways *= _ways_of(argument[3] if code is codes.SUBPATTERN else argument)
        ways = min(ways, MANY_WAYS)
    return ways


def _characters_near(tree: Any) -> Iterator[str]:
    """Yield the characters that are written in a pattern, their cases, and the next ones."""
    waiting: list[Any] = [list(tree)]
    while waiting:
        each = waiting.pop()
        if isinstance(each, parser.SubPattern | list | tuple):
            waiting.extend(each)
        elif isinstance(each, int) and 0 <= each < 0x10FFFF and not isinstance(each, re.RegexFlag):
            written = chr(each)
            yield from {
                written,
                written.lower()[0],
                written.upper()[0],
                chr(each + 1),
                chr(max(each - 1, 0)),
            }
