"""Which fields name the objects of a model, so that arguments may have their values in place of keys."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any
from weakref import WeakKeyDictionary

from django.core.exceptions import FieldDoesNotExist
from django.db import models

from django_mcp.contrib.all_or_nothing import saves_state
from django_mcp.contrib.models.paths import has_secret_values
from django_mcp.log import logger
from django_mcp.registry.secret_names import find_sensitive
from django_mcp.servers import MCPServer

Model = type[models.Model]

_chosen: WeakKeyDictionary[MCPServer, dict[Model, str]] = WeakKeyDictionary()
"""The fields that the site chose, by model."""

_by_keys: WeakKeyDictionary[MCPServer, set[Model]] = WeakKeyDictionary()
"""The models whose objects arguments of registered tools take by keys alone."""


@saves_state
def _save(server: MCPServer) -> Callable[[], object]:
    chosen, by_keys = dict(_chosen.get(server, {})), set(_by_keys.get(server, ()))

    def restore() -> None:
        _chosen[server], _by_keys[server] = chosen, by_keys

    return restore


def choose_name_field(server: MCPServer, model: Model, name: str) -> str | None:
    """Have the values of a field name the objects of a model; return what is wrong with that, or None."""
    try:
        field = model._meta.get_field(name)
    except FieldDoesNotExist:
        return f"{name!r} is no field of {model._meta.label}"
    if not _is_name(field):
        return (
            f"{name!r} is no text that may name objects: it is a key, a secret, a choice or no text"
        )
    of_server = _chosen.setdefault(server, {})
    if model in _by_keys.get(server, ()) and of_server.get(model) != name:
        return (
            f"tools that are registered already take objects of {model._meta.label} by keys alone"
        )
    of_server[model] = name
    return None


def takes_names(server: MCPServer, model: Model) -> bool:
    """Return whether arguments may have names of objects of a model. They have keys alone from then on otherwise."""
    if find_name_fields(server, model):
        return True
    _by_keys.setdefault(server, set()).add(model)
    return False


def find_name_fields(server: MCPServer | None, model: Model) -> list[Any]:
    """Return the fields whose values may name the objects of a model.

    These are the one that the site chose, its natural key, and unique texts. Secrets and the primary key are none.
    """
    meta = model._meta
    unique = [each.fields[0] for each in meta.total_unique_constraints if len(each.fields) == 1]
    chosen = None if server is None else _chosen.get(server, {}).get(model)
    first = [chosen, _find_natural_key(model)]
    fields = [
        field
        for field in meta.concrete_fields
        if field.name in first or field.unique or field.name in unique
    ]
    fields.sort(key=lambda field: first.index(field.name) if field.name in first else len(first))
    return [field for field in fields if _is_name(field)]


def _is_name(field: Any) -> bool:
    is_text = isinstance(field, models.CharField | models.TextField) and not field.is_relation
    is_secret = find_sensitive(field.name, ()) is not None or has_secret_values(field)
    return is_text and not (field.primary_key or field.choices or is_secret)


def _find_natural_key(model: type[models.Model]) -> str | None:
    """Return the field that is the natural key of a model by itself; None: there is none."""
    by_key = getattr(model._default_manager, "get_by_natural_key", None)
    key_of = getattr(model, "natural_key", None)
    try:
        if by_key is None or len(signature(by_key).parameters) != 1:
            return None
        if key_of is None:
            return next(iter(signature(by_key).parameters))
        # Each text is the name of its field, so the key says which field it is.
        texts = (models.CharField, models.TextField)
        columns = [each for each in model._meta.concrete_fields if isinstance(each, texts)]
        told = tuple(key_of(model(**{each.attname: each.name for each in columns})))
    except Exception:
        # It may need an object that is stored.
        logger.debug("No natural key of %s", model, exc_info=True)
        return None
    return str(told[0]) if len(told) == 1 else None
