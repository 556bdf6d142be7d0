"""Filters and the search of a model: their schemas, and the conditions that arguments stand for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import connections, router
from django.db.models import (
    Exists,
    Field,
    ForeignKey,
    IntegerField,
    JSONField,
    Model,
    OuterRef,
    Q,
    QuerySet,
)
from django.utils.text import format_lazy, smart_split, unescape_string_literal
from django.utils.translation import gettext as _

from django_mcp import ArgumentErrors
from django_mcp.contrib.cursors import explain_search
from django_mcp.contrib.models.names import RelationNames
from django_mcp.contrib.models.paths import (
    Path,
    PathError,
    field_names,
    name_near,
    read_path,
    read_whole_path,
)
from django_mcp.contrib.models.related import Related
from django_mcp.contrib.models.schema import describe_field, describe_value
from django_mcp.forms import Naming, find_texts, or_name, read_texts
from django_mcp.forms.values import (
    MAX_INTEGER,
    MAX_TEXT_CHARS,
    check_plain,
    takes_pattern,
    to_python,
    value_field,
)
from django_mcp.protocol.json import JSONObject, to_pointer
from django_mcp.registry.problems import Problem

MAX_VALUES = 100
"""Values of a filter with `__in`."""

MAX_TERMS = 10
"""Words of a search."""

_YEARS = {"year", "iso_year"}

_YEAR: Any = IntegerField(validators=[MinValueValidator(2), MaxValueValidator(9998)])
"""A year whose first and last moment a date can have in Python, in every time zone."""

_ORDERED = {"gt", "gte", "lt", "lte", "range"}

_KEYS = {"has_key", "has_keys", "has_any_keys"}
"""Lookups of JSON that take keys."""

_PARTS = {"contains", "contained_by", "overlap"}
"""Lookups that compare JSON or an array with another one."""

_SCALAR: JSONObject = {"type": ["string", "number", "boolean"], "maxLength": MAX_TEXT_CHARS}

_TEXT_LOOKUPS = {
    "contains", "endswith", "icontains", "iendswith", "iexact", "istartswith", "search", "startswith",
    "trigram_similar",
}  # fmt: skip


FindFilterNaming = Callable[[str, Sequence[Any], type[Model]], tuple[Naming | None, bool]]
"""Takes the name of a filter, the relations that lead to its objects, and their model. Returns how the user names them,
if at all, and whether the user sees only those to which rows lead."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Filter:
    """A filter that callers may use.

    Attributes:
        name: of the argument, and the lookup it stands for: `placed_at__gte`.
        path: its fields.
        schema: of its values.
        convert: turns a value into that of the lookup, or raises `ValidationError`.
        key: for a filter by objects, the field whose values are their keys; else None.
    """

    name: str
    path: Path
    schema: JSONObject
    convert: Callable[[Any], Any]
    key: Any = None

    def describe(self, names: RelationNames) -> JSONObject:
        """Return the schema of its values, with what is said of the objects that it takes."""
        if self.key is None:
            return self.schema
        told = names.tell(self.name, self.path.fields, self.path.field.related_model)
        if told is None:
            return self.schema
        is_many = self.path.rest == ("in",)
        key: JSONObject = self.schema["items"] if is_many else self.schema
        # Its title and description are those of the argument.
        key = {keyword: key[keyword] for keyword in ("type", "anyOf") if keyword in key}
        text = told.copy(before=self.schema.get("description", ""), is_many=is_many, key=key)
        schema = {**self.schema, "description": text}
        if not told.takes_names:
            return schema
        if is_many:
            return {**schema, "items": or_name(schema["items"])}
        texts: JSONObject = {
            each: schema[each] for each in ("title", "description") if each in schema
        }
        return {**or_name(schema), **texts}


def read_filter(model: type[Model], name: str) -> Filter:
    """Return the filter of a name.

    Raises:
        PathError: it is no lookup of the model, or one that callers must not use.
    """
    path = read_path(model, name)
    compared, lookup = _read_lookup(path)
    if takes_pattern(lookup):
        raise PathError(f"{name!r} would take regular expressions, which can keep a database busy")
    using = router.db_for_read(model)
    is_json = isinstance(compared, JSONField)
    if is_json and lookup in _PARTS and connections[using].vendor in ("sqlite", "oracle"):
        raise PathError(f"{name!r} is a lookup that its database has not")
    schema = _describe_lookup(path, compared, lookup)
    convert = _converter(compared, lookup, using)
    key = _find_key(path) if lookup in ("exact", "in") else None
    return Filter(name=name, path=path, schema=schema, convert=convert, key=key)


def _find_key(path: Path) -> Any:
    """Return the field whose values are the keys of the objects that a path leads to; None, if it leads to values."""
    field = path.field
    if not field.is_relation or path.rest not in ((), ("exact",), ("in",)):
        return None
    return field.target_field if isinstance(field, ForeignKey) else field.related_model._meta.pk


def _read_lookup(path: Path) -> tuple[Any, str]:
    """Return the field that is compared in the end, and the lookup."""
    compared, rest = value_field(path.field), list(path.rest)
    if rest and path.field.is_relation and rest[0] not in ("exact", "in", "isnull"):
        near = name_near(rest[0], [*field_names(path.field.related_model), "in", "isnull"])
        raise PathError(f"{path.lookup!r} has no field or lookup {rest[0]!r}{near}")
    while rest:
        name = rest.pop(0)
        if name in _YEARS and compared.get_transform(name) is not None:
            compared = _YEAR
            continue
        if not rest and compared.get_lookup(name) is not None:
            return compared, name
        transform = compared.get_transform(name)
        if transform is None:
            near = name_near(name, compared.get_lookups())
            raise PathError(f"{path.lookup!r} has no lookup {name!r}{near}")
        # One element of an array has the field of the elements.
        output = getattr(transform, "output_field", getattr(transform, "base_field", None))
        compared = output if isinstance(output, Field) else compared
    return compared, "exact"


def _describe_lookup(path: Path, compared: Any, lookup: str) -> JSONObject:
    head = describe_field(path.field, is_input=False, nullable=False)
    texts: JSONObject = {key: head[key] for key in ("title", "description") if key in head}
    if path.rest and "title" in texts:
        texts["title"] = format_lazy("{} ({})", texts["title"], "__".join(path.rest))
    return {**_describe_values(compared, lookup), **texts}


def _describe_values(compared: Any, lookup: str) -> JSONObject:
    if lookup == "isnull":
        return {"type": "boolean"}
    if lookup in _PARTS and _is_structured(compared):
        return describe_value(compared, is_input=True)
    if lookup in _KEYS:
        key = {"type": "string", "maxLength": MAX_TEXT_CHARS}
        return key if lookup == "has_key" else _several(key, MAX_VALUES)
    if lookup in _TEXT_LOOKUPS:
        return {"type": "string", "maxLength": MAX_TEXT_CHARS}
    single = describe_value(compared, is_input=True)
    if lookup in _ORDERED and isinstance(compared, JSONField):
        single = _SCALAR
    if lookup == "in":
        return _several(single, MAX_VALUES)
    if lookup == "range":
        return _several(single, 2, least=2)
    return single


def _several(items: JSONObject, most: int, least: int = 1) -> JSONObject:
    return {"type": "array", "items": items, "minItems": least, "maxItems": most}


def _is_structured(field: Any) -> bool:
    return isinstance(field, JSONField) or hasattr(field, "base_field")


def _converter(compared: Any, lookup: str, using: str) -> Callable[[Any], Any]:
    is_plain = lookup in {"isnull", *_KEYS, *_TEXT_LOOKUPS} and not (
        lookup in _PARTS and _is_structured(compared)
    )

    def convert(value: Any) -> Any:
        if is_plain:
            check_plain(value)
            return value
        if isinstance(compared, JSONField) and type(value) is int and abs(value) >= MAX_INTEGER:
            raise ValidationError(_("Enter a valid value."))
        return to_python(compared, value, using)

    if lookup in ("in", "range"):
        return lambda values: [convert(part) for part in values]
    return convert


class Filters:
    """The filters and the search of a model.

    Args:
        filters: by name.
        search: the paths that a search looks at, with prefixes as in `ModelAdmin.search_fields`.
    """

    def __init__(self, filters: Mapping[str, Filter], search: Sequence[tuple[Path, str]]) -> None:
        self._filters = filters
        self._search = search

    def describe(self, names: RelationNames) -> JSONObject:
        """Return the properties of the input schema, with what is said of the objects that filters take."""
        told = {name: each.describe(names) for name, each in self._filters.items()}
        return {**self.schemas, **told}

    @property
    def schemas(self) -> JSONObject:
        """The properties of the input schema."""
        properties: JSONObject = {name: each.schema for name, each in self._filters.items()}
        if self._search:
            properties["search"] = {
                "type": "string",
                "maxLength": MAX_TEXT_CHARS,
                "description": f"Words, of which each has to be in one of: "
                f"{', '.join(path.text for path, _lookup in self._search)}.",
            }
        return properties

    def explain(self, text: str, related: Related, *, is_empty: bool) -> str:
        """Return where the search for a text has looked, as `explain_search` does; "" without a text."""
        if not text:
            return ""
        return explain_search(
            [path.text for path, _lookup in self._search],
            [path.text for path, _lookup in self._search if related.hides_all(path)],
            is_empty=is_empty,
        )

    def apply(
        self,
        queryset: QuerySet[Any],
        arguments: Mapping[str, Any],
        related: Related,
        find_naming: FindFilterNaming,
    ) -> QuerySet[Any]:
        """Return the rows that the arguments ask for.

        Args:
            queryset: the rows that the user may see.
            arguments: of the search.
            related: what the user sees of related rows.
            find_naming: says by what name the user may find by an object.

        Raises:
            ArgumentErrors: values are not valid.
        """
        condition, is_to_many = Q(), False
        problems: list[Problem] = []
        for name, each in self._filters.items():
            if name not in arguments:
                continue
            is_to_many = is_to_many or each.path.is_to_many
            value = arguments[name]
            try:
                if each.key is not None and find_texts(value):
                    value = _read_names(each, value, queryset, related, find_naming)
                value = each.convert(value)
            except ValidationError as error:
                problems.append(Problem(to_pointer([name]), " ".join(error.messages)))
                continue
            finds_null = each.path.rest[-1:] == ("isnull",) and value
            condition &= related.limit(
                each.path, Q((name, value)), queryset, finds_null=bool(finds_null)
            )
        if problems:
            raise ArgumentErrors(problems)
        if arguments.get("search"):
            condition &= self._find_terms(arguments["search"], queryset, related)
            is_to_many = is_to_many or any(path.is_to_many for path, _lookup in self._search)
        if not condition:
            return queryset
        if not is_to_many:
            return queryset.filter(condition)
        # A join would return a row once for each of its related rows.
        matching = queryset.model._base_manager.using(queryset.db).filter(condition)
        return queryset.filter(pk__in=matching.values("pk"))

    def _find_terms(self, text: str, queryset: QuerySet[Any], related: Related) -> Q:
        terms = [_unquote(term) for term in smart_split(text)]
        if "\0" in text:
            raise ArgumentErrors([Problem("/search", _("Null characters are not allowed."))])
        if len(terms) > MAX_TERMS:
            raise ArgumentErrors([Problem("/search", f"has more than {MAX_TERMS} words")])
        condition = Q()
        for term in terms:
            found = Q()
            for path, lookup in self._search:
                found |= related.limit(path, Q((lookup, term)), queryset, finds_null=False)
            condition &= found
        return condition


def _read_names(
    each: Filter,
    value: Any,
    queryset: QuerySet[Any],
    related: Related,
    find_naming: FindFilterNaming,
) -> Any:
    """Return the value of a filter with keys in the place of names."""
    path, key = each.path, each.key
    model = path.field.related_model
    naming, is_shown_by_path = find_naming(each.name, path.fields, model)
    if naming is None:
        return value
    rows = model._default_manager.using(queryset.db)
    if is_shown_by_path:

        def reach(narrow: Callable[[QuerySet[Any]], QuerySet[Any]], objects: QuerySet[Any]) -> Any:
            # The user sees only those to which the rows lead. Both conditions are about the objects, so that no
            # database collects all rows.
            sought = objects.order_by().values(key.name)
            shown = queryset.order_by().filter(pk=OuterRef("pk"))
            seen = queryset.model._base_manager.using(queryset.db).filter(
                *related.find_conditions(path), Exists(shown), (f"{path.lookup}__in", sought)
            )
            return narrow(objects.filter((f"{key.name}__in", seen.values(path.lookup))))

        naming = replace(
            naming,
            narrow=partial(reach, naming.narrow),
            narrow_keys=partial(reach, naming.narrow_keys),
        )
    return read_texts(value, rows, key, naming)


def _unquote(term: str) -> str:
    is_quoted = len(term) > 1 and term[0] in "\"'" and term[0] == term[-1]
    return unescape_string_literal(term) if is_quoted else term


_PREFIXES = {"^": "istartswith", "=": "iexact", "@": "search"}


def read_search(model: type[Model], text: str) -> tuple[Path, str]:
    """Return the path of a field that is searched, and the lookup.

    Raises:
        PathError: there is no such field, or it holds no text.
    """
    lookup = _PREFIXES.get(text[:1], "icontains")
    path = read_whole_path(model, text[1:] if text[:1] in _PREFIXES else text)
    if path.field.is_relation:
        raise PathError(f"{path.text!r} is a relation: name one of its fields")
    return path, f"{path.lookup}__{lookup}"
