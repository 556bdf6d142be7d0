"""Measures how well the lists of two sites serve a model, by the calls that it made.

    python -m tests.usability                       the scripted transcripts
    python -m tests.usability shop FILE             a transcript of the tasks of the example shop
    python -m tests.usability large FILE            one of the tasks of the large site
    python -m tests.usability compact FILE          one of the same tasks, by its compact tools
    python -m tests.usability questions shop        the tasks, to give them to a model

The large site needs the packages of `tests/circle/requirements.txt`. Each site runs in a process of its own.
"""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from tests.usability.sites import SITES, run_site

SCRIPTED = Path(__file__).parent / "scripted"


def main(arguments: list[str]) -> int:
    """Run a site in this process, or all sites with the scripted transcripts; return the exit status."""
    if arguments:
        asks = arguments[0] == "questions"
        name = arguments[asks]
        file = arguments[1] if len(arguments) > 1 else SCRIPTED / f"{name}.jsonl"
        return run_site(name, None if asks else Path(file))
    status = 0
    for name in SITES:
        if name != "shop" and find_spec("oscar") is None:
            print(f"{name}: not run, needs the packages of tests/circle/requirements.txt")
            continue
        command = [sys.executable, "-W", "ignore", "-m", "tests.usability", name]
        status |= subprocess.run(command, check=False).returncode
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
