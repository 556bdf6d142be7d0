"""Choices that an admin offers to some of its users only, which the schemas of tools do not tell."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from django import forms
from django.core.exceptions import FieldDoesNotExist

from django_mcp.contrib.modeladmin.access import AdminAccess
from django_mcp.contrib.modeladmin.requests import make_request_of_nobody
from django_mcp.contrib.modeladmin.shown import FORM_HOOKS
from django_mcp.contrib.view_problems import without_queries
from django_mcp.forms import choices_of
from django_mcp.log import logger


def find_personal_choices(
    access: AdminAccess, fields: Mapping[str, Any], make_form: Callable[[Any], Any]
) -> set[str]:
    """Return the names of the fields whose choices are not the same for all users.

    Args:
        access: of the admin, or of the inline, that makes the form.
        fields: of the form for a user who may do everything.
        make_form: returns the class of the form for a request.
    """
    if not access.overrides(*FORM_HOOKS):
        return set()
    with_choices = {
        name: field
        for name, field in fields.items()
        if isinstance(field, forms.ChoiceField) and not hasattr(field, "queryset")
    }
    if not with_choices:
        return set()
    try:
        with without_queries():
            of_nobody = make_form(make_request_of_nobody(access.site)).base_fields
    except Exception:
        # What it offers changes with the data, or it needs a user of the site.
        logger.debug("No form of %s for nobody", access.model_admin, exc_info=True)
        of_nobody = {}
    return {
        name
        for name, field in with_choices.items()
        if choices_of(field) != choices_of(of_nobody.get(name) or _find_declared(access, name))
    }


def _find_declared(access: AdminAccess, name: str) -> Any:
    """Return the field of the form as its class has it, or the one that Django makes of the model; None: neither."""
    admin: Any = access.model_admin
    declared = getattr(admin.form, "declared_fields", {}).get(name)
    if declared is not None:
        return declared
    try:
        field: Any = access.model._meta.get_field(name)
    except FieldDoesNotExist:
        return None
    return field.formfield()
