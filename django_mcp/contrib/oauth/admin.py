"""The admin page for the endpoints that clients may use without asking a user."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.core.exceptions import ValidationError
from django.db import models
from django.forms import Field
from django.http import HttpRequest
from django.utils.translation import gettext as _

from django_mcp.contrib.oauth.metadata import issuer_of
from django_mcp.contrib.oauth.models import ClientEndpoint
from django_mcp.contrib.oauth.protected_resources import takes_tokens_of

if TYPE_CHECKING:
    Base = admin.ModelAdmin[ClientEndpoint]
else:
    Base = admin.ModelAdmin


@admin.register(ClientEndpoint)
class ClientEndpointAdmin(Base):
    """Endpoints are added and deleted; a deleted one ends the client's own tokens."""

    list_display = ("application", "resource")
    list_select_related = ("application",)
    search_fields = ("application__name", "application__client_id", "resource")
    raw_id_fields = ("application",)

    def has_change_permission(
        self, request: HttpRequest, obj: ClientEndpoint | None = None
    ) -> bool:
        """Return False: a changed endpoint would leave the tokens of the old one."""
        return False

    def formfield_for_dbfield(
        self, db_field: models.Field[Any, Any], request: HttpRequest, **kwargs: Any
    ) -> Field | None:
        """Accept only endpoints of this site that take its tokens."""
        field = super().formfield_for_dbfield(db_field, request, **kwargs)
        if db_field.name == "resource" and field is not None:
            field.validators = [*field.validators, partial(_check_endpoint, request)]
        return field


def _check_endpoint(request: HttpRequest, resource: str) -> None:
    if not takes_tokens_of(issuer_of(request), resource, request):
        raise ValidationError(_("No endpoint of this site takes OAuth tokens at this address."))
