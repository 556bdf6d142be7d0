"""The servers of a site: one with the tools of its admin, one with tools of all its models."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from django.apps import apps
from django.contrib import admin
from django.db import models

from django_mcp import MCPServer
from django_mcp.contrib.modeladmin import admin_tools
from django_mcp.contrib.models import ModelTools
from tests.circle.tools_of_model import OWN

Note = Callable[[str, str, str, str], None]
"""Notes a fault: the user, the tool, the kind, and a text."""

Owners = dict[str, tuple[Any, str]]
"""The model and the action of each tool, by the name of the tool."""


def make_admin(note: Note) -> tuple[MCPServer, Owners]:
    """Return a server with the tools of the admin, and the model and the action of each tool."""
    started = time.process_time()
    try:
        entries = admin_tools(server=MCPServer("circle-all"), models="__all__")
        took = time.process_time() - started
        print(f"{len(entries)} tools of the admin in {took:.2f} s", file=sys.stderr)
    except Exception as error:  # noqa: BLE001  (whatever stops a site)
        note("", "admin_tools", "start", f"{type(error).__name__}: {error}")
    server = MCPServer("circle-admin", public=True, output_schemas="full", max_result_tokens=None)
    owners: Owners = {}
    for model in admin.site._registry:
        label = model._meta.label_lower
        if model._meta.app_label == "django_mcp":
            continue
        prefix = label.replace(".", "-")
        try:
            entries = admin_tools(
                server=server, models=[model], prefix=prefix, names={name: name for name in OWN}
            )
        except Exception as error:  # noqa: BLE001
            note("", label, "start", f"{type(error).__name__}: {error}")
            continue
        if not entries:
            note("", label, "start", "no tools")
        for entry in entries:
            owners[entry.name] = (model, entry.name.removeprefix(f"{prefix}_"))
    return server, owners


def make_models(note: Note) -> tuple[MCPServer, Owners]:
    """Return a server with tools of all models, and the model and the action of each tool."""
    server = MCPServer("circle-models", public=True, output_schemas="full", max_result_tokens=None)
    owners: Owners = {}
    for model in apps.get_models():
        if model._meta.app_label != "django_mcp" and model._meta.managed:
            _add_model(server, model, note, owners)
    return server, owners


def _add_model(server: MCPServer, model: Any, note: Note, owners: Owners) -> None:
    label = model._meta.label_lower
    prefix = label.replace(".", "-")
    options = _options(model)
    for writes in (["create", "update", "delete"], ["update", "delete"], []):
        given = {**options, "prefix": prefix, "writes": writes}
        cls: Any = type("Tools", (ModelTools,), given)
        try:
            faults = cls.register(server=server).find_faults()
        except Exception as error:  # noqa: BLE001
            note("", label, "start", f"{type(error).__name__}: {error}")
            return
        if not faults:
            actions = ("search", "get", *writes)
            owners.update({f"{prefix}_{name}": (model, name) for name in actions})
            return
        told = "; ".join(fault.text for fault in faults)
        # A form that needs a file says so, and a model whose objects need values.
        allowed = ("requires a", "no field to write", "cannot be made without values")
        if not any(text in told for text in allowed):
            note("", label, "start", told)


def _options(model: Any) -> dict[str, Any]:
    """Return the options of a class that shows and writes whatever it can."""
    fields, filters, orders = [], [], []
    for field in model._meta.get_fields():
        if not getattr(field, "concrete", False) and not field.many_to_many:
            continue
        if field.is_relation and (field.auto_created or field.related_model is None):
            continue
        kind = field.get_internal_type()
        if kind == "BinaryField":
            continue
        fields.append(field.name)
        filters.append(field.name)
        if isinstance(field, models.Field) and field.null:
            filters.append(f"{field.name}__isnull")
        limit = getattr(field, "max_length", None)
        is_long = isinstance(field, models.CharField) and (limit is None or limit > 500)
        if kind not in ("TextField", "JSONField") and not (field.many_to_many or is_long):
            orders.append(field.name)
    return {
        "model": model,
        "fields": fields,
        "filters": [
            name
            for name in filters
            if not name.startswith(("search", "count", "limit", "ordering"))
        ],
        "sortable_by": orders,
        "allow_sensitive": [*fields, *filters],
        "everyone": True,
        "related": "all",
        "uri": "",
        "names": {name: name for name in OWN},
    }
