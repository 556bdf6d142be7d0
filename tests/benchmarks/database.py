"""Make the benchmark site's tables and the one row that `db_get` reads."""

from __future__ import annotations

import os

import django
from django.core.management import call_command


def prepare() -> None:
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.benchmarks.settings"
    django.setup()
    from tests.benchmarks.models import Item  # a model may be imported once the apps are loaded

    call_command("migrate", run_syncdb=True, verbosity=0)
    Item.objects.update_or_create(pk=1, defaults={"name": "item", "price": 3})
