"""Check values against a schema: a fast verdict, and a full report when it is no.

The verdict is `jsonschema-rs`'s where that is installed, else `jsonschema`'s; the report is always
`jsonschema`'s. Both are compiled from one checked schema.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import islice
from typing import Any

from django_mcp.registry.keywords import TooMuchWork, budget, validator_class
from django_mcp.registry.problems import Problem
from django_mcp.registry.reports import MAX_PROBLEMS, describe_errors, in_order
from django_mcp.registry.schemas import CheckedSchema, check_schema
from django_mcp.registry.speedups import find_rust_engine

__all__ = ["MAX_STEPS", "Validator", "compile_schema"]

MAX_STEPS = 100_000
"""Keywords applied to one value before it is refused as too complex. Ours; about a second."""

MAX_REPORT_STEPS = 20_000
"""Keywords applied to find further problems of a value that is known to be wrong. Ours."""

_MAX_ERRORS = 20 * MAX_PROBLEMS
_TOO_COMPLEX = Problem("", "is too large or too deep to be checked; send less at once")


class Validator:
    """Judges values against one schema.

    Total over any JSON value as `protocol.json.decode` returns it, which is of bounded depth; a
    value too costly to check counts as invalid.
    """

    __slots__ = ("_checked", "_fast", "_slow")

    def __init__(self, checked: CheckedSchema) -> None:
        self._checked = checked
        self._fast = _compile_fast(checked)
        self._slow: Any = None

    def is_valid(self, value: Any) -> bool:
        """Tell whether a value is valid."""
        if self._fast is not None:
            try:
                return self._fast(value)
            except ValueError:  # something it cannot read; the other engine may
                pass
        return self._find_errors(value, MAX_STEPS, 1) == []

    def problems(self, value: Any) -> list[Problem]:
        """Return all that is wrong with a value, by pointer; `[]` when it is valid.

        At most `reports.MAX_PROBLEMS`, and then one that counts the rest.
        """
        if self._fast is not None and self.is_valid(value):
            return []
        is_known_wrong = self._fast is not None
        found = self._find_errors(
            value, MAX_REPORT_STEPS if is_known_wrong else MAX_STEPS, _MAX_ERRORS
        )
        # The engines may differ on a corner of the standard; the verdict stands.
        if not found and is_known_wrong:
            return [Problem("", "does not match the schema")]
        return found

    def _find_errors(self, value: Any, steps: int, limit: int) -> list[Problem]:
        if self._slow is None:
            self._slow = _compile_slow(self._checked)
        left = [steps]
        token = budget.set(left)
        problems: list[Problem] = []
        has_more = False
        try:
            for error in islice(self._slow.iter_errors(value), limit):
                problems.extend(describe_errors([error]))
            has_more = len(problems) >= limit > 1
        except (TooMuchWork, RecursionError, ValueError):
            # A ValueError: Python writes no number of thousands of digits into a message.
            if not problems:
                return [_TOO_COMPLEX]
            has_more = True
        finally:
            budget.reset(token)
        return in_order(problems, has_more=has_more)


class NullableValidator(Validator):
    """Judges objects as if those of some properties that are null were not there."""

    __slots__ = ("_nullable",)

    def __init__(self, checked: CheckedSchema, nullable: Collection[str]) -> None:
        super().__init__(checked)
        self._nullable = nullable

    def is_valid(self, value: Any) -> bool:
        """See `Validator.is_valid`."""
        return super().is_valid(self._without_nulls(value))

    def problems(self, value: Any) -> list[Problem]:
        """See `Validator.problems`."""
        return super().problems(self._without_nulls(value))

    def _without_nulls(self, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {
            key: each
            for key, each in value.items()
            if each is not None or key not in self._nullable
        }


def compile_schema(
    schema: Any, source: str, *, is_input: bool, nullable: Collection[str] = ()
) -> Validator:
    """Return what checks values against a schema, which has been checked itself.

    Args:
        schema: any JSON value.
        source: names the function it belongs to.
        is_input: whether it describes arguments.
        nullable: properties that may be null although the schema does not say so.

    Raises:
        RegistrationError: see `schemas.check_schema`.
    """
    checked = check_schema(schema, source, is_input=is_input)
    return NullableValidator(checked, nullable) if nullable else Validator(checked)


def _compile_slow(checked: CheckedSchema) -> Any:
    from referencing import Registry

    return validator_class(checked.dialect.validator)(checked.schema, registry=Registry())


def _compile_fast(checked: CheckedSchema) -> Callable[[Any], bool] | None:
    """Return the verdict of the faster engine; None where it must not be used.

    It has no budget and no guard for its stack, so a schema that refers to itself is not its
    business. Older dialects have it decode contents, which the standard leaves open and
    `jsonschema` does not.
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
            retriever=_refuse_retrieval,
            pattern_options=rust.RegexOptions(),
        )
    except ValueError:  # what the other engine can read must do
        return None
    is_valid: Callable[[Any], bool] = compiled.is_valid
    return is_valid


def _refuse_retrieval(uri: str) -> Any:
    raise ValueError(f"{uri} is not inside of the schema, and nothing is fetched")
