"""Print what importing every public name costs beyond Django and Channels: `python -m tests.benchmarks.imports`.

Processor time in ms, the median of several fresh interpreters.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys

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
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.benchmarks.settings"}
    found = [
        float(subprocess.check_output([sys.executable, "-c", CODE], env=environment))
        for _ in range(RUNS)
    ]
    print(f"import: {statistics.median(found):.0f} ms ({min(found):.0f} to {max(found):.0f})")


if __name__ == "__main__":
    main()
