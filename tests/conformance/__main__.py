"""Serve the fixtures site, or run the official suite against it.

    python -m tests.conformance serve --server uvicorn --port 8000 [--workers 2]
    python -m tests.conformance run [LEG ...] [--server uvicorn ...] [--verbose] [--keep FOLDER]

Several workers share PostgreSQL and Redis, see `tests.support.backends`; `serve` takes what its environment says.

`run` exits with 0 when every scenario ended as `expected_failures.yml` says, 1 when one did not, 2 when
the suite could not be run. Environment: CONFORMANCE_CACHE (the folder of the npm packages; `.cache` in
the repository when unset) and CONFORMANCE_LEG_LIMIT_S (seconds that one leg may take).
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.conformance import expectations, report, suite
from tests.support import sites
from tests.support.backends import Backends, missing_services, own_postgres, redis_address

PACKAGE = "tests.conformance"
WARM_UPS = 8


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    if options.verb == "serve":
        sites.serve(
            PACKAGE, options.server, host=options.host, port=options.port, workers=options.workers
        )
    try:
        return _run(options)
    except (suite.SuiteError, expectations.ExpectationError, RuntimeError) as error:
        print(f"conformance: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance")
    verbs = parser.add_subparsers(dest="verb", required=True)
    serve = verbs.add_parser("serve", help="serve the fixtures at /mcp until stopped")
    serve.add_argument("--server", choices=sites.SERVERS, default="uvicorn")
    serve.add_argument("--host", default="127.0.0.1")
    serve.add_argument("--port", type=int, required=True)
    serve.add_argument("--workers", type=int, default=1)
    run = verbs.add_parser("run", help="serve the fixtures and run the official suite against them")
    run.add_argument("legs", nargs="*", metavar="LEG", help=f"of {', '.join(suite.LEGS)}")
    run.add_argument("--server", choices=sites.SERVERS, action="append", help="repeatable")
    run.add_argument("--workers", type=int, default=1)
    run.add_argument("--verbose", action="store_true", help="say why each check failed")
    run.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the logs and checks there")
    return parser


def _run(options: argparse.Namespace) -> int:
    legs = options.legs or list(suite.LEGS)
    if unknown := set(legs) - set(suite.LEGS):
        raise suite.SuiteError(f"unknown leg {sorted(unknown)} (known: {', '.join(suite.LEGS)})")
    expected = expectations.load()
    installed = suite.Suite()
    for release in dict.fromkeys(suite.LEGS[name].release for name in legs):
        installed.install(release)
    words: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="conformance-") as temporary:
        for server in options.server or ["uvicorn"]:
            folder = (options.keep or Path(temporary)) / server
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            words += _run_on(server, legs, installed, expected, folder, options)
    failed = words["FAIL"]
    rest = f", {words['XFAIL']} failed as expected, {words['SKIP']} not checked as expected"
    print(f"{words['PASS']} passed, {failed} failed{rest}")
    return 1 if failed else 0


def _run_on(
    server: str,
    legs: Sequence[str],
    installed: suite.Suite,
    expected: expectations.Expectations,
    folder: Path,
    options: argparse.Namespace,
) -> Counter[str]:
    """Run the legs against one server and print their lines; return how many of each word."""
    words: Counter[str] = Counter()
    log = folder / "server.log"
    with (
        _backends(folder, options.workers) as backends,
        sites.running(
            PACKAGE, server, log=log, workers=options.workers, extra=backends.environment()
        ) as site,
    ):
        _warm_up(site, options.workers)
        for name in legs:
            found = _run_leg(installed, suite.LEGS[name], site, folder)
            judged = expectations.judge(found, expected, server=server, leg=name)
            words += _show(server, name, judged, verbose=options.verbose)
        words += _stop(site, server)
    return words


@contextmanager
def _backends(folder: Path, workers: int) -> Iterator[Backends]:
    """Yield what the workers share, with its tables: an SQLite file will do for one."""
    if workers == 1:
        found = Backends(sqlite=folder / "site.sqlite3")
        found.manage(PACKAGE, "migrate", "-v", "0")
        yield found
        return
    if missing := missing_services():
        raise RuntimeError(f"several workers need a database and a layer: {'; '.join(missing)}")
    host, port = redis_address()
    with own_postgres("conformance", PACKAGE) as name:
        yield Backends(postgres=name, redis=f"redis://{host}:{port}/0 {name}")


def _run_leg(
    installed: suite.Suite, leg: suite.Leg, site: sites.Running, folder: Path
) -> list[report.Outcome]:
    run = installed.run(leg, site.url, folder / leg.name)
    (folder / f"{leg.name}.log").write_text(run.log)
    return report.read(run)


def _show(
    server: str, leg: str, judgements: Sequence[expectations.Judgement], *, verbose: bool
) -> Counter[str]:
    for judged in judgements:
        outcome = judged.outcome
        remark = f"({judged.remark})" if judged.remark else ""
        line = f"{judged.word:5} {server} {leg} {outcome.scenario} {outcome.detail} {remark}"
        print(" ".join([line[:5], *line[5:].split()]), flush=True)
        if verbose or judged.word == "FAIL":
            for message in outcome.messages:
                print(f"      {message}")
    return Counter(judged.word for judged in judgements)


def _stop(site: sites.Running, server: str) -> Counter[str]:
    """Stop the server; an unclean end or a logged traceback counts as a failure."""
    status = site.stop()
    problems = []
    if status not in {0, -15}:
        problems.append(f"ended with status {status}")
    if "Traceback (most recent call last)" in site.log.read_text(errors="replace"):
        problems.append("logged a traceback")
    for problem in problems:
        print(f"FAIL  {server} the server {problem}:\n{sites.tail(site.log)}")
    return Counter(FAIL=len(problems))


def _warm_up(site: sites.Running, workers: int) -> None:
    """Send the first, slow requests in advance: some of the suite's timeouts are short."""
    version = "2025-11-25"
    client = {"name": "warm-up", "version": "1"}
    opening = {"protocolVersion": version, "capabilities": {}, "clientInfo": client}
    for _ in range(WARM_UPS * workers):
        _post(site.url, "initialize", opening)
        _post(site.url, "tools/list", {}, version)
        _post(site.url, "tools/call", {"name": "test_simple_text", "arguments": {}}, version)
        _post(site.url, "tools/call", {"name": "test_tool_with_progress"}, version)


def _post(url: str, method: str, params: object, version: str | None = None) -> None:
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        **({"MCP-Protocol-Version": version} if version else {}),
    }
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    try:
        request = urllib.request.Request(url, body, headers)
        with urllib.request.urlopen(request, timeout=10) as response:
            response.read()
    except urllib.error.HTTPError:
        pass  # whatever it answers, it is warm now


if __name__ == "__main__":
    sys.exit(main())
