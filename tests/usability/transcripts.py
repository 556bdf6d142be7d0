"""Transcripts: JSON lines, each a call or the final answer of a task.

    {"task": "shop-1", "tool": "find_orders", "arguments": {"status": "placed"}}
    {"task": "shop-2", "resource": "shop://terms"}
    {"task": "shop-3", "tool": "gift_wrap", "arguments": {...}, "answers": [{"paper": "stars"}]}
    {"task": "shop-1", "answer": "Two: 2026-0102 and 2026-0103."}

`answers` are what the person fills into the questions of a call; false declines. A value that differs each time, such
as a confirmation, is written as `$2.confirmation`: of the second call's result, the value at this path. If a line
has the `result` that the call had when it was recorded, the values are found without that.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Run:
    """What a transcript has of one task."""

    calls: list[dict[str, Any]] = field(default_factory=list)
    answer: str = ""


def read_transcript(path: Path) -> dict[str, Run]:
    """Return the runs of a transcript by the ids of their tasks.

    Raises:
        ValueError: a line is neither a call nor an answer.
    """
    runs: dict[str, Run] = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip():
            continue
        row = json.loads(line)
        run = runs.setdefault(row["task"], Run())
        if "answer" in row:
            run.answer = row["answer"]
        elif "tool" in row or "resource" in row:
            run.calls.append(row)
        else:
            raise ValueError(f"{path}:{number}: neither tool, resource nor answer")
    return runs


def fill_in(value: Any, results: list[Any], changed: dict[Any, Any]) -> Any:
    """Return arguments with the values that earlier results have in this run."""
    if isinstance(value, dict):
        return {key: fill_in(item, results, changed) for key, item in value.items()}
    if isinstance(value, list):
        return [fill_in(item, results, changed) for item in value]
    if not isinstance(value, str):
        return value
    match = re.fullmatch(r"\$(\d+)\.([\w.]+)", value)
    if match is None:
        return changed.get(value, value)
    found = results[int(match[1]) - 1]
    for key in match[2].split("."):
        found = found[int(key)] if isinstance(found, list) else found[key]
    return found


def changes(recorded: Any, now: Any) -> Iterable[tuple[str, Any]]:
    """Yield the texts of a recorded result that are others now, with what they are now."""
    if isinstance(recorded, dict) and isinstance(now, dict):
        for key in recorded.keys() & now.keys():
            yield from changes(recorded[key], now[key])
    elif isinstance(recorded, list) and isinstance(now, list):
        for one, other in zip(recorded, now, strict=False):
            yield from changes(one, other)
    elif isinstance(recorded, str) and recorded != now:
        yield recorded, now
