"""What a process and its children have used, from Linux's /proc; nothing elsewhere."""

from __future__ import annotations

import os
from pathlib import Path

PROC = Path("/proc")


def cpu_seconds(pid: int) -> float | None:
    """Return the CPU time of the process and of its living descendants, None where there is no /proc."""
    if not (PROC / str(pid) / "stat").exists():
        return None
    return sum(_ticks(member) for member in _family(pid)) / os.sysconf("SC_CLK_TCK")


def memory_kb(pid: int) -> float | None:
    """Return the resident memory of the process and its living descendants, in units of 1000 bytes."""
    if not (PROC / str(pid) / "statm").exists():
        return None
    pages = (_read(PROC / str(member) / "statm").split() for member in _family(pid))
    return sum(int(each[1]) for each in pages if each) * os.sysconf("SC_PAGE_SIZE") / 1000


def busy_cores(
    before: tuple[float, float] | None, after: tuple[float, float] | None
) -> float | None:
    """Return how many cores of the machine were busy between two readings of `machine`."""
    if before is None or after is None or after[1] <= before[1]:
        return None
    return (os.cpu_count() or 1) * (after[0] - before[0]) / (after[1] - before[1])


def machine() -> tuple[float, float] | None:
    """Return the machine's busy and total time so far, over all cores and in ticks."""
    if not (PROC / "stat").exists():
        return None
    fields = [float(text) for text in (PROC / "stat").read_text().splitlines()[0].split()[1:9]]
    idle = fields[3] + fields[4]
    return sum(fields) - idle, sum(fields)


def _family(pid: int) -> list[int]:
    family = [pid]
    for member in family:
        for task in (PROC / str(member)).glob("task/*/children"):
            family += map(int, _read(task).split())
    return family


def _ticks(pid: int) -> int:
    # The second field is a name in parentheses that may hold anything; user and system time are
    # fields 14 and 15 of proc(5).
    fields = _read(PROC / str(pid) / "stat").rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12]) if fields else 0


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""  # it ended meanwhile
