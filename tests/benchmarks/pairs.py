"""Compares pairs of functions: those of generated tools with the same by hand.

    python -m tests.benchmarks.model_tools
    python -m tests.benchmarks.views --only Ninja
    python -m tests.benchmarks.views --instructions

By default it measures processor time, which needs a quiet machine: the functions of a pair take turns, batch by small
batch, and the ratio is the median of those of neighbours. With `--instructions` it counts these with callgrind,
which takes some two minutes and varies by 1 to 3 %.
"""

from __future__ import annotations

import argparse
import gc
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Function = Callable[[], Any]
Pairs = dict[str, tuple[Function, Function]]
"""By name: the handler of a tool, and the same by hand."""

CALLS = 10
BATCHES = 60
COUNTED_CALLS = 10
COUNTED_BATCHES = 3
WARM_CALLS = 15
INSIDE = "BENCH_COUNTED_INSIDE"
"""The environment variable of the process whose instructions callgrind counts."""
CALLGRIND = (
    "valgrind", "--tool=callgrind", "--instr-atstart=no", "--dump-before=sched_yield",
    "--callgrind-out-file={folder}/out", "--log-file={folder}/log",
)  # fmt: skip
"""Makes a file of the instructions until each call of `os.sched_yield`."""


def main(make_pairs: Callable[[], Pairs], module: str) -> int:
    """Print how much more each first function of the pairs costs than the second one.

    Args:
        make_pairs: makes them; runs in the process that is measured.
        module: that is run, by its name.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {module}")
    parser.add_argument("--only", default="", help="the pairs with this text in their names")
    parser.add_argument("--instructions", action="store_true", help="count them, instead of time")
    options = parser.parse_args()
    if options.instructions and INSIDE not in os.environ:
        _print_counted(module, options.only)
        return 0
    pairs = {name: pair for name, pair in make_pairs().items() if options.only in name}
    if options.instructions:
        _run_counted(pairs)
    else:
        _print_measured(pairs)
    return 0


# -- time


def _print_measured(pairs: Pairs) -> None:
    for name, pair in pairs.items():
        ratios, costs = [], []
        for _ in range(BATCHES):
            first, second = (_measure(function) for function in pair)
            ratios.append(first / second)
            costs.append(first)
        low, middle, high = statistics.quantiles(ratios, n=4)
        cost_us = statistics.median(costs) * 1e6 / CALLS
        print(f"{name:32} {cost_us:8.0f} us   {middle:.2f} times ({low:.2f} to {high:.2f})")


def _measure(function: Function) -> float:
    """Return the processor time of a batch of calls, in seconds."""
    begun = time.process_time()
    for _ in range(CALLS):
        function()
    return time.process_time() - begun


# -- instructions


def _print_counted(module: str, only: str) -> None:
    names, totals = count_instructions([module, "--instructions", "--only", only])
    totals = totals[: len(names) * 2 * COUNTED_BATCHES]
    assert len(totals) == len(names) * 2 * COUNTED_BATCHES, "callgrind made too few files"
    print("| thousands of instructions | tool | by hand | ratio |")
    print("| --- | ---: | ---: | ---: |")
    for name in names:
        first, second = (_take_least(totals) for _ in range(2))
        ratio = first / second
        print(f"| {name} | {first / 1000:.0f} | {second / 1000:.0f} | {ratio:.2f} |")


def _take_least(totals: list[int]) -> float:
    """Remove the batches of one function, and return the instructions of a call in the cheapest."""
    batches = totals[:COUNTED_BATCHES]
    del totals[:COUNTED_BATCHES]
    return min(batches) / COUNTED_CALLS


def _run_counted(pairs: Pairs) -> None:
    functions: Sequence[Function] = [function for pair in pairs.values() for function in pair]
    for function in functions:
        for _ in range(WARM_CALLS):
            function()
    print("\n".join(pairs), flush=True)
    start_counting()
    for function in functions:
        for _ in range(COUNTED_BATCHES):
            for _ in range(COUNTED_CALLS):
                function()
            os.sched_yield()


def count_instructions(arguments: Sequence[str]) -> tuple[list[str], list[int]]:
    """Run a module in a process of its own, and return what it printed and the instructions that it counted.

    Args:
        arguments: the module and its arguments. It calls `start_counting`, and `os.sched_yield` at the end
            of each part that is counted.
    """
    if shutil.which("valgrind") is None:
        raise SystemExit("install valgrind to count instructions")
    with tempfile.TemporaryDirectory(prefix="callgrind-") as folder:
        wrapper = [part.format(folder=folder) for part in CALLGRIND]
        command = [*wrapper, sys.executable, "-m", *arguments]
        environment = {**os.environ, INSIDE: "1", "PYTHONHASHSEED": "0"}
        lines = subprocess.check_output(command, env=environment, text=True).splitlines()
        dumps = sorted(Path(folder).glob("out.*"), key=lambda dump: int(dump.suffix[1:]))
        # The first one is that of the start, and the last one that of the end.
        return lines, [_read_total(dump) for dump in dumps[1:]]


def start_counting() -> None:
    """Have callgrind count the instructions from here on, in the process of `count_instructions`."""
    gc.collect()
    gc.freeze()
    # The start takes a fifth of the time when it is not counted.
    control = ["callgrind_control", "--instr=on", str(os.getpid())]
    subprocess.run(control, check=True, capture_output=True)
    os.sched_yield()  # Here callgrind ends a batch.


def _read_total(dump: Path) -> int:
    total = re.search(r"^totals: (\d+)", dump.read_text(), re.MULTILINE)
    assert total is not None
    return int(total[1])
