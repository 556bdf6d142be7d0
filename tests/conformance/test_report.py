"""The runner's verdict: what counts as passed, and what the list of expected failures allows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conformance import expectations, report
from tests.conformance.expectations import ExpectationError, judge, load
from tests.conformance.report import Outcome, Verdict
from tests.conformance.suite import Run

PASSED = Outcome(scenario="ping", verdict=Verdict.PASSED)
FAILED = Outcome(scenario="ping", verdict=Verdict.FAILED)


def left_behind(folder: Path, checks: dict[str, list[dict[str, str]]], expected: int) -> Run:
    for scenario, found in checks.items():
        place = folder / f"server-{scenario}-2030-01-02T03-04-05-678Z"
        place.mkdir()
        (place / "checks.json").write_text(json.dumps(found))
    log = "".join(f"=== Running scenario: {scenario} ===\n" for scenario in checks)
    return Run(log=log, folder=folder, status=0, expected=expected)


def check(name: str, status: str) -> dict[str, str]:
    return {"id": name, "status": status, "errorMessage": f"why {name}"}


def listed(folder: Path, text: str) -> expectations.Expectations:
    file = folder / "list.yml"
    file.write_text(text)
    return load(file)


def test_a_scenario_passes_when_a_check_succeeds_and_none_fails(tmp_path: Path) -> None:
    run = left_behind(tmp_path, {"ping": [check("a", "SUCCESS"), check("b", "WARNING")]}, 1)
    assert report.read(run) == [
        Outcome(scenario="ping", verdict=Verdict.PASSED, detail="[warning: b]")
    ]


def test_a_failed_check_fails_its_scenario_with_a_reason(tmp_path: Path) -> None:
    run = left_behind(tmp_path, {"ping": [check("a", "SUCCESS"), check("b", "FAILURE")]}, 1)
    [outcome] = report.read(run)
    assert (outcome.verdict, outcome.detail) == (Verdict.FAILED, "[b]")
    assert outcome.messages == ("b: why b",)


@pytest.mark.parametrize("checks", [[], [check("wire-schema-valid", "SUCCESS")]])
def test_a_scenario_that_checked_only_the_envelope_did_not_pass(
    tmp_path: Path, checks: list[dict[str, str]]
) -> None:
    run = left_behind(tmp_path, {"ping": [*checks, check("a", "SKIPPED")]}, 1)
    [outcome] = report.read(run)
    assert outcome.verdict is Verdict.NOTHING_CHECKED
    assert "why a" in outcome.detail


def test_scenarios_that_were_announced_but_not_reached_are_failures(tmp_path: Path) -> None:
    run = left_behind(tmp_path, {"ping": [check("a", "SUCCESS")]}, 3)
    reached, missing = report.read(run)
    assert reached.verdict is Verdict.PASSED
    assert missing.verdict is Verdict.FAILED
    assert missing.scenario == "(2 scenarios not reached)"


def test_a_run_without_results_is_a_failure(tmp_path: Path) -> None:
    [outcome] = report.read(Run(log="no node", folder=tmp_path, status=1, expected=None))
    assert outcome.verdict is Verdict.FAILED
    assert "no node" in outcome.detail


@pytest.mark.parametrize(("outcome", "word"), [(PASSED, "PASS"), (FAILED, "FAIL")])
def test_a_scenario_that_is_not_listed_must_pass(outcome: Outcome, word: str) -> None:
    [judged] = judge([outcome], {}, server="uvicorn", leg="0.1.16")
    assert judged.word == word


@pytest.mark.parametrize(("outcome", "word"), [(PASSED, "FAIL"), (FAILED, "XFAIL")])
def test_a_scenario_that_is_listed_must_fail(tmp_path: Path, outcome: Outcome, word: str) -> None:
    expected = listed(tmp_path, 'failed: [{because: x, legs: ["0.1.16"], scenarios: [ping]}]')
    [judged] = judge([outcome], expected, server="uvicorn", leg="0.1.16")
    assert judged.word == word


def test_an_entry_applies_only_to_its_legs_and_servers(tmp_path: Path) -> None:
    entry = '{because: x, legs: ["0.1.16"], servers: [wsgi], scenarios: [ping]}'
    expected = listed(tmp_path, f"failed: [{entry}]")
    places = [("wsgi", "0.1.16"), ("uvicorn", "0.1.16"), ("wsgi", "2025-11-25")]
    words = [judge([FAILED], expected, server=s, leg=leg)[0].word for s, leg in places]
    assert words == ["XFAIL", "FAIL", "FAIL"]


def test_a_listed_scenario_that_did_not_run_is_a_failure(tmp_path: Path) -> None:
    expected = listed(tmp_path, 'failed: [{because: x, legs: ["0.1.16"], scenarios: [pong]}]')
    judged = judge([PASSED], expected, server="uvicorn", leg="0.1.16")
    assert [(each.word, each.outcome.scenario) for each in judged] == [
        ("PASS", "ping"),
        ("FAIL", "pong"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "broken: []",
        'failed: [{legs: ["0.1.16"], scenarios: [ping]}]',
        "failed: [{because: x, legs: [no-leg], scenarios: [ping]}]",
        'failed: [{because: x, legs: ["0.1.16"], servers: [none], scenarios: [ping]}]',
        'failed: [{because: x, legs: ["0.1.16"], scenarios: [ping, ping]}]',
    ],
)
def test_a_malformed_list_is_rejected(tmp_path: Path, text: str) -> None:
    with pytest.raises(ExpectationError):
        listed(tmp_path, text)


def test_the_list_itself_is_well_formed() -> None:
    assert load()
