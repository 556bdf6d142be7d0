"""The names by which arguments take the objects of an admin site, in place of their keys."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from typing import Any

from django.db.models import Model

from django_mcp.contrib.finders import RelationText
from django_mcp.contrib.modeladmin.access import SEARCH, AdminAccess
from django_mcp.contrib.modeladmin.requests import make_request_of_anybody
from django_mcp.contrib.modeladmin.sensitive import is_secret, is_secret_key
from django_mcp.contrib.modeladmin.shown import AdminShown
from django_mcp.contrib.models.name_fields import find_name_fields, takes_names
from django_mcp.contrib.models.names import takes
from django_mcp.forms import Naming
from django_mcp.servers import MCPServer


class AdminNames:
    """Says how users name the objects that the relations of a model lead to.

    A name is the value of a field that the admin of the objects shows the user, in its list or on its pages. Objects
    without an admin have none.

    Args:
        server: has the tools.
        access: decides about the model with the relations.
        check: of the site. The arguments that it looks at have keys alone.
        allow_sensitive: fields that look like secrets and are none.
    """

    def __init__(
        self,
        server: MCPServer,
        access: AdminAccess,
        check: Callable[..., Any] | None,
        allow_sensitive: Collection[str],
    ) -> None:
        self._server = server
        self._access = access
        self._check = check
        self._allowed = allow_sensitive
        self._shown: dict[type[Model], AdminShown] = {}

    def find_naming(self, request: Any, argument: str, model: type[Model]) -> Naming | None:
        """Return how the user of a request names the objects that an argument takes; None: by their keys alone."""
        if takes(self._check, argument):
            return None
        field = self._find_field(request, model)
        if field is None:
            return None
        narrow = partial(self._access.find_related, request)
        return Naming(field=field, narrow=narrow, narrow_keys=narrow)

    def tell(self, argument: str, model: type[Model]) -> RelationText:
        """Return what the description of an argument says of the objects that it takes."""
        return RelationText(
            self._server,
            model,
            lambda: self._find_field(make_request_of_anybody(self._access.site), model),
            takes_names=not takes(self._check, argument) and takes_names(self._server, model),
        )

    def _find_field(self, request: Any, model: type[Model]) -> Any:
        other = self._access.of(model)
        if other is None or is_secret_key(model, self._allowed):
            return None
        if not other.allows(request, SEARCH):
            return None
        names: set[Any] = set()
        shown = self._shown_of(model, other)
        for find in (shown.names_of_list, partial(shown.names_of_page, obj=None)):
            # A page may need an object.
            with suppress(Exception):
                names.update(name for name in find(request) if isinstance(name, str))
        return next(
            (
                field
                for field in find_name_fields(self._server, model)
                if field.name in names and not is_secret(other.model_admin, field.name)
            ),
            None,
        )

    def _shown_of(self, model: type[Model], other: AdminAccess) -> AdminShown:
        if model not in self._shown:
            request = make_request_of_anybody(self._access.site)
            self._shown[model] = AdminShown(other, request, self._allowed)
        return self._shown[model]
