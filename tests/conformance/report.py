"""Read what one leg of the suite left behind: one outcome for each scenario.

The suite fails a scenario for failed checks alone. We are stricter: a scenario in which nothing was
checked did not pass, and a scenario that left no file of checks failed.
"""

from __future__ import annotations

import enum
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.conformance.suite import Run

# This check looks at the envelope of whatever was sent; alone it says nothing about the scenario.
ENVELOPE_CHECK = "wire-schema-valid"
MESSAGE_LENGTH = 400

Check = dict[str, Any]


class Verdict(enum.Enum):
    PASSED = "passed"
    FAILED = "failed"
    NOTHING_CHECKED = "nothing checked"


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """How one scenario ended; `messages` explain its failed checks."""

    scenario: str
    verdict: Verdict
    detail: str = ""
    messages: tuple[str, ...] = field(default=())


def read(run: Run) -> list[Outcome]:
    """Return the outcome of every scenario of a run, in the order of the run."""
    log = re.sub(r"\x1b\[[0-9;]*m", "", run.log)
    checks = _checks(run)
    outcomes = []
    for scenario in _scenarios(log):
        found = checks.get(scenario)
        outcomes.append(_unfinished(scenario, log) if found is None else _outcome(scenario, found))
    missing = max(0, (run.expected or 0) - len(outcomes))
    if missing or not outcomes:
        outcomes.append(_not_reached(missing, run, log))
    return outcomes


def _checks(run: Run) -> dict[str, list[Check]]:
    found = {}
    for file in run.folder.glob("*/checks.json"):
        named = re.sub(r"-\d{4}-\d\d-\d\dT[\d-]+Z$", "", file.parent.name)
        found[named.removeprefix("server-")] = json.loads(file.read_text())
    return found


def _scenarios(log: str) -> list[str]:
    started = re.findall(r"^=== Running scenario: (\S+) ===$", log, re.MULTILINE)
    summed_up = re.findall(r"^[✓✗] (\S+): \d+ passed, \d+ failed$", log, re.MULTILINE)
    return list(dict.fromkeys([*started, *summed_up]))


def _outcome(scenario: str, checks: list[Check]) -> Outcome:
    by_status: dict[str, list[Check]] = {}
    for check in checks:
        by_status.setdefault(check["status"], []).append(check)
    failed, warned = by_status.get("FAILURE", []), by_status.get("WARNING", [])
    succeeded = by_status.get("SUCCESS", [])
    warning = f"[warning: {_ids(warned)}]" if warned else ""
    if failed:
        return Outcome(
            scenario=scenario,
            verdict=Verdict.FAILED,
            detail=" ".join(filter(None, [f"[{_ids(failed)}]", warning])),
            messages=tuple(_messages(failed)),
        )
    if any(check["id"] != ENVELOPE_CHECK for check in succeeded) or (warned and succeeded):
        return Outcome(scenario=scenario, verdict=Verdict.PASSED, detail=warning)
    reasons = [_reason(check) for check in checks if check["status"] != "SUCCESS"]
    reason = next(filter(None, reasons), "")
    return Outcome(
        scenario=scenario,
        verdict=Verdict.NOTHING_CHECKED,
        detail=f"[nothing was checked{': ' + reason[:160] if reason else ''}]",
    )


def _unfinished(scenario: str, log: str) -> Outcome:
    found = re.search(rf"Failed to run scenario {re.escape(scenario)}: (.*)", log)
    reason = f": {found[1][:160]}" if found else ""
    return Outcome(scenario=scenario, verdict=Verdict.FAILED, detail=f"[did not finish{reason}]")


def _not_reached(missing: int, run: Run, log: str) -> Outcome:
    status = "the time limit" if run.status is None else f"exit status {run.status}"
    last = next(reversed(log.strip().splitlines()), "")
    return Outcome(
        scenario=f"({missing or 'all'} scenarios not reached)",
        verdict=Verdict.FAILED,
        detail=f"[{status}: {last[:200]}]",
    )


def _ids(checks: Iterable[Check]) -> str:
    counted = Counter(check["id"] for check in checks)
    return ", ".join(f"{name} x{count}" if count > 1 else name for name, count in counted.items())


def _messages(checks: Iterable[Check]) -> Iterator[str]:
    for check in checks:
        yield f"{check['id']}: {str(check.get('errorMessage') or '')[:MESSAGE_LENGTH]}"


def _reason(check: Check) -> str:
    details = check.get("details") or {}
    return str(check.get("errorMessage") or details.get("message") or "")
