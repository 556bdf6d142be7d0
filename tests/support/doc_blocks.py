"""Find the fenced blocks of README and docs, and what is to be done with each.

The word after the language says how a block is run:

    bash clone         in a fresh clone: `.ci/run` does it, `python -m tests.support.doc_blocks clone` prints them
    bash site          beside the running example site
    python site        the same, as a script
    bash serve         starts a server of the example site, which then has to answer
    bash project       in the page's own project, an empty folder at first, in the page's order
    bash project-fails the same, but it has to end with 1; its answer is what it prints on its error output
    bash project-serve the same, but it serves until the page's end
    python project     the same, as a script
    python FILE        that file of the page's project, whole; +FILE: added to its end
    python             with the page's other such blocks, in order, in one process with Django set up
    python fragment    has to compile
    json answer        what the block before it has to print
    text answer        the same, word for word
    json               has to parse
    ini FILE           a configuration file; tests/live/test_recipes.py has the program that reads it check it;
                       the same for nginx, dockerfile and yaml
    text, nginx        only shown

A block without a language, or with a word that is not listed, fails the tests.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(?P<info>[^\n]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
ANSWERS = {"json answer", "text answer"}
SHOWN = {"text", "nginx"}
CONFIGURATION = {"ini", "nginx", "dockerfile", "yaml"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """One fenced block."""

    page: Path
    line: int
    info: str
    text: str

    @property
    def kind(self) -> str | None:
        """How the block is run, as the module's docstring lists it; None when it does not say."""
        language, _, word = self.info.partition(" ")
        if language == "python" and word.endswith(".py"):
            return "python FILE"
        if language in CONFIGURATION and word:
            return "configuration"
        if self.info in SHOWN:
            return "shown"
        return self.info if self.info in KINDS else None

    @property
    def file(self) -> str:
        """The file that a `python FILE` block is, or adds to, or that a configuration is."""
        return self.info.split(" ", 1)[1].removeprefix("+")

    @property
    def is_addition(self) -> bool:
        """Whether a `python FILE` block is added to a file that is there."""
        return " +" in self.info

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT).as_posix()}:{self.line}"


KINDS = {
    "bash clone",
    "bash site",
    "python site",
    "bash serve",
    "bash project",
    "bash project-fails",
    "bash project-serve",
    "python project",
    "python FILE",
    "python",
    "python fragment",
    "json answer",
    "text answer",
    "json",
    "shown",
    "configuration",
}


def blocks_of(page: Path) -> list[Block]:
    """Return a page's blocks in order."""
    text = page.read_text()
    return [
        Block(
            page=page,
            line=text.count("\n", 0, match.start()) + 1,
            info=match["info"].strip(),
            text=match["text"],
        )
        for match in FENCE.finditer(text)
    ]


def all_blocks() -> list[Block]:
    """Return the blocks of every page."""
    return [block for page in PAGES for block in blocks_of(page)]


def answer_to(block: Block) -> Block | None:
    """Return the block right after this one when it is what this one has to print."""
    following = [other for other in blocks_of(block.page) if other.line > block.line]
    return following[0] if following and following[0].kind in ANSWERS else None


if __name__ == "__main__":
    for each in all_blocks():
        if each.kind == f"bash {sys.argv[1]}":
            print(each.text.strip().replace("\\\n", " "))
