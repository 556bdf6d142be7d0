"""The resource of each object: reading, completion, and what clients are told when an object changes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any
from urllib.parse import quote

from django.core.exceptions import ValidationError
from django.db import models
from django.db.models.functions import Cast
from django.db.models.signals import m2m_changed, post_delete, post_save, pre_delete
from django.utils.translation import gettext as _

from django_mcp.context import Context
from django_mcp.contrib.generated import GeneratedFunction, GeneratedOptions, explain_values
from django_mcp.contrib.models.definition import Definition
from django_mcp.contrib.models.reading import FindRows, Reading
from django_mcp.forms.values import check_plain, is_about_values, to_python, value_field
from django_mcp.protocol.results import Completion
from django_mcp.servers import MCPServer

ACTION = "resource"

MAX_VALUES = 100
"""Values that a completion proposes."""

MAX_PREFIX_CHARS = 1000
"""Longer texts are completed to nothing."""

_RESERVED = ":/?#[]@!$&'()*+,;="
"""What stays as it is in place of `{+key}`."""

FindServer = Callable[[], MCPServer | None]
"""Returns the server, as long as there is one."""


class Live:
    """The resources of a model's objects.

    Args:
        definition: what is shown.
        reading: reads an object.
        find_rows: the rows that a user may use for an action.
        find_server: returns the server.
        uri: the template of their URIs.
        is_for_all: whether all users see all objects.
    """

    def __init__(
        self,
        definition: Definition,
        reading: Reading,
        find_rows: FindRows,
        find_server: FindServer,
        uri: str,
        *,
        is_for_all: bool,
    ) -> None:
        self._definition = definition
        self._reading = reading
        self._find_rows = find_rows
        self._find_server = find_server
        self._uri = uri
        self._is_for_all = is_for_all

    # -- registration

    def register(
        self, server: MCPServer, options: GeneratedOptions, owner: type, **template: Any
    ) -> None:
        """Register the template and its completion, and follow changes from now on.

        Args:
            server: gets the template.
            options: of the class.
            owner: the class.
            template: options of `MCPServer.register_resource`.
        """
        key, uri = self._definition.key.name, self._uri
        server.register_resource(
            uri,
            GeneratedFunction(self._reading.get, owner, ACTION, origin="model", variables=[key]),
            permission=options.permission,
            scopes=options.scopes,
            check=self._make_check(options.check),
            mime_type="application/json",
            **template,
        )

        def complete(ctx: Context, value: str) -> Completion:
            return self.complete(ctx, value, options.check)

        complete.explain = partial(explain_values, f"the completion of {key}")  # type: ignore[attr-defined]
        server.completion(uri, key)(complete)
        self._follow()

    def _make_check(self, own: Callable[..., Any] | None) -> Callable[..., bool] | None:
        """Return the check of a read, which also decides who is notified of a change; None: nothing.

        It runs after the commit, when nobody sees a deleted object. Where all users see all
        objects, there is nothing to check, and clients are notified of deletions.
        """
        if self._is_for_all and own is None:
            return None

        def may_read(ctx, **arguments):  # type: ignore[no-untyped-def]
            wanted = {self._definition.key.name: self._reading.key_of(arguments)}
            if own is not None and not _call_check(own, ctx, wanted):
                return False
            if self._is_for_all:
                return True
            rows = self._find_rows(ctx.user, "get")
            try:
                return rows.filter(**wanted).exists()
            except Exception as error:
                if is_about_values(error):
                    return False
                raise

        return may_read

    # -- completion

    def complete(self, ctx: Context, value: str, check: Callable[..., Any] | None) -> Completion:
        """Return the keys that begin with a text, of the objects that the caller may see.

        Args:
            ctx: of the caller.
            value: the text.
            check: of the template; the first `MAX_VALUES` keys are checked.
        """
        field = self._definition.key
        try:
            rows = self._find_beginning(self._find_rows(ctx.user, "get"), field, value)
        except ValidationError:
            return Completion([])
        keys = list(rows.values_list(field.attname, flat=True)[: MAX_VALUES + 1])
        if check is not None:
            keys = [key for key in keys if _call_check(check, ctx, {field.name: key})]
        return Completion([str(key) for key in keys])

    def _find_beginning(self, rows: models.QuerySet[Any], field: Any, value: str) -> Any:
        """Return the rows whose keys begin with a text, in order.

        Raises:
            ValidationError: no key can begin with it.
        """
        compared, name = value_field(field), field.name
        rows = rows.order_by(name)
        if not value:
            return rows
        if len(value) > MAX_PREFIX_CHARS:
            raise ValidationError(_("Enter a valid value."))
        check_plain(value)
        if isinstance(compared, models.CharField | models.TextField):
            return rows.filter(**{f"{name}__startswith": value})
        if isinstance(compared, models.IntegerField):
            text = Cast(field.attname, models.CharField())
            return rows.alias(mcp_text=text).filter(mcp_text__startswith=value)
        return rows.filter(**{name: to_python(field, value, rows.db)})

    # -- changes

    def notify(self, keys: Iterable[Any], using: str | None = None) -> None:
        """Tell clients that the objects with these keys have changed, after the commit."""
        server = self._find_server()
        if server is None:
            return
        for key in keys:
            server.notify_resource_updated(self._make_uri(key), using=using)

    def _make_uri(self, key: Any) -> str:
        name = self._definition.key.name
        plain, reserved = quote(str(key), safe=""), quote(str(key), safe=_RESERVED)
        return self._uri.replace(f"{{{name}}}", plain).replace(f"{{+{name}}}", reserved)

    def _follow(self) -> None:
        """Follow changes of the objects, and of the rows of their to-many relations that are shown."""
        model, shown = self._definition.model, self._definition.shown
        # As long as the server is there: signals hold their receivers weakly.
        post_save.connect(self._on_change, sender=model)
        post_delete.connect(self._on_change, sender=model)
        for name in shown.related:
            relation = shown.relations[name]
            if relation.many_to_many:
                is_forward = isinstance(relation, models.Field)
                owner: Any = relation.remote_field if is_forward else relation
                m2m_changed.connect(self._on_members, sender=owner.through)
            elif isinstance(relation, models.ManyToOneRel):
                post_save.connect(self._on_related, sender=relation.related_model)
                # A deleted row leads nowhere any more.
                pre_delete.connect(self._on_related, sender=relation.related_model)

    def _on_change(self, instance: Any, using: str, **signal: Any) -> None:
        if not signal.get("raw"):
            self.notify([getattr(instance, self._definition.key.attname)], using)

    def _on_related(self, sender: type[models.Model], instance: Any, using: str, **_: Any) -> None:
        if self._find_server() is None:
            return
        shown = self._definition.shown
        for name in shown.related:
            relation = shown.relations[name]
            if isinstance(relation, models.ManyToOneRel) and relation.related_model is sender:
                value = getattr(instance, relation.field.attname)
                target = relation.field.target_field.name
                self.notify(self._find_keys(using, **{target: value}), using)

    def _on_members(
        self, instance: Any, using: str, action: str, pk_set: set[Any] | None, **_: Any
    ) -> None:
        if self._find_server() is None or not action.startswith("post_"):
            return
        if isinstance(instance, self._definition.model):
            self._on_change(instance, using)
        elif pk_set:
            self.notify(self._find_keys(using, pk__in=pk_set), using)

    def _find_keys(self, using: str, **condition: Any) -> Iterable[Any]:
        key = self._definition.key.attname
        rows = self._definition.model._base_manager.using(using).filter(**condition)
        return rows.order_by().values_list(key, flat=True)


def _call_check(check: Callable[..., Any], ctx: Context, arguments: Mapping[str, Any]) -> bool:
    """Return whether a check of the site allows a call; it takes the arguments that it names."""
    first, *others = inspect.signature(check).parameters.values()
    is_context = first.name == "ctx" or first.annotation in (Context, "Context")
    takes_all = any(other.kind is inspect.Parameter.VAR_KEYWORD for other in others)
    names = set(arguments) if takes_all else {other.name for other in others}
    given = {name: value for name, value in arguments.items() if name in names}
    verdict = check(ctx if is_context else ctx.user, **given)
    if inspect.iscoroutine(verdict):
        # A coroutine would count as true.
        verdict.close()
        raise TypeError("check= of model tools takes a synchronous function")
    return bool(verdict)


def to_uri(scheme: str, key: str) -> str:
    """Return the template of URIs with a scheme made from a word, such as `order-line://{id}`."""
    text = scheme.replace("_", "-").strip("-")
    return f"{text if text[:1].isalpha() else f'x-{text}'}://{{{key}}}"
