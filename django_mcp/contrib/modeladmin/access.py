"""The one place that decides what a user may do with the objects of a `ModelAdmin`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from django.contrib.admin import AdminSite, ModelAdmin
from django.contrib.auth.admin import UserAdmin
from django.core.exceptions import ObjectDoesNotExist, ValidationError
from django.db import connections, router
from django.db.models import Model, QuerySet

from django_mcp.contrib.history import recording_user
from django_mcp.contrib.modeladmin.requests import lead_to_page, make_request, make_request_of
from django_mcp.contrib.models.databases import find_database, in_transaction
from django_mcp.contrib.models.followed import read_each
from django_mcp.contrib.models.paths import Path
from django_mcp.forms.values import to_python, value_field

SEARCH, GET, CREATE, UPDATE, DELETE = "search", "get", "create", "update", "delete"

RELATED = "related"
"""To see an object as the value of a relation, to filter by it, and to choose it in a form."""

OWN = (SEARCH, GET, CREATE, UPDATE, DELETE, RELATED)
"""What tools do by themselves. All other names are those of the admin's actions."""

_VIEW_HOOKS = ("has_view_permission", "has_change_permission", "has_view_or_change_permission")


def make_samples(model: type[Model]) -> Iterator[Model]:
    """Yield objects that stand in for one of a model: one without a key, and one as if it were stored.

    The second is for methods that look at relations to many, which no object without a key has.
    """
    yield model()
    key: Any = model._meta.pk
    with suppress(ValidationError):
        stored = model(pk=value_field(key).to_python(0))
        stored._state.adding = False
        yield stored


class AdminAccess:
    """Decides by the rules of one `ModelAdmin`. Every tool asks `allows`, by itself or through the methods below.

    Args:
        site: the admin site.
        model_admin: of one model.
        sample: an object to describe what the admin has for one; None: its methods take none of `make_samples`.

    Attributes:
        judges_objects: whether the admin decides about each object, not about the user alone.
    """

    def __init__(self, site: AdminSite, model_admin: ModelAdmin[Any], sample: Any = None) -> None:
        self.site, self.sample = site, sample
        self.model_admin = model_admin
        self.model: type[Model] = model_admin.model
        self.judges_objects = self.overrides(*_VIEW_HOOKS)
        self._others: dict[type[Model], AdminAccess | None] = {}

    def overrides(self, *names: str) -> bool:
        """Return whether the `ModelAdmin` has methods of its own in place of those of Django."""
        return overrides(self.model_admin, *names)

    def find_rules(self) -> Iterator[Callable[..., Any]]:
        """Yield the methods of the admin, its inlines and its site that say what a user may do."""
        for owner in (self.model_admin, *self.model_admin.inlines):
            for name in dir(owner):
                if name.startswith("has_") and name.endswith("_permission"):
                    yield getattr(owner, name)
        yield self.site.has_permission

    def allows(self, request: Any, action: str, obj: Any = None) -> bool:
        """Return whether the user of a request may do something.

        Args:
            request: of the admin.
            action: one of `OWN`, or the name of an action of the admin.
            obj: what it is done with; None: any object at all.
        """
        admin = self.model_admin
        if not grants(self.site.has_permission(request)):
            return False
        if action == RELATED:
            return grants(admin.has_view_or_change_permission(request, obj))
        if not grants(admin.has_module_permission(request)):
            return False
        if action in (SEARCH, GET):
            return grants(admin.has_view_or_change_permission(request, obj))
        if action == CREATE:
            # Who may add users could make a superuser, so Django asks for both.
            is_of_users = isinstance(admin, UserAdmin)
            return grants(admin.has_add_permission(request)) and (
                not is_of_users or grants(admin.has_change_permission(request))
            )
        if action == UPDATE:
            return grants(admin.has_change_permission(request, obj))
        if action == DELETE:
            return grants(admin.has_delete_permission(request, obj))
        return self._allows_action(request, action, obj)

    def _allows_action(self, request: Any, name: str, obj: Any) -> bool:
        admin = self.model_admin
        # The page of the admin that has the actions is for those who may view.
        if not grants(admin.has_view_or_change_permission(request, obj)):
            return False
        action = get_actions(admin, request).get(name)
        if action is None:
            return False
        kinds: Sequence[str] = getattr(action[0], "allowed_permissions", ())
        if obj is None or not kinds:
            return True
        return any(self._has(request, kind, obj) for kind in kinds)

    def _has(self, request: Any, kind: str, obj: Any) -> bool:
        judge = getattr(self.model_admin, f"has_{kind}_permission")
        # Permissions of the site's own may be about the request alone, as that to add is.
        takes_object = "obj" in inspect.signature(judge).parameters
        return grants(judge(request, obj) if takes_object else judge(request))

    # -- objects

    def find_rows(self, request: Any, action: str) -> QuerySet[Any]:
        """Return the objects among which the user may do something."""
        rows: QuerySet[Any] = self.model_admin.get_queryset(request)
        return rows if self.allows(request, action) else rows.none()

    def find_database(self, request: Any) -> str:
        """Return the database in which objects are written."""
        return find_database(self.model_admin.get_queryset(request))

    def in_transaction(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function of a tool that runs in a transaction of the database of the objects.

        Packages that keep the history learn its user.

        The transaction around the call is one of the database that routers choose.
        """

        def run_in_transaction(ctx: Any, arguments: dict[str, Any]) -> Any:
            request = make_request_of(ctx.user, self.site)
            with (
                in_transaction(self.find_database(request), ctx),
                recording_user(lambda: make_request(ctx, self.site, "POST"), self.model_admin),
            ):
                return run(ctx, arguments)

        return run_in_transaction

    def keep_allowed(self, request: Any, action: str, objects: Iterable[Any]) -> list[Any]:
        """Return the objects with each of which the user may do something."""
        if action in (SEARCH, GET, RELATED) and not self.judges_objects:
            return list(objects)  # the rules are about the user alone
        rows = list(objects)
        allowed = read_each(rows, lambda instance: self.allows(request, action, instance))
        return [instance for instance, is_allowed in zip(rows, allowed, strict=True) if is_allowed]

    def lead_to_object(self, request: Any, action: str, key: Any) -> None:
        """Have a request lead to the page of an object, for the rules that ask for it."""
        page = "delete" if action == DELETE else "change"
        lead_to_page(request, self.model_admin, page, key)

    def find_one(
        self, request: Any, action: str, key: Any, rows: QuerySet[Any] | None = None
    ) -> Any:
        """Return an object.

        Args:
            request: of the admin.
            action: what is to be done with it.
            key: its primary key.
            rows: where to look, among those of `find_rows`, which a request led to the object has given.

        Raises:
            DoesNotExist: there is none, or the user may not.
        """
        if rows is None:
            self.lead_to_object(request, action, key)
            rows = self.find_rows(request, action)
        if not self.overrides("get_object"):
            instance = self._load(rows, key)
        elif self.allows(request, action):
            instance = self.model_admin.get_object(request, str(key))
        else:
            instance = None
        if instance is None or not self.keep_allowed(request, action, [instance]):
            raise self.missing()
        return instance

    def _load(self, rows: QuerySet[Any], key: Any) -> Any:
        try:
            return rows.get(pk=self.to_key(key))
        except ObjectDoesNotExist:
            return None

    def lock_one(self, request: Any, action: str, key: Any) -> Any:
        """Return an object, locked until the end of the transaction; raises `DoesNotExist`."""
        self.lead_to_object(request, action, key)
        rows = self.find_rows(request, action)
        alias = find_database(rows)
        rows = rows.using(alias)
        # Locked by a query of its own: rows of a joined or grouped one cannot be.
        seen = rows.order_by().filter(pk=self.to_key(key)).values("pk")
        locked = self.model._base_manager.using(alias).select_for_update().filter(pk__in=seen)
        if connections[alias].features.has_select_for_update:
            list(locked.values_list("pk"))
        return self.find_one(request, action, key, rows)

    def to_key(self, key: Any) -> Any:
        """Return a primary key as the model has it; raises `DoesNotExist` if none can be that."""
        try:
            return to_python(self.model._meta.pk, key, router.db_for_read(self.model))
        except ValidationError:
            raise self.missing() from None

    def missing(self) -> ObjectDoesNotExist:
        """Return the error for an object that is not there, or not for the user."""
        model: Any = self.model
        error: ObjectDoesNotExist = model.DoesNotExist()
        return error

    # -- related objects

    def of(self, model: type[Model]) -> AdminAccess | None:
        """Return what decides about another model; None, if the admin has no rules for it."""
        if model not in self._others:
            # An object of a proxy, or of a child model, is one of the model that it extends.
            meta = model._meta
            nearest = (model, meta.concrete_model, *meta.get_parent_list())
            known = next(
                (
                    candidate
                    for candidate in nearest
                    if candidate and self.site.is_registered(candidate)
                ),
                None,
            )
            access = (
                None if known is None else AdminAccess(self.site, self.site.get_model_admin(known))
            )
            self._others[model] = access
        return self._others[model]

    def find_passed(self, path: Path) -> list[tuple[str, AdminAccess]]:
        """Return the relations that lead to the last field of a path, with what decides about each."""
        passed = []
        for length, field in enumerate(path.fields[:-1], 1):
            other = self.of(field.related_model)
            if other is not None:
                passed.append(("__".join(part.name for part in path.fields[:length]), other))
        return passed

    def find_judging(self, path: Path) -> AdminAccess | None:
        """Return what decides about each related object on a path, which no query can ask."""
        return next((each for _name, each in self.find_passed(path) if each.judges_objects), None)

    def hides_related(self, request: Any, path: Path) -> bool:
        """Return whether there may be related objects on a path that the user may not see."""
        return any(each.hides_some(request) for _name, each in self.find_passed(path))

    def hides_some(self, request: Any) -> bool:
        """Return whether there may be objects that the user may not see as values of relations."""
        return self.judges_objects or self.find_hidden(request) is not None

    def leave_out_hidden(self, request: Any, rows: QuerySet[Any], path: Path) -> QuerySet[Any]:
        """Return the rows without those for which a path leads to objects that the user may not see."""
        for length, field in enumerate(path.fields[:-1], 1):
            other = self.of(field.related_model)
            hidden = None if other is None else other.find_hidden(request)
            if other is not None and hidden is not None:
                names = [part.name for part in path.fields[:length]]
                to_key = "__".join((*names, other.find_way_from(field.related_model)))
                rows = rows.exclude((f"{to_key}__in", hidden.values("pk")))
        return rows

    def find_way_from(self, model: type[Model]) -> str:
        """Return what leads from a model, which may extend this one and have a key of its own, to the key of this one."""
        own: Any = self.model._meta.concrete_model
        if model._meta.concrete_model is own:
            return "pk"
        links = model._meta.get_path_to_parent(own)
        return "__".join((*(link.join_field.name for link in links), "pk"))

    def find_hidden(self, request: Any) -> QuerySet[Any] | None:
        """Return the objects that the user may not see as values of relations; None: there are none.

        Rules about single objects are not asked.
        """
        rows = self.model._base_manager.all()
        if not self.allows(request, RELATED):
            return rows
        if not self.overrides("get_queryset"):
            return None
        return rows.exclude(pk__in=self.model_admin.get_queryset(request).order_by().values("pk"))

    def find_related(self, request: Any, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Return those of some rows of another model that the user may choose and filter by.

        All rows are loaded if the admin decides about each object.
        """
        other = self.of(rows.model)
        if other is None:
            return rows
        if not other.allows(request, RELATED):
            return rows.none()
        if other.overrides("get_queryset"):
            seen = other.model_admin.get_queryset(request).order_by().values("pk")
            rows = rows.filter((f"{other.find_way_from(rows.model)}__in", seen))
        if other.judges_objects:
            allowed = other.keep_allowed(request, RELATED, rows)
            rows = rows.filter(pk__in=[instance.pk for instance in allowed])
        return rows

    def see_related(self, request: Any, model: type[Model], objects: Iterable[Any]) -> set[Any]:
        """Return the primary keys of those objects of another model that the user may see."""
        instances = {instance.pk: instance for instance in objects}
        other = self.of(model)
        if other is None:
            return set(instances)
        if not instances or not other.allows(request, RELATED):
            return set()
        if other.overrides("get_queryset"):
            way, rows = other.find_way_from(model), other.model_admin.get_queryset(request)
            if way == "pk":
                found = rows.filter(pk__in=list(instances))
            else:
                own = model._base_manager.using(rows.db).filter(pk__in=list(instances))
                found = own.filter((f"{way}__in", rows.order_by().values("pk")))
            seen = set(found.order_by().values_list("pk", flat=True))
            instances = {key: each for key, each in instances.items() if key in seen}
        return {
            instance.pk for instance in other.keep_allowed(request, RELATED, instances.values())
        }

    def see_all(self, request: Any, objects: Iterable[Model]) -> set[Model]:
        """Return those of some objects of any models that the user may see."""
        by_model: dict[type[Model], list[Model]] = {}
        for instance in objects:
            by_model.setdefault(type(instance), []).append(instance)
        reached: set[Model] = set()
        for model, theirs in by_model.items():
            seen = self.see_related(request, model, theirs)
            reached.update(instance for instance in theirs if instance.pk in seen)
        return reached


def overrides(model_admin: ModelAdmin[Any], *names: str) -> bool:
    """Return whether a `ModelAdmin` has methods of its own in place of those of Django."""
    cls = type(model_admin)
    return any(
        getattr(cls, name) is not getattr(ModelAdmin, name) or name in vars(model_admin)
        for name in names
    )


def grants(answer: Any) -> bool:
    """Return whether a rule of an admin grants something; a coroutine, which counts as true, does not."""
    if isinstance(answer, bool):
        return answer
    if inspect.iscoroutine(answer):
        answer.close()
        return False
    return bool(answer)


def get_actions(admin: Any, request: Any) -> dict[str, tuple[Callable[..., Any], Any]]:
    """Return the functions and descriptions of the actions that a user has, by name.

    Django 6.1 has records where releases before it have tuples.
    """
    return {
        name: (each[0], each[2]) if isinstance(each, tuple) else (each.func, each.description)
        for name, each in admin.get_actions(request).items()
    }
