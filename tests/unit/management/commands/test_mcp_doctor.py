"""What `mcp_doctor` reads of the workers of the site."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from typing import Any

import pytest
from django.test import override_settings
from django.utils import timezone

from django_mcp.management.doctor.finding import Finding
from django_mcp.management.doctor.threads import examine_threads
from django_mcp.models import Worker

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.usefixtures("model_store"),
]


@pytest.fixture
def model_store() -> Any:
    with override_settings(DJANGO_MCP={"SESSION_STORE": "model"}):
        yield


def find(in_flight: Any, lease_s: float = 60) -> list[Finding]:
    lease_until = timezone.now() + timedelta(seconds=lease_s)
    Worker.objects.create(host="web", pid=os.getpid(), lease_until=lease_until, in_flight=in_flight)
    return list(examine_threads())


def test_calls_that_wait_for_a_thread_are_a_fault_and_what_holds_the_threads_is_named():
    held = [["tools/call slow by user:1", time.time() - 40]]
    (finding,) = find({"threads": [32, 32, 5], "held": held})

    assert not finding.ok
    assert f"web:{os.getpid()}: 32 of 32 threads are busy, and 5 calls wait" in finding.text
    assert "tools/call slow by user:1 for 40 s" in finding.text
    assert "SYNC_THREADS" in finding.fix


def test_busy_threads_without_calls_that_wait_are_no_fault():
    (finding,) = find({"threads": [3, 32, 0], "held": []})

    assert finding.ok
    assert finding.text.endswith("3 of 32 are busy")


@pytest.mark.parametrize(
    ("in_flight", "lease_s"), [(None, 60), ({"total": 1}, 60), ({"threads": [32, 32, 5]}, -1)]
)
def test_workers_that_are_idle_or_gone_are_not_told_of(in_flight: Any, lease_s: float):
    assert find(in_flight, lease_s) == []
