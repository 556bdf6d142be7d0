"""Check values against a schema: a fast verdict first, and a full report if it is negative.

The verdict is that of `jsonschema-rs` if it is installed, else of `jsonschema`; the report is
always `jsonschema`'s. Both are compiled from one checked schema.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import islice
from typing import Any

from django_mcp.protocol.json import MAX_DEPTH, is_deeper_than
from django_mcp.registry.keywords import TooMuchWork, Work, validator_class, work
from django_mcp.registry.patterns import SMALL_SURPLUS, steps_of_match
from django_mcp.registry.problems import Problem
from django_mcp.registry.reports import MAX_PROBLEMS, describe_errors, in_order
from django_mcp.registry.schemas import DIALECTS, CheckedSchema, check_schema, find_rust_engine

MAX_STEPS = 100_000
"""Keywords applied to a value before it is too complex: about a second. Our own limit."""

MAX_BRANCHING_STEPS = 10_000
"""The same for a recursive or branching schema, where small values may take many. Our own limit."""

MAX_REPORT_STEPS = 20_000
"""Keywords applied to find further problems of an invalid value. Our own limit."""

BRIEF_STEPS = 1_000
"""Keywords applied on an event loop: about 10 ms. Our own limit."""

_MAX_ERRORS = 20 * MAX_PROBLEMS
TOO_COMPLEX = Problem("", "is too large or too deep to be checked; send less at once")


class Validator:
    """Checks values against one schema.

    It accepts any JSON value of the bounded depth that `protocol.json.decode` ensures; a value too
    costly to check counts as invalid. Properties in `nullable` may be null although the schema does
    not allow it.
    """

    __slots__ = ("_checked", "_fast", "_max_steps", "_nullable", "_slow")

    def __init__(self, checked: CheckedSchema, nullable: Collection[str] = ()) -> None:
        self._checked = checked
        self._nullable = nullable
        self._max_steps = MAX_BRANCHING_STEPS if checked.is_branching else MAX_STEPS
        self._fast = _compile_fast(checked)
        self._slow: Any = None

    def problems(self, value: Any) -> list[Problem]:
        """Return the problems with a value, by pointer; `[]` if it is valid.

        There are at most `reports.MAX_PROBLEMS`, and then one that counts the rest. It may take a second:
        on an event loop, use `check`.
        """
        found = self.check(value, self._max_steps)
        return [TOO_COMPLEX] if found is None else found

    def check(self, value: Any, max_steps: int = BRIEF_STEPS) -> list[Problem] | None:
        """Return what `problems` returns; None when that takes more than `max_steps` steps."""
        verdict = None
        if self._nullable and isinstance(value, dict):
            value = {k: v for k, v in value.items() if v is not None or k not in self._nullable}
        # The faster engine has no budget, so the texts are measured if a pattern may be slow.
        surplus = self._checked.surplus
        if self._fast is not None and (
            surplus <= SMALL_SURPLUS
            or steps_of_match(surplus, _count_characters(value)) <= max_steps
        ):
            try:
                verdict = self._fast(value)
            except ValueError:  # something it cannot read; the other engine may
                verdict = None
        if verdict is None:
            return self._find_errors(value, max_steps, is_all=max_steps > BRIEF_STEPS)
        if verdict:
            return []
        steps = min(max_steps, MAX_REPORT_STEPS)
        found = self._find_errors(value, steps, is_all=max_steps > BRIEF_STEPS)
        # The engines may differ on a detail of the standard; the verdict counts.
        return [Problem("", "does not match the schema")] if found == [] else found

    def _find_errors(self, value: Any, steps: int, *, is_all: bool) -> list[Problem] | None:
        """Return the problems found within a number of steps; None if the steps did not suffice.

        With `is_all` the problems found by then count, since nothing else will be tried.
        """
        if self._checked.is_recursive and is_deeper_than(value, MAX_DEPTH):
            return [TOO_COMPLEX]
        if self._slow is None:
            from referencing import Registry

            make: Any = validator_class(DIALECTS[self._checked.dialect])
            self._slow = make(self._checked.schema, registry=Registry())
        root = None if self._checked.keywords & {"$id", "id"} else self._checked.schema
        token = work.set(Work(steps, root))
        problems: list[Problem] = []
        has_more = False
        try:
            for error in islice(self._slow.iter_errors(value), _MAX_ERRORS):
                problems.extend(describe_errors([error]))
            has_more = len(problems) >= _MAX_ERRORS
        except (TooMuchWork, RecursionError, ValueError):
            # A ValueError: Python does not write a number of thousands of digits into a message.
            if not (problems and is_all):
                return None
            has_more = True
        except BaseException as error:
            # A schema so deep that Python's stack ended in code written in Rust.
            if type(error).__name__ != "PanicException":
                raise
            return None
        finally:
            work.reset(token)
        return in_order(problems, has_more=has_more)


def _count_characters(value: Any) -> int:
    """Return the total length of all texts in a value, including names of members."""
    count, level = 0, [value]
    while level:
        each = level.pop()
        if isinstance(each, str):
            count += len(each)
        elif isinstance(each, dict):
            level.extend(each)
            level.extend(each.values())
        elif isinstance(each, list):
            level.extend(each)
    return count


def compile_schema(
    schema: Any, source: str, *, is_input: bool, nullable: Collection[str] = ()
) -> Validator:
    """Return the validator of a schema, after checking the schema itself; see `check_schema`."""
    return Validator(check_schema(schema, source, is_input=is_input), nullable)


def _compile_fast(checked: CheckedSchema) -> Callable[[Any], bool] | None:
    """Return the verdict function of the faster engine; None if it must not be used.

    It has no budget and no guard for its stack, so it is not used for recursive schemas. In older
    dialects it decodes contents, which the standard leaves open and `jsonschema` does not do.
    """
    rust = find_rust_engine()
    if rust is None or checked.is_recursive:
        return None
    if checked.keywords & {"contentEncoding", "contentMediaType"}:
        return None
    try:
        compiled = rust.validator_for(
            checked.schema,
            validate_formats=False,
            retriever=_reject_retrieval,
            pattern_options=rust.RegexOptions(),
        )
    except ValueError:  # the other engine must do
        return None
    is_valid: Callable[[Any], bool] = compiled.is_valid
    return is_valid


def _reject_retrieval(uri: str) -> Any:
    raise ValueError(f"{uri} is not inside of the schema, and nothing is fetched")
