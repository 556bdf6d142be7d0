"""The limits of the package's lists, within which what a request asks for reaches the database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import SEARCH_VAR
from django.core.exceptions import ValidationError
from django.db import DataError
from django.db.models import QuerySet
from django.db.models.constants import LOOKUP_SEP
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

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
    """A model's admin whose list bounds its search, its filters with their values, and the selected keys."""

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
