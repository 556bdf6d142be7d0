"""Print what importing every public name costs beyond Django and Channels: `python -m tests.benchmarks.imports`.

Processor time in ms, the median of several fresh interpreters, with bytecode from the one before.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile

RUNS = 9
CODE = """
import time
import django, channels.generic.http
import django.conf, django.core.handlers.asgi, django.http, django.urls, django.utils.translation
begun = time.process_time()
import django_mcp
for name in django_mcp.__all__:
    getattr(django_mcp, name)
print((time.process_time() - begun) * 1000)
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as bytecode:
        environment = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "tests.benchmarks.settings",
            "PYTHONPYCACHEPREFIX": bytecode,
            # Empty is off: without bytecode each interpreter would compile all of it again.
            "PYTHONDONTWRITEBYTECODE": "",
        }
        # The first one writes it.
        found = [
            float(subprocess.check_output([sys.executable, "-c", CODE], env=environment))
            for _ in range(RUNS + 1)
        ][1:]
    print(f"import: {statistics.median(found):.0f} ms ({min(found):.0f} to {max(found):.0f})")


if __name__ == "__main__":
    main()
