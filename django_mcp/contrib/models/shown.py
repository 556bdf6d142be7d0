"""The fields that tools show: how they are loaded, read from an instance and described."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter
from types import MappingProxyType
from typing import Any

from django.db.models import (
    Field,
    ForeignObjectRel,
    Model,
    Prefetch,
    QuerySet,
    prefetch_related_objects,
)

from django_mcp.contrib.generated import MAX_KEYS, MAX_RELATED, TRUNCATED, TRUNCATED_SCHEMA
from django_mcp.contrib.models.computed import Read, describe_return, read_computed
from django_mcp.contrib.models.paths import (
    Path,
    PathError,
    can_prefetch,
    is_to_many,
    read_path,
    takes_queryset,
)
from django_mcp.contrib.models.schema import describe_field, read_value, write_plain
from django_mcp.forms.values import may_be_rounded
from django_mcp.protocol.json import JSONObject
from django_mcp.registry.object_schemas import object_schema, or_null

Narrow = Callable[[QuerySet[Any]], QuerySet[Any]]
"""Returns some of the rows of a queryset."""


_NO_FUNCTIONS: Mapping[str, Read] = MappingProxyType({})


@dataclass(kw_only=True)
class Shown:
    """The fields of one model that are shown, and those of related models below them.

    Attributes:
        columns: the fields with a column, relations with a foreign key among them.
        computed: what is computed from an instance, with its schema.
        related: the shown fields of related models, by the relation's name.
        relations: the relations, by name.
        is_bare: whether rows are shown as their primary keys.
        is_below: whether these are the fields of a related model.
        hides: whether related rows, and fields of them, may be hidden from a user; see `Related`.
        functions: the names among `computed` of what is no attribute of the model.
    """

    model: type[Model]
    columns: dict[str, Any] = field(default_factory=dict)
    computed: dict[str, tuple[Read, JSONObject]] = field(default_factory=dict)
    related: dict[str, Shown] = field(default_factory=dict)
    relations: dict[str, Any] = field(default_factory=dict)
    is_bare: bool = False
    is_below: bool = False
    hides: bool = True
    functions: set[str] = field(default_factory=set)
    names: list[str] = field(default_factory=list)

    def add(self, text: str, functions: Mapping[str, Read] = _NO_FUNCTIONS) -> None:
        """Add the field of a path.

        Args:
            text: such as `number`, `customer__username` or `lines__product__sku`.
            functions: of an instance, by name; they come before the model's fields.

        Raises:
            PathError: there is no such field, or it cannot be shown.
        """
        name, _, below = text.partition("__")
        if text in functions:
            function = functions[text]
            self._put(text, self.computed, (function, describe_return(function, text)))
            self.functions.add(text)
            return
        try:
            model_field = read_path(self.model, name).field
        except PathError:
            if below or not hasattr(self.model, name):
                raise
            self._put(name, self.computed, read_computed(self.model, name))
            return
        self._add_field(model_field, name, below, text)

    def _add_field(self, found: Any, name: str, below: str, text: str) -> None:
        if not found.is_relation and below:
            raise PathError(f"{name!r} of {text!r} is no relation")
        if not found.is_relation and found.get_internal_type() == "BinaryField":
            raise PathError(f"{text!r} holds bytes, which have no form in JSON")
        if isinstance(found, Field) and not found.many_to_many and not below:
            self._put(name, self.columns, found)
            return
        if name in self.columns:
            raise PathError(f"{name!r} is named itself and with a field below it")
        if name not in self.related:
            other = Shown(
                model=found.related_model, is_bare=not below, is_below=True, hides=self.hides
            )
            self._put(name, self.related, other)
            self.relations[name] = found
        if self.related[name].is_bare == bool(below):
            raise PathError(f"{name!r} is named itself and with a field below it")
        if below:
            self.related[name].add(below)

    def count_related(self) -> int:
        """Return how many rows of related models may be shown of one object."""
        total = 0
        for name, below in self.related.items():
            most = below.most if is_to_many(self.relations[name]) else 1
            total += most * (1 + below.count_related())
        return total

    def select(self, names: Collection[str]) -> Shown:
        """Return what shows only some of the fields."""

        def keep(those: Mapping[str, Any]) -> dict[str, Any]:
            return {name: each for name, each in those.items() if name in names}

        return replace(
            self,
            columns=keep(self.columns),
            computed=keep(self.computed),
            related=keep(self.related),
            relations=keep(self.relations),
            functions=self.functions.intersection(names),
            names=[name for name in self.names if name in names],
        )

    def _put(self, name: str, place: dict[str, Any], value: Any) -> None:
        if name in self.names:
            raise PathError(f"{name!r} is named twice, or itself and with a field below it")
        self.names.append(name)
        place[name] = value

    # -- loading

    def load(
        self,
        queryset: QuerySet[Any],
        extra: Sequence[str] = (),
        select: Sequence[str] = (),
        prefetch: Sequence[Any] = (),
        *,
        is_whole: bool = False,
        is_single: bool = False,
        narrow: Narrow = lambda rows: rows,
    ) -> QuerySet[Any]:
        """Return a queryset that loads all that is shown: one query, and one for each to-many relation.

        Args:
            queryset: of the model.
            extra: further columns to load.
            select: further relations to join.
            prefetch: further relations to prefetch.
            is_whole: load all columns, since a computed field may read any of them.
            is_single: one instance is loaded, for which `load_lists` is called then.
            narrow: returns those of some related rows that are shown. It is asked only about lists that are
                cut after it, since a computed field may need all rows of the others.
        """
        only, joined, fetched = self._plan
        if joined or select:
            queryset = queryset.select_related(*joined, *select)
        if not (is_whole or select or prefetch):
            queryset = queryset.only(*only, *extra)
        lookups = [
            relation.to_prefetch(narrow)
            for relation in fetched
            if not (is_single and relation.is_cut)
        ]
        lookups += prefetch
        return queryset.prefetch_related(*lookups) if lookups else queryset

    def load_lists(self, instance: Any, narrow: Narrow) -> None:
        """Load the lists of one instance that are cut.

        A prefetch would find the first rows of each instance with a window function, which takes as long as
        all the rest; for one of them a limit does.
        """
        for relation in self._plan[2]:
            if relation.is_cut:
                relation.load_for(instance, narrow)

    @cached_property
    def _plan(self) -> tuple[list[str], list[str], list[_Fetched]]:
        only, joined, fetched = [self.model._meta.pk.name], [], []
        is_whole = bool(self.computed)
        if is_whole:
            # A property may read any column, and those of the relations that are loaded.
            only += _columns_of(self.model)
        only += self.columns
        for name, shown in self.related.items():
            relation = self.relations[name]
            accessor = _accessor(relation)
            if is_to_many(relation) and not can_prefetch(self.model, relation):
                continue
            if is_to_many(relation):
                # A property may add up all rows, and the rows of a generic relation come uncut.
                is_cut = not is_whole and not hasattr(relation, "object_id_field_name")
                is_own = not takes_queryset(self.model, relation)
                back = [] if is_own else _back_columns(relation)
                fetched.append(_Fetched(accessor, shown, back, is_whole, is_cut, is_own))
                continue
            below, joined_below, fetched_below = shown._plan
            if is_whole:
                below = [*below, *_columns_of(shown.model)]
            # Without the column of the key, a row cannot be matched with the other one.
            only += [name] if isinstance(relation, Field) else []
            only += [f"{name}__{name_below}" for name_below in below]
            only += (
                []
                if isinstance(relation, Field)
                else [f"{name}__{column}" for column in _back_columns(relation)]
            )
            joined += [name, *(f"{name}__{name_below}" for name_below in joined_below)]
            fetched += [
                replace(prefetched, path=f"{accessor}__{prefetched.path}")
                for prefetched in fetched_below
            ]
        return list(dict.fromkeys(only)), joined, fetched

    # -- reading

    @cached_property
    def read(self) -> Read:
        """Reads the shown fields from an instance, as a dict in the order they are named."""
        if self.is_bare:
            key = self.model._meta.pk
            return read_value(key) if may_be_rounded(key) else attrgetter("pk")
        readers = self.readers.items()
        many = [
            (name, _rows_of(self.relations[name]), self.related[name].most) for name in self._many
        ]
        if not many:
            return lambda instance: {name: read(instance) for name, read in readers}

        def read_all(instance: Any) -> JSONObject:
            contents = {name: read(instance) for name, read in readers}
            cut = [name for name, rows, most in many if len(rows(instance)) > most]
            if cut:
                contents[self.truncated] = cut
            return contents

        return read_all

    @cached_property
    def readers(self) -> dict[str, Read]:
        """What reads each of the shown fields from an instance, whatever a user may see."""
        return {name: self._reader(name) for name in self.names}

    def rows_of(self, name: str, instance: Any) -> Sequence[Any]:
        """Return the loaded rows that a relation leads to."""
        relation = self.relations[name]
        if is_to_many(relation):
            rows: Sequence[Any] = _rows_of(relation)(instance)
            return rows
        other = getattr(instance, _accessor(relation), None)
        return [] if other is None else [other]

    @property
    def most(self) -> int:
        """How many rows are shown where this is behind a to-many relation."""
        return MAX_KEYS if self.is_bare else MAX_RELATED

    @property
    def truncated(self) -> str:
        """The name of what names the relations that are not shown in full."""
        return TRUNCATED if TRUNCATED not in self.names else f"{TRUNCATED}_relations"

    @property
    def _many(self) -> list[str]:
        return [name for name, relation in self.relations.items() if is_to_many(relation)]

    def _reader(self, name: str) -> Read:
        if name in self.columns:
            return read_value(self.columns[name])
        if name in self.computed:
            compute = self.computed[name][0]
            return lambda instance: write_plain(compute(instance))
        read, accessor = self.related[name].read, _accessor(self.relations[name])
        if is_to_many(self.relations[name]):
            most = self.related[name].most
            rows = _rows_of(self.relations[name])
            return lambda instance: [read(row) for row in rows(instance)[:most]]

        def read_one(instance: Any) -> Any:
            other = getattr(instance, accessor, None)
            return None if other is None else read(other)

        return read_one

    # -- describing

    @cached_property
    def schema(self) -> JSONObject:
        """The schema of what `read` returns."""
        if self.is_bare:
            return describe_field(self.model._meta.pk, is_input=False)
        properties = {name: self._describe(name) for name in self.names}
        if self._many:
            properties[self.truncated] = TRUNCATED_SCHEMA
        # Of a related row, a user may see fewer fields.
        return object_schema(
            properties, required=() if self.is_below and self.hides else self.names
        )

    def _describe(self, name: str) -> JSONObject:
        if name in self.columns:
            column = self.columns[name]
            may_hide = self.hides and column.is_relation and not column.primary_key
            return describe_field(column, is_input=False, nullable=column.null or may_hide)
        if name in self.computed:
            return self.computed[name][1]
        relation, schema = self.relations[name], self.related[name].schema
        if is_to_many(relation):
            return {"type": "array", "items": schema}
        is_always = isinstance(relation, Field) and not relation.null and not self.hides
        return schema if is_always else or_null(schema)

    # -- comparing

    @cached_property
    def related_models(self) -> frozenset[type[Model]]:
        """The models that relations lead to."""
        keys = (column.related_model for column in self.columns.values() if column.is_relation)
        below = (shown.related_models | {shown.model} for shown in self.related.values())
        return frozenset(keys).union(*below)

    @cached_property
    def _column_names(self) -> frozenset[str]:
        return frozenset(column.name for column in self.columns.values())

    def shows(self, other: Shown, name: str) -> bool:
        """Return whether this shows a field that another one shows of the same model, too."""
        if name in other.computed:
            return name in self.computed and not {name} & (self.functions | other.functions)
        field = other.columns[name] if name in other.columns else other.relations[name]
        return self.shows_path([field])

    def shows_path(self, fields: Sequence[Any]) -> bool:
        """Return whether this shows what fields lead to, one after the other; relations in any form."""
        if not fields:
            return True
        first, *rest = fields
        below = self.below(first.name)
        if rest:
            return below is not None and below.shows_path(rest)
        is_key = bool(getattr(first, "primary_key", False))
        return is_key or below is not None or first.name in self._column_names

    def below(self, name: str) -> Shown | None:
        """Return what this shows of the rows of a relation, by its own name; None: nothing."""
        for each, relation in self.relations.items():
            if relation.name == name:
                return self.related[each]
        column = next((column for column in self.columns.values() if column.name == name), None)
        if column is None or not column.is_relation:
            return None
        return Shown(model=column.related_model, is_bare=True, is_below=True)


@dataclass(frozen=True, slots=True)
class _Fetched:
    """A to-many relation that is prefetched, by its path of attributes."""

    path: str
    shown: Shown
    back: Sequence[str]
    is_whole: bool
    is_cut: bool
    is_own: bool
    """Whether the manager of another package loads the rows."""

    def to_prefetch(self, narrow: Narrow) -> Prefetch[Any] | str:
        """Return what loads the rows of several instances."""
        if self.is_own:
            return self.path
        rows, is_cut = self._find(narrow)
        if is_cut:
            return Prefetch(self.path, rows[: self.shown.most + 1], to_attr=self._attribute)
        return Prefetch(self.path, rows)

    def load_for(self, instance: Any, narrow: Narrow) -> None:
        """Load the rows of one instance."""
        *steps, name = self.path.split("__")
        for step in steps:
            instance = getattr(instance, step, None)
            if instance is None:
                return
        if self.is_own:
            prefetch_related_objects([instance], name)
            return
        rows, is_cut = self._find(narrow)
        if is_cut:
            # Not `.all()`, whose rows are those of a new manager of the class of the default one.
            rows = getattr(instance, name)._apply_rel_filters(rows)
            setattr(instance, self._attribute, list(rows[: self.shown.most + 1]))
        else:
            prefetch_related_objects([instance], Prefetch(name, rows))

    @property
    def _attribute(self) -> str:
        return f"{_CUT}{self.path.rpartition('__')[2]}"

    def _find(self, narrow: Narrow) -> tuple[QuerySet[Any], bool]:
        """Return the rows, in order, and whether they are to be cut; one more tells that there are more.

        Only an attribute of its own can have rows that are cut.
        """
        # The default manager, as related managers have it: it may leave out deleted rows.
        rows = self.shown.model._default_manager.all()
        rows = self.shown.load(rows, self.back, is_whole=self.is_whole, narrow=narrow)
        query: Any = rows.query
        is_cut = self.is_cut and not (query.distinct or query.group_by or query.combinator)
        if is_cut:
            rows = narrow(rows)
        return (rows if rows.ordered else rows.order_by("pk")), is_cut


def find_columns(shown: Shown) -> Iterator[Path]:
    """Yield the paths of the columns that are shown, also those of single related objects."""
    for name, column in shown.columns.items():
        yield Path(text=name, fields=(column,))
    for name, below in shown.related.items():
        relation = shown.relations[name]
        if isinstance(relation, Field) and not is_to_many(relation) and not below.is_bare:
            for path in find_columns(below):
                yield Path(text=f"{name}__{path.text}", fields=(relation, *path.fields))


_CUT = "mcp_rows_of_"
"""In front of the name of the attribute that has the rows of a relation that were cut."""


def _rows_of(relation: Any) -> Callable[[Any], Any]:
    """Return what reads the rows of a to-many relation that were loaded with an instance."""
    accessor = _accessor(relation)
    attribute = f"{_CUT}{accessor}"

    def read_rows(instance: Any) -> Any:
        prefetched = vars(instance).get(attribute)
        return getattr(instance, accessor).all() if prefetched is None else prefetched

    return read_rows


def _columns_of(model: type[Model]) -> list[str]:
    return [model_field.name for model_field in model._meta.concrete_fields]


def _accessor(relation: Any) -> str:
    """Return the name of the attribute of a relation, which is not its name in lookups if it is reverse."""
    is_reverse = isinstance(relation, ForeignObjectRel)
    return str(relation.get_accessor_name() if is_reverse else relation.name)


def _back_columns(relation: Any) -> list[str]:
    """Return the columns of the related model that lead back, without which nothing is matched."""
    if hasattr(relation, "object_id_field_name"):  # a GenericRelation
        return [relation.object_id_field_name, relation.content_type_field_name]
    if relation.many_to_many:
        return []
    return [relation.remote_field.name]
