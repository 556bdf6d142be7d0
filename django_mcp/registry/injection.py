"""Find the parameters a handler is given by the server, not by the client.

Which types those are, and where their values come from, the server says (`injectables`); here is
only how a parameter's annotation leads to its provider, and what None means.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import NoneType
from typing import Any, TypeAlias, get_origin

from django_mcp.protocol.errors import ToolError
from django_mcp.registry import hints

__all__ = ["Injectables", "Injection", "Provider", "Unavailable", "find_provider"]

Provider: TypeAlias = Callable[[Any], Any]
"""Takes the context of a request and returns a parameter's value; None: there is no such thing."""

Injectables: TypeAlias = Callable[[Any], Provider | None]
"""Takes an annotation and returns what provides it; None for an argument of the client's."""


class Unavailable(ToolError):
    """A handler needs something this connection does not have, such as an HTTP request on stdio.

    A `ToolError`, since the text may be told: the call is refused, and nothing is broken.
    """


@dataclass(frozen=True, slots=True)
class Injection:
    """One parameter that the server fills.

    Attributes:
        parameter: its name.
        provide: returns the value for one request's context, or raises `Unavailable`.
    """

    parameter: str
    provide: Provider


def find_provider(annotation: Any, injectables: Injectables) -> Provider | None:
    """Return what fills a parameter of this annotation; None: it is an ordinary argument.

    The annotation is offered as it is first, then without what is generic about it. For
    `Optional[T]`, and for any union of which each part is provided, the first part's provider is
    taken. Where the result would be None and the annotation does not allow it, the call is refused.
    """
    plain = hints.strip(annotation)
    provider = injectables(plain) or _of_origin(plain, injectables) or _of_union(plain, injectables)
    if provider is None or hints.is_nullable(plain):
        return None if provider is None else _or_none(provider)
    return _required(provider, plain)


def _of_origin(annotation: Any, injectables: Injectables) -> Provider | None:
    origin = get_origin(annotation)
    return injectables(origin) if isinstance(origin, type) else None


def _of_union(annotation: Any, injectables: Injectables) -> Provider | None:
    parts = [part for part in hints.members(annotation) if part is not NoneType]
    if len(parts) == 1 and parts[0] is annotation:
        return None
    providers = [injectables(part) or _of_origin(part, injectables) for part in parts]
    return providers[0] if providers and all(providers) else None


def _or_none(provider: Provider) -> Provider:
    def provide(ctx: Any) -> Any:
        try:
            return provider(ctx)
        except Unavailable:
            return None

    return provide


def _required(provider: Provider, annotation: Any) -> Provider:
    name = getattr(annotation, "__name__", str(annotation))

    def provide(ctx: Any) -> Any:
        value = provider(ctx)
        if value is None:
            raise Unavailable(f"This needs a {name}, which this connection does not have.")
        return value

    return provide
