"""The tool that changes several objects: each as the tool for one object does, and all of them or none."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from django.core.exceptions import ObjectDoesNotExist
from django.db.models import QuerySet
from django.utils.text import smart_split
from django.utils.translation import gettext as _

from django_mcp import ArgumentErrors, ToolError
from django_mcp.agreement import Agreement, read_state
from django_mcp.context import Context
from django_mcp.contrib.confirming import quote
from django_mcp.execution.db_connections import HandlerAbandoned
from django_mcp.protocol.json import JSONObject, encode, to_pointer
from django_mcp.protocol.sanitize import clean
from django_mcp.registry.access import Forbidden
from django_mcp.registry.entries import ToolEntry
from django_mcp.registry.object_schemas import object_schema
from django_mcp.registry.problems import Problem
from django_mcp.server.asking.confirming import CONFIRMATION, CONFIRMATION_SCHEMA

UPDATE_MANY = "update_many"
"""What the tool does, as options name it."""

MAX_OBJECTS = 500
"""Objects that one call changes."""

MAX_SHOWN_CHARS = 300
"""Of each new value, in the question."""

MAX_SHOWN_KEYS = 20
"""Objects that the question names."""

IDS, FILTERS, VALUES = "ids", "filters", "values"

OUTPUT = object_schema(
    {
        "updated": {"type": "boolean"},
        "count": {"type": "integer", "description": "How many objects are meant."},
        "message": {"type": "string"},
        CONFIRMATION: {
            "type": "string",
            "description": "Call again with this, after the user has agreed.",
        },
    },
    required=["updated", "count", "message"],
)
"""The output schema of the tool."""


class Source(Protocol):
    """The objects of one model, and the tool that changes one of them."""

    @property
    def key(self) -> Any:
        """The field that tells them apart in arguments."""

    def in_transaction(self, ctx: Context) -> AbstractContextManager[str]:
        """Run in a transaction of the database that the objects are written in; yields its alias."""

    def to_key(self, value: Any) -> Any:
        """Return a key as the model has it; raises `DoesNotExist` if no object can have it."""

    def find(self, ctx: Context, using: str, filters: Mapping[str, Any] | None) -> QuerySet[Any]:
        """Return the objects that the caller may change, those that filters select if there are any."""

    def keep_allowed(self, ctx: Context, objects: Sequence[Any]) -> Collection[Any]:
        """Return those of some objects that the caller may change."""

    def update_one(self, ctx: Context, key: Any, values: Mapping[str, Any]) -> None:
        """Change one object; raises what the tool for one object does."""


def describe(
    key: Any, key_schema: JSONObject, filters: JSONObject, values: JSONObject
) -> JSONObject:
    """Return the input schema of the tool.

    Args:
        key: the field that tells objects apart in arguments.
        key_schema: of its values.
        filters: the schemas of the filters of the search.
        values: the schemas of the fields that are changed.
    """
    properties: JSONObject = {
        IDS: {
            "type": "array",
            "items": key_schema,
            "minItems": 1,
            "maxItems": MAX_OBJECTS,
            "uniqueItems": True,
            "description": f"{key.name} of each object.",
        },
        VALUES: object_schema(values),
        CONFIRMATION: CONFIRMATION_SCHEMA,
    }
    if filters:
        told = {"description": "In place of ids: as in the search."}
        properties[FILTERS] = {**object_schema(filters), **told}
    return object_schema(properties, required=[VALUES])


class UpdatingMany:
    """Changes several objects.

    Args:
        source: the objects.
        label: says which objects they are; a confirmation for others is not taken.
        single: the tool that changes one of them, whose `check` is asked about each.
    """

    def __init__(self, source: Source, label: str, single: ToolEntry) -> None:
        self._source = source
        self._label = label
        self._check = single.handler.check

    def run(self, ctx: Context, arguments: dict[str, Any]) -> JSONObject:
        """Change the objects, or say what has to be confirmed before.

        Raises:
            ArgumentErrors: no objects are named, or too many, or values are not valid for one.
            ToolError: one cannot be changed, or the confirmation is not for this.
        """
        filters = _read_filters(arguments)
        values = arguments[VALUES]
        if not values:
            raise ArgumentErrors([Problem(f"/{VALUES}", _("Name the fields to change."))])
        with self._source.in_transaction(ctx) as using:
            objects = self._select(ctx, using, arguments.get(IDS), filters, values)
            return self._update(ctx, arguments, objects, values)

    def _select(
        self,
        ctx: Context,
        using: str,
        ids: Sequence[Any] | None,
        filters: Mapping[str, Any] | None,
        values: Mapping[str, Any],
    ) -> list[Any]:
        """Return the objects of a call, locked.

        Raises:
            ArgumentErrors: there are not all of them for the caller, or too many.
        """
        source, name = self._source, self._source.key.name
        try:
            rows = source.find(ctx, using, filters)
        except ArgumentErrors as error:
            raise ArgumentErrors(
                [Problem(f"/{FILTERS}{each.pointer}", each.message) for each in error.problems]
            ) from None
        wanted = [self._read_key(each) for each in ids or ()]
        if ids is not None:
            rows = rows.filter((f"{name}__in", [key for key in wanted if key is not None]))
        # Rows of a joined or grouped query cannot be locked.
        plain = rows.model._base_manager.using(using).order_by("pk").select_for_update()
        locked = list(plain.filter(pk__in=rows.order_by().values("pk"))[: MAX_OBJECTS + 1])
        if len(locked) > MAX_OBJECTS:
            told = _("selects more than %(count)s objects. Narrow it.") % {"count": MAX_OBJECTS}
            raise ArgumentErrors([Problem(f"/{FILTERS}", told)])
        objects = {
            getattr(each, source.key.attname): each
            for each in source.keep_allowed(ctx, locked)
            if self._is_permitted(ctx, each, values)
        }
        missing = [index for index, key in enumerate(wanted) if key not in objects]
        if missing:
            told = _("Not found.")
            raise ArgumentErrors([Problem(to_pointer([IDS, index]), told) for index in missing])
        return list(objects.values())

    def _read_key(self, value: Any) -> Any:
        try:
            return self._source.to_key(value)
        except ObjectDoesNotExist:
            return None

    def _is_permitted(self, ctx: Context, instance: Any, values: Mapping[str, Any]) -> bool:
        """Return whether the check of the tool for one object permits to change it."""
        check, key = self._check, self._source.key
        if check is None:
            return True
        given = {**values, key.name: getattr(instance, key.attname)}
        try:
            check.demand(ctx, given if check.whole is None else {check.whole: given})
        except (Forbidden, ObjectDoesNotExist):
            return False
        return True

    def _update(
        self,
        ctx: Context,
        arguments: Mapping[str, Any],
        objects: Sequence[Any],
        values: Mapping[str, Any],
    ) -> JSONObject:
        count = len(objects)
        result: JSONObject = {"updated": False, "count": count}
        if not count:
            return {**result, "message": _("Nothing was found, so nothing was changed.")}
        meta = objects[0]._meta
        what = str(meta.verbose_name if count == 1 else meta.verbose_name_plural)
        refusal = self._agreement(ctx, what, objects, values).ask(ctx, arguments)
        if refusal is not None:
            return {**result, **refusal}
        for instance in objects:
            if ctx.is_cancelled:
                raise HandlerAbandoned
            self._update_one(ctx, instance, values)
        told = _("%(count)s %(what)s changed.") % {"count": count, "what": what}
        return {**result, "updated": True, "message": told}

    def _agreement(
        self, ctx: Context, what: str, objects: Sequence[Any], values: Mapping[str, Any]
    ) -> Agreement:
        # Each field is named, however long the values of the others are.
        changes = "; ".join(f"{name}: {_show(value)}" for name, value in values.items())
        keys = [
            clean(self._source.key.value_to_string(each), MAX_SHOWN_CHARS)
            for each in objects[:MAX_SHOWN_KEYS]
        ]
        more = ["…"] if len(objects) > MAX_SHOWN_KEYS else []
        return Agreement(
            "change",
            title=_("Change"),
            question=_("Change %(count)s %(what)s? %(changes)s.")
            % {
                "count": len(objects),
                "what": f"{what} ({', '.join(keys + more)})",
                "changes": changes,
            },
            refused=_("The user did not agree, so nothing was changed."),
            state=[
                UPDATE_MANY,
                self._label,
                str(ctx.user.pk),
                dict(values),
                [[str(each.pk), read_state(each)] for each in objects],
            ],
        )

    def _update_one(self, ctx: Context, instance: Any, values: Mapping[str, Any]) -> None:
        key = self._source.key
        name = f"{instance._meta.verbose_name} {key.value_to_string(instance)}"
        nothing = _("Nothing was changed.")
        try:
            self._source.update_one(ctx, getattr(instance, key.attname), values)
        except ArgumentErrors as error:
            problems = [
                Problem(f"/{VALUES}{each.pointer}", f"{name}: {each.message} {nothing}")
                for each in error.problems
            ]
            raise ArgumentErrors(problems) from None
        except ToolError as error:
            raise ToolError(f"{name}: {error} {nothing}") from None
        except ObjectDoesNotExist:
            raise ToolError(f"{name}: {_('Not found.')} {nothing}") from None


def _read_filters(arguments: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the filters of a call; None: it names objects by their keys.

    Raises:
        ArgumentErrors: it names both or neither, or filters that select everything.
    """
    filters = arguments.get(FILTERS)
    if (filters is None) == (IDS not in arguments):
        raise ArgumentErrors([Problem("", _("Name the objects, either by ids or by filters."))])
    if filters is None:
        return None
    given = {name: each for name, each in filters.items() if not _is_blank(name, each)}
    if not given:
        told = _("selects all objects. Name at least one filter.")
        raise ArgumentErrors([Problem(f"/{FILTERS}", told)])
    return given


def _is_blank(name: str, value: Any) -> bool:
    """Return whether a filter selects everything, as a search without words does."""
    if not isinstance(value, str):
        return False
    if name == "search":
        return not any(term.strip("\"'") for term in smart_split(value))
    return not value and name.endswith(_PARTS)


_PARTS = ("contains", "startswith", "endswith")
"""How the names of filters for a part of a text end."""


def _show(value: Any) -> str:
    """Return a value on one line, cut short; a text in quotation marks."""
    if isinstance(value, str):
        return quote(value, MAX_SHOWN_CHARS)
    return clean(encode(value).decode(), MAX_SHOWN_CHARS)
