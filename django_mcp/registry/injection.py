"""Find the parameters of a handler that the server fills.

The server defines the types and where their values come from (`injectables`); this module finds
the provider for an annotation, and handles None.
"""

from __future__ import annotations

from collections.abc import Callable
from types import NoneType
from typing import Any, TypeAlias, get_origin

from msgspec import Struct

from django_mcp.protocol.errors import ToolError
from django_mcp.registry import hints

Provider: TypeAlias = Callable[[Any], Any]
"""Takes the context of a request and returns a parameter's value; None: there is no value."""

Injectables: TypeAlias = Callable[[Any], Provider | None]
"""Takes an annotation and returns its provider; None for an argument of the client."""


class Unavailable(ToolError):
    """A handler needs something this connection does not have, such as an HTTP request on stdio.

    It is a `ToolError`, since clients may read the text.
    """


class Injection(Struct, frozen=True):
    """One parameter that the server fills.

    Attributes:
        parameter: its name.
        provide: returns the value for a request's context, or raises `Unavailable`.
    """

    parameter: str
    provide: Provider


def find_provider(annotation: Any, injectables: Injectables) -> Provider | None:
    """Return the provider of a parameter with this annotation; None: it is an ordinary argument.

    The annotation is tried as it is, then without its type arguments. For `Optional[T]`, and for
    any union whose parts all have providers, the first part's provider is used. If it returns
    None and the annotation does not allow None, the call fails.
    """
    plain = hints.strip(annotation)
    provider = injectables(plain) or _of_parts(plain, injectables)
    if provider is None:
        return None
    is_nullable = hints.is_nullable(plain)
    name = getattr(plain, "__name__", str(plain))

    def provide(ctx: Any) -> Any:
        try:
            value = provider(ctx)
        except Unavailable:
            if not is_nullable:
                raise
            return None
        if value is None and not is_nullable:
            raise Unavailable(f"This needs a {name}, which this connection does not have.")
        return value

    return provide


def _of_parts(annotation: Any, injectables: Injectables) -> Provider | None:
    providers = []
    for part in hints.members(annotation):
        origin = get_origin(part)
        if part is not NoneType:
            providers.append(
                injectables(part) or (injectables(origin) if isinstance(origin, type) else None)
            )
    return providers[0] if providers and all(providers) else None
