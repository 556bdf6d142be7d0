"""The field for any JSON value."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.core import serializers
from django.utils import timezone

from django_mcp.models import Session, SessionItem


@pytest.mark.django_db
@pytest.mark.parametrize("form", ["json", "jsonl", "xml"])
@pytest.mark.parametrize("value", [{"a": ["ü\0", 1.5, None]}, [1], "5", "text", 5, True, None])
def test_a_value_survives_a_fixture(form: str, value: Any):
    session = Session.objects.create(
        digest="d", expires_at=timezone.now() + timedelta(hours=1), client_info=value
    )
    SessionItem.objects.create(session=session, key="k", value=value or {})
    text = serializers.serialize(form, [session, *session.items.all()])
    session.delete()

    for each in serializers.deserialize(form, text):
        each.save()

    assert Session.objects.get().client_info == value
    assert SessionItem.objects.get().value == (value or {})
