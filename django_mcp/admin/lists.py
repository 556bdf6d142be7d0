"""Admin lists that show each user the rows they may see."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin
from django.contrib.auth import get_user_model
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from django_mcp.admin.pages import Page, without_transaction
from django_mcp.admin.paging import SpanQuerySet
from django_mcp.admin.permissions import has_object_backend, may, only_visible
from django_mcp.admin.texts import inert

BY_USERNAME = f"user__{get_user_model().USERNAME_FIELD}__startswith"
"""Finds rows by the start of their user's name."""


class VisibleList(Page):
    """A list that a user may open if they may see any row of it."""

    list_per_page = 50

    def sees_all(self, request: HttpRequest) -> bool:
        """Return whether the user has the permission to view the model."""
        return super().has_view_permission(request)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return whether the user may see a row, or any at all."""
        if self.sees_all(request):
            return True
        if not has_object_backend():
            return False
        return (
            self.get_queryset(request).exists() if obj is None else may(request.user, "view", obj)
        )

    def has_module_permission(self, request: HttpRequest) -> bool:
        """Return whether the admin's index shows the list to the user."""
        return super().has_module_permission(request) or self.has_view_permission(request)


class ReadOnlyList(VisibleList):
    """A list whose rows nobody adds or edits.

    A user without the permission to view the model sees the rows for which a backend gives them that
    permission.

    Attributes:
        ending: the action whose permission allows deleting a row together with its parent.
    """

    actions: Any = None
    show_full_result_count = False
    # To count the rows of each choice takes seconds in a large table.
    show_facets = admin.ShowFacets.NEVER
    list_select_related: ClassVar[Any] = ("user",)
    ending = "delete"

    @without_transaction
    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> Any:
        """Show the list, or end rows of it, which servers do."""
        return super().changelist_view(request, extra_context)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the rows that the user may see, as a queryset with cheap date periods."""
        found = super().get_queryset(request)
        rows = SpanQuerySet(found.model, query=found.query, using=found.db)
        if self.sees_all(request):
            return rows
        # Called several times for one page.
        known: dict[Any, list[Any]] = vars(request).setdefault("_django_mcp_seen", {})
        if self.model not in known:
            newest = self.ordering or self.model._meta.ordering or ("-pk",)
            found = only_visible(request.user, rows.order_by(*newest))
            known[self.model] = list(found.values_list("pk", flat=True))
        return rows.filter(pk__in=known[self.model])

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Nobody adds any."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Nobody edits any."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Nobody deletes any here; they may be deleted together with their user."""
        match = request.resolver_match
        if match is None or getattr(match.func, "model_admin", None) in (None, self):
            return False
        return may(request.user, self.ending, self.model if obj is None else obj)

    def has_end_permission(self, request: HttpRequest) -> bool:
        """Return whether the user may end rows, or perhaps single ones; for actions."""
        return may(request.user, self.ending, self.model) or has_object_backend()

    @admin.display(description=_("principal"), ordering="principal_key")
    def principal(self, row: Any) -> str:
        """Return the principal, with invisible characters escaped."""
        return inert(row.principal_key, 128) or "-"

    @admin.display(description=_("client"), ordering="client_name")
    def client(self, row: Any) -> str:
        """Return the client's name, with invisible characters escaped."""
        return inert(f"{row.client_name} {row.client_version}".strip(), 160) or "-"
