"""Run the fuzzer.

    python -m tests.fuzz --messages 1000000 --sockets 100000
    python -m tests.fuzz --messages 1 --seed 7 --round 1234     one conversation again
    python -m tests.fuzz --values 100000 --database postgresql  generated tools, with extreme values

It exits with 1 when anything failed: an exception, an error in the log, an internal error, a status
of 500 and above, no answer, or a callback that took more than 100 ms of CPU on the event loop.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from tests.fuzz import generated
from tests.fuzz.inprocess import run_share
from tests.support import sites

SHOWN = 200
ROUNDS_PER_JOB = 10_000_000


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--messages", type=int, default=0, help="messages sent in process")
    parser.add_argument("--sockets", type=int, default=0, help="messages sent over sockets")
    parser.add_argument("--values", type=int, default=0, help="calls of generated tools in process")
    parser.add_argument("--database", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--round", type=int, default=0, help="the conversation to begin with")
    parser.add_argument("--jobs", type=int, default=1, help="processes that share the messages")
    parser.add_argument(
        "--server",
        action="append",
        choices=("uvicorn", "daphne", "wsgi"),
        help="default: all three",
    )
    parser.add_argument("--without-speed", action="store_true", help="as without the extra speed")
    options = parser.parse_args()
    failures: list[object] = []
    if options.messages:
        failures += fuzz_in_process(options)
    if options.sockets:
        failures += fuzz_sockets(options)
    if options.values:
        failures += generated.run(options.values, options.seed, options.database, options.round)
    for failure in failures[:SHOWN]:
        print(failure)
    print(f"{len(failures)} failures")
    return 1 if failures else 0


def fuzz_in_process(options: argparse.Namespace) -> list[object]:
    share = options.messages // options.jobs
    first_rounds = [options.round + ROUNDS_PER_JOB * job for job in range(options.jobs)]
    work = partial(run_share, share, options.seed, not options.without_speed)
    if options.jobs == 1:
        return [*work(*first_rounds)]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.jobs, mp_context=context) as pool:
        return [failure for found in pool.map(work, first_rounds) for failure in found]


def fuzz_sockets(options: argparse.Namespace) -> list[object]:
    from tests.fuzz import sockets

    servers = options.server or sites.SERVERS
    failures: list[object] = []
    for server in servers:
        with tempfile.TemporaryDirectory(prefix="fuzz_") as folder:
            fuzzer = sockets.run(
                server,
                options.sockets // len(servers),
                options.seed,
                folder=Path(folder),
                first_round=options.round,
                has_speed=not options.without_speed,
            )
        statuses = dict(sorted(fuzzer.statuses.items()))
        print(f"{fuzzer.sent} messages to {server}; statuses: {statuses}", flush=True)
        failures += fuzzer.failures
    return failures


if __name__ == "__main__":
    sys.exit(main())
