"""System checks of what functions return and say of themselves."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any, get_args, get_origin

from django.core.checks import CheckMessage, Error, Info
from django.db.models import Model

from django_mcp.checks.declared import check
from django_mcp.registry import hints
from django_mcp.registry.entries import Entry
from django_mcp.registry.problems import RegistrationError
from django_mcp.servers import MCPServer, all_servers

__all__: list[str] = []


@check(id="django_mcp.E014")
def check_returned_models() -> Iterator[CheckMessage]:
    """E014: a function declares that it returns a model, without the fields to publish."""
    for server in all_servers():
        for entry in _returning(server):
            for model in dict.fromkeys(_find_models(_declared(entry))):
                yield Error(
                    f"{entry.source} returns {model.__name__}, and nothing names the fields to publish.",
                    hint="Declare them with a dataclass, a TypedDict or a pydantic model, as in -> "
                    f"list[{model.__name__}Out]; the function may return the {model.__name__} objects "
                    "or a queryset.",
                )


def _returning(server: MCPServer) -> Iterator[Entry]:
    registry = server.registry
    return chain(registry.tools.values(), registry.resources.values(), registry.templates.values())


def _declared(entry: Entry) -> Any:
    try:
        return hints.resolve_hints(entry.handler.origin, entry.source).get("return")
    except RegistrationError:
        return None  # an origin that describes itself by another signature


def _find_models(annotation: Any) -> Iterator[type[Model]]:
    plain = hints.strip(annotation)
    origin, arguments = get_origin(plain), get_args(plain)
    if isinstance(plain, type) and origin is None and issubclass(plain, Model):
        yield plain
    for each in arguments:
        yield from _find_models(each)


@check(id="django_mcp.I007")
def check_descriptions() -> Iterator[CheckMessage]:
    """I007: a tool has no description, which models choose tools by."""
    for server in all_servers():
        for tool in server.registry.tools.values():
            if not tool.description:
                yield Info(
                    f"{tool.source} has no description, so models do not know when to call {tool.name}.",
                    hint="Write a docstring, or description='...'.",
                )
