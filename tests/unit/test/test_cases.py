"""The test cases of the test kit."""

from __future__ import annotations

import unittest
from datetime import timedelta

import pytest
from django.test import SimpleTestCase, override_settings
from django.utils import timezone

from django_mcp.models import Session
from django_mcp.sessions.site.writer import flush_sessions, session_writer
from django_mcp.test.cases import WithClients


@pytest.mark.django_db
@override_settings(DJANGO_MCP={"PUBLIC": True, "SYNC_THREADS": 0})
def test_changes_of_sessions_that_wait_after_a_test_are_not_written_in_the_next():
    now = timezone.now()
    row = Session.objects.create(
        digest="x", last_seen_at=now - timedelta(hours=1), expires_at=now + timedelta(hours=1)
    )

    class Tests(WithClients, SimpleTestCase):
        def test_it(self) -> None:
            session_writer.get().note_seen(row.id.hex, now.timestamp())

    result = unittest.TestResult()
    Tests("test_it").run(result)
    flush_sessions()

    assert result.wasSuccessful()
    row.refresh_from_db()
    assert row.last_seen_at < now - timedelta(minutes=30)
