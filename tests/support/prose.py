"""Lint the prose of README, SECURITY and docs with proselint: `python -m tests.support.prose`.

`.proselintrc.json` has the rules. Two families are off: typography, since the pages are written in ASCII
quotes and dots, and dates, since names of revisions such as 2025-11-25 are none. Code is left out.
"""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.doc_blocks import PAGES, ROOT

_FENCE = re.compile(r"^( *)```.*?^\1```", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`\n]+`")
_HEADING = re.compile(r"^(#+ .*)$", re.MULTILINE)


def prose_of(text: str) -> str:
    """Return a page without its code, each line at its place."""
    text = _FENCE.sub(lambda found: "\n" * found[0].count("\n"), text)
    # Names of their own, or two in a row would be a repetition.
    names = itertools.count(1)
    text = _CODE.sub(lambda _: _name(next(names)), text)
    # Otherwise the last word of a heading and the first of its text would be a repetition.
    return _HEADING.sub(r"\1.", text)


def _name(number: int) -> str:
    return "code" + "".join(chr(ord("a") + int(digit)) for digit in str(number))


def main() -> int:
    """Print what proselint finds, and return its exit status."""
    with TemporaryDirectory() as folder:
        names = []
        for page in [ROOT / "SECURITY.md", *PAGES]:
            name = page.relative_to(ROOT)
            copy = Path(folder) / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(prose_of(page.read_text()))
            names.append(str(name))
        rules = ROOT / ".proselintrc.json"
        command = [sys.executable, "-m", "proselint", "check", "--config", str(rules), *names]
        return subprocess.run(command, cwd=folder, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
