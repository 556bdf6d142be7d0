"""Admin pages: the endpoints that clients may use without asking a user, and sign-ins."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.db import models
from django.forms import Field
from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy
from django.utils.translation import ngettext

from django_mcp.admin.bounded import BoundedList
from django_mcp.admin.figures import Part, Trouble, show_number
from django_mcp.admin.texts import show_text
from django_mcp.contrib.oauth.metadata import issuer_of
from django_mcp.contrib.oauth.models import ClientEndpoint, SignIn
from django_mcp.contrib.oauth.protected_resources import takes_tokens_of
from django_mcp.contrib.oauth.room import find_crowding
from django_mcp.health.signs import count_refused_sign_ins

REFUSED_WITHIN_MINUTES = 60
"""How far back the start page counts refusals."""


@admin.register(ClientEndpoint)
class ClientEndpointAdmin(BoundedList):
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


@admin.register(SignIn)
class SignInAdmin(BoundedList):
    """The list of sign-ins, the newest first, which nobody edits."""

    list_display = ("at", "client", "address", "user", "step", "result", "reason")
    list_filter = ("is_refused", "step", "at")
    list_select_related = ("user",)
    list_per_page = 50
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    search_fields = ("client_id__startswith", "client_name__startswith", "address__startswith")
    search_help_text = _lazy("The start of a client id, the name of a client, or an address.")
    ordering = ("-at", "-id")
    fields = (
        "at",
        "step",
        "result",
        "client_name",
        "client_id",
        "address",
        "user",
        "field",
        "reason",
        "remedy",
    )
    readonly_fields = fields

    def overview(self, request: HttpRequest) -> Part | None:
        """Return the refusals of the last hour."""
        if not self.has_view_permission(request):
            return None
        refused = count_refused_sign_ins(REFUSED_WITHIN_MINUTES)
        if not refused:
            return None
        text = ngettext(
            "%(count)s sign-in was refused in the last hour.",
            "%(count)s sign-ins were refused in the last hour.",
            refused,
        )
        info: Any = self.model._meta
        url = reverse(f"{self.admin_site.name}:{info.app_label}_{info.model_name}_changelist")
        trouble = Trouble(
            text=text % {"count": show_number(refused)}, url=f"{url}?is_refused__exact=1"
        )
        return Part(troubles=(trouble,))

    @admin.display(description=_lazy("client"), ordering="client_name")
    def client(self, sign_in: SignIn) -> str:
        """Return the client's name, or else its id."""
        return show_text(sign_in.client_name or sign_in.client_id, 300) or "-"

    @admin.display(description=_lazy("result"), ordering="is_refused")
    def result(self, sign_in: SignIn) -> str:
        """Return whether the step was refused."""
        return _("refused") if sign_in.is_refused else _("done")

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> Any:
        """Say on the list when the clients come near their limit."""
        crowding = find_crowding()
        if crowding is not None:
            text = _(
                "%(living)s of %(limit)s clients have tokens. When there is no room, new clients are refused: raise OAUTH_MAX_REGISTERED."
            )
            self.message_user(
                request, text % {"living": crowding[0], "limit": crowding[1]}, messages.WARNING
            )
        return super().changelist_view(request, extra_context)

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Return False: the package writes the rows."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: SignIn | None = None) -> bool:
        """Return False: nobody edits what happened."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: SignIn | None = None) -> bool:
        """Return False: old rows are deleted by themselves."""
        return False


def _check_endpoint(request: HttpRequest, resource: str) -> None:
    if not takes_tokens_of(issuer_of(request), resource, request):
        raise ValidationError(_("No endpoint of this site takes OAuth tokens at this address."))
