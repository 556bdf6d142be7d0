"""Install the pinned npm packages of the official suite and run one leg of it against a URL.

What a run left behind (its log and one `checks.json` for each scenario) is read by `report`.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.sites import ROOT

PACKAGE = "@modelcontextprotocol/conformance"
STABLE = "0.1.16"
PRERELEASE = "0.2.0-alpha.12"
EXTENSIONS = "extensions"
NODE_SHIM = Path(__file__).with_name("globsync.mjs")
INSTALL_LIMIT_S = 300.0
LIST_LIMIT_S = 30.0
LEG_LIMIT_S = 240.0


class SuiteError(Exception):
    """The suite itself could not be installed or started."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Leg:
    """One way to run the suite: a release of it and the arguments that choose the scenarios."""

    name: str
    release: str
    arguments: tuple[str, ...]


def _spec(version: str) -> Leg:
    arguments = ("--suite", "all", "--spec-version", version)
    return Leg(name=version, release=PRERELEASE, arguments=arguments)


LEGS: Mapping[str, Leg] = {
    leg.name: leg
    for leg in (
        Leg(name=STABLE, release=STABLE, arguments=("--suite", "all")),
        _spec("2025-03-26"),
        _spec("2025-06-18"),
        _spec("2025-11-25"),
        _spec("2026-07-28"),
        # No argument selects these together: each scenario is run by its name.
        Leg(name=EXTENSIONS, release=PRERELEASE, arguments=()),
    )
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """What one leg left behind."""

    log: str
    folder: Path  # one folder with a checks.json for each scenario that finished
    status: int | None  # the suite's exit status, None when it was stopped at the time limit
    expected: int | None  # how many scenarios the suite said it would run


class Suite:
    """The installed packages, and node to run them."""

    def __init__(self) -> None:
        for program in ("node", "npm"):
            if shutil.which(program) is None:
                raise SuiteError(f"{program} was not found: install Node.js 20.6 or newer")
        given = os.environ.get("CONFORMANCE_CACHE")
        self.cache = Path(given) if given else ROOT / ".cache" / "conformance"
        self.limit_s = float(os.environ.get("CONFORMANCE_LEG_LIMIT_S", LEG_LIMIT_S))
        self.cache.mkdir(parents=True, exist_ok=True)
        (self.cache / ".gitignore").write_text("*\n")

    def entry(self, release: str) -> Path:
        return self.cache / release / "node_modules" / PACKAGE / "dist" / "index.js"

    def install(self, release: str) -> None:
        """Install one release into the cache, whole or not at all."""
        if self.entry(release).is_file():
            return
        with tempfile.TemporaryDirectory(dir=self.cache, prefix="install-") as folder:
            Path(folder, "package.json").write_text('{"private": true}\n')
            quiet = ("--no-audit", "--no-fund", "--no-save", "--loglevel=error")
            arguments = ["npm", "install", *quiet, f"{PACKAGE}@{release}"]
            status, output = _bounded(arguments, INSTALL_LIMIT_S, cwd=Path(folder))
            if status != 0:
                raise SuiteError(f"cannot install {PACKAGE}@{release}:\n{output}")
            shutil.rmtree(self.cache / release, ignore_errors=True)
            shutil.copytree(folder, self.cache / release, symlinks=True)

    def run(self, leg: Leg, url: str, folder: Path) -> Run:
        """Run one leg against the endpoint; never longer than the limit."""
        folder.mkdir(parents=True, exist_ok=True)
        if leg.name == EXTENSIONS:
            return self._run_by_name(leg, url, folder)
        status, log = self._server(leg, url, folder, leg.arguments, self.limit_s)
        found = re.search(r"^Running .*\((\d+) scenarios\) against", log, re.MULTILINE)
        return Run(log=log, folder=folder, status=status, expected=int(found[1]) if found else None)

    def _run_by_name(self, leg: Leg, url: str, folder: Path) -> Run:
        names = self._extension_scenarios(leg.release)
        logs, worst = [], 0
        for name in names:
            limit_s = self.limit_s / 4
            status, log = self._server(leg, url, folder, ("--scenario", name), limit_s)
            logs.append(f"=== Running scenario: {name} ===\n{log}")
            worst = max(worst, abs(status) if status is not None else 1)
        return Run(log="\n".join(logs), folder=folder, status=worst, expected=len(names))

    def _extension_scenarios(self, release: str) -> list[str]:
        status, text = _bounded([*self.node(release), "list", "--server"], LIST_LIMIT_S)
        names = re.findall(r"^\s*- (\S+) \[extension\]$", text, re.MULTILINE)
        if status != 0 or not names:
            raise SuiteError(f"the suite lists no extension scenario:\n{text}")
        return names

    def node(self, release: str) -> list[str]:
        return ["node", "--import", NODE_SHIM.as_uri(), str(self.entry(release))]

    def _server(
        self, leg: Leg, url: str, folder: Path, arguments: Sequence[str], limit_s: float
    ) -> tuple[int | None, str]:
        target = ["server", "--url", url, "-o", str(folder)]
        return _bounded([*self.node(leg.release), *target, *arguments], limit_s)


def _bounded(
    arguments: Sequence[str], limit_s: float, *, cwd: Path | None = None
) -> tuple[int | None, str]:
    """Run a program with all it starts; return its status (None: stopped at the limit) and output."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            arguments,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        status: int | None
        try:
            status = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        output.seek(0)
        return status, output.read().decode(errors="replace")
