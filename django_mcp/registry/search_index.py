"""Find tools by words: an index of what they are called, what they say of themselves, and what they take."""

from __future__ import annotations

import heapq
import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from django_mcp.registry.entries import ToolEntry

MAX_WORDS = 20
"""Words of a query that are looked up; further ones are left out."""

# Okapi BM25, with its usual constants.
_K1 = 1.2
_B = 0.75

_NAME_WEIGHT = 3
"""How often a word of a name or a keyword counts."""

_WORD = re.compile(r"[^\W_]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class SearchIndex:
    """The words of some tools, in one language; tools that are added later are not in it.

    Args:
        tools: what can be found.
    """

    def __init__(self, tools: Iterable[ToolEntry]) -> None:
        words_of = {tool.name: Counter(_words_of(tool)) for tool in tools}
        lengths = {name: sum(counts.values()) for name, counts in words_of.items()}
        average = sum(lengths.values()) / (len(lengths) or 1)
        tools_with: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
        for name, counts in words_of.items():
            for word, count in counts.items():
                tools_with[word].append((name, count))
        self._weights: dict[str, list[tuple[str, float]]] = {}
        for word, found in tools_with.items():
            self._weights[word] = [
                (
                    name,
                    count * (_K1 + 1) / (count + _K1 * (1 - _B + _B * lengths[name] / average)),
                )
                for name, count in found
            ]

    def find(self, query: str, visible: Collection[str], limit: int) -> list[str]:
        """Return the names of the visible tools that fit a query best, the best first.

        Args:
            query: words; one of them is enough.
            visible: names of the tools that may be found.
            limit: how many are returned at most.
        """
        scores: defaultdict[str, float] = defaultdict(float)
        for word in list(dict.fromkeys(_split(query)))[:MAX_WORDS]:
            found = [each for each in self._weights.get(word, ()) if each[0] in visible]
            # Only among what is visible: the order must not tell of other tools.
            rarity = math.log(1 + (len(visible) - len(found) + 0.5) / (len(found) + 0.5))
            for name, weight in found:
                scores[name] += rarity * weight
        fitting = ((-score, name) for name, score in scores.items())
        return [name for _score, name in heapq.nsmallest(limit, fitting)]


def _words_of(tool: ToolEntry) -> Iterator[str]:
    for text in (tool.name, *tool.keywords):
        for word in _split(text):
            yield from (word,) * _NAME_WEIGHT
    for text in (tool.title, tool.description, *_arguments_of(tool.input_schema)):
        if text is not None:
            yield from _split(str(text))


def _arguments_of(schema: Any) -> Sequence[str]:
    return list(schema.get("properties", ()))


def _split(text: str) -> Iterator[str]:
    """Yield the words of a text in lower case, without the end of an English plural."""
    for word in _WORD.findall(_CAMEL.sub(" ", text)):
        lower = word.casefold()
        if len(lower) > 3 and lower.endswith("ies"):
            yield f"{lower[:-3]}y"
        elif len(lower) > 3 and lower.endswith("s") and not lower.endswith("ss"):
            yield lower[:-1]
        else:
            yield lower
