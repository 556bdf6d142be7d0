"""The tools that search the admin's list of a model, and get what its page shows of an object."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

from django.db.models import Q, QuerySet
from django.utils.text import smart_split
from django.utils.translation import gettext as _

from django_mcp import ArgumentErrors
from django_mcp.context import Context
from django_mcp.contrib.chosen_fields import FIELDS, FIELDS_SCHEMA, choose
from django_mcp.contrib.cursors import explain_search
from django_mcp.contrib.generated import TRUNCATED
from django_mcp.contrib.lists import find_free
from django_mcp.contrib.modeladmin.access import GET, RELATED, SEARCH, AdminAccess
from django_mcp.contrib.modeladmin.filters import describe_judging, narrow_all, read_filters
from django_mcp.contrib.modeladmin.form_values import FormValues
from django_mcp.contrib.modeladmin.inlines import AdminInlines
from django_mcp.contrib.modeladmin.names import AdminNames
from django_mcp.contrib.modeladmin.requests import lead_to_page, make_request_for_page
from django_mcp.contrib.modeladmin.sensitive import is_secret
from django_mcp.contrib.modeladmin.shown import AdminShown
from django_mcp.contrib.models import summaries
from django_mcp.contrib.models.filters import MAX_TERMS
from django_mcp.contrib.models.paging import Key, Pages, complete, read_key
from django_mcp.contrib.models.paths import Path, PathError, read_path
from django_mcp.contrib.models.summaries import Column
from django_mcp.forms import key_schema
from django_mcp.forms.values import MAX_TEXT_CHARS, takes_pattern
from django_mcp.protocol.json import JSONObject, present
from django_mcp.registry.object_schemas import object_schema
from django_mcp.registry.problems import Problem

MAX_COUNT = 1000
"""Rows are counted up to this number."""

OWN_ARGUMENTS = ("search", "ordering", "limit", "cursor", "count")
"""Arguments of every search, whose names no filter can have."""


class AdminReading:
    """Searches for objects and gets one of them.

    Args:
        access: decides what a user may see.
        shown: says what is shown.
        inlines: rows that are shown with one object.
        request: one that may do everything.
        max_results: rows on a page at most.
        allow_sensitive: fields that look like secrets and are none.
        names: how users name related objects.

    Attributes:
        problems: what the admin has and the tools have not.
    """

    def __init__(
        self,
        access: AdminAccess,
        shown: AdminShown,
        inlines: AdminInlines,
        request: Any,
        *,
        max_results: int,
        allow_sensitive: Collection[str],
        names: AdminNames,
    ) -> None:
        self._access = access
        self._admin: Any = access.model_admin
        self._shown = shown
        self._inlines = inlines
        self._sample = access.sample
        names_shown = shown.names_of_page(request, self._sample)
        taken = {*map(str, names_shown), *inlines.names}
        self._form_values = FormValues(access, request, taken, allow_sensitive)
        self._pages = Pages(
            f"{access.site.name}:{access.model._meta.label}",
            max_results=max_results,
            # The database would count what the admin hides.
            max_count=None if access.judges_objects else MAX_COUNT,
        )
        self._filters, self.problems = read_filters(
            access, request, OWN_ARGUMENTS, allow_sensitive, names
        )
        self._searched = self._read_search_fields(request, allow_sensitive)
        self._sortable = self._read_sortable(request)
        self._schema_request = request
        self._fields_of_get = find_free(FIELDS, (self.key,))
        self._fields_of_search = find_free(FIELDS, self._filters)

    def _read_search_fields(self, request: Any, allow_sensitive: Collection[str]) -> str | None:
        """Return the words for what the search looks at; None, if there is no search."""
        names = [str(name) for name in self._admin.get_search_fields(request)]
        if any(is_secret(self._admin, name.lstrip("^=@"), allow_sensitive) for name in names):
            self.problems.append(
                "the search is left out: search_fields names what looks like a secret"
            )
            return None
        if any(map(takes_pattern, names)):
            self.problems.append("the search is left out: search_fields has a regular expression")
            return None
        for name, path in self._read_passing(names).items():
            judging = self._access.find_judging(path)
            if judging is not None:
                self.problems.append(
                    f"the search does not look at {name}, since {describe_judging(judging)} "
                    "decides about each object there"
                )
                names.remove(name)
        if not names and not self._access.overrides("get_search_results"):
            return None
        return str(self._admin.search_help_text or ", ".join(name.lstrip("^=@") for name in names))

    def _read_sortable(self, request: Any) -> dict[str, Key]:
        """Return what each column is ordered by, by the name of the order."""
        names = self._admin.get_sortable_by(request)
        if names is None:
            names = self._admin.get_list_display(request)
        sortable = {}
        shown = self._shown.names_of_list(request)
        for name in shown:
            path = self._find_path(name) if isinstance(name, str) and name in names else None
            if path is None:
                continue
            opposite = path.removeprefix("-") if path.startswith("-") else f"-{path}"
            for order, ordered_by in ((name, path), (f"-{name}", opposite)):
                key = self._to_key(ordered_by)
                if key is None or self._access.hides_related(request, key.path):
                    continue
                if self._is_shown(key, shown):
                    sortable[order] = key
        return sortable

    def _is_shown(self, key: Key, names: Collection[Any]) -> bool:
        """Return whether rows show what they are ordered by: their order tells of it."""
        return key.path.text in (*names, "pk", self.key)

    def _find_path(self, name: str) -> str | None:
        """Return the path that a column is ordered by; None, if there is none."""
        if self._to_key(name) is not None:
            return name
        computes = getattr(self._admin, name, None) or getattr(self._access.model, name, None)
        ordering = getattr(getattr(computes, "fget", None) or computes, "admin_order_field", None)
        return ordering if isinstance(ordering, str) else None

    def _to_key(self, order: str) -> Key | None:
        try:
            key = read_key(self._access.model, order)
        except PathError:
            return None
        return None if key.path.field.is_relation else key

    # -- one object

    @property
    def key(self) -> str:
        """The name of the argument that says which object is meant."""
        return str(self._shown.key.name)

    @property
    def key_schema(self) -> JSONObject:
        """The schema of that argument."""
        return key_schema(self._shown.key)

    @property
    def get_input(self) -> JSONObject:
        """The input schema of the tool that gets an object."""
        return object_schema(
            {self.key: self.key_schema, self._fields_of_get: FIELDS_SCHEMA}, required=[self.key]
        )

    @cached_property
    def get_output(self) -> JSONObject:
        """The output schema of the tool that gets an object."""
        names = self._shown.names_of_page(self._schema_request, self._sample)
        schema = self._shown.describe(names)
        further = {**self._form_values.outputs, **self._inlines.outputs}
        return {**schema, "properties": {**schema["properties"], **further}}

    def get(self, ctx: Context, arguments: dict[str, Any]) -> JSONObject:
        """Return one object; raises `DoesNotExist` if there is none for the user."""
        request = make_request_for_page(ctx, self._access.site, "GET")
        wanted = arguments.get(self._fields_of_get)
        return self.read_one(request, GET, arguments[self.key], wanted)

    def read_one(
        self, request: Any, action: str, key: Any, wanted: Sequence[str] | None = None
    ) -> JSONObject:
        """Return what the page of an object shows.

        Args:
            request: of the user.
            action: what is done with the object.
            key: of the object.
            wanted: names of the fields that are returned; None: all.

        Raises:
            ArgumentErrors: other fields are wanted than the user sees.
            DoesNotExist: the user may not, or there is no object.
        """
        usual = self._shown.names_of_page(self._schema_request, self._sample)
        if wanted is not None:
            usual = [name for name in usual if self._shown.label_of(name) in wanted]
        self._access.lead_to_object(request, action, key)
        rows = self._shown.load(self._access.find_rows(request, action), usual)
        one = self._access.find_one(request, action, key, rows)
        names = self._shown.names_of_page(request, one)
        rows_of = self._inlines.read(request, one, wanted)
        values: JSONObject = {}
        if wanted is None:
            values = self._form_values.read(request, one)
        else:
            labels = {self._shown.label_of(name): name for name in names}
            if not set(wanted) <= {self.key, *labels, *rows_of}:
                # The form takes long to make.
                values = self._form_values.read(request, one)
            seen = [*dict.fromkeys((self.key, *labels, *values, *rows_of))]
            chosen = choose(self._fields_of_get, wanted, seen)
            names = [name for label, name in labels.items() if label in chosen]
            values, rows_of = (
                {name: each for name, each in part.items() if name in (*wanted, TRUNCATED)}
                for part in (values, rows_of)
            )
        self._shown.complete(one, names)
        (result,) = self._shown.read(request, [one], names)
        if TRUNCATED in rows_of and TRUNCATED in result:
            rows_of[TRUNCATED] = [*result[TRUNCATED], *rows_of[TRUNCATED]]
        return {**result, **present(**values), **rows_of}

    # -- several

    @property
    def search_input(self) -> JSONObject:
        """The input schema of the search."""
        properties = self.filter_schemas
        if self._sortable:
            properties["ordering"] = {"enum": list(self._sortable)}
        properties[self._fields_of_search] = FIELDS_SCHEMA
        names = self._shown.names_of_list(self._schema_request)
        keys = self._order(self._schema_request, None, names)
        return object_schema({**properties, **self._pages.describe(keys)})

    @property
    def filter_schemas(self) -> JSONObject:
        """The schemas of the arguments that select rows."""
        properties: JSONObject = {name: each.schema for name, each in self._filters.items()}
        if self._searched is not None:
            properties["search"] = {
                "type": "string",
                "maxLength": MAX_TEXT_CHARS,
                "description": f"In {self._searched}",
            }
        return properties

    @property
    def search_output(self) -> JSONObject:
        """The output schema of the search."""
        names = self._shown.names_of_list(self._schema_request)
        return self._pages.schema(self._shown.describe(names))

    def search(self, ctx: Context, arguments: dict[str, Any]) -> JSONObject:
        """Return a page of objects.

        Raises:
            ArgumentErrors: a value or the cursor is not valid.
        """
        request = make_request_for_page(ctx, self._access.site, "GET")
        lead_to_page(request, self._admin, "changelist")
        names = self._shown.names_of_list(request)
        keys = self._order(request, arguments.get("ordering"), names)
        shown, loaded = self._choose(arguments, names, keys)
        rows = self.find_rows(request, arguments)
        return self._pages.read(
            rows,
            keys,
            user=ctx.user,
            arguments=arguments,
            load=lambda page: self._load(request, page, loaded),
            show=lambda found: self._shown.read(request, found, shown),
            explain=partial(self._explain, request, arguments.get("search", "").strip()),
            keep=lambda found: self._access.keep_allowed(request, SEARCH, found),
        )

    def find_rows(self, request: Any, arguments: Mapping[str, Any]) -> QuerySet[Any]:
        """Return the rows that the filters and the search of a call find."""
        rows = self._access.find_rows(request, SEARCH)
        rows = narrow_all(self._access, request, rows, self._filters, arguments)
        return self._find_terms(request, rows, arguments.get("search", ""))

    # -- in groups

    @property
    def summary_input(self) -> JSONObject:
        """The input schema of the tool that summarizes objects."""
        columns = self._find_columns(self._schema_request)
        filters = summaries.without_own(self.filter_schemas)
        return object_schema({**filters, **summaries.describe(columns)})

    def summarize(self, ctx: Context, arguments: dict[str, Any]) -> JSONObject:
        """Return groups of objects.

        Raises:
            ArgumentErrors: a value is not valid, or a column is not shown.
        """
        request = make_request_for_page(ctx, self._access.site, "GET")
        lead_to_page(request, self._admin, "changelist")
        given = summaries.without_own(arguments)
        rows = self.find_rows(request, given)
        text = given.get("search", "").strip()
        explain = partial(self._explain, request, text)
        return summaries.summarize(rows, self._find_columns(request), arguments, explain)

    def _find_columns(self, request: Any) -> dict[str, Column]:
        """Return the columns of the objects that a user sees, by name."""
        return {
            name: Column(lookup=field.name, field=field)
            for name, field in self._shown.find_columns(request).items()
        }

    # -- several

    def _choose(
        self, arguments: dict[str, Any], names: Collection[Any], keys: Collection[Key]
    ) -> tuple[Collection[Any], Collection[Any]]:
        """Return the columns that a search shows, and those that it loads."""
        if self._fields_of_search not in arguments:
            return names, names
        labels = {self._shown.label_of(name): name for name in names}
        seen = [*dict.fromkeys((self.key, *labels))]
        chosen = choose(self._fields_of_search, arguments[self._fields_of_search], seen)
        # The cursor has the values that the rows are ordered by.
        ordered = {key.path.text for key in keys}
        shown = [labels[label] for label in chosen if label in labels]
        return shown, [*shown, *(name for name in names if name in ordered - {*chosen})]

    def _explain(self, request: Any, text: str, *, is_empty: bool) -> str:
        """Return where the search for a text has looked, as `explain_search` does; "" if that is not known."""
        if not text or self._access.overrides("get_search_results"):
            return ""
        names = list(self._admin.get_search_fields(request))
        skipped = [
            str(name).lstrip("^=@")
            for name, path in self._read_passing(names).items()
            if self._access.find_judging(path) is None and not self._may_pass(request, path)
        ]
        return explain_search([self._searched or ""], skipped, is_empty=is_empty)

    def _load(self, request: Any, rows: QuerySet[Any], names: Collection[Any]) -> QuerySet[Any]:
        joined = self._admin.get_list_select_related(request)
        if joined is True:
            rows = rows.select_related()
        elif joined:
            rows = rows.select_related(*joined)
        return self._shown.load(rows, names)

    def _find_terms(self, request: Any, rows: QuerySet[Any], text: str) -> QuerySet[Any]:
        if not (text.strip() or self._access.overrides("get_search_results")):
            return rows
        if "\0" in text:
            raise ArgumentErrors([Problem("/search", _("Null characters are not allowed."))])
        if len(list(smart_split(text))) > MAX_TERMS:
            raise ArgumentErrors([Problem("/search", f"has more than {MAX_TERMS} words")])
        names = list(self._admin.get_search_fields(request))
        paths = self._read_passing(names)
        hidden = {
            name: path for name, path in paths.items() if self._access.hides_related(request, path)
        }
        terms = self._search(request, rows, text, names, [n for n in names if n not in hidden])
        half = [
            name
            for name, path in hidden.items()
            if self._access.find_judging(path) is None and self._may_pass(request, path)
        ]
        if not half:
            return terms
        # Rows without hidden related objects are also searched in what these have.
        seen = rows
        for name in half:
            seen = self._access.leave_out_hidden(request, seen, hidden[name])
        kept = [name for name in names if name not in hidden or name in half]
        more = self._search(request, seen, text, names, kept)
        return rows.filter(
            Q(pk__in=terms.order_by().values("pk")) | Q(pk__in=more.order_by().values("pk"))
        )

    def _may_pass(self, request: Any, path: Path) -> bool:
        """Return whether a user may see objects of each model on a path, some or all."""
        return all(each.allows(request, RELATED) for _, each in self._access.find_passed(path))

    def _read_passing(self, names: Iterable[Any]) -> dict[Any, Path]:
        """Return the paths of those search fields that lead through relations."""
        passing = {}
        for name in names:
            with contextlib.suppress(PathError):  # of annotations
                path = read_path(self._access.model, str(name).lstrip("^=@"))
                if len(path.fields) > 1:
                    passing[name] = path
        return passing

    def _search(
        self, request: Any, rows: QuerySet[Any], text: str, names: list[Any], kept: list[Any]
    ) -> QuerySet[Any]:
        """Return the rows that the admin finds for a text in some of its search fields."""
        admin, is_own = self._admin, self._access.overrides("get_search_results")
        if len(kept) < len(names):
            if not (kept or is_own):
                return rows.none()
            admin = copy.copy(admin)
            admin.get_search_fields = lambda _request: kept
        matching, has_duplicates = admin.get_search_results(request, rows, text)
        # A search of the site's own may find more than the user has.
        if has_duplicates or is_own:
            return rows.filter(pk__in=matching.order_by().values("pk"))
        return matching  # type: ignore[no-any-return]

    def _order(self, request: Any, name: str | None, names: Collection[Any]) -> tuple[Key, ...]:
        if name is not None:
            chosen, column = self._sortable[name], name.removeprefix("-")
            sortable = self._admin.get_sortable_by(request)
            is_there = column in names and (sortable is None or column in sortable)
            is_there = is_there and self._is_shown(chosen, names)
            if not is_there or self._access.hides_related(request, chosen.path):
                raise ArgumentErrors([Problem("/ordering", _("Enter a valid value."))])
            return complete(self._access.model, [chosen])
        keys: list[Key] = []
        meta = self._access.model._meta
        for term in self._admin.get_ordering(request) or meta.ordering or ():
            # The order tells of the values, so it is made of what is shown.
            if not isinstance(term, str) or term.removeprefix("-") not in (*names, "pk", self.key):
                break
            key = self._to_key(term)
            if key is None or self._access.hides_related(request, key.path):
                break
            keys.append(key)
        return complete(self._access.model, keys or [read_key(self._access.model, "-pk")])
