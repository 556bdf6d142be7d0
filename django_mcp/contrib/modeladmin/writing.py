"""The tools that add and change objects through the form of the admin."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from copy import copy
from functools import cached_property, partial
from typing import Any

from django.contrib.admin.models import ADDITION, CHANGE
from django.core.exceptions import ObjectDoesNotExist
from django.db import IntegrityError, router, transaction
from django.db.models import ProtectedError, QuerySet, RestrictedError
from django.utils.translation import gettext as _

from django_mcp import ArgumentErrors, ToolError
from django_mcp.context import Context
from django_mcp.contrib.modeladmin.access import CREATE, GET, UPDATE, AdminAccess
from django_mcp.contrib.modeladmin.inline_forms import (
    BoundRows,
    InlineForms,
    Rows,
    check_new_rows,
)
from django_mcp.contrib.modeladmin.inlines import AdminInlines
from django_mcp.contrib.modeladmin.names import AdminNames
from django_mcp.contrib.modeladmin.personal_choices import find_personal_choices
from django_mcp.contrib.modeladmin.reading import AdminReading
from django_mcp.contrib.modeladmin.requests import (
    MESSAGES_SCHEMA,
    add_fields,
    lead_to_page,
    make_request_for_page,
)
from django_mcp.contrib.modeladmin.rights import (
    QUESTION_SCHEMA,
    ask_about_rights,
    describe_change,
    describe_change_of_row,
    names_of_row,
    read_state_of_rights,
)
from django_mcp.contrib.modeladmin.sensitive import (
    get_form_class,
    get_form_names,
    is_secret,
    is_secret_field,
    is_secret_key,
)
from django_mcp.contrib.modeladmin.shown import AdminShown
from django_mcp.contrib.models.schema import read_value
from django_mcp.contrib.models.write_arguments import (
    IF_UNMODIFIED,
    check_unmodified,
    describe_version,
    is_version,
)
from django_mcp.contrib.models.writing import log_without_text
from django_mcp.contrib.rights import find_rights
from django_mcp.forms import (
    FormProblem,
    bind_form,
    by_keys_alone,
    check_form,
    check_new,
    form_schema,
    iterate_named,
    no_names,
)
from django_mcp.forms.values import tell_refusal, text_of
from django_mcp.log import logger
from django_mcp.protocol.json import JSONObject
from django_mcp.registry.object_schemas import object_schema
from django_mcp.registry.problems import Problem
from django_mcp.server.asking.confirming import (
    CONFIRMATION,
    CONFIRMATION_SCHEMA,
    without_confirmation,
)


class AdminWriting:
    """Adds and changes objects.

    Args:
        access: decides what a user may do.
        shown: says what is shown.
        reading: reads the object afterwards.
        inlines: rows that are written with an object.
        request: one that may do everything.
        allow_sensitive: fields that look like secrets and are none.
        names: how users name related objects.
    """

    def __init__(
        self,
        access: AdminAccess,
        shown: AdminShown,
        reading: AdminReading,
        inlines: AdminInlines,
        request: Any,
        allow_sensitive: Collection[str],
        names: AdminNames,
    ) -> None:
        self._access = access
        self._admin: Any = access.model_admin
        self._reading = reading
        self._inlines = inlines
        self._request = request
        self._allowed = allow_sensitive
        self._names = names
        self.version = _find_version(access, shown.names_of_page(request, access.sample))

    @property
    def alias(self) -> str:
        """The database that routers choose to write to."""
        return router.db_for_write(self._access.model)

    # -- describing

    def create_input(self) -> JSONObject:
        """Return the input schema of the tool that adds an object; raises `FormProblem`."""
        form = self._make_form(self._request, None, is_change=False)
        secrets = self._secrets(form.base_fields)
        for name in secrets:
            field = form.base_fields[name]
            if field.required and field.initial is None:
                raise FormProblem(
                    f"the field {name!r} is required and looks like a secret",
                    "Add it to allow_sensitive if it is none.",
                )
        schema = form_schema(
            form,
            exclude=secrets,
            allow_sensitive=self._allowed,
            personal_choices=self._find_personal(form, None),
            tell=self._names.tell,
        )
        needed = self._inlines.find_needed()
        if needed is not None:
            raise FormProblem(
                f"its page requires rows of {needed}, which no tool adds",
                "Leave it out with exclude=, or set min_num of the inline to 0.",
            )
        rows, needed_rows = self._inlines.inputs(is_new=True)
        properties = {**schema["properties"], **rows, **self._confirmation(form.base_fields)}
        return object_schema(properties, required=[*schema.get("required", ()), *needed_rows])

    def update_input(self, *, takes_names: bool = True) -> JSONObject:
        """Return the input schema of the tool that changes an object; raises `FormProblem`."""
        tell = self._names.tell
        form = self._form_of_object
        schema = form_schema(
            form,
            is_partial=True,
            exclude=self._kept(form.base_fields),
            allow_sensitive=self._allowed,
            personal_choices=self._find_personal(form, self._access.sample),
            tell=tell if takes_names else by_keys_alone(tell),
        )
        key = self._reading.key
        properties = {key: self._reading.key_schema, **schema["properties"]}
        required = [key, *schema.get("required", ())]
        if self.version is not None:
            required.append(IF_UNMODIFIED)
            properties[IF_UNMODIFIED] = describe_version(self.version)
        properties |= {
            **self._inlines.inputs(is_new=False)[0],
            **self._confirmation(form.base_fields),
        }
        return object_schema(properties, required=required)

    def _find_personal(self, form: Any, obj: Any) -> set[str]:
        make = partial(self._make_form, obj=obj, is_change=False)
        return find_personal_choices(self._access, form.base_fields, make)

    @cached_property
    def _form_of_object(self) -> Any:
        """The form of an object that is there, as far as one that is made up tells."""
        # As if not to change it: rules about objects have no say about it.
        return self._make_form(self._request, self._access.sample, is_change=False)

    def _confirmation(self, fields: Mapping[str, Any]) -> JSONObject:
        """Return the argument that confirms a change of rights, if the form has fields that give some."""
        rights = find_rights(self._access.model, fields, self._allowed, fields)
        return {CONFIRMATION: CONFIRMATION_SCHEMA} if rights or self._rows_give_rights() else {}

    def _rows_give_rights(self) -> bool:
        return any(
            find_rights(model, names_of_row(model, fields), (), fields)
            for model, fields in self._inlines.forms
        )

    @property
    def output(self) -> JSONObject:
        """The output schema of both tools: the object, and what the admin told its user."""
        shown = self._reading.get_output
        name = _name_of_messages(shown["properties"])
        properties = {**shown["properties"], name: MESSAGES_SCHEMA}
        try:
            fields = self._form_of_object.base_fields
        except Exception:
            # The tools are left out, which is reported with their inputs.
            logger.debug("No form of %s", self._admin, exc_info=True)
            fields = {}
        names = {*fields, *(field.name for field in self._access.model._meta.get_fields())}
        rights = find_rights(self._access.model, names, self._allowed, fields)
        if not (rights or self._rows_give_rights()):
            return {**shown, "properties": properties}
        # Until the user has agreed, a result has the question in place of the object.
        return {**shown, "properties": {**properties, **QUESTION_SCHEMA}, "required": []}

    def _make_form(self, request: Any, obj: Any, *, is_change: bool) -> Any:
        if not self._access.overrides("get_form"):
            return get_form_class(self._admin, request, obj, is_change=is_change)
        names = get_form_names(self._admin, request, obj)
        return self._admin.get_form(request, obj, change=is_change, fields=names)

    def _secrets(self, fields: Mapping[str, Any]) -> set[str]:
        return {
            name
            for name, field in fields.items()
            if name not in self._allowed
            and (is_secret_field(field) or is_secret(self._admin, name, self._allowed))
        }

    def _kept(self, fields: Mapping[str, Any]) -> set[str]:
        """Return the fields that an update does not change."""
        return {*self._secrets(fields), self._reading.key}

    # -- calls

    def create(self, ctx: Context, arguments: dict[str, Any]) -> JSONObject:
        """Add an object, and return it.

        Raises:
            ArgumentErrors: values are not valid.
            DoesNotExist: the user may not.
        """
        given, rows = self._split(without_confirmation(arguments))
        request = make_request_for_page(ctx, self._access.site, "POST", given)
        lead_to_page(request, self._admin, "add")
        if not self._access.allows(request, CREATE):
            raise self._access.missing()
        initial = self._admin.get_changeform_initial_data(request)
        form = self._make_form(request, None, is_change=False)
        excluded = self._secrets(form.base_fields)
        make = partial(form, initial=initial) if initial else form
        bound, formsets = self._bind(request, make, given, rows, None, excluded)
        refusal = self._ask(ctx, request, bound, formsets, arguments)
        if refusal is not None:
            return refusal
        return self._read_saved(request, self._save(request, bound, formsets, is_change=False))

    def update(self, ctx: Context, arguments: dict[str, Any]) -> JSONObject:
        """Change an object, and return it.

        Raises:
            ArgumentErrors: values are not valid.
            DoesNotExist: there is none, or the user may not.
            ToolError: the object was changed since the caller read it.
        """
        key = self._reading.key
        given = {
            name: value
            for name, value in without_confirmation(arguments).items()
            if name not in (key, IF_UNMODIFIED)
        }
        request, instance = self._lock(ctx, arguments[key], given)
        check_unmodified(self.version, instance, arguments)
        form, formsets = self._bind_change(request, instance, given)
        refusal = self._ask(ctx, request, form, formsets, arguments)
        if refusal is not None:
            return refusal
        return self._read_saved(request, self._save(request, form, formsets, is_change=True))

    def _lock(self, ctx: Context, key: Any, given: Mapping[str, Any]) -> tuple[Any, Any]:
        """Return the request of a call that changes an object, and the object; raises `DoesNotExist`."""
        own, _rows = self._split(given)
        request = make_request_for_page(ctx, self._access.site, "POST", own)
        return request, self._access.lock_one(request, UPDATE, key)

    def _bind_change(
        self, request: Any, instance: Any, given: Mapping[str, Any], *, takes_names: bool = True
    ) -> tuple[Any, list[BoundRows]]:
        own, rows = self._split(given)
        form = self._make_form(request, instance, is_change=True)
        excluded = self._kept(form.base_fields)
        return self._bind(request, form, own, rows, instance, excluded, takes_names=takes_names)

    # -- several

    @property
    def key(self) -> Any:
        """The field that tells objects apart in arguments."""
        return self._access.model._meta.pk

    def values_schemas(self) -> JSONObject:
        """Return the schemas of the fields that can be changed of several objects; raises `FormProblem`.

        Those that give rights, and rows of inlines, are left out. Relations take keys alone.
        """
        fields = self._form_of_object.base_fields
        rights = find_rights(self._access.model, fields, self._allowed, fields)
        left_out = {self.key.name, IF_UNMODIFIED, CONFIRMATION, *self._inlines.names, *rights}
        properties = self.update_input(takes_names=False)["properties"]
        return {name: each for name, each in properties.items() if name not in left_out}

    def update_one(self, ctx: Context, key: Any, values: Mapping[str, Any]) -> None:
        """Change one of several objects, whose version the confirmation was about.

        Relations take keys alone, since a name may be that of another object once the user has agreed.

        Raises:
            ToolError: that gives rights.
        """
        request, instance = self._lock(ctx, key, values)
        form, formsets = self._bind_change(request, instance, values, takes_names=False)
        if self._describe_rights(form, formsets):
            raise ToolError(_("This changes rights, which only the tool for one object does."))
        self._save(request, form, formsets, is_change=True)

    # -- writing

    def _split(self, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the arguments for the form, and those that are rows of inlines."""
        names = self._inlines.names
        own = {name: value for name, value in arguments.items() if name not in names}
        return own, {name: value for name, value in arguments.items() if name in names}

    def _ask(
        self,
        ctx: Context,
        request: Any,
        form: Any,
        formsets: Sequence[BoundRows],
        arguments: Mapping[str, Any],
    ) -> JSONObject | None:
        """Return the result of a call that changes rights and that the user has not agreed to; else None."""
        changes = self._describe_rights(form, formsets)
        if not changes:
            return None
        label = self._access.model._meta.label
        given = without_confirmation(arguments)
        stored = read_state_of_rights(request.user, form)
        named = self._find_named(form, formsets)
        key = str(form.instance.pk)
        state = [self._access.site.name, str(request.user.pk), label, key, given, stored, named]
        return ask_about_rights(form, changes, state).ask(ctx, arguments)

    def _describe_rights(self, form: Any, formsets: Sequence[BoundRows]) -> list[str]:
        """Return the changes of a call that give rights."""
        changed = find_rights(self._access.model, form.changed_data, self._allowed, form.fields)
        changes = [describe_change(form, changed)] if changed else []
        for rows in formsets:
            what = rows.inline.verbose_name_plural
            of_rows = [
                describe_change_of_row(what, row_form, names)
                for row_form, names in rows.changed_forms()
            ]
            changes += [told for told in of_rows if told is not None]
        return changes

    def _bind(
        self,
        request: Any,
        make: Any,
        given: Mapping[str, Any],
        rows: Rows,
        instance: Any,
        excluded: set[str],
        *,
        takes_names: bool = True,
    ) -> tuple[Any, list[BoundRows]]:
        """Return the form of a call and the formsets of its inlines, once they are valid.

        Raises:
            ArgumentErrors: what is wrong, with all of them.
        """

        def limit(_name: str, rows: QuerySet[Any]) -> QuerySet[Any]:
            return self._access.find_related(request, rows)

        def shows_key(field: Any) -> bool:
            if is_secret_key(field.related_model, self._allowed):
                return False
            # The key of one hidden object is shown, those of several are not.
            other = self._access.of(field.related_model) if field.many_to_many else None
            return other is None or not other.hides_some(request)

        is_change = instance is not None
        # The form changes the object, about which a rule of the site may ask.
        judges = is_change and self._access.overrides("has_change_permission")
        before = copy(instance) if judges else None
        options: dict[str, Any] = {
            "allow_sensitive": self._allowed,
            "limit": limit,
            "shows_key": shows_key,
        }
        form = bind_form(
            make,
            given,
            instance=instance,
            is_partial=is_change,
            exclude=excluded,
            find_naming=partial(self._names.find_naming, request) if takes_names else no_names,
            **options,
        )
        problems: list[Problem] = []
        formsets: list[BoundRows] = []
        try:
            check_form(form)
        except ArgumentErrors as error:
            problems += error.problems
        forms = InlineForms(
            self._access, self._inlines, self._names, request, options, is_change=is_change
        )
        try:
            formsets = forms.bind(form.instance, rows)
        except ArgumentErrors as error:
            problems += error.problems
        if problems:
            raise ArgumentErrors(problems)
        for each in formsets:
            add_fields(request, each.formset.data)
        if self._find_named(form, formsets):
            # The rules of the site may read keys in the request, as a browser sends them.
            add_fields(request, form.data)
            if not self._access.allows(request, UPDATE if is_change else CREATE, before):
                raise self._access.missing()
        return form, formsets

    def _find_named(self, form: Any, formsets: Sequence[BoundRows]) -> list[Any]:
        """Return the keys of the objects that the arguments name."""
        forms = [form, *(row for each in formsets for row in each.formset.forms)]
        return [[name, keys] for each in forms for name, keys in iterate_named(each)]

    def _describe_change(
        self, request: Any, form: Any, formsets: Sequence[Any], *, is_change: bool
    ) -> Any:
        """Return the message of the history; without the rows, if one of them has no text."""
        changed = [
            row
            for each in formsets
            for row in (
                *each.new_objects,
                *(instance for instance, _names in each.changed_objects),
                *each.deleted_objects,
            )
        ]
        told = formsets if all(text_of(row) is not None for row in changed) else []
        return self._admin.construct_change_message(request, form, told, not is_change)

    def _save(self, request: Any, form: Any, rows: Sequence[BoundRows], *, is_change: bool) -> Any:
        """Write an object as its admin does, and return it."""
        admin = self._admin
        formsets = [each.formset for each in rows]
        using = self._access.find_database(request)
        try:
            with transaction.atomic(using=using):
                check_new(form.instance, using)
                instance = admin.save_form(request, form, is_change)
                check_new(instance, using)
                if instance._state.adding:
                    # Where Django's `save_model()` writes it, unless a router says otherwise.
                    instance._state.db = using
                for each in rows:
                    each.formset.instance = instance
                    check_new_rows(each, using)
                admin.save_model(request, instance, form, is_change)
                if instance._state.adding:
                    raise self._report_unsaved(request)
                admin.save_related(request, form, formsets, is_change)
        except (ProtectedError, RestrictedError) as error:
            _message, objects = error.args
            told = _("%(what)s cannot be deleted, because other objects refer to it: %(by)s.")
            what = str(admin.opts.verbose_name)
            raise ToolError(told % {"what": what, "by": len(objects)}) from None
        except IntegrityError as error:
            logger.warning(
                "The database refused to write a %s", admin.opts.verbose_name, exc_info=True
            )
            raise ArgumentErrors([Problem("", tell_refusal(error))]) from None
        message = self._describe_change(request, form, formsets, is_change=is_change)
        if text_of(instance) is None:
            flag = CHANGE if is_change else ADDITION
            log_without_text(request.user, instance, flag, message)
        elif is_change:
            admin.log_change(request, instance, message)
        else:
            admin.log_addition(request, instance, message)
        return instance

    def _read_saved(self, request: Any, instance: Any) -> JSONObject:
        """Return the result of a call that has written an object."""
        try:
            one = self._reading.read_one(request, GET, instance.pk)
        except ObjectDoesNotExist:
            # As in the admin, which leads such users back to its first page.
            pk = self._access.model._meta.pk
            one = {pk.name: read_value(pk)(instance)}
        messages = list(request._messages)
        return {**one, _name_of_messages(one): messages} if messages else one

    def _report_unsaved(self, request: Any) -> ToolError:
        """Return the error for a new object that the site's `save_model()` has not saved, and log it."""
        what = self._admin.opts.verbose_name
        logger.warning(
            "%s.save_model() has not saved the new %s, so the tool fails. Call super().save_model() in it; to "
            "refuse an object, raise ValidationError in the form",
            type(self._admin).__qualname__,
            what,
        )
        told = _("The %(what)s was not saved.") % {"what": what}
        return ToolError(" ".join([told, *(each["text"] for each in request._messages)]))


def _name_of_messages(shown: Collection[str]) -> str:
    return "messages" if "messages" not in shown else "admin_messages"


def _find_version(access: AdminAccess, names: Collection[Any]) -> Any:
    """Return the field that changes with each change of an object, if it is shown."""
    shown = (field for field in access.model._meta.concrete_fields if field.name in names)
    return next(filter(is_version, shown), None)
