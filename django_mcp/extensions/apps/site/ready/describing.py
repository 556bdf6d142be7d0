"""The variables of the templates of ready-made apps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from django_mcp.extensions.apps.core.app import App, Rendered
from django_mcp.extensions.apps.core.ready import Card, Chart, Table
from django_mcp.extensions.apps.site.ready.cards import describe_card
from django_mcp.extensions.apps.site.ready.charts import describe_chart
from django_mcp.extensions.apps.site.ready.tables import Context, describe_table

_DESCRIBE: Mapping[type[App], Callable[[Any, Rendered], Context]] = {
    Table: describe_table,
    Card: describe_card,
    Chart: describe_chart,
}


def is_ready(app: App) -> bool:
    """Return whether an app is ready-made with its template, and so shows a bounded part of any result."""
    return type(app) in _DESCRIBE and (app.fragment or "").startswith("django_mcp/")


def describe_ready(app: App, rendered: Rendered) -> Context:
    """Return the variables of the template of a ready-made app; none for another app."""
    describe = _DESCRIBE.get(type(app))
    return {} if describe is None else describe(app, rendered)
