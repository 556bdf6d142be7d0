"""Match the regular expressions of schemas in linear time.

Python's `re` and ECMAScript's engine need exponential time for some pattern and text, and the text
is the client's. Patterns run on the engine of pydantic instead (Rust's `regex`, as in
jsonschema-rs), which has neither look-around nor back-references; a pattern with them is rejected
at registration.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable

_CLASSES = {
    "d": "[0-9]",
    "D": "[^0-9]",
    "w": "[A-Za-z0-9_]",
    "W": "[^A-Za-z0-9_]",
}
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)

SMALL_SURPLUS = 16
"""Largest surplus with which the engine can use a fast table of states."""

CHARACTERS_PER_STEP = 500
"""Characters matched with a small pattern in one step of a check."""

STATES_PER_STEP = 100
"""Characters times states matched in one step with another pattern. Measured."""

_TOKEN = re.compile(
    r"""\{(?P<counts>\d+(?:,\d*)?|,\d+)\}|(?P<open>\((?:\?(?:P?<\w+>|[a-zA-Z-]*:))?)|(?P<close>\))|(?P<other>[*+?^$|])
    |\\[pPxu]\{[^}]*\}|\\.|\[\^?\]?(?:\\.|\[[^\]]*\]|[^\]\\\[])*\]|.""",
    re.DOTALL | re.VERBOSE,
)


@functools.lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> Callable[[str], bool]:
    r"""Return a function that returns whether a pattern occurs in a text.

    `\d` and `\w` mean ASCII, as in ECMAScript (JSON Schema 2020-12 core, section 6.4).

    Raises:
        ValueError: it is not a pattern, or cannot be matched in linear time.
    """
    from pydantic_core import SchemaError, SchemaValidator, core_schema

    translated = _ESCAPE.sub(lambda found: _CLASSES.get(found[1], found[0]), pattern)
    try:
        validator = SchemaValidator(
            core_schema.str_schema(pattern=translated, regex_engine="rust-regex", strict=True)
        )
    except (SchemaError, UnicodeEncodeError) as error:
        lines = str(error).splitlines()
        reason = next((line[7:] for line in lines if line.startswith("error: ")), lines[-1])
        raise ValueError(reason) from error
    return validator.isinstance_python


@functools.lru_cache(maxsize=1024)
def surplus_of(pattern: str) -> int:
    """Return how many more states a pattern has than are written in it: `a{5}` has 4, `(ab{3}){10}` 38.

    They come from counted repetitions, which can make a short pattern slow to match.
    """
    # For each open group: its states, and those of its last part, which a repetition repeats.
    states, lasts, written = [0], [0], 0
    for token in _TOKEN.finditer(pattern):
        if token["counts"]:
            times = max(int(part) for part in token["counts"].split(",") if part)
            added = lasts[-1] * (max(times, 1) - 1)
            states[-1] += added
            lasts[-1] += added
        elif token["open"]:
            states.append(0)
            lasts.append(0)
        elif token["close"]:
            inner = states.pop() if len(states) > 1 else 0
            lasts = lasts[: len(states)]
            states[-1] += inner
            lasts[-1] = inner
        elif not token["other"]:
            states[-1] += 1
            lasts[-1] = 1
            written += 1
    return sum(states) - written


def steps_of_match(surplus: int, length: int) -> int:
    """Return the number of steps for matching a text of `length` characters with a pattern."""
    if surplus <= SMALL_SURPLUS:
        return length // CHARACTERS_PER_STEP
    return length * surplus // STATES_PER_STEP
