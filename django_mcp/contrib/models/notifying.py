"""Tell clients that the resources of objects have changed, where no signal says so."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db.models import QuerySet

from django_mcp.contrib.models.tools import registered_tools


def notify_changed(objects: QuerySet[Any] | Iterable[Any], *, using: str | None = None) -> None:
    """Tell clients that the resources of objects have changed, after the commit.

    Call it after what sends no signals, such as `QuerySet.update()` and `bulk_create()`. Everything else
    is told without it.

    Args:
        objects: a queryset, or objects of one model.
        using: the database whose transaction is waited for; by default that of the objects.
    """
    rows = objects if isinstance(objects, QuerySet) else list(objects)
    if not isinstance(rows, QuerySet) and not rows:
        return
    model: Any = rows.model if isinstance(rows, QuerySet) else type(rows[0])
    for tools in registered_tools():
        if tools.live is None or tools.model._meta.concrete_model is not model._meta.concrete_model:
            continue
        key = tools.definition.key.attname
        if isinstance(rows, QuerySet):
            keys_changed = rows.order_by().values_list(key, flat=True)
            tools.live.notify(keys_changed.iterator(), using or rows.db)
        else:
            tools.live.notify([getattr(row, key) for row in rows], using or rows[0]._state.db)
