"""The check of the database for keys that tools show and clients round."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary

from django.core import checks
from django.core.checks import CheckMessage
from django.db import DatabaseError, router, transaction
from django.db.models import BigAutoField, Model

from django_mcp.contrib.all_or_nothing import saves_state
from django_mcp.forms.values import may_be_rounded, value_field
from django_mcp.registry.big_integers import MAX_EXACT
from django_mcp.servers import MCPServer

_models: WeakKeyDictionary[MCPServer, set[type[Model]]] = WeakKeyDictionary()


@saves_state
def _save(server: MCPServer) -> Callable[[], object]:
    before = set(_models.get(server, ()))
    return lambda: _models.__setitem__(server, before)


def note_model(server: MCPServer, model: type[Model]) -> None:
    """Have `manage.py check --database` look at the keys of a model, which tools of a server show."""
    _models.setdefault(server, set()).add(model)


@checks.register(checks.Tags.database)
def check_keys(databases: Sequence[str] | None = None, **_options: Any) -> list[CheckMessage]:
    """M007: The largest key of a model is beyond 2**53, so clients may round the keys that its tools send."""
    shown = {model._meta.label: model for of_server in _models.values() for model in of_server}
    messages: list[CheckMessage] = []
    for label, model in sorted(shown.items()):
        key, alias = value_field(model._meta.pk), router.db_for_read(model)
        is_counted = isinstance(key, BigAutoField) and not may_be_rounded(key)
        if alias not in (databases or ()) or not is_counted:
            continue
        largest = 0
        with suppress(DatabaseError), transaction.atomic(using=alias):  # before its table is made
            keys = model._base_manager.using(alias).order_by("-pk").values_list("pk", flat=True)
            largest = next(iter(keys[:1]), 0)
        if largest > MAX_EXACT:
            message = (
                f"The largest key of {label} is beyond 2**53, so clients in JavaScript round it."
            )
            hint = "Give the key validators=[MaxValueValidator(2**63 - 1)]: tools send it as text then."
            messages.append(checks.Warning(message, hint=hint, obj=model, id="django_mcp.M007"))
    return messages
