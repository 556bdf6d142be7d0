"""The tools that add and change objects through the form of the admin."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

from django.contrib.admin.models import ADDITION, CHANGE
from django.contrib.admin.utils import flatten_fieldsets
from django.core.exceptions import ObjectDoesNotExist
from django.db import IntegrityError, router, transaction
from django.db.models import QuerySet
from django.utils.translation import gettext as _

from django_mcp import ArgumentErrors
from django_mcp.context import Context
from django_mcp.contrib.confirming import CONFIRMATION, CONFIRMATION_SCHEMA
from django_mcp.contrib.generated import object_schema
from django_mcp.contrib.model_forms import (
    FormProblem,
    bind_form,
    check_form,
    check_new,
    form_schema,
)
from django_mcp.contrib.modeladmin.access import CREATE, GET, UPDATE, AdminAccess
from django_mcp.contrib.modeladmin.reading import AdminReading
from django_mcp.contrib.modeladmin.requests import MESSAGES_SCHEMA, lead_to_page, make_request
from django_mcp.contrib.modeladmin.rights import (
    QUESTION_SCHEMA,
    ask_about_rights,
    find_rights,
    without_confirmation,
)
from django_mcp.contrib.modeladmin.sensitive import is_secret, is_secret_field, is_secret_key
from django_mcp.contrib.modeladmin.shown import AdminShown
from django_mcp.contrib.models.schema import read_value
from django_mcp.contrib.models.write_arguments import (
    IF_UNMODIFIED,
    check_unmodified,
    describe_version,
    is_version,
)
from django_mcp.contrib.models.writing import log_without_text
from django_mcp.contrib.values import text_of
from django_mcp.log import logger
from django_mcp.protocol.json import JSONObject
from django_mcp.registry.problems import Problem


class AdminWriting:
    """Adds and changes objects.

    Args:
        access: decides what a user may do.
        shown: says what is shown.
        reading: reads the object afterwards.
        request: one that may do everything.
        allow_sensitive: fields that look like secrets and are none.
    """

    def __init__(
        self,
        access: AdminAccess,
        shown: AdminShown,
        reading: AdminReading,
        request: Any,
        allow_sensitive: Collection[str],
    ) -> None:
        self._access = access
        self._admin: Any = access.model_admin
        self._reading = reading
        self._request = request
        self._allowed = allow_sensitive
        self._version = _find_version(access, shown.names_of_page(request, access.model()))

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
        schema = form_schema(form, exclude=secrets, allow_sensitive=self._allowed)
        needed = self._find_needed_rows()
        if needed is not None:
            raise FormProblem(
                f"its page requires rows of {needed}, which no tool adds",
                "Leave it out with exclude=, or set min_num of the inline to 0.",
            )
        properties = {**schema["properties"], **self._confirmation(form.base_fields)}
        return {**schema, "properties": properties}

    def update_input(self) -> JSONObject:
        """Return the input schema of the tool that changes an object; raises `FormProblem`."""
        # As if not to change it: rules about objects have no say about one that is made up.
        form = self._make_form(self._request, self._access.model(), is_change=False)
        schema = form_schema(
            form,
            is_partial=True,
            exclude=self._kept(form.base_fields),
            allow_sensitive=self._allowed,
        )
        key = self._reading.key
        properties = {key: self._reading.key_schema, **schema["properties"]}
        required = [key, *schema.get("required", ())]
        if self._version is not None:
            required.append(IF_UNMODIFIED)
            properties[IF_UNMODIFIED] = describe_version(self._version)
        properties |= self._confirmation(form.base_fields)
        return object_schema(properties, required=required)

    def _confirmation(self, fields: Mapping[str, Any]) -> JSONObject:
        """Return the argument that confirms a change of rights, if the form has fields that give some."""
        rights = find_rights(self._access.model, fields, self._allowed, fields)
        return {CONFIRMATION: CONFIRMATION_SCHEMA} if rights else {}

    @property
    def output(self) -> JSONObject:
        """The output schema of both tools: the object, and what the admin told its user."""
        shown = self._reading.get_output
        name = _name_of_messages(shown["properties"])
        properties = {**shown["properties"], name: MESSAGES_SCHEMA}
        try:
            form = self._make_form(self._request, self._access.model(), is_change=False)
            fields = form.base_fields
        except Exception:
            # The tools are left out, which is reported with their inputs.
            logger.debug("No form of %s", self._admin, exc_info=True)
            fields = {}
        names = {*fields, *(field.name for field in self._access.model._meta.get_fields())}
        if not find_rights(self._access.model, names, self._allowed, fields):
            return {**shown, "properties": properties}
        # Until the user has agreed, a result has the question in place of the object.
        return {**shown, "properties": {**properties, **QUESTION_SCHEMA}, "required": []}

    def _make_form(self, request: Any, obj: Any, *, is_change: bool) -> Any:
        fields = flatten_fieldsets(self._admin.get_fieldsets(request, obj))
        return self._admin.get_form(request, obj, change=is_change, fields=fields)

    def _find_needed_rows(self) -> str | None:
        """Return the name of an inline without rows of which no object can be added; None, if there is none."""
        try:
            formsets = list(self._admin.get_formsets_with_inlines(self._request))
        except Exception:
            # Calls ask again, with a request of their user.
            logger.debug("No inlines of %s", self._admin, exc_info=True)
            return None
        return next((str(each.verbose_name_plural) for cls, each in formsets if cls.min_num), None)

    def _check_inlines(self, request: Any, instance: Any) -> None:
        """Check that the page of a new object would be saved without a row in its inlines.

        Raises:
            ArgumentErrors: it would not.
        """
        problems = []
        for cls, inline in self._admin.get_formsets_with_inlines(request):
            prefix = cls.get_default_prefix()
            options = self._admin.get_formset_kwargs(request, instance, inline, prefix)
            sent = {f"{prefix}-TOTAL_FORMS": cls.min_num, f"{prefix}-INITIAL_FORMS": 0}
            rows = cls(**{**options, "data": sent})
            if rows.min_num or not rows.is_valid():
                reasons = [*rows.non_form_errors()] or [_("This field is required.")]
                what = inline.verbose_name_plural
                problems += [Problem("", f"{what}: {reason}") for reason in reasons]
        if problems:
            raise ArgumentErrors(problems)

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
        given = without_confirmation(arguments)
        request = make_request(ctx, self._access.site, "POST", given)
        lead_to_page(request, self._admin, "add")
        if not self._access.allows(request, CREATE):
            raise self._access.missing()
        initial = self._admin.get_changeform_initial_data(request)
        form = self._make_form(request, None, is_change=False)
        excluded = self._secrets(form.base_fields)
        make = partial(form, initial=initial) if initial else form
        bound = self._bind(request, make, given, None, excluded)
        self._check_inlines(request, bound.instance)
        return self._ask(ctx, request, bound, arguments) or self._save(
            request, bound, is_change=False
        )

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
        request = make_request(ctx, self._access.site, "POST", given)
        instance = self._access.lock_one(request, UPDATE, arguments[key])
        check_unmodified(self._version, instance, arguments)
        form = self._make_form(request, instance, is_change=True)
        bound = self._bind(request, form, given, instance, self._kept(form.base_fields))
        return self._ask(ctx, request, bound, arguments) or self._save(
            request, bound, is_change=True
        )

    def _ask(
        self, ctx: Context, request: Any, form: Any, arguments: Mapping[str, Any]
    ) -> JSONObject | None:
        """Return the result of a call that changes rights and that the user has not agreed to; else None."""
        changed = find_rights(self._access.model, form.changed_data, self._allowed, form.fields)
        if not changed:
            return None
        label = self._access.model._meta.label
        given = without_confirmation(arguments)
        state = [self._access.site.name, str(request.user.pk), label, str(form.instance.pk), given]
        return ask_about_rights(form, changed, state).ask(ctx, arguments)

    def _bind(
        self, request: Any, make: Any, given: Mapping[str, Any], instance: Any, excluded: set[str]
    ) -> Any:
        def limit(_name: str, rows: QuerySet[Any]) -> QuerySet[Any]:
            return self._access.find_related(request, rows)

        def shows_key(field: Any) -> bool:
            if is_secret_key(field.related_model, self._allowed):
                return False
            # The key of one hidden object is shown, those of several are not.
            other = self._access.of(field.related_model) if field.many_to_many else None
            return other is None or not other.hides_some(request)

        form = bind_form(
            make,
            given,
            instance=instance,
            is_partial=instance is not None,
            exclude=excluded,
            allow_sensitive=self._allowed,
            limit=limit,
            shows_key=shows_key,
        )
        check_form(form)
        return form

    def _save(self, request: Any, form: Any, *, is_change: bool) -> JSONObject:
        admin = self._admin
        using = self._access.find_database(request)
        try:
            with transaction.atomic(using=using):
                instance = admin.save_form(request, form, is_change)
                if not is_change:
                    check_new(instance, using)
                    # Where Django's `save_model()` writes it, unless a router says otherwise.
                    instance._state.db = using
                admin.save_model(request, instance, form, is_change)
                admin.save_related(request, form, [], is_change)
        except IntegrityError:
            logger.warning(
                "The database refused to write a %s", admin.opts.verbose_name, exc_info=True
            )
            told = _(
                "This conflicts with other data: a value is already in use, or no longer exists."
            )
            raise ArgumentErrors([Problem("", told)]) from None
        message = admin.construct_change_message(request, form, [], not is_change)
        if text_of(instance) is None:
            flag = CHANGE if is_change else ADDITION
            log_without_text(request.user, instance, flag, message)
        elif is_change:
            admin.log_change(request, instance, message)
        else:
            admin.log_addition(request, instance, message)
        try:
            one = self._reading.read_one(request, GET, instance.pk)
        except ObjectDoesNotExist:
            # As in the admin, which leads such users back to its first page.
            pk = self._access.model._meta.pk
            one = {pk.name: read_value(pk)(instance)}
        messages = list(request._messages)
        return {**one, _name_of_messages(one): messages} if messages else one


def _name_of_messages(shown: Collection[str]) -> str:
    return "messages" if "messages" not in shown else "admin_messages"


def _find_version(access: AdminAccess, names: Collection[Any]) -> Any:
    """Return the field that changes with each change of an object, if it is shown."""
    shown = (field for field in access.model._meta.concrete_fields if field.name in names)
    return next(filter(is_version, shown), None)
