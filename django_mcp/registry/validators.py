"""Check values against a schema: a fast verdict first, and a full report if it is negative."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from django_mcp.protocol.json import MAX_DEPTH, is_deeper_than, to_pointer
from django_mcp.registry.keywords import (
    FITS_NONE,
    BudgetSpent,
    ValidationBudget,
    budget,
    spend,
    validator_class,
)
from django_mcp.registry.patterns import CHARACTERS_PER_STEP, SMALL_SURPLUS, steps_of_match
from django_mcp.registry.problems import (
    MAX_PROBLEMS,
    MAX_SHOWN_CHARS,
    Problem,
    clip,
    find_near,
    in_order,
    show,
)
from django_mcp.registry.schemas import DIALECTS, CheckedSchema, check_schema, find_rust_engine

if TYPE_CHECKING:
    from jsonschema import ValidationError

MAX_STEPS = 100_000
"""Keywords applied to a value before it is too complex: about a second."""

MAX_BRANCHING_STEPS = 10_000
"""The same for a recursive or branching schema, where small values may take many."""

MAX_REPORT_STEPS = 20_000
"""Keywords applied to find further problems of an invalid value."""

MAX_FAST_STEPS = 5_000_000
"""Schemas that the faster engine may apply, since it has no budget: less than a second."""

_FEW_SCHEMAS = 40
"""So many schemas on one part of a value need no count of its parts: a message does not hold enough."""

BRIEF_STEPS = 1_000
"""Keywords applied on an event loop: about 10 ms."""

_MAX_ERRORS = 20 * MAX_PROBLEMS
TOO_COMPLEX = Problem("", "is too large or too deep to be checked; send less at once")


class Validator:
    """Checks values against one schema, after checking the schema itself; see `check_schema`.

    It accepts any JSON value of the bounded depth that `protocol.json.decode` ensures; a value too
    costly to check counts as invalid. Properties in `nullable` may be null although the schema does
    not allow it.
    """

    __slots__ = ("_checked", "_fast", "_is_cheap", "_max_steps", "_nullable", "_slow")

    def __init__(
        self, schema: Any, source: str, *, is_input: bool, nullable: Collection[str] = ()
    ) -> None:
        self._checked = checked = check_schema(schema, source, is_input=is_input)
        self._nullable = nullable
        self._max_steps = MAX_BRANCHING_STEPS if checked.is_branching else MAX_STEPS
        self._fast: Callable[[Any], bool] | None = self._compile
        self._is_cheap = checked.surplus <= SMALL_SURPLUS and checked.width <= _FEW_SCHEMAS
        self._slow: Any = None

    def _compile(self, value: Any) -> bool:
        """Return the first verdict of the faster engine; raises `ValueError` if it must not be used.

        Compiling takes a good part of what it costs to register a tool, and most tools are not called
        in each process.
        """
        self._fast = _compile_fast(self._checked)
        if self._fast is None:
            raise ValueError
        return self._fast(value)

    @property
    def nullable(self) -> Collection[str]:
        """The properties that may be null though the schema does not allow it."""
        return self._nullable

    @property
    def has_own_references(self) -> bool:
        """Whether references of the schema may lead elsewhere than they seem to."""
        return not self._checked.keywords.isdisjoint({"$id", "id"})

    def problems(self, value: Any) -> list[Problem]:
        """Return the problems with a value, by pointer; `[]` if it is valid.

        There are at most `problems.MAX_PROBLEMS`, and then one that counts the rest. It may take a second:
        on an event loop, use `check`.
        """
        problems_found = self.check(value, self._max_steps)
        return [TOO_COMPLEX] if problems_found is None else problems_found

    def check(self, value: Any, max_steps: int = BRIEF_STEPS) -> list[Problem] | None:
        """Return what `problems` returns; None when that takes more than `max_steps` steps."""
        verdict = None
        if self._nullable and isinstance(value, dict):
            value = {k: v for k, v in value.items() if v is not None or k not in self._nullable}
        if self._fast is not None and (self._is_cheap or self._is_affordable(value, max_steps)):
            try:
                verdict = self._fast(value)
            except ValueError:  # something it cannot read; the other engine may
                verdict = None
        if verdict is None:
            return self._find_errors(value, max_steps, is_all=max_steps > BRIEF_STEPS)
        if verdict:
            return []
        steps = min(max_steps, MAX_REPORT_STEPS)
        errors = self._find_errors(value, steps, is_all=max_steps > BRIEF_STEPS)
        # The engines may differ on a detail of the standard; the verdict counts.
        return [Problem("", "does not match the schema")] if errors == [] else errors

    def _is_affordable(self, value: Any, max_steps: int) -> bool:
        """Return whether the faster engine may check a value, since it has no budget.

        The texts are measured if a pattern may be slow, and the values are counted if many schemas are
        applied to one.
        """
        surplus, width = self._checked.surplus, self._checked.width
        return (
            surplus <= SMALL_SURPLUS
            or steps_of_match(surplus, _count_characters(value)) <= max_steps
        ) and (width <= _FEW_SCHEMAS or width * _measure(value) <= MAX_FAST_STEPS)

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
        root = None if self.has_own_references else self._checked.schema
        token = budget.set(ValidationBudget(steps, root))
        problems: list[Problem] = []
        has_more = False
        try:
            for error in islice(self._slow.iter_errors(value), _MAX_ERRORS):
                problems.extend(_describe(error))
            has_more = len(problems) >= _MAX_ERRORS
        except (BudgetSpent, RecursionError, ValueError):
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
            budget.reset(token)
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


def _measure(value: Any) -> int:
    """Return the number of values in a value, itself included; long texts count as several."""
    count, level = 1, [value]
    while level:
        each = level.pop()
        if isinstance(each, dict | list):
            count += len(each)
            level.extend(each.values() if isinstance(each, dict) else each)
    return count + _count_characters(value) // CHARACTERS_PER_STEP


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


# -- what is wrong with a value, for a model: completely, in order, and within bounds


_MAX_QUOTED_CHARS = 200
_MAX_NAMES = 20
_COMPARED_PER_STEP = 100
"""Pairs of characters compared in one step of a check. Measured."""
_ARTICLED = {
    "array": "an array",
    "boolean": "true or false",
    "integer": "an integer",
    "null": "null",
    "number": "a number",
    "object": "an object",
    "string": "a string",
}


def _describe(error: ValidationError) -> Iterator[Problem]:
    """Yield the problems of an error of `keywords.py`; alternatives may have several."""
    keyword: Any = error.validator
    if keyword in ("anyOf", "oneOf") and error.context:
        yield from _describe_alternatives(error)
        return
    if keyword is None:
        text = "is not allowed"
    elif keyword in _MESSAGES:
        text = _MESSAGES[keyword](error)
    elif keyword in _BOUNDS:
        bound, unit = _BOUNDS[keyword]
        instance: Any = error.instance
        shown = str(len(instance)) if unit else show(instance)
        text = f"must {bound} {show(error.validator_value)}{unit}, not {shown}"
    else:
        text = error.message[:_MAX_QUOTED_CHARS]
    yield Problem(to_pointer(error.absolute_path), clip(text))


_BOUNDS = {
    "minimum": ("be at least", ""),
    "maximum": ("be at most", ""),
    "exclusiveMinimum": ("be more than", ""),
    "exclusiveMaximum": ("be less than", ""),
    "multipleOf": ("be a multiple of", ""),
    "minLength": ("have at least", " characters"),
    "maxLength": ("have at most", " characters"),
    "minItems": ("have at least", " items"),
    "maxItems": ("have at most", " items"),
    "minProperties": ("have at least", " members"),
    "maxProperties": ("have at most", " members"),
}


def _typed(error: ValidationError) -> str:
    value = error.instance
    return f"the string {show(value)}" if isinstance(value, str) else show(value)


def _either(types: Iterable[str]) -> str:
    return " or ".join(dict.fromkeys(_ARTICLED.get(kind, kind) for kind in types))


def _describe_enum(error: ValidationError) -> str:
    choices: Any = error.validator_value
    shown = ", ".join(show(choice) for choice in choices[:_MAX_NAMES])
    more = ", …" if len(choices) > _MAX_NAMES else ""
    return f"must be one of {shown}{more}; not {show(error.instance)}"


def _describe_unknown(error: ValidationError) -> str:
    schema: Any = error.schema
    name = str(error.path[-1])
    known = [str(prop) for prop in schema.get("properties", {})]
    if len(name) <= MAX_SHOWN_CHARS:
        # Comparing two names takes up to the square of their length.
        spend(min(len(known), 100) * (1 + len(name) ** 2 // _COMPARED_PER_STEP))
        close = find_near(name, known[:100])
        if close:
            return f"is unknown; did you mean {show(close[0])}?"
    if not known:
        return "is unknown; there are no members here"
    more = ", …" if len(known) > _MAX_NAMES else ""
    return f"is unknown; known are {', '.join(map(show, known[:_MAX_NAMES]))}{more}"


_MESSAGES: dict[str, Callable[[ValidationError], str]] = {
    "type": lambda error: f"must be {_either(_types(error))}, not {_typed(error)}",
    "enum": _describe_enum,
    "const": lambda error: f"must be {show(error.validator_value)}, not {show(error.instance)}",
    "required": lambda _: "is required",
    "dependentRequired": lambda error: f"is required together with {show(error.message)}",
    "additionalProperties": _describe_unknown,
    "pattern": lambda error: (
        f"must match the pattern {show(error.validator_value)}, not {show(error.instance)}"
    ),
    "uniqueItems": lambda _: "must not hold an item twice",
    "not": lambda _: "is of a form that is excluded",
    "anyOf": lambda _: FITS_NONE,
    "oneOf": lambda error: (
        error.message or "fits more than one of the allowed forms, and must fit one"
    ),
    "contains": lambda _: "holds too few items of the kind it must hold",
    "minContains": lambda _: "holds too few items of the kind it must hold",
    "maxContains": lambda _: "holds too many items of one kind",
}


def _describe_alternatives(error: ValidationError) -> Iterator[Problem]:
    """Yield the problems of a value in the alternative that it comes nearest to."""
    branches: dict[Any, list[ValidationError]] = {}
    for branch_error in error.context or ():
        branches.setdefault(branch_error.schema_path[0], []).append(branch_error)
    mistyped = [
        branch_error
        for own in branches.values()
        for branch_error in own
        if _is_mistyping(branch_error)
    ]
    fitting = [own for own in branches.values() if not any(map(_is_mistyping, own))]
    pointer = to_pointer(error.absolute_path)
    if not fitting:
        types = [name for branch_error in mistyped for name in _types(branch_error)]
        yield Problem(pointer, clip(f"must be {_either(types)}, not {_typed(error)}"))
        return
    nearest = min(fitting, key=_distance)
    if len(fitting) > 1:
        yield Problem(pointer, f"fits none of the {len(branches)} allowed forms; the nearest fails")
    for nearest_error in nearest:
        yield from _describe(nearest_error)


def _is_mistyping(error: ValidationError) -> bool:
    """Return whether an alternative is of another type than the value as a whole."""
    return error.validator == "type" and not error.path


def _types(error: ValidationError) -> list[str]:
    types: Any = error.validator_value
    return [types] if isinstance(types, str) else list(types)


def _distance(errors: Sequence[ValidationError]) -> tuple[int, int]:
    """Return how far off an alternative is: a wrong constant means that another was intended."""
    wrong = sum(error.validator in ("const", "enum") for error in errors)
    return (wrong, len(errors))
