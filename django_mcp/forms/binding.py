"""Forms bound to the arguments of a call, in place of what a browser sends."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from typing import Any

from django import forms
from django.core.exceptions import NON_FIELD_ERRORS, ValidationError
from django.db import models
from django.utils.datastructures import MultiValueDict
from django.utils.translation import gettext as _

from django_mcp.forms.filling import check_columns, data_of_initial, fill, give, key_field
from django_mcp.forms.names import (
    FindNaming,
    Naming,
    find_key,
    find_named,
    find_texts,
    no_names,
    replace_texts,
    unknown_name,
)
from django_mcp.forms.schema import FormMaker, choice_values, find_model_field, offered_fields
from django_mcp.forms.values import to_python
from django_mcp.protocol.json import to_pointer
from django_mcp.registry.problems import ArgumentErrors, Problem

Limit = Callable[[str, models.QuerySet[Any]], models.QuerySet[Any]]
"""Takes the name of a field and some objects, and returns those that the user may choose and see.

The objects are those that are chosen or were chosen before, among those that the field offers.
"""


MAX_TOLD_CHOICES = 50
"""An error lists so many choices at most."""


def bind_form(
    make: FormMaker,
    arguments: Mapping[str, Any],
    *,
    instance: Any = None,
    is_partial: bool = False,
    exclude: Collection[str] = (),
    allow_sensitive: Collection[str] = (),
    limit: Limit | None = None,
    shows_key: Callable[[Any], bool] = lambda _field: False,
    find_naming: FindNaming = no_names,
    takes_hidden: bool = False,
) -> Any:
    """Return a form bound to arguments; `check_form` tells what is wrong with them.

    A field that is not among the arguments starts as it does in the browser, with its initial value.
    Fields that callers cannot fill in do so too. A many-to-many field of
    `instance` keeps the members that the user may not see.

    Args:
        make: a form class, or a `functools.partial` of one.
        arguments: values of JSON by the names of fields.
        instance: the object that the form changes, for a `ModelForm`.
        is_partial: whether fields of the model keep the values of `instance` when they are not among the
            arguments. They are not judged again by their fields. The constraints of the model and
            its `clean()` look at them.
        exclude: fields that callers cannot fill in.
        allow_sensitive: password fields that clients may fill in.
        limit: narrows the objects that may be chosen in a field.
        shows_key: takes a relation of the model and returns whether the caller is shown the key also of
            an object that cannot be chosen. Then it may be sent back.
        find_naming: says by what name the caller may choose an object, in place of its key.
        takes_hidden: whether callers fill in hidden fields as well.

    Raises:
        ArgumentErrors: an argument is no field that callers fill in. The form may lack one for some users.
    """
    given = {} if instance is None else {"instance": instance}
    data: MultiValueDict[str, Any] = MultiValueDict()
    form: Any = make(data=data, files=MultiValueDict(), **given)
    fill_form(
        form,
        arguments,
        is_partial=is_partial,
        exclude=exclude,
        allow_sensitive=allow_sensitive,
        limit=limit,
        shows_key=shows_key,
        find_naming=find_naming,
        takes_hidden=takes_hidden,
    )
    return form


def fill_form(
    form: Any,
    arguments: Mapping[str, Any],
    *,
    is_partial: bool,
    exclude: Collection[str],
    allow_sensitive: Collection[str],
    limit: Limit | None,
    shows_key: Callable[[Any], bool],
    find_naming: FindNaming,
    left_alone: Collection[str] = (),
    takes_hidden: bool = False,
) -> None:
    """Have the fields of a bound form read arguments, as `bind_form` describes it.

    The fields of `left_alone` read the data of the form, which can be changed.
    """
    data: MultiValueDict[str, Any] = form.data
    closed_fields = {*exclude, *left_alone}
    offered = set(
        offered_fields(form.fields, closed_fields, allow_sensitive, takes_hidden=takes_hidden)
    )
    closed = [name for name in arguments if name not in offered]
    if closed:
        told = _("You cannot set this field.")
        raise ArgumentErrors(Problem(to_pointer([name]), told) for name in closed)
    kept: set[str] = set()
    for name, field in form.fields.items():
        if name in left_alone:
            continue
        field.show_hidden_initial = False
        model_field = find_model_field(form, name)
        is_given = name in offered and name in arguments
        is_kept = is_partial and (
            _is_unchanged(form.instance, model_field, arguments[name], shows_key)
            if is_given
            # The form of the object starts with the values of its own fields.
            else model_field is not None
        )
        if is_kept:
            kept.add(name)
            _keep(field, form.instance, name)
            continue
        if is_given:
            _give_argument(form, name, arguments[name], data, limit)
            if model_field is not None and _is_empty(model_field, field, arguments[name]):
                stored = getattr(form.instance, name)
                _take_empty(field, arguments[name], stored)
                # An object takes back what it has, though its form would ask for more.
                is_kept = is_partial and stored == arguments[name]
                field.required = field.required and not is_kept
        elif not field.disabled:
            initial = form.get_initial_for_field(field, name)
            is_empty = initial in (None, "")
            give(field, None if is_empty else data_of_initial(field, initial), is_empty)
        # What a form starts with is the site's choice, also if the user may not see it.
        if is_given and limit is not None and hasattr(field, "queryset"):
            _limit_choices(form, name, arguments[name], limit, find_naming)
    if kept:
        _leave_out(form.instance, kept)


def _give_argument(
    form: Any, name: str, value: Any, data: MultiValueDict[str, Any], limit: Limit | None
) -> None:
    """Have a field of a form read an argument."""
    field = form.fields[name]
    if limit is not None and isinstance(field, forms.ModelMultipleChoiceField):
        _keep_hidden_members(field, form, name, limit)
    fill(field, value)
    check_columns(field, find_model_field(form, name))
    # For the form's own methods that look at its data.
    data.setlist(form.add_prefix(name), value if isinstance(value, list) else [value])


def _is_unchanged(
    instance: Any, model_field: Any, value: Any, shows_key: Callable[[Any], bool]
) -> bool:
    """Return whether an argument is what an object has: null, or the keys of the same objects."""
    if model_field is None:
        return False
    # Before Django 6.1, a field to many is called concrete, though it has no column.
    if model_field.many_to_many:
        if not (isinstance(value, list) and _takes_keys(model_field)):
            return False
        # Of no members, no key is told.
        if value and not shows_key(model_field):
            return False
        members = getattr(instance, model_field.name).order_by().values_list("pk", flat=True)
        most = len(value) + 1
        return {str(key) for key in value} == {str(key) for key in members.distinct()[:most]}
    if not model_field.concrete:
        return False
    stored = getattr(instance, model_field.attname)
    if value is None or stored is None:
        return value is None and stored is None
    if not (model_field.is_relation and shows_key(model_field)):
        return False
    try:
        return bool(to_python(model_field, value) == stored)
    except ValidationError:
        return False


def _takes_keys(model_field: Any) -> bool:
    """Return whether a field to many takes the keys of objects; one of tags takes their names."""
    return isinstance(model_field, models.ManyToManyField)


def _is_empty(model_field: Any, field: Any, value: Any) -> bool:
    """Return whether a value is an empty one of a column that its form may read as another one.

    Null is null and no empty text, an empty text no null, and an empty list or object of JSON is a value.
    """
    if model_field.is_relation or not model_field.concrete:
        return False
    if isinstance(field, forms.JSONField):
        return value in ({}, [])
    if value is None:
        return bool(model_field.null)
    is_text = isinstance(model_field, models.CharField | models.TextField)
    return bool(value == "" and is_text and model_field.null and model_field.blank)


def _take_empty(field: Any, value: Any, stored: Any) -> None:
    """Have a field return an empty value as it is, unless its own `clean()` refuses it or fills it in."""
    clean, written = field.clean, value

    def clean_empty(*values: Any) -> Any:
        nonlocal written
        written = clean(*values)
        if written in field.empty_values:
            written = value
            if isinstance(field, forms.JSONField):
                field.validate(value)  # it was asked about None
        return written

    field.clean = clean_empty
    # To a form, one empty value is like another.
    field.has_changed = lambda *_values: bool(written != stored)


def _keep(field: Any, instance: Any, name: str) -> None:
    """Have a field return the value of the object as it is."""
    model_field = instance._meta.get_field(name)

    def clean(*_values: Any) -> Any:
        if model_field.many_to_many:
            return getattr(instance, name).all()
        if model_field.is_relation and getattr(instance, model_field.attname) is None:
            return None
        return getattr(instance, name)

    field.clean = clean
    field.has_changed = lambda *_values: False
    give(field, None)


def _leave_out(instance: Any, names: Collection[str]) -> None:
    """Have the values of some fields, which an object has already, not be judged by these fields again.

    Its constraints and its method `clean()` look at them all the same. `check_form` ends it.
    """
    cls = type(instance)

    def clean_fields(exclude: Collection[str] | None = None) -> None:
        cls.clean_fields(instance, exclude={*(exclude or ()), *names})

    instance.clean_fields = clean_fields


def find_chosen(field: Any, given: Any, rows: models.QuerySet[Any]) -> models.QuerySet[Any]:
    """Return the objects of some rows that values of a field stand for.

    Args:
        field: chooses objects.
        given: one value or several, as the field takes them, or the objects themselves.
        rows: of the model of the field.
    """
    keys = given if isinstance(given, list | tuple) else [given]
    key = key_field(field)
    known = []
    for chosen_key in keys:
        with suppress(ValidationError):
            known.append(to_python(key, getattr(chosen_key, key.attname, chosen_key), rows.db))
    return rows.filter((f"{key.name}__in", known))


def _limit_choices(form: Any, name: str, value: Any, limit: Limit, find_naming: FindNaming) -> None:
    """Have a field offer no objects that the user may not choose, and take the names of the others."""
    field = form.fields[name]
    offered = field.queryset
    given = field.widget.value_from_datadict(form.data, form.files, form.add_prefix(name))
    field.queryset = limit(name, find_chosen(field, given, offered))
    naming = find_naming(name, offered.model) if find_texts(value) else None
    if naming is not None:
        _take_names(form, name, value, offered, limit, naming)


def _take_names(
    form: Any,
    name: str,
    value: Any,
    offered: models.QuerySet[Any],
    limit: Limit,
    naming: Naming,
) -> None:
    """Have a field take names of objects for those of its values that are no keys of objects.

    Names are looked up once the field has refused the values, among the objects whose keys it would take.
    """
    field = form.fields[name]
    clean, key, chosen = field.clean, key_field(field), field.queryset

    def narrow(rows: models.QuerySet[Any]) -> models.QuerySet[Any]:
        return limit(name, naming.narrow(rows))

    def clean_named(given: Any) -> Any:
        try:
            return clean(given)
        except ValidationError:
            texts = find_texts(value)
            keys = {text: find_key(key, text, offered.db) for text in texts}
            if any(each is not None for each in keys.values()):
                taken = set(chosen.order_by().values_list(key.attname, flat=True))
                texts = [text for text in texts if keys[text] not in taken]
            named = find_named(offered, narrow, key, naming.field, texts)
            unknown = next((text for text in texts if text not in named), None)
            if unknown is not None:
                raise unknown_name(naming.field, unknown) from None
            if not named:
                raise
        found = replace_texts(value, named)
        give(field, found)
        field.queryset = limit(name, find_chosen(field, found, offered))
        field.keys_of_names = found if isinstance(found, list) else [found]
        form.data.setlist(form.add_prefix(name), field.keys_of_names)
        return clean(found)

    field.clean = clean_named


def _keep_hidden_members(field: Any, form: Any, name: str, limit: Limit) -> None:
    """Have a field add the members that the user may not see to those that are given."""
    members = _find_members(field, form, name)
    if members is None:
        return
    seen = set(limit(name, members).values_list("pk", flat=True))
    key = key_field(field)
    hidden = [member for member in members if member.pk not in seen]
    if not hidden:
        return
    told = {str(value) for member in hidden for value in (member.pk, getattr(member, key.attname))}
    clean, has_changed = field.clean, field.has_changed

    def clean_and_add(value: Any) -> Any:
        # With them there are some, though no other is chosen.
        chosen = clean(value) if value else ()
        keys = [instance.pk for instance in (*chosen, *hidden)]
        return members.model._base_manager.filter(pk__in=keys)

    field.clean = clean_and_add
    field.has_changed = lambda initial, value: has_changed(
        [member for member in initial or () if str(getattr(member, "pk", member)) not in told],
        value,
    )


def _find_members(field: Any, form: Any, name: str) -> models.QuerySet[Any] | None:
    """Return the objects that a field to many of a stored object starts with; None: it starts with none."""
    model_field = find_model_field(form, name)
    if form.instance._state.adding:
        return None
    if model_field is None:
        initial = data_of_initial(field, form.get_initial_for_field(field, name))
        return find_chosen(field, initial, field.queryset.model._base_manager.all())
    members: models.QuerySet[Any] | None = (
        getattr(form.instance, name).all() if model_field.many_to_many else None
    )
    return members


def check_form(form: forms.BaseForm) -> None:
    """Check a bound form.

    Raises:
        ArgumentErrors: what is wrong, all at once and by field.
    """
    is_valid = form.is_valid()
    end_filling(form)
    if not is_valid:
        raise ArgumentErrors(list(_problems(form)))


def end_filling(form: Any) -> None:
    """End what `fill_form` did to the object of a form, once the form is checked."""
    vars(getattr(form, "instance", form)).pop("clean_fields", None)


def check_new(instance: models.Model, using: str) -> None:
    """Check that there is no object with the primary key of a new one, which saving would overwrite.

    Forms look among the objects of the default manager, which may leave out deleted ones.

    Raises:
        ArgumentErrors: there is one.
    """
    key = instance._meta.pk
    # A form may have saved it already.
    if instance.pk is None or key.has_default() or not instance._state.adding:
        return
    if type(instance)._base_manager.using(using).filter(pk=instance.pk).exists():
        told = instance.unique_error_message(type(instance), (key.name,))
        raise ArgumentErrors([Problem(to_pointer([key.name]), " ".join(told.messages))])


def _problems(form: forms.BaseForm) -> Iterator[Problem]:
    for name, messages in form.errors.items():
        pointer = "" if name == NON_FIELD_ERRORS else to_pointer([name])
        choices = _list_choices(form.fields.get(name), form.errors.as_data()[name])
        for message in messages:
            yield Problem(pointer, f"{message}{choices}")


def _list_choices(field: Any, errors: Collection[Any]) -> str:
    """Return what can be chosen, if that is what is wrong: the form may say so for each user and object."""
    is_choice = isinstance(field, forms.ChoiceField) and not hasattr(field, "queryset")
    if not is_choice or all(error.code != "invalid_choice" for error in errors):
        return ""
    values = [str(value) for value in choice_values(field) if value not in (None, "")]
    if not 0 < len(values) <= MAX_TOLD_CHOICES:
        return ""
    return " " + _("Choose one of: %(values)s.") % {"values": ", ".join(values)}
