"""Hold the outcomes of a run against `expected_failures.yml`, which may only shrink.

A scenario that is not listed must pass; one that is listed must not, or the list is out of date.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.conformance.report import Outcome, Verdict
from tests.conformance.suite import LEGS
from tests.support.sites import SERVERS

FILE = Path(__file__).with_name("expected_failures.yml")
SECTIONS = {"failed": Verdict.FAILED, "nothing_checked": Verdict.NOTHING_CHECKED}
FIELDS = {"because", "legs", "servers", "scenarios"}


class ExpectationError(Exception):
    """The list is malformed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Expectation:
    """One scenario that is known not to pass, and why."""

    verdict: Verdict
    because: str


Expectations = Mapping[tuple[str, str, str], Expectation]  # by server, leg and scenario


@dataclass(frozen=True, kw_only=True, slots=True)
class Judgement:
    """One line of the report: `word` is PASS, FAIL, XFAIL (expected to fail) or SKIP (expected)."""

    word: str
    outcome: Outcome
    remark: str = ""


def load(file: Path = FILE) -> Expectations:
    """Read the list; an entry without `servers` is meant for all of them."""
    found: dict[tuple[str, str, str], Expectation] = {}
    sections = yaml.safe_load(file.read_text()) or {}
    if unknown := set(sections) - set(SECTIONS):
        raise ExpectationError(f"{file.name}: unknown section {sorted(unknown)}")
    for section, verdict in SECTIONS.items():
        for entry in sections.get(section) or []:
            _check(entry, file.name)
            expectation = Expectation(verdict=verdict, because=entry["because"])
            for key in _keys(entry):
                if key in found:
                    raise ExpectationError(f"{file.name}: {' '.join(key)} is listed twice")
                found[key] = expectation
    return found


def _check(entry: Mapping[str, Any], name: str) -> None:
    if not FIELDS - {"servers"} <= set(entry) <= FIELDS:
        raise ExpectationError(f"{name}: an entry has {sorted(entry)} instead of {sorted(FIELDS)}")
    unknown = {*map(str, entry["legs"])} - set(LEGS) | {*entry.get("servers", ())} - set(SERVERS)
    if unknown:
        raise ExpectationError(f"{name}: unknown leg or server {sorted(unknown)}")


def _keys(entry: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    for server in entry.get("servers", SERVERS):
        for leg in entry["legs"]:
            for scenario in entry["scenarios"]:
                yield server, str(leg), scenario


def judge(
    outcomes: Sequence[Outcome], expectations: Expectations, *, server: str, leg: str
) -> list[Judgement]:
    """Compare one leg's outcomes with the list; listed scenarios that did not run are failures."""
    listed = {
        scenario: expectation
        for (on, at, scenario), expectation in expectations.items()
        if (on, at) == (server, leg)
    }
    judgements = [_judge(outcome, listed.get(outcome.scenario)) for outcome in outcomes]
    return [*judgements, *_never_run(listed, outcomes)]


def _judge(outcome: Outcome, expected: Expectation | None) -> Judgement:
    if expected is None:
        word = "PASS" if outcome.verdict is Verdict.PASSED else "FAIL"
        return Judgement(word=word, outcome=outcome)
    if outcome.verdict is not expected.verdict:
        remark = f"listed as {expected.verdict.value}, but {outcome.verdict.value}: mend the list"
        return Judgement(word="FAIL", outcome=outcome, remark=remark)
    word = "XFAIL" if expected.verdict is Verdict.FAILED else "SKIP"
    return Judgement(word=word, outcome=outcome, remark=expected.because)


def _never_run(
    listed: Mapping[str, Expectation], outcomes: Iterable[Outcome]
) -> Iterator[Judgement]:
    ran = {outcome.scenario for outcome in outcomes}
    for scenario in listed:
        if scenario not in ran:
            outcome = Outcome(scenario=scenario, verdict=Verdict.FAILED)
            yield Judgement(word="FAIL", outcome=outcome, remark="listed, but it did not run")
