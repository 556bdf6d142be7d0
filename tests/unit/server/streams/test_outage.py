"""Logging of a repeated failure."""

from __future__ import annotations

import pytest

from django_mcp.server.streams.messenger import OUTAGE_EVERY_S, OUTAGE_QUIET_S, OutageLog


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


def fail_for(log: OutageLog, clock: Clock, seconds: float, every_s: float = 0.5) -> None:
    for _ in range(round(seconds / every_s)):
        clock.now_s += every_s
        log.failed(OSError("away"))


def test_an_outage_logs_its_start_its_end_and_one_line_a_minute(
    clock: Clock, caplog: pytest.LogCaptureFixture
):
    log = OutageLog("No post", clock)
    fail_for(log, clock, 3 * OUTAGE_EVERY_S)
    clock.now_s += OUTAGE_QUIET_S
    log.worked()
    log.worked()

    lines = [each.getMessage() for each in caplog.records]
    assert lines[0] == "No post: OSError('away')"
    assert lines[1] == "No post: 121 failures by now, the last: OSError('away')"
    assert lines[-1] == "No post: over, after 360 failures in 180 s"
    assert len(lines) == 4


def test_one_success_among_failures_does_not_end_an_outage(
    clock: Clock, caplog: pytest.LogCaptureFixture
):
    log = OutageLog("No post", clock)
    for _ in range(50):
        fail_for(log, clock, 0.5)
        log.worked()

    assert len(caplog.records) == 1


def test_a_further_outage_is_logged_again(clock: Clock, caplog: pytest.LogCaptureFixture):
    log = OutageLog("No post", clock)
    for _ in range(2):
        log.failed(OSError("away"))
        clock.now_s += OUTAGE_QUIET_S
        log.worked()

    assert len(caplog.records) == 4
