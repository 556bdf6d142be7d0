"""The filters of the admin's list as arguments of a search."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django.contrib.admin import filters as kinds
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.utils import (
    get_fields_from_path,
    get_model_from_relation,
    lookup_spawns_duplicates,
)
from django.core.exceptions import ValidationError
from django.db.models import Field, Q, QuerySet
from django.utils.translation import gettext as _

from django_mcp import ArgumentErrors
from django_mcp.contrib.modeladmin.access import AdminAccess, grants
from django_mcp.contrib.modeladmin.names import AdminNames
from django_mcp.contrib.modeladmin.requests import make_request_of_nobody
from django_mcp.contrib.modeladmin.sensitive import is_secret, is_secret_key
from django_mcp.contrib.models.paths import Path, is_to_many, read_path
from django_mcp.contrib.models.schema import MAX_CHOICES, describe_choices, describe_value
from django_mcp.contrib.view_problems import (
    DatabaseProblem,
    reading_at_startup,
    without_queries,
)
from django_mcp.forms import find_texts, key_schema, or_name, read_texts
from django_mcp.forms.labels import describe_labels
from django_mcp.forms.values import MAX_TEXT_CHARS, to_python
from django_mcp.log import logger
from django_mcp.protocol.json import JSONObject, to_pointer
from django_mcp.registry.object_schemas import or_null
from django_mcp.registry.problems import Problem

Narrow = Callable[[Any, QuerySet[Any], Any], QuerySet[Any]]
"""Takes a request of the admin, rows and the value of an argument, and returns the rows that fit."""


class LeftOut(Exception):
    """A filter does not become an argument; the text says why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AdminFilter:
    """An argument that narrows a search.

    Attributes:
        source: the item of `list_filter` that it comes from.
        name: of the argument.
        schema: of its values.
        narrow: applies a value; raises `ValidationError` if it is not valid.
        lookups: the names that the page has for it in its query, for a value and for null.
    """

    source: Any
    name: str
    schema: JSONObject
    narrow: Narrow
    lookups: tuple[str, str]

    def is_allowed(self, request: Any, admin: Any, value: Any) -> bool:
        """Return whether the admin lets the user filter by a value; see `lookup_allowed`."""
        lookup, text = self.lookups[0], str(int(value)) if isinstance(value, bool) else str(value)
        if value is None:
            lookup, text = self.lookups[1], "True"
        judge = admin.lookup_allowed
        signature = inspect.signature(judge)
        # One of before Django 5.0 takes no request.
        for more, named in (((request,), {}), ((), {"request": request}), ((), {})):
            try:
                bound = signature.bind(lookup, text, *more, **named)
            except TypeError:
                continue
            return grants(judge(*bound.args, **bound.kwargs))
        return False

    def apply(self, request: Any, rows: QuerySet[Any], value: Any) -> QuerySet[Any]:
        """Return the rows that fit.

        Raises:
            ArgumentErrors: the value is not valid.
        """
        try:
            return self.narrow(request, rows, value)
        except ValidationError as error:
            text = " ".join(error.messages)
        except (IncorrectLookupParameters, OverflowError, TypeError, ValueError):
            text = _("Enter a valid value.")
        raise ArgumentErrors([Problem(to_pointer([self.name]), text)])


def read_filters(
    access: AdminAccess,
    request: Any,
    taken: Collection[str],
    allow_sensitive: Collection[str],
    names: AdminNames,
) -> tuple[dict[str, AdminFilter], list[str]]:
    """Return the filters of a `ModelAdmin` by argument, and why others are left out.

    Args:
        access: of the `ModelAdmin`.
        request: one that may do everything.
        taken: names of other arguments.
        allow_sensitive: fields that look like secrets and are none.
        names: how users name related objects.
    """
    filters: dict[str, AdminFilter] = {}
    left_out = []
    admin: Any = access.model_admin
    items = list(admin.get_list_filter(request))
    if admin.date_hierarchy:
        items.append((admin.date_hierarchy, kinds.DateFieldListFilter))
    for item in items:
        try:
            for item_filter in _read(access, request, item, allow_sensitive, names):
                if item_filter.name in taken:
                    raise LeftOut("another argument has that name")
                filters.setdefault(item_filter.name, item_filter)
        except LeftOut as problem:
            left_out.append(f"the filter {_name_of(item)} is left out: {problem}")
    return filters, left_out


def allowed_sources(access: AdminAccess, request: Any) -> list[Any]:
    """Return the filters that a user has."""
    admin: Any = access.model_admin
    sources = list(admin.get_list_filter(request))
    if admin.date_hierarchy:
        sources.append((admin.date_hierarchy, kinds.DateFieldListFilter))
    return sources


def _name_of(item: Any) -> str:
    if isinstance(item, list | tuple):
        return f"{item[0]} ({getattr(item[1], '__name__', item[1])})"
    return str(getattr(item, "__name__", item))


def _read(
    access: AdminAccess,
    request: Any,
    item: Any,
    allow_sensitive: Collection[str],
    names: AdminNames,
) -> list[AdminFilter]:
    if isinstance(item, type) and issubclass(item, kinds.SimpleListFilter):
        return [_read_simple(access, request, item)]
    if callable(item):
        raise LeftOut("what it takes is not known")
    path, cls = item if isinstance(item, list | tuple) else (item, None)
    name = path.name if isinstance(path, Field) else str(path)
    if is_secret(access.model_admin, name, allow_sensitive):
        raise LeftOut("its name looks like a secret")
    field: Any = get_fields_from_path(access.model, name)[-1]
    if field.is_relation and is_secret_key(get_model_from_relation(field), allow_sensitive):
        raise LeftOut("its values look like secrets")
    if cls is None:
        known: Any = kinds.FieldListFilter
        cls = next(made for test, made in known._field_list_filters if test(field))
    whole = read_path(access.model, name)
    judging = access.find_judging(whole)
    if judging is not None:
        raise LeftOut(f"{describe_judging(judging)} decides about each object that it looks at")
    for base, make in _KINDS:
        if _works_like(cls, base):
            return [
                AdminFilter(
                    source=item,
                    name=argument,
                    schema=schema,
                    narrow=_guard(access, whole, narrow),
                    lookups=(_find_lookup(base, name, field, argument), f"{name}__isnull"),
                )
                for argument, schema, narrow in make(access, name, field, names)
            ]
    raise LeftOut("what it takes is not known")


def _find_lookup(base: Any, name: str, field: Any, argument: str) -> str:
    """Return the name that the page has in its query for a value of a filter."""
    if field.is_relation and argument == name:
        return f"{name}__{field.target_field.name}__exact"
    is_exact = base in (kinds.BooleanFieldListFilter, kinds.ChoicesFieldListFilter)
    return f"{name}__exact" if is_exact else argument


def describe_judging(access: AdminAccess) -> str:
    """Return the name of the class that decides about objects."""
    return type(access.model_admin).__qualname__


def _works_like(cls: Any, base: Any) -> bool:
    """Return whether a class filters as one of Django's own does."""
    is_kind = isinstance(cls, type) and issubclass(cls, base)
    return is_kind and all(
        getattr(cls, name) is getattr(base, name) for name in ("queryset", "expected_parameters")
    )


def _guard(access: AdminAccess, path: Path, narrow: Narrow) -> Narrow:
    """Have a filter look at no related object that the user may not see, and return each row once."""
    spawns_duplicates = lookup_spawns_duplicates(access.model._meta, path.text)

    def narrow_guarded(request: Any, rows: QuerySet[Any], value: Any) -> QuerySet[Any]:
        narrowed = narrow(request, access.leave_out_hidden(request, rows, path), value)
        return (
            rows.filter(pk__in=narrowed.order_by().values("pk")) if spawns_duplicates else narrowed
        )

    return narrow_guarded


# -- Django's own kinds

Made = Iterator[tuple[str, JSONObject, Narrow]]


def _titled(field: Any, schema: JSONObject, is_nullable: bool) -> JSONObject:  # noqa: FBT001
    titled = or_null(schema) if is_nullable else schema
    title = getattr(field, "verbose_name", None)
    return {**titled, "title": title} if title else titled


def _make_value(access: AdminAccess, path: str, field: Any, names: AdminNames) -> Made:
    if field.is_relation:
        yield from _make_related(access, path, field, names)
        return

    def narrow(_request: Any, rows: QuerySet[Any], value: Any) -> QuerySet[Any]:
        if value is None:
            return rows.filter((f"{path}__isnull", True))
        return rows.filter((path, to_python(field, value)))

    schema = _titled(field, describe_value(field, is_input=True), field.null)
    if field.flatchoices:
        schema["description"] = describe_choices(field)
    yield path, schema, narrow


def _make_related(access: AdminAccess, path: str, field: Any, names: AdminNames) -> Made:
    model = get_model_from_relation(field)
    target = field.target_field
    key = target.name

    def narrow(request: Any, rows: QuerySet[Any], value: Any) -> QuerySet[Any]:
        others = model._default_manager.all()
        if value is None and is_to_many(field):
            # Members that the user may not see are none.
            return rows.exclude((f"{path}__in", access.find_related(request, others)))
        if value is None:
            return rows.filter((f"{path}__isnull", True))
        if find_texts(value) and takes_names:
            naming = names.find_naming(request, path, model)
            if naming is not None:
                value = read_texts(value, others, target, naming)
        narrowed = others.filter((key, to_python(target, value)))
        # Users who may not see an object cannot find out what belongs to it.
        return rows.filter((f"{path}__in", access.find_related(request, narrowed)))

    other = access.of(model)
    is_judged = other is not None and other.judges_objects
    is_nullable = not is_judged if is_to_many(field) else field.null
    schema, told = key_schema(target), names.tell(path, model)
    # A rule about the value would not know a name.
    takes_names = told.takes_names and not access.overrides("lookup_allowed")
    text = told.copy(takes_names=takes_names, key=schema)
    if takes_names:
        schema = or_name(schema)
    yield path, {**_titled(field, schema, is_nullable), "description": text}, narrow


def _make_date(_access: AdminAccess, path: str, field: Any, _names: AdminNames) -> Made:
    schema = describe_value(field, is_input=True)
    for lookup, words in (("gte", "not before"), ("lt", "before")):
        yield (
            f"{path}__{lookup}",
            {**_titled(field, schema, False), "description": words},
            _compare(f"{path}__{lookup}", field),
        )
    if field.null:

        def narrow(_request: Any, rows: QuerySet[Any], value: Any) -> QuerySet[Any]:
            return rows.filter((f"{path}__isnull", value))

        yield f"{path}__isnull", {"type": "boolean"}, narrow


def _compare(lookup: str, field: Any) -> Narrow:
    def narrow(_request: Any, rows: QuerySet[Any], value: Any) -> QuerySet[Any]:
        return rows.filter((lookup, to_python(field, value)))

    return narrow


def _make_empty(_access: AdminAccess, path: str, field: Any, _names: AdminNames) -> Made:
    condition = Q()
    if field.empty_strings_allowed:
        condition |= Q((path, ""))
    if field.null:
        condition |= Q((f"{path}__isnull", True))

    def narrow(_request: Any, rows: QuerySet[Any], value: Any) -> QuerySet[Any]:
        return rows.filter(condition) if value else rows.exclude(condition)

    yield f"{path}__isempty", _titled(field, {"type": "boolean"}, False), narrow


_KINDS: tuple[tuple[Any, Callable[[AdminAccess, str, Any, AdminNames], Made]], ...] = (
    (kinds.BooleanFieldListFilter, _make_value),
    (kinds.ChoicesFieldListFilter, _make_value),
    (kinds.RelatedFieldListFilter, _make_related),
    (kinds.DateFieldListFilter, _make_date),
    (kinds.AllValuesFieldListFilter, _make_value),
    (kinds.EmptyFieldListFilter, _make_empty),
)


# -- filters of the site's own, by the values that they offer


def _read_simple(access: AdminAccess, request: Any, cls: Any) -> AdminFilter:
    admin = access.model_admin
    if not (cls.parameter_name and cls.title):
        raise LeftOut("it has no title or no parameter_name")
    schema: JSONObject = {"type": "string", "maxLength": MAX_TEXT_CHARS}
    try:
        with reading_at_startup(), without_queries():
            offered = cls(request, {}, access.model, admin).lookup_choices
        if 0 < len(offered) <= MAX_CHOICES and offered == _find_offered_to_nobody(access, cls):
            schema = {
                "enum": [str(value) for value, _label in offered],
                "description": describe_labels(offered),
            }
    except DatabaseProblem:
        pass  # what it offers changes with the data
    except Exception as error:
        raise LeftOut(f"lookups() failed: {error}") from error

    def narrow(request: Any, rows: QuerySet[Any], value: Any) -> QuerySet[Any]:
        spec = cls(request, {cls.parameter_name: [value]}, access.model, admin)
        if value not in {str(each) for each, _label in spec.lookup_choices}:
            raise ValidationError(_("Enter a valid value."))
        narrowed = spec.queryset(request, rows)
        return rows if narrowed is None else narrowed

    return AdminFilter(
        source=cls,
        name=cls.parameter_name,
        schema={**schema, "title": str(cls.title)},
        narrow=narrow,
        lookups=(cls.parameter_name, cls.parameter_name),
    )


def _find_offered_to_nobody(access: AdminAccess, cls: Any) -> Any:
    """Return what a filter offers to a user without rights; None, if that fails."""
    try:
        with without_queries():
            request = make_request_of_nobody(access.site)
            return cls(request, {}, access.model, access.model_admin).lookup_choices
    except Exception:
        logger.debug("%s has no choices for nobody", cls, exc_info=True)
        return None


def narrow_all(
    access: AdminAccess,
    request: Any,
    rows: QuerySet[Any],
    filters: Mapping[str, AdminFilter],
    arguments: Mapping[str, Any],
) -> QuerySet[Any]:
    """Return the rows that fit all filters among the arguments.

    Raises:
        ArgumentErrors: values are not valid, or the user does not have the filter.
    """
    given = [each for name, each in filters.items() if name in arguments]
    if not given:
        return rows
    allowed = allowed_sources(access, request)
    is_asked = access.overrides("lookup_allowed")
    problems: list[Problem] = []
    for given_filter in given:
        is_allowed = given_filter.source in allowed and (
            not is_asked
            or given_filter.is_allowed(request, access.model_admin, arguments[given_filter.name])
        )
        if not is_allowed:
            problems.append(Problem(to_pointer([given_filter.name]), _("Enter a valid value.")))
            continue
        try:
            rows = given_filter.apply(request, rows, arguments[given_filter.name])
        except ArgumentErrors as error:
            problems.extend(error.problems)
    if problems:
        raise ArgumentErrors(problems)
    return rows
