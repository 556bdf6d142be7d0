"""Filters with choices that need no query of a table, which may be large."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.auth import get_user_model
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from django_mcp.protocol.revisions import REVISIONS
from django_mcp.registry.kinds import KINDS
from django_mcp.servers import all_servers

if TYPE_CHECKING:
    from django.contrib.admin.options import ModelAdmin
    from django.db.models import QuerySet


class TextFilter(admin.SimpleListFilter):
    """A filter by a text that the user enters.

    Attributes:
        lookup: how a row is found by it.
    """

    lookup = ""
    template = "admin/django_mcp/text_filter.html"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> list[tuple[str, str]]:
        """Return one choice, or the filter would not be shown."""
        return [("", "")]

    def choices(self, changelist: Any) -> Iterator[Any]:
        """Return what the form of the filter holds."""
        others = [
            (name, each)
            for name, values in changelist.filter_params.items()
            for each in values
            if name != self.parameter_name
        ]
        yield {"value": self.value() or "", "name": self.parameter_name, "others": others}

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Return the rows that are found."""
        value = self.value()
        return queryset.filter(**{self.lookup: value}) if value else queryset


class ClientFilter(TextFilter):
    """Filter by the start of the client's name."""

    title = _("client")
    parameter_name = "client"
    lookup = "client_name__startswith"


class UserFilter(TextFilter):
    """Filter by the user's name."""

    title = _("user")
    parameter_name = "username"
    lookup = f"user__{get_user_model().USERNAME_FIELD}"


class _ChoiceFilter(admin.SimpleListFilter):
    """A filter by values that are known without a query."""

    values: Callable[[], Iterable[str]]

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> list[tuple[str, str]]:
        return [(value, value) for value in self.values()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        value = self.value()
        return queryset if value is None else queryset.filter(**{str(self.parameter_name): value})


def _by(field: str, title: Any, values: Callable[[], Iterable[str]]) -> type[_ChoiceFilter]:
    attributes = {"title": title, "parameter_name": field, "values": staticmethod(values)}
    return type(f"By{field.title()}", (_ChoiceFilter,), attributes)


def _entry_names() -> list[str]:
    registries = [server.registry for server in all_servers()]
    kinds = [reg.registered(kind.mapping) for reg in registries for kind in KINDS]
    return sorted({each.name for kind in kinds for each in kind.values()})


NameFilter = _by("name", _("name"), _entry_names)
ServerFilter = _by("server", _("server"), lambda: [server.name for server in all_servers()])
RevisionFilter = _by("revision", _("revision"), lambda: [each.name for each in REVISIONS])
# Those that keep sessions.
TransportFilter = _by("transport", _("transport"), lambda: ["http", "sse"])
