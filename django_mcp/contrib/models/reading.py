"""The tools that search for objects and get one of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.utils.text import format_lazy

from django_mcp.context import Context
from django_mcp.contrib.generated import object_schema
from django_mcp.contrib.models.definition import Definition
from django_mcp.contrib.models.paging import Pages
from django_mcp.contrib.models.schema import describe_field
from django_mcp.contrib.values import to_python
from django_mcp.protocol.json import JSONObject

FindRows = Callable[[Any, str], QuerySet[Any]]
"""Returns the rows that a user may use for an action."""


class Reading:
    """Searches for objects and gets one of them.

    Args:
        definition: what is shown, and how it is found.
        find_rows: the rows that a user may use for an action.
        max_results: rows on a page at most.
        max_count: rows are counted up to this number.
        select_related, prefetch_related: relations that computed fields need.
    """

    def __init__(
        self,
        definition: Definition,
        find_rows: FindRows,
        *,
        max_results: int,
        max_count: int,
        select_related: Sequence[str] = (),
        prefetch_related: Sequence[Any] = (),
    ) -> None:
        self._definition = definition
        self._find_rows = find_rows
        self._pages = Pages(
            definition.model._meta.label, max_results=max_results, max_count=max_count
        )
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
        return object_schema({key: self.key_schema}, required=[key])

    def get(self, ctx: Context, arguments: dict[str, Any]) -> Any:
        """Return one object; raises `DoesNotExist` if there is none for the user."""
        rows = self._find_rows(ctx.user, "get")
        return self._definition.shown.read(self.load_one(rows, self.key_of(arguments)))

    def key_of(self, arguments: dict[str, Any]) -> Any:
        """Return the value that says which object is meant; raises `DoesNotExist` if none can have it."""
        field = self._definition.key
        try:
            return to_python(field, arguments[field.name])
        except ValidationError:
            raise self._definition.missing() from None

    def load_one(self, rows: QuerySet[Any], key: Any) -> Any:
        """Return an object with all that is shown; raises `DoesNotExist`."""
        found = rows.filter(**{self._definition.key.name: key}).order_by()
        for each in self._load(found)[:1]:
            return each
        raise self._definition.missing()

    def _load(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        shown = self._definition.shown
        key = self._definition.key.name
        return shown.load(rows, extra=[key], select=self._select, prefetch=self._prefetch)

    # -- several

    @property
    def search_schema(self) -> JSONObject:
        """The input schema of the search."""
        properties: JSONObject = dict(self._definition.filters.schemas)
        orders = [name for name in self._definition.orders if name]
        if orders:
            properties["ordering"] = {
                "enum": orders,
                "description": "The order of the results; - in front: descending.",
            }
        return object_schema({**properties, **self._pages.arguments})

    @property
    def page_schema(self) -> JSONObject:
        """The output schema of the search."""
        return self._pages.schema(self._definition.shown.schema)

    def search(self, ctx: Context, arguments: dict[str, Any]) -> Any:
        """Return a page of objects.

        Raises:
            ArgumentErrors: a value or the cursor is not valid.
        """
        read = self._definition.shown.read
        return self._pages.read(
            self._definition.filters.apply(self._find_rows(ctx.user, "search"), arguments),
            self._definition.orders[arguments.get("ordering", "")],
            user=ctx.user,
            arguments=arguments,
            load=self._load,
            show=lambda found: [read(each) for each in found],
        )


def describe_tool(text: str, words: Any, documentation: str | None) -> Any:
    """Return the description of a tool: what it does, and what the site says of the objects."""
    return format_lazy("{} {}.{}", text, words, f"\n\n{documentation}" if documentation else "")
