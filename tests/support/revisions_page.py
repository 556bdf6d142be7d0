"""Write docs/revisions.md from the Revision records: `python -m tests.support.revisions_page`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from pathlib import Path

from msgspec.structs import fields

from django_mcp.memory_ports import extensions_in_memory
from django_mcp.protocol import errors
from django_mcp.protocol.revisions import REVISIONS, Revision

PAGE = Path(__file__).resolve().parents[2] / "docs" / "revisions.md"

HEAD = """# The protocol revisions

<!-- Written by `python -m tests.support.revisions_page` from the records; a test compares. Do not edit. -->

One endpoint serves every revision below at the same time. Each message, or the handshake before it, names its revision.
Handlers need not know it: they answer in the newest form, and the record of each revision says how its form becomes the
form of the revision before it.
"""


def page() -> str:
    """Return the whole page."""
    sections = [HEAD, *_behaviour(), *_methods(), *_asks(), *_statuses(), *_lowerings()]
    return "\n".join(sections)


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    return [*(f"| {' | '.join(line)} |" for line in lines), ""]


def _names() -> list[str]:
    return [revision.name for revision in REVISIONS]


def _said(value: object) -> str:
    if value is None:
        return ""
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else f"`{value}`"


def _is_plain(value: object) -> bool:
    return isinstance(value, bool | int | str)


def _behaviour() -> list[str]:
    """One row for each plain value of the record, with what its docstring says of it."""
    plain = [
        field.name
        for field in fields(Revision)
        if field.name != "name" and any(_is_plain(getattr(each, field.name)) for each in REVISIONS)
    ]
    rows = (
        [_meaning(name), *(_said(getattr(revision, name)) for revision in REVISIONS)]
        for name in plain
    )
    return ["## What differs in behaviour\n", *_table(["", *_names()], rows)]


def _meaning(attribute: str) -> str:
    """Return the sentence that the record's docstring has for an attribute."""
    doc = inspect.getdoc(Revision) or ""
    match = re.search(rf"^    {attribute}: (.*(?:\n        .*)*)", doc, re.MULTILINE)
    if match is None:
        raise ValueError(f"Revision's docstring says nothing of {attribute}")
    text = re.sub(r"\s+", " ", match[1])
    return f"{text[0].upper()}{text[1:]}".rstrip(".").replace("|", "\\|")


def _methods() -> list[str]:
    found = {
        name: [name in revision.methods for revision in REVISIONS]
        for name in dict.fromkeys(name for revision in REVISIONS for name in revision.methods)
    }
    for extension in extensions_in_memory():
        for name, method in extension.methods().items():
            found[name] = [method.exists_at(revision) for revision in REVISIONS]
    rows = (
        [f"`{name}`", *("yes" if is_so else "" for is_so in has)] for name, has in found.items()
    )
    return ["## Requests a client may make\n", *_table(["Method", *_names()], rows)]


def _asks() -> list[str]:
    names = sorted({name for revision in REVISIONS for name in revision.asks})
    rows = (
        [f"`{name}`", *("yes" if name in revision.asks else "" for revision in REVISIONS)]
        for name in names
    )
    return [
        "## What a client can be asked while its request runs\n",
        *_table(["", *_names()], rows),
    ]


def _statuses() -> list[str]:
    words = {
        value: name.replace("_", " ").lower()
        for name, value in vars(errors).items()
        if name.isupper() and type(value) is int
    }
    codes = sorted({code for revision in REVISIONS for code in revision.statuses}, reverse=True)
    rows = (
        [f"`{code}` {words[code]}", *(str(revision.status(code)) for revision in REVISIONS)]
        for code in codes
    )
    text = "Errors of a handler are sent with status 200, except for these:\n"
    return ["## HTTP statuses of errors\n", text, *_table(["Error", *_names()], rows)]


def _lowerings() -> list[str]:
    rows = (
        [f"{newer.name} → {older.name}", ", ".join(f"`{kind}`" for kind in newer.lowerings)]
        for newer, older in zip(reversed(REVISIONS), reversed(REVISIONS[:-1]), strict=False)
    )
    text = (
        "What a peer of the older revision does not know is removed or replaced in these results:\n"
    )
    return ["## What is rewritten for older peers\n", text, *_table(["Step", "Results"], rows)]


if __name__ == "__main__":
    PAGE.write_text(page())
