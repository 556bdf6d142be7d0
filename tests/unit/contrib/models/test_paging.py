"""Cursors: the values of the last row of a page."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.db import models
from django.db.models.functions import Trunc, Upper
from django.test.utils import isolate_apps

from django_mcp.contrib.models.paging import read_key


@isolate_apps("tests.support.library")
def test_the_value_of_a_generated_field_is_written_and_read():
    class Made(models.Model):
        name = models.CharField(max_length=20)
        at = models.DateTimeField()
        upper = models.GeneratedField(
            expression=Upper("name"),
            output_field=models.CharField(max_length=20),
            db_persist=True,
        )
        hour = models.GeneratedField(
            expression=Trunc("at", "hour"), output_field=models.DateTimeField(), db_persist=True
        )

        class Meta:
            app_label = "library"

        def __str__(self) -> str:
            return self.name

    made: Any = Made(name="a")
    values = {"upper": "A", "hour": datetime(2026, 1, 1, 12, tzinfo=UTC)}
    made.__dict__.update(values)

    for name, value in values.items():
        key = read_key(Made, name)
        text = key.read(made)
        assert isinstance(text, str)
        assert key.convert(text) == value
