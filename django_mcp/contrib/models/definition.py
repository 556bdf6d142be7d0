"""The options of a `ModelTools` class, read once, with everything that is wrong with them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from django.db.models import Model
from django.utils.translation import override

from django_mcp.contrib.generated import MAX_ROWS
from django_mcp.contrib.models.filters import Filter, Filters, read_filter, read_search
from django_mcp.contrib.models.paging import Key, complete, may_be_long, read_key
from django_mcp.contrib.models.paths import (
    PathError,
    find_unknown_fields,
    has_secret_values,
    read_path,
)
from django_mcp.contrib.models.shown import Shown
from django_mcp.contrib.models.write_arguments import WriteProblem, Written, read_written
from django_mcp.registry.secret_names import find_sensitive

OWN_ARGUMENTS = ("search", "ordering", "limit", "cursor", "count")
"""Arguments of every search, whose names no filter can have."""

RELATED = ("visible", "all")
"""Whether related rows follow the classes of their models."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """One thing that is wrong with the options.

    Attributes:
        id: of the system check.
        text: what is wrong.
        hint: what to write instead.
    """

    id: str
    text: str
    hint: str


class ToolsOptions(Protocol):
    """The options that a definition is read from; see `ModelTools`."""

    model: type[Model]
    fields: Sequence[str]
    filters: Sequence[str]
    search: Sequence[str]
    sortable_by: Sequence[str]
    ordering: Sequence[str] | None
    lookup_field: str | None
    allow_sensitive: Sequence[str]
    related: str
    writes: Sequence[str]
    writable: Sequence[str] | None
    form: Any
    version_field: str | None


@dataclass(kw_only=True)
class Definition:
    """What the options come to.

    Attributes:
        model: the model.
        shown: its fields that are shown.
        filters: its filters and its search.
        orders: the orders that callers may choose from, by name, the default one as "".
        plain_order: by a key of the objects alone.
        key: the field that tells objects apart in arguments and URIs.
        singular, plural: the words in names of tools.
        written: what writing tools do; None, if there are none.
        faults: what is wrong with the options.
    """

    model: type[Model]
    shown: Shown
    filters: Filters
    orders: dict[str, tuple[Key, ...]] = field(default_factory=dict)
    plain_order: tuple[Key, ...] = ()
    key: Any = None
    singular: str = ""
    plural: str = ""
    written: Written | None = None
    faults: list[Fault] = field(default_factory=list)

    def missing(self) -> Exception:
        """Return the error for an object that is not there, or not for the user."""
        model: Any = self.model
        error: Exception = model.DoesNotExist()
        return error


def read_definition(
    options: ToolsOptions, functions: Mapping[str, Callable[[Any], Any]]
) -> Definition:
    """Return what options come to.

    Args:
        options: of a model.
        functions: compute fields from an instance, by name.
    """
    return _Reader(options, functions).read()


class _Reader:
    def __init__(
        self, options: ToolsOptions, functions: Mapping[str, Callable[[Any], Any]]
    ) -> None:
        self._options = options
        self._functions = functions
        self._model = options.model
        self._shown = Shown(model=options.model, hides=options.related != "all")
        self._faults: list[Fault] = []

    def read(self) -> Definition:
        options = self._options
        if not options.fields:
            self._add(
                "django_mcp.M003", "fields is empty, so there is nothing to show", "Name fields."
            )
        if options.related not in RELATED:
            self._add(
                "django_mcp.M003",
                f"related is {options.related!r}",
                f"Write one of {', '.join(map(repr, RELATED))}.",
            )
        form_fields = () if options.form is None else options.form.base_fields
        others = {*options.fields, *self._functions, *form_fields}
        for name, advice in find_unknown_fields(options.allow_sensitive, others).items():
            self._add(
                "django_mcp.M003",
                f"allow_sensitive: no model has a field {name!r}.{advice}".removesuffix("."),
                "Correct the name, or leave it out.",
            )
        for name in options.fields:
            with self._faults_of("fields", name):
                self._shown.add(name, self._functions)
                if self._shown.count_related() > MAX_ROWS:
                    raise PathError(
                        f"{name!r} is in so many lists inside of each other that one object may have more "
                        f"than {MAX_ROWS} rows"
                    )
        filters: dict[str, Filter] = {}
        for name in options.filters:
            with self._faults_of("filters", name):
                if name in OWN_ARGUMENTS:
                    raise PathError(f"{name!r} is the name of another argument of a search")
                filters[name] = read_filter(self._model, name)
        search = []
        for name in options.search:
            with self._faults_of("search", name):
                search.append(read_search(self._model, name))
        singular, plural = find_words(self._model)
        key = self._read_key()
        return Definition(
            model=self._model,
            shown=self._shown,
            filters=Filters(filters, search),
            orders=self._read_orders(key),
            plain_order=() if self._faults else self._complete(key, []),
            key=key,
            singular=singular,
            plural=plural,
            written=self._read_written(key),
            faults=self._faults,
        )

    def _read_orders(self, key: Any) -> dict[str, tuple[Key, ...]]:
        orders = {"": self._complete(key, self._default_order(key))}
        for name in self._options.sortable_by:
            with self._faults_of("sortable_by", name):
                self._check_shown(key, name)
                for order in (name, f"-{name}"):
                    orders[order] = self._complete(key, [read_key(self._model, order)])
        return orders

    def _default_order(self, key: Any) -> list[Key]:
        given, keys = self._options.ordering, []
        for name in given or ():
            with self._faults_of("ordering", name):
                self._check_shown(key, name.removeprefix("-"))
                keys.append(read_key(self._model, name))
        if given is None:
            for order in self._model._meta.ordering or ():
                try:
                    self._check_shown(key, str(order).removeprefix("-"))
                    keys.append(read_key(self._model, str(order)))
                except PathError:
                    break
        return keys

    def _check_shown(self, key: Any, name: str) -> None:
        """Check that callers see what rows are ordered by: cursors hold it, and the order tells of it."""
        is_column = name in self._options.fields and name not in self._functions
        if not is_column and name != key.name and not (name == "pk" and self._shows_pk(key)):
            raise PathError(f"{name!r} is not among fields, so its order must not be seen either")

    def _shows_pk(self, key: Any) -> bool:
        return key.primary_key or bool({"pk", self._model._meta.pk.name} & {*self._shown.columns})

    def _complete(self, key: Any, keys: list[Key]) -> tuple[Key, ...]:
        if self._shows_pk(key) or key.null or may_be_long(key):
            return complete(self._model, keys)
        return complete(self._model, keys, key.name)

    def _read_key(self) -> Any:
        key = self._find_key()
        if not key.concrete:
            self._add(
                "django_mcp.M004",
                f"{key.name!r} has several columns, so no argument can tell objects apart by it",
                "Name a field with unique=True in lookup_field.",
            )
        elif not self._shows_pk(key) and (key.null or may_be_long(key)):
            self._add(
                "django_mcp.M004",
                f"{key.name!r} cannot put rows in order, since it may be null or long",
                f"Add {self._model._meta.pk.name!r} to fields.",
            )
        secret = self._find_secret(key.name)
        if secret is not None and key.name not in self._options.fields:
            self._add(
                "django_mcp.M002",
                f"lookup_field is {key.name!r}, which looks like a secret ({secret})",
                "Name another field in lookup_field, or add it to allow_sensitive.",
            )
        return key

    def _find_key(self) -> Any:
        options, meta = self._options, self._model._meta
        if options.lookup_field is not None:
            try:
                path = read_path(self._model, options.lookup_field)
            except PathError as error:
                self._add("django_mcp.M004", f"lookup_field: {error}", "Name a field of the model.")
                return meta.pk
            if len(path.fields) > 1 or path.rest or not path.field.unique:
                self._add(
                    "django_mcp.M004",
                    f"lookup_field {options.lookup_field!r} does not tell objects apart",
                    "Name a field with unique=True. A constraint with a condition is not enough.",
                )
                return meta.pk
            return path.field
        shown = [
            self._shown.columns[name] for name in options.fields if name in self._shown.columns
        ]
        unique = [
            model_field for model_field in shown if model_field.unique and not model_field.null
        ]
        return next((model_field for model_field in unique if model_field.primary_key), None) or (
            unique[0] if unique else meta.pk
        )

    def _read_written(self, key: Any) -> Written | None:
        if not self._options.writes:
            return None
        try:
            written = read_written(self._options, self._shown, key)
        except WriteProblem as problem:
            self._add("django_mcp.M005", str(problem), problem.hint)
            return None
        for name in () if written.form is None else written.form.base_fields:
            with self._faults_of("writable", name):
                pass
        return written

    @contextmanager
    def _faults_of(self, option: str, name: str) -> Iterator[None]:
        secret = self._find_secret(name.lstrip("-^=@"))
        if secret is not None:
            self._add(
                "django_mcp.M002",
                f"{option} names {name!r}, which looks like a secret ({secret})",
                "Leave it out, or add it to allow_sensitive.",
            )
        try:
            yield
        except PathError as error:
            self._add("django_mcp.M003", f"{option}: {error}", "Correct the name, or leave it out.")

    def _find_secret(self, name: str) -> str | None:
        """Return why a path looks like one to a secret, such as a relation to a token; None, if it does not."""
        allowed = self._options.allow_sensitive
        sensitive = find_sensitive(name, allowed)
        if sensitive is not None or name in allowed or name in self._functions:
            return sensitive
        try:
            field = read_path(self._model, name).field
        except PathError:
            return None
        return "it has the values of one" if has_secret_values(field, allowed) else None

    def _add(self, check: str, text: str, hint: str) -> None:
        self._faults.append(Fault(id=check, text=text, hint=hint))


def find_words(model: type[Model]) -> tuple[str, str]:
    """Return the words for one object and for several in names, such as `order_line` and `order_lines`."""
    meta = model._meta
    with override(None):
        words = str(meta.verbose_name), str(meta.verbose_name_plural)
        singular, plural = (
            re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_").lower() for text in words
        )
    # Without their other letters, words in most languages are none.
    is_ascii = all(map(str.isascii, words))
    if not is_ascii or not (singular and plural) or singular == plural:
        name = str(meta.model_name)
        return name, f"{name}s"
    return singular, plural
