from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.sites import Running, running

SITE = "tests.support.site.http"


@pytest.fixture(scope="module", params=["uvicorn", "daphne"])
def site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    """The site behind each supported server."""
    yield from _quiet_site(request.param, tmp_path_factory)


@pytest.fixture(scope="module")
def uvicorn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """The site behind the server that streams the body to the application."""
    yield from _quiet_site("uvicorn", tmp_path_factory)


def _quiet_site(server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    log = tmp_path_factory.mktemp("site") / f"{server}.log"
    with running(SITE, server, log=log) as site:
        yield site
    assert errors_in(log) == []


def errors_in(log: Path) -> list[str]:
    """Return the errors and tracebacks that a server logged."""
    alarms = ("ERROR", "CRITICAL", "Traceback", "Exception", "killed", "never awaited")
    return [line for line in log.read_text().splitlines() if any(map(line.count, alarms))]
