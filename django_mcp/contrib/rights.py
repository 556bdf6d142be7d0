"""Fields that give rights to users, such as `is_superuser`, for what writes objects of any model."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.base_user import AbstractBaseUser
from django.core.exceptions import FieldDoesNotExist
from django.db.models import Model

_FLAGS = frozenset({"is_superuser", "is_staff"})

_PERMISSION, _CONTENT_TYPE = "auth.Permission", "contenttypes.ContentType"


def find_rights(
    model: type[Model],
    names: Collection[str],
    allowed: Collection[str],
    fields: Mapping[str, Any] | None = None,
) -> set[str]:
    """Return the fields of a form that give rights to users.

    Args:
        model: of the form.
        names: of its fields.
        allowed: those that are written without a question.
        fields: those of the form, by name, since a form may have some that its model has not.
    """
    known, plain = fields or {}, _plain_fields(model)
    return {
        name
        for name in names
        if name not in allowed and _gives_rights(model, name, known.get(name), plain)
    }


def _gives_rights(model: type[Model], name: str, form_field: Any, plain: Collection[str]) -> bool:
    try:
        field: Any = model._meta.get_field(name)
    except FieldDoesNotExist:
        field = None
    related: Any = getattr(field, "related_model", None)
    if related is None:
        related = getattr(getattr(form_field, "queryset", None), "model", None)
    if related is None or isinstance(related, str):
        return name in plain
    if _is_one_of(related, _PERMISSION):
        return True
    if _is_one_of(model, _PERMISSION) and _is_one_of(related, _CONTENT_TYPE):
        return True
    if _is_of_users(related):
        return _holds_permissions(model) or _is_link(model)
    if _holds_permissions(related):
        return _is_of_users(model) or _is_link(model)
    return False


def _plain_fields(model: type[Model]) -> Collection[str]:
    """Return the fields of a model without a relation that give rights.

    Who has a permission has what its row becomes.
    """
    if _is_of_users(model):
        return _FLAGS
    by_label = {_PERMISSION: {"codename"}, _CONTENT_TYPE: {"app_label", "model"}}
    return next((names for each, names in by_label.items() if _is_one_of(model, each)), set())


def _is_of_users(model: type[Model]) -> bool:
    return issubclass(model, (AbstractBaseUser, get_user_model()))


def _is_one_of(model: type[Model], label: str) -> bool:
    """Return whether a model is one of Django's, or extends it; it is none if its app is not installed."""
    return any(each._meta.label == label for each in model.__mro__ if hasattr(each, "_meta"))


def _holds_permissions(model: type[Model]) -> bool:
    """Return whether objects of a model have permissions which they give to users, as groups do."""
    return not _is_of_users(model) and any(
        _is_one_of(related, _PERMISSION) for related in _find_related(model)
    )


def _is_link(model: type[Model]) -> bool:
    """Return whether rows of a model are the members of a relation to many that gives rights."""
    return any(
        link_field.remote_field.through is model and find_rights(other, [link_field.name], ())
        for other in _find_related(model)
        for link_field in other._meta.many_to_many
    )


def _find_related(model: type[Model]) -> set[type[Model]]:
    """Return the models that the relations of a model lead to."""
    meta: Any = model._meta
    fields = (*(field for field in meta.concrete_fields if field.is_relation), *meta.many_to_many)
    return {field.related_model for field in fields if isinstance(field.related_model, type)}
