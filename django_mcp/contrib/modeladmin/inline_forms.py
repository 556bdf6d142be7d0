"""The rows of inlines among the arguments of a call, as formsets of the admin's page."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.core.exceptions import NON_FIELD_ERRORS, ValidationError
from django.db.models import Field, ForeignKey, Model, QuerySet
from django.forms.formsets import DELETION_FIELD_NAME, ORDERING_FIELD_NAME
from django.forms.models import BaseModelFormSet
from django.utils.datastructures import MultiValueDict
from django.utils.translation import gettext as _

from django_mcp import ArgumentErrors
from django_mcp.contrib.modeladmin.access import AdminAccess
from django_mcp.contrib.modeladmin.inlines import (
    DELETE_ROW,
    AdminInline,
    AdminInlines,
    place_all,
    without_data,
)
from django_mcp.contrib.modeladmin.names import AdminNames
from django_mcp.forms import Naming, check_new, end_filling, fill_form
from django_mcp.forms.values import to_python
from django_mcp.protocol.json import JSONObject, to_pointer
from django_mcp.registry.problems import Problem

Rows = Mapping[str, list[JSONObject]]
"""The rows among the arguments, by the name of their inline."""


@dataclass(kw_only=True)
class BoundRows:
    """The formset of one inline, with the rows of the arguments and those that stay.

    Attributes:
        formset: as the admin has it.
        name: of the rows among the arguments; None, if they are not among them.
        positions: of the rows among the arguments, by their place in the formset.
    """

    formset: Any
    inline: Any
    key: str
    name: str | None
    positions: dict[int, int] = field(default_factory=dict)
    deleted: set[int] = field(default_factory=set)

    def point_to(self, index: int | None, name: str | None = None) -> str:
        """Return where among the arguments a row is, or one of its fields."""
        path: list[str | int] = [] if self.name is None else [self.name]
        position = None if index is None else self.positions.get(index)
        if position is not None:
            path += [position] if name is None else [position, name]
        return to_pointer(path)

    def wrong_count(self, told: str, count: int) -> ArgumentErrors:
        """Return the error about the number of rows."""
        what = "" if self.name else f"{self.inline.verbose_name_plural}: "
        return ArgumentErrors([Problem(self.point_to(None), what + told % {"count": count})])

    def changed_forms(self) -> Iterator[tuple[Any, Collection[str] | None]]:
        """Yield the forms that change something, with the names of what they change; None: a whole row."""
        first_new = self.formset.initial_form_count()
        for index, form in enumerate(self.formset.forms):
            if index in self.deleted:
                yield form, None
            elif form.has_changed():
                yield form, None if index >= first_new else form.changed_data


class InlineForms:
    """Makes the formsets of one call.

    Args:
        access: decides about the object that has the rows.
        inlines: those known at start-up.
        names: how users name related objects.
        request: of the user, to the page of the admin.
        options: for `fill_form`: who may choose which objects.
        is_change: whether the object exists already.
    """

    def __init__(
        self,
        access: AdminAccess,
        inlines: AdminInlines,
        names: AdminNames,
        request: Any,
        options: Mapping[str, Any],
        *,
        is_change: bool,
    ) -> None:
        self._admin: Any = access.model_admin
        self._inlines = inlines
        self._names = names
        self._request = request
        self._options = options
        self._is_change = is_change

    def bind(self, instance: Any, sent: Rows) -> list[BoundRows]:
        """Return the formsets of an object: those that rows were sent for, and those with rules of their own.

        For a new object, these are all of them.

        Raises:
            ArgumentErrors: a row or a value is not valid, or the user may not.
        """
        if self._is_change and not (self._inlines or sent):
            return []
        obj = instance if self._is_change else None
        # As Django calls it, since methods of the site may take no object.
        given = [obj] if self._is_change else []
        formsets = self._admin.get_formsets_with_inlines(self._request, *given)
        prefixes: dict[str, int] = {}
        left, bound, problems = set(sent), [], []
        for place, cls, inline in place_all(formsets):
            prefix = _choose_prefix(cls, prefixes)
            known = self._inlines.find(place)
            rows = None if known is None else sent.get(known.name)
            if known is not None:
                left.discard(known.name)
            if rows is None and self._is_change and not _has_rules(cls):
                continue
            try:
                bound.append(self._bind_one(cls, inline, prefix, known, instance, rows))
            except ArgumentErrors as error:
                problems += error.problems
        told = _("You cannot set this field.")
        problems += [Problem(to_pointer([name]), told) for name in sorted(left)]
        for each in bound:
            problems += _find_problems(each)
        if problems:
            raise ArgumentErrors(problems)
        return bound

    def _bind_one(
        self,
        cls: Any,
        inline: Any,
        prefix: str,
        known: AdminInline | None,
        instance: Any,
        rows: list[JSONObject] | None,
    ) -> BoundRows:
        options = without_data(
            self._admin.get_formset_kwargs(self._request, instance, inline, prefix)
        )
        if isinstance(options.get("queryset"), QuerySet):
            options["queryset"] = options["queryset"].select_related(*_find_joined(cls))
        unbound = cls(**options)
        queryset = unbound.get_queryset()
        objects = list(queryset[: cls.absolute_max + 1])
        meta_key = cls.model._meta.pk
        bound = BoundRows(
            formset=None,
            inline=inline,
            key=meta_key.name,
            name=None if rows is None or known is None else known.name,
        )
        if len(objects) > cls.absolute_max:
            raise bound.wrong_count(_("At most %(count)s are allowed."), cls.absolute_max)
        plan = _Plan(bound, cls, objects, rows or [])
        self._check_rights(bound, inline, unbound, plan, instance)
        plan.check_counts(is_change=self._is_change)

        data: MultiValueDict[str, Any] = MultiValueDict()
        data[f"{prefix}-TOTAL_FORMS"] = len(objects) + len(plan.new)
        data[f"{prefix}-INITIAL_FORMS"] = len(objects)
        for index, each in enumerate(objects):
            data[f"{unbound.add_prefix(index)}-{bound.key}"] = each.pk
            if index in bound.deleted:
                data[f"{unbound.add_prefix(index)}-{DELETION_FIELD_NAME}"] = "on"
        formset = cls(**options, data=data, files=MultiValueDict())
        if cls.get_queryset is BaseModelFormSet.get_queryset:
            queryset._result_cache = objects
            formset._queryset = queryset
        bound.formset = formset
        self._fill(bound, plan, known)
        return bound

    def _check_rights(
        self, bound: BoundRows, inline: Any, formset: Any, plan: _Plan, instance: Any
    ) -> None:
        obj = instance if self._is_change else None
        told = _("You cannot set this field.")
        problems = []
        if plan.new and not inline.has_add_permission(self._request, obj):
            problems += [Problem(bound.point_to(index), told) for index in plan.new]
        if bound.deleted and not formset.can_delete:
            problems += [
                Problem(bound.point_to(index, DELETE_ROW), told) for index in bound.deleted
            ]
        if problems:
            raise ArgumentErrors(problems)

    def _fill(self, bound: BoundRows, plan: _Plan, known: AdminInline | None) -> None:
        """Give the forms of the formset the values of their rows."""
        formset, problems = bound.formset, []
        own = {DELETION_FIELD_NAME, ORDERING_FIELD_NAME, *_names_of_parent(formset)}
        can_change = bound.inline.has_change_permission(
            self._request, formset.instance if self._is_change else None
        )

        def find_naming(_field: str, model: type[Model]) -> Naming | None:
            # A check of the site looks at all rows of the inline.
            return self._names.find_naming(self._request, bound.name or "", model)

        for index, form in enumerate(formset.forms):
            is_new = index in plan.new
            row = plan.new.get(index) or plan.changed.get(index) or {}
            has_key = bound.key in form.fields and bound.key in formset.form.base_fields
            alone = own if is_new and has_key else {*own, bound.key}
            values = {
                name: value
                for name, value in row.items()
                if name != DELETE_ROW and (is_new or name != bound.key)
            }
            excluded = set() if known is None else known.closed_fields(formset.form.base_fields)
            try:
                fill_form(
                    form,
                    values,
                    is_partial=not is_new,
                    exclude=excluded,
                    left_alone=alone,
                    find_naming=find_naming,
                    **self._options,
                )
            except ArgumentErrors as error:
                problems += [
                    Problem(f"{bound.point_to(index)}{each.pointer}", each.message)
                    for each in error.problems
                ]
                continue
            if is_new:
                form.empty_permitted = False
                form.has_changed = _always
                continue
            _keep_key(form, bound.key)
            if index not in plan.changed:
                form._post_clean = _nothing  # it is not judged again
            elif not can_change:
                told = _("You cannot set this field.")
                changed = set(form.changed_data) - own
                problems += [Problem(bound.point_to(index, name), told) for name in changed]
        if problems:
            raise ArgumentErrors(problems)


class _Plan:
    """What becomes of the rows of an object.

    Attributes:
        new: rows that are added, by their place in the formset.
        changed: rows that stay and get other values, by their place.
    """

    def __init__(
        self, bound: BoundRows, cls: Any, objects: Sequence[Any], rows: Sequence[JSONObject]
    ) -> None:
        self.new: dict[int, JSONObject] = {}
        self.changed: dict[int, JSONObject] = {}
        self._bound = bound
        self._cls = cls
        self._count = len(objects)
        model_key = cls.model._meta.pk
        places = {instance.pk: index for index, instance in enumerate(objects)}
        is_chosen = bound.key in cls.form.base_fields  # as a code of a country is
        problems = []
        for position, row in enumerate(rows):
            key = row.get(bound.key)
            index = None if key is None else _find_place(places, model_key, key)
            if index is None and key is not None and (not is_chosen or row.get(DELETE_ROW)):
                pointer = to_pointer([bound.name or "", position, bound.key])
                problems.append(Problem(pointer, _("Not found.")))
                continue
            if index is None:
                index = len(objects) + len(self.new)
                self.new[index] = {
                    name: value for name, value in row.items() if name != bound.key or is_chosen
                }
                if row.get(DELETE_ROW):
                    pointer = to_pointer([bound.name or "", position, DELETE_ROW])
                    problems.append(Problem(pointer, _("Enter a valid value.")))
            elif index in bound.positions:
                pointer = to_pointer([bound.name or "", position, bound.key])
                problems.append(Problem(pointer, _("This row is named twice.")))
            elif row.get(DELETE_ROW):
                bound.deleted.add(index)
            else:
                self.changed[index] = row
            bound.positions[index] = position
        if problems:
            raise ArgumentErrors(problems)

    def check_counts(self, *, is_change: bool) -> None:
        """Check how many rows there are afterwards; an object that has too many or too few may stay so."""
        cls = self._cls
        count = self._count - len(self._bound.deleted) + len(self.new)
        if count > cls.max_num and count > self._count:
            raise self._bound.wrong_count(_("At most %(count)s are allowed."), cls.max_num)
        if count < cls.min_num and not (is_change and count >= self._count):
            raise self._bound.wrong_count(_("At least %(count)s are needed."), cls.min_num)


def _find_place(places: Mapping[Any, int], key: Any, value: Any) -> int | None:
    try:
        return places.get(to_python(key, value))
    except ValidationError:
        return None


def _choose_prefix(cls: Any, known: dict[str, int]) -> str:
    """Return the prefix of a formset, as the admin chooses it."""
    prefix = str(cls.get_default_prefix())
    known[prefix] = known.get(prefix, 0) + 1
    return prefix if known[prefix] == 1 and prefix else f"{prefix}-{known[prefix]}"


def _has_rules(cls: Any) -> bool:
    """Return whether a formset judges its rows together by a method of the site."""
    return cls.clean is not BaseModelFormSet.clean


def _find_joined(cls: Any) -> list[str]:
    """Return the relations that the forms of a formset read from each row."""
    return [
        each.name
        for each in cls.model._meta.concrete_fields
        if isinstance(each, ForeignKey) and each.name in cls.form.base_fields
    ]


def _names_of_parent(formset: Any) -> set[str]:
    """Return the fields of the rows that say which object has them."""
    fields = (getattr(formset, name, None) for name in ("fk", "ct_field", "ct_fk_field"))
    return {each.name for each in fields if isinstance(each, Field)}


def _always() -> bool:
    return True


def _nothing() -> None:
    return None


def _keep_key(form: Any, key: str) -> None:
    """Have the key of a row that is there not be looked up again."""
    if key in form.fields and not isinstance(form.instance._meta.pk, ForeignKey):
        instance = form.instance
        is_relation = hasattr(form.fields[key], "queryset")
        form.fields[key].clean = lambda *_values: instance if is_relation else instance.pk
        form.fields[key].has_changed = lambda *_values: False


def _find_problems(bound: BoundRows) -> list[Problem]:
    """Return what is wrong with the rows of a formset."""
    formset = bound.formset
    is_valid = formset.is_valid()
    for form in formset.forms:
        end_filling(form)
    if is_valid:
        return []
    what = "" if bound.name else f"{bound.inline.verbose_name_plural}: "
    problems = [
        Problem(bound.point_to(None), f"{what}{told}") for told in formset.non_form_errors()
    ]
    for index, form in enumerate(formset.forms):
        if index in bound.deleted:
            continue
        is_sent = index in bound.positions
        for name, messages in form.errors.items():
            pointer = bound.point_to(index, None if name == NON_FIELD_ERRORS else name)
            row = "" if is_sent else f"{what}{bound.key} {form.instance.pk}: "
            problems += [Problem(pointer, f"{row}{told}") for told in messages]
    return problems


def check_new_rows(bound: BoundRows, using: str) -> None:
    """Check that no new row has the key of one that is there already; raises `ArgumentErrors`."""
    for index in range(bound.formset.initial_form_count(), len(bound.formset.forms)):
        try:
            check_new(bound.formset.forms[index].instance, using)
        except ArgumentErrors as error:
            raise ArgumentErrors(
                [
                    Problem(f"{bound.point_to(index)}{each.pointer}", each.message)
                    for each in error.problems
                ]
            ) from None
