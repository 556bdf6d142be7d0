"""Print the figures of a run as Markdown, with what a reader must know to trust them or not."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version

from tests.benchmarks import load
from tests.benchmarks.cases import CONNECTIONS, Case, Figures, median

COLUMNS = (
    "case",
    "per second (min-max)",
    "p50 / p99 ms",
    "CPU ms each (min-max)",
    "CPU against",
    "busy cores",
    "errors",
)
PACKAGES = ("django", "uvicorn", "uvloop", "httptools", "daphne", "msgspec", "jsonschema-rs")


def conditions(server: str, tools: int, *, pinned: bool) -> str:
    """Say on what the figures were taken, and how far they may be trusted."""
    database = os.environ.get("BENCH_DB", "sqlite")
    client = (
        "wrk" if load.has_wrk() else "a client in Python, which limits the rates but not the CPU"
    )
    cores = "the server on core 0, the load on core 1" if pinned else "the processes not pinned"
    return "\n".join(
        [
            f"One worker of {server}, {tools} tools, {CONNECTIONS} connections, load from {client}, {cores}.",
            f"Python {platform.python_version()}, {', '.join(_versions())}; {os.cpu_count()} cores.",
            f"Database: {database}, CONN_MAX_AGE 60.",
            "Absolute rates move with everything else that the machine does: compare CPU per operation,",
            "and rows of one run alone. 'Busy cores' far above 2 means that somebody else was at work.",
            "",
        ]
    )


def _versions() -> list[str]:
    found = []
    for package in PACKAGES:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            found.append(f"no {package}")
    return found


def of_cases(cases: Sequence[Case], found: Mapping[str, Sequence[Figures]]) -> str:
    """Return one row for each case: medians of the rounds, and their spread."""
    lines = [f"| {' | '.join(COLUMNS)} |", "|---|" + "---:|" * (len(COLUMNS) - 1)]
    for case in cases:
        rounds = found[case.name]
        row = [
            case.name,
            _spread([each.per_s for each in rounds]),
            _latency(rounds),
            _spread([each.cpu_ms_each for each in rounds]),
            _against(case, found),
            _number(median([each.busy_cores for each in rounds])),
            str(sum(each.errors for each in rounds)),
        ]
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join([*lines, ""])


def of_imports(rows: Mapping[str, Sequence[float]]) -> str:
    """Return how long the imports took in processes that had set up Django before."""
    lines = ["| beyond Django and Channels | ms (min-max) |", "|---|---:|"]
    lines += [f"| {name} | {_spread(values)} |" for name, values in rows.items()]
    return "\n".join([*lines, ""])


def _against(case: Case, found: Mapping[str, Sequence[Figures]]) -> str:
    ours = median([each.cpu_ms_each for each in found[case.name]])
    base = median([each.cpu_ms_each for each in found.get(case.against or "", ())])
    return f"{ours / base:.2f} x {case.against}" if ours and base else ""


def _latency(rounds: Sequence[Figures]) -> str:
    middle, high = (
        median([getattr(each, name) for each in rounds]) for name in ("p50_ms", "p99_ms")
    )
    return "" if middle is None else f"{_number(middle)} / {_number(high)}"


def _spread(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return ""
    ends = f"{_number(min(known))}-{_number(max(known))}"
    return f"{_number(statistics.median(known))} ({ends})"


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
