"""The tool that deletes an object, after it has told what falls with it and the user has agreed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from django.db import models
from django.db.models.deletion import Collector, ProtectedError, RestrictedError
from django.utils.translation import gettext as _

from django_mcp import ToolError
from django_mcp.agreement import read_state
from django_mcp.context import Context
from django_mcp.contrib.confirming import Count, Deletion, quote
from django_mcp.contrib.models.definition import Definition
from django_mcp.contrib.models.writing import WriteHooks, Writing, log_write
from django_mcp.protocol.json import JSONObject


class Deleting:
    """Deletes objects.

    Args:
        definition: of the model.
        writing: finds and locks them.
        hooks: what the site decides.
    """

    def __init__(self, definition: Definition, writing: Writing, hooks: WriteHooks) -> None:
        self._definition = definition
        self._writing = writing
        self._hooks = hooks

    def delete(self, ctx: Context, arguments: dict[str, Any]) -> JSONObject:
        """Delete an object, or say what has to be confirmed before.

        Raises:
            DoesNotExist: there is none for the user.
            ToolError: other objects need it, or the confirmation is not for this.
        """
        with self._writing.locking(ctx, "delete", arguments) as instance:
            return self._delete(ctx, arguments, instance)

    def _delete(self, ctx: Context, arguments: dict[str, Any], instance: Any) -> JSONObject:
        meta, key = self._definition.model._meta, self._definition.key
        what = f"{meta.verbose_name} {quote(key.value_to_string(instance))}"
        falls = self._find_falls(instance, what)
        deletion = Deletion(what, falls, _read_state(ctx.user, instance))
        refusal = deletion.ask(ctx, arguments)
        if refusal is not None:
            return refusal
        log_write(ctx.user, instance)
        self._hooks.delete_model(ctx.user, instance)
        return deletion.done()

    def _find_falls(self, instance: Any, what: str) -> list[Count]:
        """Return how many objects of which kind are deleted with an object."""
        collector = Collector(using=instance._state.db, origin=instance)
        try:
            collector.collect([instance])
        except ProtectedError as error:
            raise _needed(what, error.protected_objects) from None
        except RestrictedError as error:
            raise _needed(what, error.restricted_objects) from None
        own = {self._definition.model, *self._definition.model._meta.get_parent_list()}
        counter: Counter[type[models.Model]] = Counter()
        for model, instances in collector.data.items():
            counter[model] += len(instances) - (model in own)
        for rows in collector.fast_deletes:
            counter[rows.model] += rows.count()
        return _count(counter)


def _read_state(user: Any, instance: Any) -> list[Any]:
    """Return what differs for another user, another object and another state of it."""
    return [str(user.pk), instance._meta.label, str(instance.pk), read_state(instance)]


def _count(found: Counter[type[models.Model]]) -> list[Count]:
    return sorted(
        (str(each._meta.verbose_name if count == 1 else each._meta.verbose_name_plural), count)
        for each, count in found.items()
        if count > 0
    )


def _needed(what: str, instances: Iterable[Any]) -> ToolError:
    counts = _count(Counter(type(instance) for instance in instances))
    by = ", ".join(f"{count} {name}" for name, count in counts)
    return ToolError(
        _("%(what)s cannot be deleted, because other objects refer to it: %(by)s.")
        % {"what": what, "by": by}
    )
