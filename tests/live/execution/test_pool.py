"""The pool of threads at the end of its process."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import asyncio, os
from django_mcp.execution.pool import LoopPool

async def main():
    pool = LoopPool(4, "t")
    await asyncio.gather(*(asyncio.get_running_loop().run_in_executor(pool, int) for _ in range(20)))
    pool.leave(lambda: os.write(1, b"left\\n"))

asyncio.run(main())
os.write(1, b"done\\n")
"""


def test_a_process_finishes_queued_work_before_exit():
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=30, check=True
    )

    assert sorted(ended.stdout.split()) == ["done", "left"]
    assert ended.stderr == ""
