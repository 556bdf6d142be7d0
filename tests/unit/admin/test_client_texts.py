"""Hidden characters in what clients wrote: no list and no page of a row sends them to the browser."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.db import models
from django.urls import NoReverseMatch, reverse
from django.utils import timezone

from django_mcp.admin.bounded import BoundedList
from django_mcp.models.sessions import JSONTextField
from tests.unit.admin.test_pages import client_of

pytestmark = pytest.mark.usefixtures("here")
HIDDEN = "a\u202eb\x07"
KEYS = {"digest", "fingerprint", "kind", "prefix", "resource", "secret", "session"}
"""Columns that hold what the package made."""

PAGES = [model for model, page in admin.site._registry.items() if isinstance(page, BoundedList)]


def make(model: type[models.Model], text: str = HIDDEN) -> models.Model:
    """Insert a row with a text in each column, which belongs to rows without hidden characters."""
    values: dict[str, Any] = {}
    for field in model._meta.concrete_fields:
        match field:
            case models.ForeignKey():
                user = get_user_model()
                is_user = field.related_model is user
                values[field.name] = (
                    user.objects.get() if is_user else make(field.related_model, "plain")
                )
            case JSONTextField():
                values[field.name] = {}
            case models.BooleanField():
                values[field.name] = False
            case models.DateTimeField():
                values[field.name] = timezone.now()
            case models.CharField() | models.TextField():
                is_key = field.primary_key or field.name in KEYS
                made = "1" * min(field.max_length or 32, 32) if is_key else text
                values[field.name] = field.choices[0][0] if field.choices else made
            case models.IntegerField() | models.FloatField() if not field.primary_key:
                values[field.name] = 0
    row = model(**values)
    # Not saved: saving would clean them.
    return model._default_manager.bulk_create([row])[0]


@pytest.mark.parametrize("model", PAGES, ids=lambda model: model._meta.model_name)
def test_hidden_characters_are_written_as_escapes(model: type[models.Model]):
    # Who may change a row gets its texts as they are, to edit them.
    viewer = client_of("clerk", f"view_{model._meta.model_name}")
    row = make(model)
    name = f"admin:{model._meta.app_label}_{model._meta.model_name}"
    urls = [reverse(f"{name}_changelist")]
    # The catalogue has none.
    with suppress(NoReverseMatch):
        urls.append(reverse(f"{name}_change", args=[row.pk]))
    for url in urls:
        page = viewer.get(url)
        assert page.status_code == 200
        assert "\u202e" not in page.content.decode()
        assert "\x07" not in page.content.decode()
