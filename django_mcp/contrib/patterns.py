"""Find patterns of Python's `re` whose match takes exponential time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

MANY = 20
"""How often something may be repeated without counting as repetition: 2**20 matches take a second."""

_REPETITIONS = (codes.MAX_REPEAT, codes.MIN_REPEAT)

_TRANSPARENT = (*_REPETITIONS, codes.SUBPATTERN, codes.BRANCH)


def has_nested_repetition(pattern: re.Pattern[Any]) -> bool:
    r"""Return whether a pattern repeats a repetition, as `(a+)+` and `(\w+\s?)*` do.

    Such a pattern can split one text in exponentially many ways, all of which are tried if the rest
    does not match. Other patterns may take exponential time too, such as `(a|a)*`.
    """
    left = [parser.parse(pattern.pattern, pattern.flags)]
    while left:
        tree = left.pop()
        for code, argument in tree:
            if _is_repetition(code, argument) and _may_be_repetition(argument[2]):
                return True
            left.extend(_trees(argument))
    return False


def _is_repetition(code: Any, argument: Any) -> bool:
    return code in _REPETITIONS and argument[1] >= MANY


def _may_be_repetition(tree: Any) -> bool:
    """Return whether a text may match a tree by one repetition alone, since all else in it may be empty."""
    items = list(tree)
    if any(code in (codes.AT, codes.ASSERT, codes.ASSERT_NOT) for code, _ in items):
        return False  # what is around decides
    needed = [item for item in items if parser.SubPattern(tree.state, [item]).getwidth()[0] > 0]
    if len(needed) > 1:
        return False
    for code, argument in needed or items:
        # One text of a few characters is enough to be split in several ways.
        if code in _REPETITIONS and argument[1] > max(1, argument[0]):
            return True
        if code in _TRANSPARENT and any(map(_may_be_repetition, _trees(argument))):
            return True
    return False


def _trees(argument: Any) -> Iterator[Any]:
    """Yield the trees in the argument of an item."""
    if isinstance(argument, parser.SubPattern):
        yield argument
    elif isinstance(argument, list | tuple):
        for each in argument:
            yield from _trees(each)
