"""The inlines of a `ModelAdmin`: rows of other models, which its page shows and saves with an object."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from django.contrib.admin.options import InlineModelAdmin
from django.contrib.contenttypes.admin import GenericInlineModelAdmin
from django.contrib.contenttypes.fields import GenericRelation
from django.db.models import Model, QuerySet
from django.forms.formsets import DELETION_FIELD_NAME

from django_mcp.contrib.credentials import find_credential_word
from django_mcp.contrib.generated import MAX_KEYS, TRUNCATED, TRUNCATED_SCHEMA
from django_mcp.contrib.modeladmin.access import AdminAccess
from django_mcp.contrib.modeladmin.names import AdminNames
from django_mcp.contrib.modeladmin.personal_choices import find_personal_choices
from django_mcp.contrib.modeladmin.sensitive import (
    is_of_security,
    is_secret,
    is_secret_field,
    is_secret_key,
)
from django_mcp.contrib.modeladmin.shown import AdminShown
from django_mcp.forms import FormProblem, form_schema, key_schema
from django_mcp.log import logger
from django_mcp.protocol.json import JSONObject
from django_mcp.registry.object_schemas import object_schema

DELETE_ROW = "_delete"
"""The name of what says of a row that it is deleted."""

_OF_FORM_SETS = ("data", "files", "save_as_new")
"""Arguments of formsets that come from what a browser sends."""


class InlineAccess(AdminAccess):
    """Decides what is shown of the rows of an inline, and which objects they may lead to."""

    def __init__(self, parent: AdminAccess, inline: Any) -> None:
        super().__init__(parent.site, inline)
        self._others = parent._others

    def overrides(self, *names: str) -> bool:
        """Return whether the class has methods of its own in place of those of Django."""
        cls = type(self.model_admin)
        base = GenericInlineModelAdmin if _is_generic(cls) else InlineModelAdmin
        names = tuple("get_formset" if name == "get_form" else name for name in names)
        return any(getattr(cls, name) is not getattr(base, name, None) for name in names)


def _is_generic(cls: type[Any]) -> bool:
    return issubclass(cls, GenericInlineModelAdmin)


class AdminInline:
    """One inline.

    Args:
        parent: decides about the object that has the rows.
        inline: of a `ModelAdmin`.
        formset: its class, for a user who may do everything.
        name: of the rows, in arguments and results.
        request: one that may do everything.
        allow_sensitive: names of fields that look like secrets and are none.
        relation_names: how users name related objects.

    Attributes:
        key: the name of the primary key of the rows.
        problem: why no row can be added; None, if one can be.
        is_written: whether rows can be added, changed or deleted at all.
    """

    def __init__(
        self,
        parent: AdminAccess,
        inline: Any,
        formset: Any,
        name: str,
        request: Any,
        allow_sensitive: Collection[str],
        relation_names: AdminNames,
    ) -> None:
        self.name = name
        self.model: type[Model] = inline.model
        self.key: str = inline.model._meta.pk.name
        self._inline = inline
        self._formset = formset
        self._request = request
        self._allowed = allow_sensitive
        self._parent = parent
        self._relation_names = relation_names
        access = InlineAccess(parent, inline)
        self._access = access
        self._makes_formsets = access.overrides("get_formset")
        self._shown = AdminShown(access, request, allow_sensitive)
        self._needed, problem = self._find_needed()
        can_change = inline.has_change_permission(request, parent.sample)
        if problem is None and not inline.has_add_permission(request, parent.sample):
            problem = "its inline adds none"
        self.problem = problem
        self.is_written = problem is None or can_change or formset.can_delete

    # -- describing

    @property
    def output(self) -> JSONObject:
        """The schema of the rows in results."""
        names = self._names(self._request, self._parent.sample)
        return {
            "type": "array",
            "items": self._shown.describe(names),
            "title": str(self._inline.verbose_name_plural),
        }

    @property
    def form_fields(self) -> Mapping[str, Any]:
        """The fields of the form of a row, by name."""
        fields: Mapping[str, Any] = self._formset.form.base_fields
        return fields

    @property
    def min_num(self) -> int:
        """How many rows an object has at least."""
        return int(self._formset.min_num or 0)

    def input(self, *, is_new: bool) -> JSONObject:
        """Return the schema of the rows among the arguments."""
        form = self._formset.form
        fields = form_schema(
            form,
            is_partial=True,
            exclude=self.closed_fields(form.base_fields),
            allow_sensitive=self._allowed,
            personal_choices=self._personal_choices,
            tell=lambda _field, model: self._relation_names.tell(self.name, model),
        )["properties"]
        least = {"minItems": self.min_num} if is_new and self.min_num else {}
        if is_new:
            told = f"Each needs {', '.join(self._needed)}." if self._needed else ""
            properties = {**fields}
        else:
            changes = f"A row with {self.key} is changed, one without is added"
            if self.problem is None:
                changes += f", which needs {', '.join(self._needed)}" if self._needed else ""
            else:
                changes = f"A row has its {self.key}; none can be added"
            told = f"{changes}. Rows that are not named stay."
            key = key_schema(self.model._meta.pk)
            properties = {**fields, self.key: fields.get(self.key, key)}
            if self._formset.can_delete:
                properties[DELETE_ROW] = {"type": "boolean"}
        return {
            "type": "array",
            "items": object_schema(properties),
            **least,
            "maxItems": MAX_KEYS,
            "title": str(self._inline.verbose_name_plural),
            **({"description": told} if told else {}),
        }

    @cached_property
    def _personal_choices(self) -> set[str]:
        def make_form(request: Any) -> Any:
            return self._inline.get_formset(request, self._parent.sample).form

        return find_personal_choices(self._access, self.form_fields, make_form)

    def _find_needed(self) -> tuple[list[str], str | None]:
        """Return the fields that a new row needs, and why there can be none; None, if there can."""
        form = self._formset.form
        secrets = self.closed_fields(form.base_fields)
        try:
            for name in secrets:
                field = form.base_fields.get(name)
                is_own = name in self._own_fields()
                if field is not None and not is_own and field.required and field.initial is None:
                    raise FormProblem(f"the field {name!r} is required and looks like a secret", "")
            schema = form_schema(form, exclude=secrets, allow_sensitive=self._allowed)
        except FormProblem as problem:
            return [], str(problem)
        return [str(name) for name in schema.get("required", ())], None

    def closed_fields(self, fields: Mapping[str, Any]) -> set[str]:
        """Return the fields of a form that no caller fills in."""
        secrets = {
            name
            for name, field in fields.items()
            if name not in self._allowed
            and (is_secret_field(field) or is_secret(self._inline, name, self._allowed))
        }
        return secrets | self._own_fields()

    def _own_fields(self) -> set[str]:
        """Return the fields of a form that say which object has the row."""
        formset = self._formset
        fields = (getattr(formset, name, None) for name in ("fk", "ct_field", "ct_fk_field"))
        return {field.name for field in fields if field is not None}

    # -- reading

    def _names(self, request: Any, instance: Any) -> list[Any]:
        """Return the names of the fields that a user sees of each row of an object."""
        return self._without_own(self._shown.names_of_page(request, instance))

    def _without_own(self, names: Collection[Any]) -> list[Any]:
        own = self._own_fields()
        return [name for name in names if name not in own]

    def read(
        self, request: Any, admin: Any, inline: Any, instance: Any, formset_class: Any
    ) -> list[JSONObject]:
        """Return the rows of an object, up to one more than are shown.

        Args:
            request: of the user.
            admin: of the object.
            inline: of the user.
            instance: the object.
            formset_class: the one of the user, if it was made already; else None.
        """
        shown, is_usual = self._shown, _attributes_of(inline) == _attributes_of(self._inline)
        if not is_usual:
            # Its `exclude`, for example, is another one for this user.
            shown = AdminShown(InlineAccess(self._parent, inline), self._request, self._allowed)
        if formset_class is None:
            # To make the class takes long, but one that the site makes may have rules about the user.
            formset_class = (
                self._formset
                if is_usual and not self._makes_formsets
                else inline.get_formset(request, instance)
            )
        prefix = self._formset.get_default_prefix() or self.name
        options = admin.get_formset_kwargs(request, instance, inline, prefix)
        formset = formset_class(**without_data(options))
        names = self._without_own(shown.names_of_page(request, instance))
        rows = formset.get_queryset()
        if isinstance(rows, QuerySet):
            rows = shown.load(rows, names)
        objects = list(rows[: MAX_KEYS + 1])
        for row in objects:
            shown.complete(row, names)
        return shown.read(request, objects, names)


def _attributes_of(inline: Any) -> dict[str, Any]:
    """Return what the site has set on an inline, perhaps for one user, without what Django sets."""
    return {name: value for name, value in vars(inline).items() if name != "max_num"}


def without_data(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a formset without those that come from what a browser sends."""
    return {name: value for name, value in options.items() if name not in _OF_FORM_SETS}


class AdminInlines:
    """The inlines of a `ModelAdmin`.

    Args:
        access: decides about the object that has the rows.
        request: one that may do everything.
        find_taken: returns the names of other arguments and results. It is called if there are inlines, as it makes
            forms.
        allow_sensitive: names of fields that look like secrets and are none.
        relation_names: how users name related objects.

    Attributes:
        problems: what the tools lack.
    """

    def __init__(
        self,
        access: AdminAccess,
        request: Any,
        find_taken: Callable[[], Collection[str]],
        allow_sensitive: Collection[str],
        relation_names: AdminNames,
    ) -> None:
        self._access = access
        self._admin: Any = access.model_admin
        self._request = request
        self._allowed = allow_sensitive
        self._relation_names = relation_names
        self.problems: list[str] = []
        self._known: dict[tuple[type[Any], int], AdminInline] = {}
        self._of_new: set[str] = set()
        names: set[str] | None = None
        # An object may have other inlines than one that is added.
        for obj in (access.sample, None):
            for place, formset, inline in self._list(request, obj):
                if names is None:
                    names = set(find_taken())
                if place not in self._known:
                    self._add(place, formset, inline, names)
                if obj is None and place in self._known:
                    self._of_new.add(self._known[place].name)

    def _list(self, request: Any, obj: Any) -> Iterator[tuple[tuple[type[Any], int], Any, Any]]:
        try:
            formsets = list(self._admin.get_formsets_with_inlines(request, obj))
        except Exception as error:
            # They may need an object of the site.
            logger.debug("No inlines of %s", self._admin, exc_info=True)
            self.problems.append(f"its inlines are left out, since they cannot be made: {error!r}")
            return
        yield from place_all(formsets)

    def _add(self, place: Any, formset: Any, inline: Any, names: set[str]) -> None:
        label = inline.model._meta.label
        if is_secret_key(inline.model, self._allowed):
            self.problems.append(f"the inline of {label} is left out: its key looks like a secret")
            return
        if is_of_security(inline.model):
            self.problems.append(f"the inline of {label} is left out: its app decides who gets in")
            return
        word = find_credential_word([inline.model.__name__])
        if word is not None:
            self.problems.append(f"the inline of {label} is left out: {word!r} is in its name")
            return
        name = _choose_name(formset, inline, names)
        try:
            known = AdminInline(
                self._access,
                inline,
                formset,
                name,
                self._request,
                self._allowed,
                self._relation_names,
            )
            _ = known.output, known.input(is_new=False)
        except Exception as error:
            logger.debug("No rows of %s", inline, exc_info=True)
            self.problems.append(f"the inline of {label} is left out: {error!r}")
            return
        if known.problem is not None and known.is_written:
            self.problems.append(f"no tool adds rows of {name}: {known.problem}")
        names.add(name)
        self._known[place] = known

    def __bool__(self) -> bool:
        return bool(self._known)

    @property
    def forms(self) -> list[tuple[type[Model], Mapping[str, Any]]]:
        """The models of the rows, with the fields of their forms."""
        return [(known.model, known.form_fields) for known in self._known.values()]

    @property
    def names(self) -> set[str]:
        """The names of the rows, in arguments and results."""
        return {known.name for known in self._known.values()}

    def find(self, place: tuple[type[Any], int]) -> AdminInline | None:
        """Return the inline of a class, by how many of it stand before; None, if it was not known at start-up."""
        return self._known.get(place)

    # -- describing

    @property
    def outputs(self) -> JSONObject:
        """The schemas of all rows in results, by name."""
        schemas = {known.name: known.output for known in self._known.values()}
        return {**schemas, TRUNCATED: TRUNCATED_SCHEMA} if schemas else {}

    def find_needed(self) -> str | None:
        """Return the name of an inline of which a new object needs rows that no tool adds; None: there is none."""
        for place, formset, inline in self._list(self._request, None):
            known = self._known.get(place)
            if formset.min_num and (known is None or known.problem is not None):
                return str(inline.verbose_name_plural)
        return None

    def inputs(self, *, is_new: bool) -> tuple[JSONObject, list[str]]:
        """Return the schemas of all rows among the arguments by name, and which are required."""
        chosen = [
            known
            for known in self._known.values()
            if known.is_written
            and (not is_new or (known.name in self._of_new and known.problem is None))
        ]
        schemas = {known.name: known.input(is_new=is_new) for known in chosen}
        return schemas, [known.name for known in chosen if is_new and known.min_num]

    # -- reading

    def read(
        self, request: Any, instance: Any, chosen: Collection[str] | None = None
    ) -> JSONObject:
        """Return the rows of an object that a user sees, by name.

        Args:
            request: of the user.
            instance: the object.
            chosen: the names that are wanted, of others there are no rows; None: all.
        """
        result: JSONObject = {}
        cut: list[str] = []
        for place, formset_class, inline in self._list_visible(request, instance):
            known = self._known.get(place)
            if known is None or not inline.has_view_or_change_permission(request, instance):
                continue
            if chosen is not None and known.name not in chosen:
                result[known.name] = []
                continue
            rows = known.read(request, self._admin, inline, instance, formset_class)
            result[known.name] = rows[:MAX_KEYS]
            if len(rows) > MAX_KEYS:
                cut.append(known.name)
        return {**result, TRUNCATED: cut} if cut else result

    def _list_visible(
        self, request: Any, instance: Any
    ) -> Iterator[tuple[tuple[type[Any], int], Any, Any]]:
        if not self._known:
            return
        if self._access.overrides("get_formsets_with_inlines"):
            formsets = self._admin.get_formsets_with_inlines(request, instance)
        else:
            # Without the classes of their formsets, which take long to make.
            inlines = self._admin.get_inline_instances(request, instance)
            formsets = ((None, inline) for inline in inlines)
        yield from place_all(formsets)


def place_all(
    formsets: Any,
) -> Iterator[tuple[tuple[type[Any], int], Any, Any]]:
    """Yield classes of formsets with their inlines, and the class of each with how many of it stand before."""
    counts: dict[type[Any], int] = {}
    for formset, inline in formsets:
        cls = type(inline)
        counts[cls] = counts.get(cls, -1) + 1
        yield (cls, counts[cls]), formset, inline


def _choose_name(formset: Any, inline: Any, taken: Collection[str]) -> str:
    """Return the name of the rows of an inline: that by which the object itself leads to them."""
    meta = inline.model._meta
    name = str(meta.model_name)
    if _is_generic(type(inline)):
        relations: Sequence[Any] = inline.parent_model._meta.private_fields
        names = [
            relation.name
            for relation in relations
            if isinstance(relation, GenericRelation) and relation.related_model is inline.model
        ]
        name = names[0] if names else f"{name}_set"
    else:
        name = formset.get_default_prefix() or f"{name}_set"
    while name in taken:
        name = f"{name}_rows"
    return name


def marks_deletion(form: Any) -> bool:
    """Return whether a form of a formset deletes its row."""
    return bool(getattr(form, "cleaned_data", {}).get(DELETION_FIELD_NAME))
