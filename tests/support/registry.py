"""A server reduced to its registry: its converter, its handlers' injected parameters and their arguments."""

from dataclasses import dataclass
from typing import Any

from django_mcp.registry.arguments import Handler
from django_mcp.registry.decorators import Registration
from django_mcp.registry.registry import Registry
from django_mcp.registry.returns import ResultConverter
from django_mcp.registry.signatures import Provider
from django_mcp.server.memory import PlainConverter


@dataclass
class Ctx:
    """Stands for the context of a request."""

    user: str | None = "jane"
    request: Any = None


class User(str):
    """Stands for the class of users."""

    __slots__ = ()


class HttpRequest:
    """Stands for a framework's request, which not every connection has."""


def bind(handler: Handler, arguments: dict[str, Any], ctx: Any) -> dict[str, Any]:
    """Return the keyword arguments of a call, as the server binds them."""
    bound = handler.read(arguments)
    handler.inject(bound, ctx)
    return bound


class Site(Registration):
    def __init__(self, converter: ResultConverter | None = None) -> None:
        self._registry = Registry()
        self._converter = converter or PlainConverter()

    def _find_provider(self, annotation: Any) -> Provider | None:
        return {
            Ctx: lambda ctx: ctx,
            User: lambda ctx: ctx.user,
            HttpRequest: lambda ctx: ctx.request,
        }.get(annotation)

    def call(self, name: str, arguments: dict[str, Any] | None = None, ctx: Any = None) -> Any:
        """Call a tool as a server does, and return its result."""
        entry = self.registry.tools[name]
        arguments = arguments or {}
        assert entry.input_validator.problems(arguments) == []
        kwargs = bind(entry.handler, arguments, ctx or Ctx())
        return entry.handler.convert(entry.handler.function(**kwargs))


class Promise:
    """The base of lazy texts, known by its name."""


class Lazy(Promise):
    """A text that is translated when it is read."""

    language = "en"

    def __init__(self, **texts: str) -> None:
        self.texts = texts

    def __str__(self) -> str:
        return self.texts[self.language]

    def __deepcopy__(self, memo: Any) -> "Lazy":
        return self
