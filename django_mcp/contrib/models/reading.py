"""The tools that search for objects and get one of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from django.core.exceptions import ValidationError
from django.db.models import Q, QuerySet
from django.utils.text import format_lazy
from django.utils.translation import gettext as _

from django_mcp import ArgumentErrors
from django_mcp.context import Context
from django_mcp.contrib.chosen_fields import FIELDS, FIELDS_SCHEMA, choose
from django_mcp.contrib.generated import MAX_ROWS
from django_mcp.contrib.lists import find_free
from django_mcp.contrib.models import summaries
from django_mcp.contrib.models.definition import Definition
from django_mcp.contrib.models.names import RelationNames
from django_mcp.contrib.models.paging import Key, Pages
from django_mcp.contrib.models.related import Related
from django_mcp.contrib.models.schema import describe_field
from django_mcp.contrib.models.shown import Shown, find_columns
from django_mcp.contrib.models.summaries import Column
from django_mcp.forms.values import to_python
from django_mcp.protocol.json import JSONObject, present
from django_mcp.registry.object_schemas import object_schema
from django_mcp.registry.problems import Problem

FindRows = Callable[[Any, str], QuerySet[Any]]
"""Returns the rows that a user may use for an action."""

FindRelated = Callable[[Any], Related]
"""Returns what a user sees of related rows."""


class Reading:
    """Searches for objects and gets one of them.

    Args:
        definition: what is shown, and how it is found.
        find_rows: the rows that a user may use for an action.
        find_related: what a user sees of related rows.
        names: how users name related objects.
        max_results: objects on a page at most; fewer, if each has many related rows.
        max_count: rows are counted up to this number.
        select_related, prefetch_related: relations that computed fields need.
    """

    def __init__(
        self,
        definition: Definition,
        find_rows: FindRows,
        find_related: FindRelated,
        names: RelationNames,
        *,
        max_results: int,
        max_count: int,
        select_related: Sequence[str] = (),
        prefetch_related: Sequence[Any] = (),
    ) -> None:
        self._definition = definition
        self._find_rows = find_rows
        self._find_related = find_related
        self._names = names
        # Lists inside of lists multiply, so a page has fewer objects with them.
        most = MAX_ROWS // max(1, definition.shown.count_related())
        self._pages = Pages(
            definition.model._meta.label,
            max_results=max(1, min(max_results, most)),
            max_count=max_count,
        )
        key = definition.key
        self._key_names = [
            name for name, each in definition.shown.columns.items() if each.name == key.name
        ]
        self._fields_of_get = find_free(FIELDS, (key.name,))
        self._fields_of_search = find_free(FIELDS, definition.filters.schemas)
        self._select = tuple(select_related)
        self._prefetch = tuple(prefetch_related)

    # -- one object

    @property
    def key_schema(self) -> JSONObject:
        """The schema of the argument that says which object is meant."""
        return describe_field(self._definition.key, is_input=True, nullable=False)

    @property
    def get_schema(self) -> JSONObject:
        """The input schema of the tool that gets an object."""
        key = self._definition.key.name
        return object_schema(
            {key: self.key_schema, self._fields_of_get: FIELDS_SCHEMA}, required=[key]
        )

    @property
    def row_schema(self) -> JSONObject:
        """The schema of an object in results, of which a call may choose fields."""
        return present(**{**self._definition.shown.schema, "required": self._key_names or None})

    def get(self, ctx: Context, arguments: dict[str, Any]) -> Any:
        """Return one object; raises `DoesNotExist` if there is none for the user."""
        rows = self._find_rows(ctx.user, "get")
        shown = self._choose(self._fields_of_get, arguments)
        return self.read_one(ctx.user, rows, self.key_of(arguments), shown)

    def _choose(self, argument: str, arguments: dict[str, Any]) -> Shown:
        """Return what a call is shown; raises `ArgumentErrors` if it names other fields."""
        shown = self._definition.shown
        if argument not in arguments:
            return shown
        names = choose(argument, arguments[argument], shown.names)
        return shown.select({*names, *self._key_names})

    def key_of(self, arguments: dict[str, Any]) -> Any:
        """Return the value that says which object is meant; raises `DoesNotExist` if none can have it."""
        return self.to_key(arguments[self._definition.key.name])

    def to_key(self, value: Any) -> Any:
        """Return such a value as the model has it; raises `DoesNotExist` if no object can have it."""
        try:
            return to_python(self._definition.key, value)
        except ValidationError:
            raise self._definition.missing() from None

    def read_one(
        self, user: Any, rows: QuerySet[Any], key: Any, shown: Shown | None = None
    ) -> JSONObject:
        """Return an object as a user sees it, by default whole; raises `DoesNotExist`."""
        related = self._find_related(user)
        shown = shown or self._definition.shown
        matching = rows.filter(**{self._definition.key.name: key}).order_by()
        for instance in self._load(matching, related, shown, is_single=True)[:1]:
            shown.load_lists(instance, related.narrow)
            return related.read(shown, [instance])[0]
        raise self._definition.missing()

    def _load(
        self, rows: QuerySet[Any], related: Related, shown: Shown, *, is_single: bool = False
    ) -> QuerySet[Any]:
        # Properties and functions need what the site names for them.
        is_needed = bool(shown.computed) or shown is self._definition.shown
        return shown.load(
            rows,
            extra=[self._definition.key.name],
            select=self._select if is_needed else (),
            prefetch=self._prefetch if is_needed else (),
            is_single=is_single,
            narrow=related.narrow,
        )

    # -- several

    @property
    def filter_schemas(self) -> JSONObject:
        """The schemas of the arguments that select objects."""
        return self._definition.filters.describe(self._names)

    @property
    def search_schema(self) -> JSONObject:
        """The input schema of the search."""
        properties = self.filter_schemas
        orders = [name for name in self._definition.orders if name]
        if orders:
            properties["ordering"] = {"enum": orders}
        properties[self._fields_of_search] = FIELDS_SCHEMA
        return object_schema({**properties, **self._pages.describe(self._definition.orders[""])})

    @property
    def page_schema(self) -> JSONObject:
        """The output schema of the search."""
        return self._pages.schema(self.row_schema)

    def search(self, ctx: Context, arguments: dict[str, Any]) -> Any:
        """Return a page of objects.

        Raises:
            ArgumentErrors: a value or the cursor is not valid.
        """
        definition, related = self._definition, self._find_related(ctx.user)
        keys = self._find_order(arguments.get("ordering", ""), related)
        shown = loaded = self._choose(self._fields_of_search, arguments)
        if shown is not definition.shown:
            # The cursor has the values that the rows are ordered by.
            ordered = (key.path.text.partition("__")[0] for key in keys)
            loaded = definition.shown.select({*shown.names, *ordered})
        return self._pages.read(
            self.filter(ctx.user, self._find_rows(ctx.user, "search"), arguments, related),
            keys,
            user=ctx.user,
            arguments=arguments,
            load=partial(self._load, related=related, shown=loaded),
            show=partial(related.read, shown),
            explain=partial(
                definition.filters.explain, arguments.get("search", "").strip(), related
            ),
        )

    def filter(
        self,
        user: Any,
        rows: QuerySet[Any],
        arguments: Mapping[str, Any],
        related: Related | None = None,
    ) -> QuerySet[Any]:
        """Return the rows that the filters and the search of a user find; raises `ArgumentErrors`."""
        find_naming = partial(self._names.find_naming_of_filter, user)
        related = related or self._find_related(user)
        return self._definition.filters.apply(rows, arguments, related, find_naming)

    # -- in groups

    @property
    def summary_schema(self) -> JSONObject:
        """The input schema of the tool that summarizes objects."""
        filters = summaries.without_own(self.filter_schemas)
        return object_schema({**filters, **summaries.describe(self._find_columns(None))})

    def summarize(self, ctx: Context, arguments: dict[str, Any]) -> JSONObject:
        """Return groups of objects.

        Raises:
            ArgumentErrors: a value is not valid, or a column is not shown.
        """
        filters, related = self._definition.filters, self._find_related(ctx.user)
        given = summaries.without_own(arguments)
        return summaries.summarize(
            self.filter(ctx.user, self._find_rows(ctx.user, "search"), given, related),
            self._find_columns(related),
            arguments,
            partial(filters.explain, given.get("search", "").strip(), related),
        )

    def _find_columns(self, related: Related | None) -> dict[str, Column]:
        """Return the columns of the objects that a user sees, and those of single related ones."""
        columns: dict[str, Column] = {}
        for path in find_columns(self._definition.shown):
            visible = None
            if related is not None:
                if related.hides_all(path):
                    continue
                conditions = related.find_conditions(path)
                visible = Q(*conditions) if conditions else None
            columns[path.text] = Column(lookup=path.lookup, field=path.field, visible=visible)
        return columns

    def _find_order(self, name: str, related: Related) -> Sequence[Key]:
        """Return an order, which must not tell of related rows that the user does not see."""
        keys = self._definition.orders[name]
        if not any(related.find_conditions(key.path) for key in keys):
            return keys
        if name:
            text = _("leads to objects that you may not see, so it is no order.")
            raise ArgumentErrors([Problem("/ordering", text)])
        return self._definition.plain_order


def describe_tool(text: str, words: Any, documentation: str | None) -> Any:
    """Return the description of a tool: what it does, and what the site says of the objects."""
    return format_lazy("{} {}.{}", text, words, f"\n\n{documentation}" if documentation else "")
