"""Filters with choices that need no query of a table, which may be large."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from django_mcp.protocol.revisions import REVISIONS
from django_mcp.servers import all_servers

if TYPE_CHECKING:
    from django.contrib.admin.options import ModelAdmin
    from django.db.models import QuerySet

__all__ = ["NameFilter", "RevisionFilter", "ServerFilter"]


class _ChoiceFilter(admin.SimpleListFilter):
    """A filter by values that are known without a query."""

    field = ""

    def values(self) -> list[str]:
        raise NotImplementedError

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> list[tuple[str, str]]:
        return [(value, value) for value in self.values()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        value = self.value()
        return queryset if value is None else queryset.filter(**{self.field: value})


class NameFilter(_ChoiceFilter):
    """Filter by the name of the entry."""

    title = _("name")
    parameter_name = field = "name"

    def values(self) -> list[str]:
        """Return the names that are registered now."""
        registries = [server.registry for server in all_servers()]
        kinds = ("tools", "resources", "templates", "prompts")
        return sorted(
            {
                each.name
                for reg in registries
                for kind in kinds
                for each in reg.registered(kind).values()
            }
        )


class ServerFilter(_ChoiceFilter):
    """Filter by server."""

    title = _("server")
    parameter_name = field = "server"

    def values(self) -> list[str]:
        """Return the names of the servers."""
        return [server.public_name for server in all_servers()]


class RevisionFilter(_ChoiceFilter):
    """Filter by protocol revision."""

    title = _("revision")
    parameter_name = field = "revision"

    def values(self) -> list[str]:
        """Return the names of the revisions."""
        return [revision.name for revision in REVISIONS]
