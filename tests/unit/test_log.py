"""The package's log: what repeats itself is logged so often and no more."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest
from django.db import OperationalError, connection
from django.test import override_settings

from django_mcp.log import MAX_KINDS, MOST_ALIKE, PERIOD_S, LoggedKinds, RepetitionLimit, logger
from django_mcp.servers import MCPServer
from django_mcp.sessions.site import writer
from tests.support.wire import V2026_07_28, WireClient


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def made(
    text: str = "%s is down", line: int = 1, level: int = logging.WARNING
) -> logging.LogRecord:
    return logging.LogRecord("django_mcp", level, "module.py", line, text, ("It",), None)


def test_records_above_the_limit_are_dropped_and_counted():
    clock = Clock()
    limit = RepetitionLimit(clock)
    records = [made() for _ in range(MOST_ALIKE + 5)]

    assert [limit.filter(each) for each in records].count(True) == MOST_ALIKE
    assert records[0].getMessage() == "It is down"
    assert records[MOST_ALIKE - 1].getMessage() == (
        "It is down (more like this are not logged for up to 60 s)"
    )
    clock.now_s += PERIOD_S
    later = made()
    assert limit.filter(later)
    assert later.getMessage() == "It is down (5 more like this were not logged before)"


def test_other_records_are_not_dropped_with_them():
    limit = RepetitionLimit(Clock())
    for _ in range(MOST_ALIKE + 1):
        limit.filter(made())

    assert not limit.filter(made())
    assert limit.filter(made(line=2))
    assert all(limit.filter(made(level=logging.INFO)) for _ in range(MOST_ALIKE + 1))


def test_errors_of_one_statement_are_told_apart_by_where_they_come_from():
    limit = RepetitionLimit(Clock())

    def failing(fail: Callable[[], object]) -> bool:
        record = made()
        try:
            fail()
        except (ValueError, ZeroDivisionError) as error:
            record.exc_info = (type(error), error, error.__traceback__)
        return limit.filter(record)

    shown = [failing(lambda: int("x")) for _ in range(MOST_ALIKE + 3)]

    assert shown.count(True) == MOST_ALIKE
    assert failing(lambda: 1 / 0)


def test_the_counts_are_bounded():
    limit = RepetitionLimit(Clock())
    for line in range(MAX_KINDS + 10):
        limit.filter(made(line=line))

    assert len(limit._counts) <= MAX_KINDS


@pytest.mark.django_db
@override_settings(DJANGO_MCP={"SYNC_THREADS": 0})
def test_an_outage_is_logged_once_while_changes_of_sessions_wait(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    def is_down(*_given: object) -> None:
        raise OperationalError("the database is down")

    monkeypatch.setattr(writer, "PAUSE_S", 0)
    of_sessions = writer.SessionWriter()
    of_sessions.note_seen("0" * 32, 1.0)

    with connection.execute_wrapper(is_down):
        for _ in range(5):
            of_sessions._write()

    assert caplog.text.count("Could not write changes of sessions") == 1
    of_sessions._write()
    assert of_sessions._take() is None


@override_settings(DJANGO_MCP={"SYNC_THREADS": 0})
async def test_a_client_cannot_fill_the_log_with_tracebacks(caplog: pytest.LogCaptureFixture):
    server = MCPServer("noisy", mode="stateless", public=True)

    @server.tool
    async def fail() -> str:
        raise ZeroDivisionError

    client = WireClient(server, V2026_07_28)
    with caplog.at_level("WARNING", "django_mcp"):
        for _ in range(MOST_ALIKE + 10):
            await client.send("tools/call", {"name": "fail"})

    assert len([each for each in caplog.records if each.name == logger.name]) == MOST_ALIKE


def test_a_kind_is_logged_once_and_no_more_kinds_than_the_limit():
    logged = LoggedKinds(2)

    assert [logged.add(kind) for kind in ("a", "a", "b", "c", "a")] == [
        True,
        False,
        True,
        False,
        False,
    ]
    logged.reset()
    assert logged.add("c")
