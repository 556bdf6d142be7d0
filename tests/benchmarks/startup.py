"""Print what `django.setup()` costs with this app beyond Django and Channels: `python -m tests.benchmarks.startup`.

The site has the usual apps of `startproject`, and one `mcp.py` with three tools. Processor time in ms, the least
of several fresh interpreters, with bytecode from the one before.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RUNS = 9
SETTINGS = """
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "channels",
    "startup_shop",
]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
"""
WITH_APP = SETTINGS + 'INSTALLED_APPS.insert(-1, "django_mcp")\n'
TOOLS = '''
from django_mcp import Context, tool

@tool(read_only=True)
def total(price: int, quantity: int = 1) -> int:
    """Return what a number of articles costs."""
    return price * quantity

@tool(read_only=True)
def names(query: str, limit: int = 20) -> list[str]:
    """Return the names of articles."""
    return [query] * limit

@tool
def rename(ctx: Context, sku: str, name: str) -> str:
    """Rename an article."""
    return name
'''
CODE = """
import time
begun = time.process_time()
import django
django.setup()
print((time.process_time() - begun) * 1000)
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_site(Path(folder))
        without, whole = (min(_measure(folder, name)) for name in ("without_app", "with_app"))
    print(f"django.setup(): {whole:.0f} ms, and {without:.0f} ms without: {whole - without:.0f} ms")


def write_site(folder: Path) -> None:
    """Write the site's package, and the settings `with_app` and `without_app`."""
    files = {
        "without_app.py": SETTINGS,
        "with_app.py": WITH_APP,
        "startup_shop/__init__.py": "",
        "startup_shop/mcp.py": TOOLS,
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


def _measure(folder: str, settings: str) -> list[float]:
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": settings,
        "PYTHONPATH": os.pathsep.join([str(ROOT), folder]),
        "PYTHONPYCACHEPREFIX": str(Path(folder) / "bytecode"),
        # Empty is off: without bytecode each interpreter would compile all of it again.
        "PYTHONDONTWRITEBYTECODE": "",
    }
    command = [sys.executable, "-c", CODE]
    # The first one writes the bytecode.
    return [
        float(subprocess.check_output(command, env=environment, cwd=folder))
        for _ in range(RUNS + 1)
    ][1:]


if __name__ == "__main__":
    main()
