"""Check the wheel and the source archive: `python tests/support/distributions.py FILE...`.

Each has the licences, its own and those of the files from elsewhere, and a README whose links all lead somewhere
on a package index. The source archive has what its tests and its documentation read.
"""

from __future__ import annotations

import re
import sys
import tarfile
import zipfile
from pathlib import Path

READ_IN_THE_SOURCES = (
    ".ci/run",
    ".github/workflows/ci.yml",
    ".github/workflows/release.yml",
    ".proselintrc.json",
    "README.md",
    "SECURITY.md",
    "docs/_toc.yml",
    "docs/conf.py",
    "docs/index.md",
    "example_project/urls.py",
    "manage.py",
    "pyproject.toml",
    "tests/conftest.py",
)


def files_of(archive: Path) -> dict[str, bytes]:
    """Return the files of an archive, by their path in the tree or in the environment."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            return {name: wheel.read(name) for name in wheel.namelist()}
    found: dict[str, bytes] = {}
    with tarfile.open(archive) as source:
        for member in source:
            file = source.extractfile(member)
            if file:
                found[member.name.partition("/")[2]] = file.read()
    return found


def find_problems(archive: Path) -> list[str]:
    """Return what is wrong with an archive."""
    files = files_of(archive)
    if archive.suffix == ".whl":
        # `name-version.dist-info` is beside the package.
        root = next(name.partition("/")[0] for name in files if ".dist-info/" in name)
        metadata, licences = f"{root}/METADATA", f"{root}/licenses/"
        problems = []
    else:
        metadata, licences = "PKG-INFO", ""
        problems = [f"no {name}" for name in READ_IN_THE_SOURCES if name not in files]
    text = files.get(metadata, b"").decode()
    if b"Redistribution" not in files.get(f"{licences}LICENSE", b""):
        problems.append("no LICENSE")
    bundled = [name for name in files if re.fullmatch(r"django_mcp/.*LICENSE", name)]
    if len(bundled) < 2:
        problems.append("no licences of the files from elsewhere")
    for name in ["LICENSE", *bundled]:
        if f"License-File: {name}\n" not in text:
            problems.append(f"no License-File {name} in the metadata")
        if f"{licences}{name}" not in files:
            problems.append(f"no {licences}{name}")
    if "# django-mcp-endpoints" not in text:
        problems.append("no README in the metadata")
    relative = re.findall(r"\]\((?!https?:)[^)]*\)", text)
    return [*problems, *(f"a link that leads nowhere: {link}" for link in relative)]


if __name__ == "__main__":
    told = [
        f"{argument}: {problem}"
        for argument in sys.argv[1:]
        for problem in find_problems(Path(argument))
    ]
    if told or not sys.argv[1:]:
        sys.exit("\n".join(told) or "no archives")
    print(f"{len(sys.argv) - 1} archives have the licences and a README without dead links")
