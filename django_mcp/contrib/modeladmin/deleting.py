"""The tools that delete objects, after they have told what falls with them and the user has agreed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from django.contrib.admin.models import DELETION
from django.contrib.admin.utils import NestedObjects, model_ngettext
from django.core.exceptions import PermissionDenied
from django.db import DatabaseError, router
from django.db.models import QuerySet
from django.utils.translation import gettext as _

from django_mcp import ToolError
from django_mcp.agreement import read_state
from django_mcp.context import Context
from django_mcp.contrib.confirming import RESULT_SCHEMA, Count, Deletion, quote
from django_mcp.contrib.modeladmin.access import DELETE, AdminAccess
from django_mcp.contrib.modeladmin.reading import AdminReading
from django_mcp.contrib.modeladmin.requests import MESSAGES_SCHEMA, make_request
from django_mcp.contrib.models.writing import log_without_text
from django_mcp.forms.values import text_of
from django_mcp.log import logger
from django_mcp.protocol.json import JSONObject
from django_mcp.registry.object_schemas import object_schema
from django_mcp.server.asking.confirming import CONFIRMATION, CONFIRMATION_SCHEMA

DELETED_SCHEMA: JSONObject = {
    **RESULT_SCHEMA,
    "properties": {**RESULT_SCHEMA["properties"], "messages": MESSAGES_SCHEMA},
}


class Several(Protocol):
    """The action that deletes several objects."""

    @property
    def keys(self) -> JSONObject:
        """The schema of their keys."""

    def run(self, ctx: Context, arguments: dict[str, Any]) -> JSONObject:
        """Delete them, or say what has to be confirmed before."""


class AdminDeleting:
    """Deletes objects.

    Args:
        access: decides what a user may do.
        reading: has the argument that says which object is meant.

    Attributes:
        several: deletes several objects, if the admin has Django's action for that.
    """

    several: Several | None = None

    def __init__(self, access: AdminAccess, reading: AdminReading) -> None:
        self._access = access
        self._admin: Any = access.model_admin
        self._reading = reading

    @property
    def input(self) -> JSONObject:
        """The input schema of the tool."""
        key, schema = self._reading.key, self._reading.key_schema
        if self.several is not None:
            schema = {"anyOf": [schema, self.several.keys]}
        return object_schema({key: schema, CONFIRMATION: CONFIRMATION_SCHEMA}, required=[key])

    def delete(self, ctx: Context, arguments: dict[str, Any]) -> JSONObject:
        """Delete an object or several, or say what has to be confirmed before.

        Raises:
            DoesNotExist: there is none, or the user may not.
            ToolError: other objects need it, or the user may not delete what falls with it.
        """
        key = arguments[self._reading.key]
        if self.several is not None and isinstance(key, list):
            return self.several.run(ctx, arguments)
        request = make_request(ctx, self._access.site, "POST", {"post": "yes"})
        instance = self._access.lock_one(request, DELETE, key)
        deletion = self.describe(request, [instance])
        refusal = deletion.ask(ctx, arguments)
        if refusal is not None:
            return refusal
        self._log(request, [instance])
        self._admin.delete_model(request, instance)
        return {**deletion.done(), "messages": list(request._messages)}

    def delete_selected(self, request: Any, rows: QuerySet[Any]) -> bool:
        """Delete rows of which some have no text, as the admin's action does; return whether there are such."""
        objects = list(rows)
        if all(text_of(instance) is not None for instance in objects):
            return False
        self._log(request, objects)
        self._admin.delete_queryset(request, rows)
        return True

    def _log(self, request: Any, objects: Sequence[Any]) -> None:
        with_text = [instance for instance in objects if text_of(instance) is not None]
        for instance in objects:
            if instance not in with_text:
                log_without_text(request.user, instance, DELETION, "")
        if with_text:
            self._admin.log_deletions(request, with_text)

    def _collect(self, request: Any, objects: Sequence[Any]) -> tuple[Any, Any, Any]:
        """Return how many objects of which kind fall, what the user must not delete, and what protects them."""
        try:
            deleted = self._admin.get_deleted_objects(objects, request)
            _tree, counts, needed, protected = deleted
        except (DatabaseError, PermissionDenied):
            raise
        except Exception:
            if self._access.overrides("get_deleted_objects"):
                raise
            # Django shows the text of each object.
            logger.warning("What falls with %s has no text", objects[0]._meta, exc_info=True)
            return self._collect_without_texts(request, objects)
        return counts, needed, protected

    def _collect_without_texts(self, request: Any, objects: Sequence[Any]) -> tuple[Any, Any, Any]:
        collector = NestedObjects(using=router.db_for_write(self._access.model), origin=objects)
        collector.collect(objects)
        counts, needed = {}, set()
        fallen: Mapping[Any, Collection[Any]] = collector.model_objs
        for model, instances in fallen.items():
            counts[model._meta.verbose_name_plural] = len(instances)
            other = self._access.of(model)
            if other is not None and not all(
                other.allows(request, DELETE, instance) for instance in instances
            ):
                needed.add(model._meta.verbose_name)
        return counts, needed, collector.protected

    def describe(self, request: Any, objects: Sequence[Any]) -> Deletion:
        """Return what the deletion of some objects comes to.

        Raises:
            ToolError: it cannot be done.
        """
        what = f"{self._admin.opts.verbose_name} {quote(text_of(objects[0]) or objects[0].pk)}"
        if len(objects) > 1:
            what = f"{len(objects)} {model_ngettext(self._admin.opts, len(objects))}"
        counts, needed, protected = self._collect(request, objects)
        if needed:
            raise ToolError(
                _("%(what)s cannot be deleted, since you must not delete: %(names)s.")
                % {"what": what, "names": ", ".join(sorted(map(str, needed)))}
            )
        if protected:
            raise ToolError(
                _("%(what)s cannot be deleted, because other objects refer to it: %(by)s.")
                % {"what": what, "by": len(protected)}
            )
        label = self._access.model._meta.label
        state = [read_state(instance) for instance in objects]
        told = [self._access.site.name, str(request.user.pk), label, state]
        return Deletion(what, self._falls(counts, len(objects)), told)

    def _falls(self, counts: Mapping[Any, int], own: int) -> list[Count]:
        """Return what is deleted besides the objects themselves."""
        plural = str(self._admin.opts.verbose_name_plural)
        falls = {str(name): count for name, count in counts.items()}
        falls[plural] = falls.get(plural, 0) - own
        return sorted((name, count) for name, count in falls.items() if count > 0)
