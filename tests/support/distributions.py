"""Check the wheel and the source archive: `python tests/support/distributions.py FILE...`.

Each has the licence, and a README whose links all lead somewhere on a package index.
"""

from __future__ import annotations

import re
import sys
import tarfile
import zipfile
from pathlib import Path


def files_of(archive: Path) -> dict[str, str]:
    """Return the licence and the metadata of an archive, by file name."""
    wanted = ("LICENSE", "METADATA", "PKG-INFO")
    found: dict[str, str] = {}
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            for name in wheel.namelist():
                if ".dist-info/" in name and Path(name).name in wanted:
                    found[Path(name).name] = wheel.read(name).decode()
        return found
    with tarfile.open(archive) as source:
        for member in source:
            file = source.extractfile(member)
            if member.name.count("/") == 1 and Path(member.name).name in wanted and file:
                found[Path(member.name).name] = file.read().decode()
    return found


def find_problems(archive: Path) -> list[str]:
    """Return what is wrong with an archive."""
    files = files_of(archive)
    metadata = files.get("METADATA") or files.get("PKG-INFO", "")
    problems = [] if "Redistribution" in files.get("LICENSE", "") else ["no LICENSE"]
    if "License-File: LICENSE" not in metadata:
        problems.append("no License-File in the metadata")
    if "# django-mcp-endpoints" not in metadata:
        problems.append("no README")
    relative = re.findall(r"\]\((?!https?:)[^)]*\)", metadata)
    return [*problems, *(f"a link that leads nowhere: {link}" for link in relative)]


if __name__ == "__main__":
    told = [
        f"{argument}: {problem}"
        for argument in sys.argv[1:]
        for problem in find_problems(Path(argument))
    ]
    if told or not sys.argv[1:]:
        sys.exit("\n".join(told) or "no archives")
    print(f"{len(sys.argv) - 1} archives have the licence and a README without dead links")
