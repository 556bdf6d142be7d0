"""What a user sees of the rows that relations lead to: what the classes of their models show."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

from django.db.models import Model, Q, QuerySet

from django_mcp.contrib.models.paths import Path, is_to_many
from django_mcp.contrib.models.shown import Shown
from django_mcp.protocol.json import JSONObject


class Judge(Protocol):
    """A `ModelTools` class, as what decides about the rows of its model."""

    model: type[Model]

    @property
    def shown(self) -> Shown:
        """The fields that it shows."""

    @property
    def is_for_all(self) -> bool:
        """Whether all users who may use it see all rows."""

    def shows_rows_to(self, user: Any) -> bool:
        """Return whether a user may see any rows at all."""

    def find_rows(self, user: Any, action: str) -> QuerySet[Any]:
        """Return the objects that a user may use for an action."""


FindJudges = Callable[[type[Model]], Sequence[Judge]]
"""Returns the classes that decide about the rows of a model; without one, nothing is hidden."""

Seen = dict[tuple[type[Model], str], list[tuple[Shown, set[Any] | None]]]
"""What classes show, and of which rows, by model and by the field whose values tell rows apart; None: all."""

_KEY = "pk"


class Related:
    """What one user sees of related rows, during one call.

    A row is shown if a class of its model shows it to the user, and a field of it if a class shows both.
    Its primary key is shown with it. A model without a class shows what it is asked for.

    Args:
        user: the user.
        find_judges: the classes of a model.
        key: the name of the field that tells the objects of the caller's class apart, which is always shown.
    """

    def __init__(self, user: Any, find_judges: FindJudges, key: str) -> None:
        self._user = user
        self._find_judges = find_judges
        self._key = key
        self._open: dict[type[Model], list[Judge] | None] = {}

    def _judges_of(self, model: type[Model]) -> list[Judge] | None:
        """Return the classes that show the user rows of a model; None, if the model has no class."""
        if model not in self._open:
            judges = self._find_judges(model)
            # A class that is registered twice decides once.
            opened = {type(judge): judge for judge in judges if judge.shows_rows_to(self._user)}
            self._open[model] = list(opened.values()) if judges else None
        return self._open[model]

    def _rows_of(self, judge: Judge, model: type[Model], prefix: str = "") -> Q:
        """Return the condition for the rows that a class shows, which may be one of a parent model.

        Args:
            judge: the class.
            model: of the rows.
            prefix: leads to the rows: `team__`.
        """
        steps = []
        if judge.model._meta.concrete_model is not model._meta.concrete_model:
            parent: Any = judge.model._meta.concrete_model
            steps = [
                parent_link.join_field.name
                for parent_link in model._meta.get_path_to_parent(parent)
            ]
        rows = judge.find_rows(self._user, "get").order_by().using(None).values("pk")
        return Q((f"{prefix}{'__'.join([*steps, _KEY])}__in", rows))

    def _is_own_key(self, field: Any) -> bool:
        return bool(getattr(field, "primary_key", False)) or field.name == self._key

    # -- queries

    def narrow(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Return those of some related rows that the user sees."""
        judges = self._judges_of(rows.model)
        if judges is None or any(judge.is_for_all for judge in judges):
            return rows
        return rows.filter(self._any_of(judges, rows.model))

    def narrow_by_field(self, rows: QuerySet[Any], field: Any) -> QuerySet[Any]:
        """Return those of some related rows of which the user sees a field."""
        judges = self._judges_of(rows.model)
        if judges is None:
            return rows
        showing = [judge for judge in judges if judge.shown.shows_path([field])]
        if any(judge.is_for_all for judge in showing):
            return rows
        return rows.filter(self._any_of(showing, rows.model))

    def _any_of(self, judges: Iterable[Judge], model: type[Model], prefix: str = "") -> Q:
        condition = Q(pk__in=[])
        for judge in judges:
            condition |= self._rows_of(judge, model, prefix)
        return condition

    def find_conditions(self, path: Path) -> list[Q]:
        """Return the conditions under which the user sees where a path leads; without one, always."""
        conditions: list[Q] = []
        for position, showing in self._find_showing(path):
            if not any(judge.is_for_all for judge in showing):
                passed = path.fields[:position]
                prefix = "".join(f"{path_field.name}__" for path_field in passed)
                conditions.append(self._any_of(showing, passed[-1].related_model, prefix))
        return conditions

    def hides_all(self, path: Path) -> bool:
        """Return whether the user sees nothing where a path leads, whatever the row."""
        return not all(showing for _position, showing in self._find_showing(path))

    def _find_showing(self, path: Path) -> Iterator[tuple[int, list[Judge]]]:
        """Yield the length of each part of a path that classes decide about, and those that show what is behind."""
        fields = path.fields
        if len(fields) == 1 and self._is_own_key(fields[0]):
            return
        for position, field in enumerate(fields, 1):
            judges = self._judges_of(field.related_model) if field.is_relation else None
            if judges is not None:
                behind = list(self._until_judged(fields[position:]))
                yield position, [judge for judge in judges if judge.shown.shows_path(behind)]

    def _until_judged(self, fields: Sequence[Any]) -> Iterator[Any]:
        """Yield the fields up to one that leads to rows that other classes decide about."""
        for field in fields:
            yield field
            if field.is_relation and self._judges_of(field.related_model) is not None:
                return

    def limit(self, path: Path, condition: Q, rows: QuerySet[Any], *, finds_null: bool) -> Q:
        """Return a condition by which hidden rows are as if they were not there.

        Args:
            path: that the condition is about.
            condition: on it.
            rows: that are filtered.
            finds_null: whether it holds where there is no value.
        """
        seen = self.find_conditions(path)
        if not seen:
            return condition
        visible = Q(*seen)
        if not finds_null:
            return condition & visible
        shown = rows.model._base_manager.using(rows.db).filter(visible)
        return (condition & visible) | ~Q(pk__in=shown.using(None).values("pk"))

    # -- reading

    def read(self, shown: Shown, objects: Sequence[Any]) -> list[JSONObject]:
        """Return objects as JSON has them: one query more for each class that decides about related rows."""
        if all(self._judges_of(model) is None for model in shown.related_models):
            return [shown.read(instance) for instance in objects]
        wanted: dict[tuple[type[Model], str], set[Any]] = defaultdict(set)
        self._collect(shown, objects, wanted)
        using = objects[0]._state.db if objects else None
        seen: Seen = {
            (model, name): [
                (judge.shown, self._see(judge, model, name, values, using))
                for judge in self._judges_of(model) or ()
            ]
            for (model, name), values in wanted.items()
        }
        return [self._read(shown, instance, None, seen) for instance in objects]

    def _collect(
        self, shown: Shown, objects: Sequence[Any], wanted: dict[tuple[type[Model], str], set[Any]]
    ) -> None:
        """Collect the keys of all related rows that classes decide about."""
        for field in shown.columns.values():
            if self._is_judged_column(shown, field):
                values = {getattr(instance, field.attname) for instance in objects} - {None}
                wanted[field.related_model, _target_of(field)] |= values
        for name, below in shown.related.items():
            others = [other for instance in objects for other in shown.rows_of(name, instance)]
            if self._judges_of(below.model) is not None:
                wanted[below.model, _KEY] |= {other.pk for other in others}
            self._collect(below, others, wanted)

    def _is_judged_column(self, shown: Shown, field: Any) -> bool:
        is_own = field.primary_key or (field.name == self._key and not shown.is_below)
        return field.is_relation and not is_own and self._judges_of(field.related_model) is not None

    def _see(
        self, judge: Judge, model: type[Model], name: str, values: set[Any], using: str | None
    ) -> set[Any] | None:
        if judge.is_for_all:
            return None
        if not values:
            return set()
        rows = model._base_manager.using(using).filter((f"{name}__in", list(values)))
        return set(rows.filter(self._rows_of(judge, model)).order_by().values_list(name, flat=True))

    def _read(self, shown: Shown, instance: Any, by: Sequence[Shown] | None, seen: Seen) -> Any:
        """Return what is shown of an instance.

        Args:
            shown: what was asked for.
            instance: the instance.
            by: what classes show of it; None: everything.
            seen: which related rows the user sees.
        """
        if shown.is_bare:
            return shown.read(instance)
        contents: JSONObject = {}
        cut: list[str] = []
        for name in shown.names:
            showing = None
            if by is not None:
                showing = [judge for judge in by if judge.shows(shown, name)]
                if not showing:
                    continue
            if name in shown.related:
                contents[name] = self._read_relation(shown, name, instance, showing, seen, cut)
                continue
            contents[name] = shown.readers[name](instance)
            field = shown.columns.get(name)
            if field is not None and self._is_judged_column(shown, field):
                value, rows = getattr(instance, field.attname), _target_of(field)
                if not _find_showing(seen[field.related_model, rows], value):
                    contents[name] = None
        if cut:
            contents[shown.truncated] = cut
        return contents

    def _read_relation(
        self,
        shown: Shown,
        name: str,
        instance: Any,
        by: Sequence[Shown] | None,
        seen: Seen,
        cut: list[str],
    ) -> Any:
        relation, below = shown.relations[name], shown.related[name]
        is_judged = self._judges_of(below.model) is not None
        passed: list[Shown] | None = None
        if by is not None:
            below_each = (judge.below(relation.name) for judge in by)
            passed = [content for content in below_each if content is not None]
        contents: list[Any] = []
        for other in shown.rows_of(name, instance):
            showing: Sequence[Shown] | None = passed
            if is_judged:
                showing = _find_showing(seen[below.model, _KEY], other.pk)
                if not showing:
                    continue
            if is_to_many(relation) and len(contents) == below.most:
                cut.append(name)
                break
            contents.append(self._read(below, other, showing, seen))
        return contents if is_to_many(relation) else (contents[0] if contents else None)


def _target_of(field: Any) -> str:
    """Return the field of the related model that a foreign key has the value of."""
    target = field.target_field
    return _KEY if target.primary_key else str(target.attname)


def _find_showing(rows: list[tuple[Shown, set[Any] | None]], key: Any) -> list[Shown]:
    """Return what classes show of the row with a key."""
    return [shown for shown, keys in rows if keys is None or key in keys]
