"""What deletes rows that have expired: how long it takes, and what a failure stops."""

from __future__ import annotations

import random
from typing import Any
from unittest.mock import Mock

import pytest
from django.db import OperationalError, connection, transaction
from django.test import override_settings
from django.utils import timezone

from django_mcp.execution.outages import Warner
from django_mcp.execution.tables import AGAIN_AFTER_S, Pruner, delete_some
from django_mcp.models import UsedState

pytestmark = pytest.mark.django_db(transaction=True)

IN_PLACE = override_settings(DJANGO_MCP={"SYNC_THREADS": 0})


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@IN_PLACE
def test_a_request_does_not_wait_until_very_many_rows_are_deleted():
    clock, calls = Clock(), 0
    pruner = Pruner(3600, clock=clock)

    def find_another() -> int:
        nonlocal calls
        calls += 1
        return 0 if calls > 500 else 1

    pruner.prune_if_due(find_another)
    had = calls
    pruner.prune_if_due(find_another)

    assert had == calls < 500
    # What is left does not wait for an hour.
    clock.now_s = AGAIN_AFTER_S
    pruner.prune_if_due(find_another)
    assert calls > had


@IN_PLACE
def test_a_table_whose_rows_cannot_be_deleted_keeps_no_other(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    # It logs once a minute.
    monkeypatch.setattr("django_mcp.execution.tables._trouble", Warner())
    asked = Mock(return_value=0)

    def fail() -> int:
        raise OperationalError("the table is locked")

    Pruner(60).prune_if_due(fail, asked)

    asked.assert_called_once_with()
    assert "Could not delete rows that have expired" in caplog.text


@IN_PLACE
def test_a_failure_leaves_the_transaction_of_the_request_usable():
    UsedState.objects.create(digest="old", quota_key="q", expires_at=timezone.now())

    def fail(execute: Any, sql: str, *rest: Any) -> Any:
        if sql.startswith("DELETE"):
            raise OperationalError("the table is locked")
        return execute(sql, *rest)

    with transaction.atomic():
        with connection.execute_wrapper(fail):
            Pruner(60).prune_if_due(lambda: delete_some(UsedState.objects.all()))
        assert UsedState.objects.count() == 1


def test_processes_that_began_together_do_not_stay_together():
    random.seed(1)
    clocks = [Clock() for _ in range(20)]
    pruners = [Pruner(100, clock=clock) for clock in clocks]
    for each in pruners:
        each.prune_if_due()
    for clock in clocks:
        clock.now_s = 100

    assert len({each.is_due for each in pruners}) == 2
