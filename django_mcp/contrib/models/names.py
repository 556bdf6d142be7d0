"""Which fields name the objects of a model, so that arguments may have their values in place of keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from inspect import Parameter, signature
from typing import Any
from weakref import ref

from django.db import models

from django_mcp.contrib.finders import RelationText
from django_mcp.contrib.model_forms.names import Naming
from django_mcp.contrib.models.paths import find_sensitive, has_secret_values
from django_mcp.contrib.models.related import FindJudges, Related
from django_mcp.contrib.models.shown import Shown
from django_mcp.log import logger
from django_mcp.servers import MCPServer


def find_name_fields(model: type[models.Model]) -> list[Any]:
    """Return the fields whose values may name the objects of a model: its natural key, and unique texts.

    Secrets and the primary key are none of them.
    """
    meta = model._meta
    unique = [each.fields[0] for each in meta.total_unique_constraints if len(each.fields) == 1]
    natural = _find_natural_key(model)
    fields = [
        field
        for field in meta.concrete_fields
        if field.name == natural or field.unique or field.name in unique
    ]
    fields.sort(key=lambda field: field.name != natural)
    return [field for field in fields if _is_name(field)]


def _is_name(field: Any) -> bool:
    is_text = isinstance(field, models.CharField | models.TextField) and not field.is_relation
    is_secret = find_sensitive(field.name, ()) is not None or has_secret_values(field)
    return is_text and not (field.primary_key or field.choices or is_secret)


def _find_natural_key(model: type[models.Model]) -> str | None:
    """Return the field that is the natural key of a model by itself; None: there is none."""
    by_key = getattr(model._default_manager, "get_by_natural_key", None)
    key_of = getattr(model, "natural_key", None)
    try:
        if by_key is None or len(signature(by_key).parameters) != 1:
            return None
        if key_of is None:
            return next(iter(signature(by_key).parameters))
        # Each text is the name of its field, so the key says which field it is.
        texts = (models.CharField, models.TextField)
        columns = [each for each in model._meta.concrete_fields if isinstance(each, texts)]
        told = tuple(key_of(model(**{each.attname: each.name for each in columns})))
    except Exception:
        # It may need an object that is stored.
        logger.debug("No natural key of %s", model, exc_info=True)
        return None
    return str(told[0]) if len(told) == 1 else None


def takes(check: Callable[..., Any] | None, argument: str) -> bool:
    """Return whether a check of the site looks at an argument, which then has keys alone."""
    if check is None:
        return False
    try:
        parameters = signature(check).parameters.values()
    except (TypeError, ValueError):
        return True
    return any(each.kind is Parameter.VAR_KEYWORD or each.name == argument for each in parameters)


class RelationNames:
    """How callers name the objects that the relations of a `ModelTools` class lead to.

    A name is the value of a field that callers are shown: by the classes of the model of the objects or, if it has
    none, by this class itself.

    Args:
        server: has the tools.
        shown: what this class shows.
        find_judges: returns the classes of a model; without one, all its objects are shown.
        check: of the site. The arguments that it looks at have keys alone.
    """

    def __init__(
        self,
        server: MCPServer,
        shown: Shown,
        find_judges: FindJudges,
        check: Callable[..., Any] | None,
    ) -> None:
        self._server = ref(server)
        self._shown = shown
        self._find_judges = find_judges
        self._check = check

    def _find_field(self, fields: Sequence[Any], model: type[models.Model]) -> Any:
        """Return the field whose values name the objects of a model that relations lead to; None: there is none."""
        judges = self._find_judges(model)
        for field in find_name_fields(model):
            if any(judge.shown.shows_path([field]) for judge in judges):
                return field
            if not judges and fields and self._shown.shows_path([*fields, field]):
                return field
        return None

    def find_naming(
        self, user: Any, argument: str, fields: Sequence[Any], model: type[models.Model]
    ) -> Naming | None:
        """Return how a user names the objects that an argument takes; None: by their keys alone.

        Args:
            user: the user.
            argument: its name.
            fields: the relations that lead to the objects; without one, nothing of this class shows them.
            model: of the objects.
        """
        if takes(self._check, argument):
            return None
        field = self._find_field(fields, model)
        if field is None:
            return None
        related = Related(user, self._find_judges, field.name)
        return Naming(
            field=field,
            narrow=lambda rows: related.narrow_by_field(rows, field),
            narrow_keys=related.narrow,
        )

    def find_naming_of_filter(
        self, user: Any, argument: str, fields: Sequence[Any], model: type[models.Model]
    ) -> tuple[Naming | None, bool]:
        """Return what `find_naming` does, and whether the user sees only those objects to which other objects lead."""
        return self.find_naming(user, argument, fields, model), not self._find_judges(model)

    def tell(
        self, argument: str, fields: Sequence[Any], model: type[models.Model]
    ) -> RelationText | None:
        """Return what the description of an argument says of the objects that it takes; see `find_naming`."""
        server = self._server()
        if server is None:
            return None
        return RelationText(
            server,
            model,
            partial(self._find_field, fields, model),
            takes_names=not takes(self._check, argument) and bool(find_name_fields(model)),
        )
