"""How callers of the tools of a model name the objects that its relations lead to, in place of their keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from inspect import Parameter, signature
from typing import Any
from weakref import ref

from django.db import models

from django_mcp.contrib.finders import RelationText
from django_mcp.contrib.models.name_fields import find_name_fields, takes_names
from django_mcp.contrib.models.related import FindJudges, Related
from django_mcp.contrib.models.shown import Shown
from django_mcp.forms.names import Naming
from django_mcp.servers import MCPServer


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
        for field in find_name_fields(self._server(), model):
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
            takes_names=not takes(self._check, argument) and takes_names(server, model),
        )
