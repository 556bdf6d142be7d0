"""The tools that make and change objects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol

from django.apps import apps
from django.contrib.auth import get_user_model
from django.core.exceptions import NON_FIELD_ERRORS, ObjectDoesNotExist, ValidationError
from django.db import IntegrityError, models, router, transaction
from django.http import QueryDict
from django.utils.translation import gettext as _

from django_mcp import ArgumentErrors
from django_mcp.context import Context
from django_mcp.contrib.history import note_comment, recording_user
from django_mcp.contrib.http_calls import build_request
from django_mcp.contrib.models.databases import find_database, has_conditions_alone, in_transaction
from django_mcp.contrib.models.definition import Definition
from django_mcp.contrib.models.reading import Reading
from django_mcp.contrib.models.write_arguments import IF_UNMODIFIED, Written, check_unmodified
from django_mcp.forms import Naming, bind_form, check_form, check_new, no_names
from django_mcp.forms.values import tell_refusal, text_of
from django_mcp.log import logger
from django_mcp.protocol.json import encode, to_pointer
from django_mcp.registry.problems import Problem


class WriteHooks(Protocol):
    """What the writing tools leave to a `ModelTools` class."""

    def find_rows(self, user: Any, action: str) -> models.QuerySet[Any]:
        """Return the objects that a user may use for an action."""

    def find_choices(
        self, user: Any, name: str, objects: models.QuerySet[Any]
    ) -> models.QuerySet[Any]:
        """Return the objects that a user may choose in a field."""

    def shows_key(self, field: Any) -> bool:
        """Return whether callers are shown the keys of all objects that a relation leads to."""

    def find_naming(self, user: Any, name: str, model: type[models.Model]) -> Naming | None:
        """Return how a user names the objects to choose in a field; None: by their keys alone."""

    def get_form_kwargs(self, user: Any) -> Mapping[str, Any]:
        """Return further arguments for the form."""

    def save_model(self, user: Any, instance: Any, form: Any, change: bool) -> None:  # noqa: FBT001
        """Save an object."""

    def delete_model(self, user: Any, instance: Any) -> None:
        """Delete an object."""


class Writing:
    """Makes and changes objects through a form.

    Args:
        definition: what is shown, and how it is found.
        written: what is written.
        reading: reads the object afterwards.
        hooks: what the site decides.
    """

    def __init__(
        self, definition: Definition, written: Written, reading: Reading, hooks: WriteHooks
    ) -> None:
        self._definition = definition
        self._written = written
        self._reading = reading
        self._hooks = hooks

    @property
    def alias(self) -> str:
        """The database that routers choose to write to."""
        return router.db_for_write(self._definition.model)

    def create(self, ctx: Context, arguments: dict[str, Any]) -> Any:
        """Make an object, and return it.

        Raises:
            ArgumentErrors: values are not valid.
        """
        using = find_database(self._hooks.find_rows(ctx.user, "create"))
        with self._in_transaction(ctx, using):
            return self._write(ctx, "create", self._bind(ctx, arguments), using)

    def update(self, ctx: Context, arguments: dict[str, Any]) -> Any:
        """Change an object, and return it; raises `DoesNotExist` if there is none for the user.

        Raises:
            ArgumentErrors: values are not valid.
            ToolError: the object was changed since the caller read it.
        """
        with self.locking(ctx, "update", arguments) as instance:
            check_unmodified(self._written.version, instance, arguments)
            using = instance._state.db
            return self._write(ctx, "update", self._bind(ctx, arguments, instance), using)

    # -- several

    @property
    def key(self) -> Any:
        """The field that tells objects apart in arguments."""
        return self._definition.key

    @contextmanager
    def in_transaction(self, ctx: Context) -> Iterator[str]:
        """Run in a transaction of the database that the objects are written in; yields its alias."""
        using = find_database(self._hooks.find_rows(ctx.user, "update"))
        with self._in_transaction(ctx, using):
            yield using

    def to_key(self, value: Any) -> Any:
        """Return a key as the model has it; raises `DoesNotExist` if no object can have it."""
        return self._reading.to_key(value)

    def find(
        self, ctx: Context, using: str, filters: Mapping[str, Any] | None
    ) -> models.QuerySet[Any]:
        """Return the objects that the caller may change, those that filters select if there are any.

        Raises:
            ArgumentErrors: the value of a filter is not valid.
        """
        rows = self._hooks.find_rows(ctx.user, "update").using(using)
        if filters is None:
            return rows
        seen = self._hooks.find_rows(ctx.user, "search").using(using)
        found = self._reading.filter(ctx.user, seen, filters)
        return rows.filter(pk__in=found.order_by().values("pk"))

    def keep_allowed(self, _ctx: Context, objects: Sequence[Any]) -> Sequence[Any]:
        """Return all objects: what a user may change, a queryset says."""
        return objects

    def update_one(self, ctx: Context, key: Any, values: Mapping[str, Any]) -> None:
        """Change one of several objects, whose version the confirmation was about.

        Relations take keys alone, since a name may be that of another object once the user has agreed.
        """
        with self.locking(ctx, "update", {self.key.name: key}) as instance:
            using = instance._state.db
            form = self._bind(ctx, values, instance, takes_names=False)
            self._write(ctx, "update", form, using)

    # -- writing

    @contextmanager
    def locking(self, ctx: Context, action: str, arguments: dict[str, Any]) -> Iterator[Any]:
        """Run in a transaction that has locked the object of a call; yields the object.

        Raises:
            DoesNotExist: there is none for the user.
        """
        permitted = self._hooks.find_rows(ctx.user, action)
        using = find_database(permitted)
        with self._in_transaction(ctx, using):
            yield self._lock(permitted.using(using), arguments)

    @contextmanager
    def _in_transaction(self, ctx: Context, using: str) -> Iterator[None]:
        """Run in a transaction of the database of the objects, whose user packages of the history learn.

        The transaction around the call is one of the database that routers choose.
        """
        with (
            in_transaction(using, ctx),
            recording_user(lambda: build_request(ctx, "POST", QueryDict())),
        ):
            yield

    def _lock(self, permitted: models.QuerySet[Any], arguments: dict[str, Any]) -> Any:
        name, key = self._definition.key.name, self._reading.key_of(arguments)
        seen = permitted.filter(**{name: key}).order_by()
        # Not of a manager of the site, which may add more than the row has.
        rows = self._definition.model._base_manager.using(seen.db).order_by().select_for_update()
        if seen.model is rows.model and has_conditions_alone(seen):
            rows = rows & seen
        else:
            # Rows of a joined or grouped query cannot be locked.
            rows = rows.filter(pk__in=seen.values("pk"))
        for row in rows[:1]:
            return row
        raise self._definition.missing()

    def _bind(
        self,
        ctx: Context,
        arguments: Mapping[str, Any],
        instance: Any = None,
        *,
        takes_names: bool = True,
    ) -> Any:
        given = dict(self._hooks.get_form_kwargs(ctx.user))
        own = () if instance is None else (self._definition.key.name, IF_UNMODIFIED)
        form = bind_form(
            partial(self._written.form, **given) if given else self._written.form,
            {name: value for name, value in arguments.items() if name not in own},
            instance=instance,
            is_partial=instance is not None,
            exclude=() if instance is None else self._written.kept,
            allow_sensitive=self._written.allow_sensitive,
            limit=partial(self._hooks.find_choices, ctx.user),
            shows_key=self._hooks.shows_key,
            find_naming=partial(self._hooks.find_naming, ctx.user) if takes_names else no_names,
        )
        check_form(form)
        return form

    def _write(self, ctx: Context, action: str, form: Any, using: str) -> Any:
        is_change = action == "update"
        instance = form.instance
        try:
            with transaction.atomic(using=using):
                check_new(instance, using)
                instance = form.save(commit=False)
                check_new(instance, using)
                if instance._state.adding:
                    # Where the default of `save_model()` writes it.
                    instance._state.db = using
                self._hooks.save_model(ctx.user, instance, form, is_change)
                form.save_m2m()
        except IntegrityError as refusal:
            logger.warning(
                "The database refused to write a %s", instance._meta.verbose_name, exc_info=True
            )
            raise ArgumentErrors(list(_find_conflicts(instance, refusal))) from None
        log_write(ctx.user, instance, form=form, is_change=is_change)
        # Asked again: what the user may see can depend on what was written.
        rows = self._hooks.find_rows(ctx.user, action).using(using)
        key = getattr(instance, self._definition.key.attname)
        try:
            return self._reading.read_one(ctx.user, rows, key)
        except ObjectDoesNotExist:
            hidden = _("You could not see the result, so nothing was written.")
            raise ArgumentErrors([Problem("", hidden)]) from None


def _find_conflicts(instance: Any, refusal: IntegrityError) -> Iterator[Problem]:
    """Yield which rules of the model an object breaks that its database has refused.

    The form leaves out constraints that have to do with fields that it has not.
    """
    try:
        instance.validate_unique()
        instance.validate_constraints()
    except ValidationError as error:
        for name, messages in error.message_dict.items():
            pointer = "" if name == NON_FIELD_ERRORS else to_pointer([name])
            yield from (Problem(pointer, message) for message in messages)
        return
    # A constraint that only the database knows, or another call that was faster.
    yield Problem("", tell_refusal(refusal))


def log_write(user: Any, instance: Any, *, form: Any = None, is_change: bool = False) -> None:
    """Add a line to the history of an object that the admin shows; without a form, it is deleted.

    A change of nothing adds none, since users who are not staff could fill the table with such.
    """
    is_user = isinstance(user, get_user_model()) and user.pk is not None
    if not is_user or not apps.is_installed("django.contrib.admin"):
        return
    from django.contrib.admin.models import ADDITION, CHANGE, DELETION, LogEntry
    from django.contrib.admin.utils import construct_change_message

    flag = DELETION if form is None else CHANGE if is_change else ADDITION
    message = "" if form is None else construct_change_message(form, [], not is_change)
    if form is not None and is_change and not form.has_changed():
        # The object was saved, of which other packages may keep a version.
        note_comment(LogEntry(action_flag=flag, change_message=encode(message).decode()))
        return
    if text_of(instance) is None:
        log_without_text(user, instance, flag, message)
        return
    entry = LogEntry.objects.log_actions(
        user.pk, [instance], action_flag=flag, change_message=message, single_object=True
    )
    if form is not None:
        note_comment(entry)


def log_without_text(user: Any, instance: Any, flag: int, message: Any) -> None:
    """Add a line to the history of an object whose text cannot be made, which Django's own would have."""
    from django.contrib.admin.models import LogEntry
    from django.contrib.contenttypes.models import ContentType

    kind = ContentType.objects.get_for_model(instance, for_concrete_model=False)
    LogEntry.objects.create(
        user_id=user.pk,
        content_type_id=kind.pk,
        object_id=instance.pk,
        object_repr=f"{instance._meta.verbose_name} {instance.pk}"[:200],
        action_flag=flag,
        change_message=encode(message).decode() if isinstance(message, list) else message,
    )
