"""The limits of the package's lists, within which what a request asks for reaches the database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.utils import flatten_fieldsets
from django.contrib.admin.views.main import SEARCH_VAR
from django.core.exceptions import ValidationError
from django.db import DataError
from django.db.models import QuerySet
from django.db.models.constants import LOOKUP_SEP
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from django_mcp.admin.texts import as_column

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django_mcp.admin.figures import Part
    from django_mcp.admin.running_rows import Reported, RunningTable

MAX_CHARS = 200
MAX_WORDS = 10
"""Of a search, as for the generated tools: each word is compared with every row."""

MAX_FILTER_CHARS = 1000
"""Of the value of a filter of a list: databases refuse to look for the start of a text that is too long."""

_PATTERNS = frozenset({"regex", "iregex"})
"""Lookups by a regular expression, which may take exponential time for a text that a client chose, such as its name."""


class BoundedList(admin.ModelAdmin):  # type: ignore[type-arg]  # Django has no type arguments
    """A model's admin whose list bounds its search, its filters with their values, and the selected keys.

    Attributes:
        found_by: the columns that a list may be filtered by besides those that it shows or offers as a filter.
    """

    found_by: tuple[str, ...] = ()

    def overview(self, request: HttpRequest) -> Part | None:
        """Return what the start page says of the model; None: nothing, or nothing that the user may see."""
        return None

    def tell_running(
        self, request: HttpRequest, reported: Sequence[Reported]
    ) -> RunningTable | None:
        """Return the rows of the model that run now, with what the workers report of them; None: none can."""
        return None

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Return the rows that are found, and whether they may be there twice."""
        if len(search_term) > MAX_CHARS or len(search_term.split()) > MAX_WORDS:
            return queryset.none(), False
        return super().get_search_results(request, queryset, search_term)

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest) -> bool:
        """Return whether the list may be filtered so. By a column that no page shows it may not.

        Django lets a list be filtered by each column of its model, which tells what is in it, one character
        after the other.
        """
        column = lookup.partition(LOOKUP_SEP)[0]
        columns = {each.name for each in self.model._meta.get_fields()}
        if column in columns and column not in self._shown_columns(request):
            return False
        return super().lookup_allowed(lookup, value, request)

    def _shown_columns(self, request: HttpRequest) -> set[str]:
        """Return the columns that the list or the page of a row shows, and those that rows are found by."""
        shown = [*self.get_list_display(request), *flatten_fieldsets(self.get_fieldsets(request))]
        sources = (each if callable(each) else getattr(self, each, None) for each in shown)
        named = [
            *shown,
            *(getattr(source, "admin_order_field", None) for source in sources),
            *(
                each[0] if isinstance(each, tuple) else each
                for each in self.get_list_filter(request)
            ),
            *self.get_search_fields(request),
            self.date_hierarchy,
            *self.found_by,
            self.model._meta.pk.name,
        ]
        return {name.partition(LOOKUP_SEP)[0] for name in named if isinstance(name, str)}

    def get_list_display(self, request: HttpRequest) -> Any:
        """Return the columns of the list, which show no hidden characters of clients."""
        model: Any = self.model
        return [as_column(model, name) for name in super().get_list_display(request)]

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        """Return the parts of the page of a row, which shows no hidden characters to who cannot edit it."""
        model: Any = self.model
        parts: Any = super().get_fieldsets(request, obj)
        if obj is None or self.has_change_permission(request, obj):
            return parts
        return [
            (title, {**part, "fields": [as_column(model, name) for name in part["fields"]]})
            for title, part in parts
        ]

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        """Return Django's list, unless a filter is a pattern or has a value that no database accepts."""
        filters = ((name, value) for name, values in request.GET.lists() for value in values)
        if any(
            "\0" in each
            or len(each) > MAX_FILTER_CHARS
            or name.rpartition(LOOKUP_SEP)[2] in _PATTERNS
            for name, each in filters
            if name != SEARCH_VAR
        ):
            raise IncorrectLookupParameters
        try:
            return super().get_changelist_instance(request)
        except (DataError, OverflowError, ValueError) as error:
            # Django does the same for values that it refuses before it makes the query.
            raise IncorrectLookupParameters from error

    def response_action(
        self, request: HttpRequest, queryset: QuerySet[Any], *args: Any, **kwargs: Any
    ) -> Any:
        """Run an action of the list, unless a selected key is one that no row can have."""
        pk: Any = self.model._meta.pk
        try:
            for chosen in request.POST.getlist(ACTION_CHECKBOX_NAME):
                pk.clean(chosen, None)
        except ValidationError:
            self.message_user(request, _("It no longer exists."), messages.WARNING)
            return None
        return super().response_action(request, queryset, *args, **kwargs)
