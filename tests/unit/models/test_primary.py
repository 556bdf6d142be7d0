"""Reads of a site whose router sends them to a replica."""

from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session as DjangoSession
from django.db import models
from django.test import override_settings

from django_mcp.execution.primary import reading_primary
from django_mcp.models import Session

TABLES = [
    model
    for label in ("django_mcp", "django_mcp_oauth")
    for model in apps.get_app_config(label).get_models()
]


REPLICA = "default"


class Replicated:
    def db_for_read(self, *_args: Any, **_hints: Any) -> str:
        return REPLICA

    def db_for_write(self, *_args: Any, **_hints: Any) -> str:
        return "primary"


@pytest.fixture(autouse=True)
def _replicated():
    with override_settings(DATABASE_ROUTERS=[Replicated()]):
        yield


@pytest.mark.parametrize("model", TABLES, ids=lambda model: model.__name__)
def test_every_table_of_the_package_is_read_where_it_is_written(model: type[models.Model]):
    managers = (model._default_manager, model._base_manager)

    assert {each.db for each in managers} == {"primary"}
    assert {each.filter(pk=1).order_by("pk").db for each in managers} == {"primary"}
    assert model._default_manager.using(REPLICA).all().db == REPLICA


def test_rows_that_refer_to_others_are_read_there_as_well():
    session = Session(digest="x")
    user = User(pk=1)

    assert {each.all().db for each in (session.items, session.streams)} == {"primary"}
    assert user.mcp_api_keys.all().db == "primary"


def test_other_tables_are_read_there_only_inside_of_the_block():
    with reading_primary():
        inside = DjangoSession.objects.all().db

    assert (inside, DjangoSession.objects.all().db) == ("primary", REPLICA)
