"""The REST views of a site, and the tools that are made of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from django.urls import URLResolver, get_resolver
from rest_framework.views import APIView

from django_mcp import MCPServer
from django_mcp.contrib.drf import viewset_tools

Note = Callable[[str, str, str, str], None]

PASSING = ("django_mcp.drf.W003", "django_mcp.drf.W005", "django_mcp.drf.I001")
"""What a check may say of a view: no URL for an action, a sign-in, or a file that is left out."""


@dataclass(frozen=True, kw_only=True)
class SiteView:
    """A view of the site.

    Attributes:
        view: the class.
        prefix: what its tools are named after.
        urls: the names of its URLs and the actions of each by method.
    """

    view: Any
    prefix: str
    urls: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    def methods_of(self, key: str) -> list[tuple[str, str]]:
        """Return the methods of an action, each with the name of a URL."""
        return [
            (method, name)
            for name, actions in self.urls
            for method, action in actions.items()
            if key == action or (action == key.removesuffix(f"_{method}") != key)
        ]


def find_views() -> list[SiteView]:
    """Return the REST views of the URLconf."""
    views: dict[Any, SiteView] = {}
    for pattern in _walk(get_resolver()):
        cls: Any = getattr(pattern.callback, "cls", None)
        if not _is_rest(cls) or cls.__name__ == "APIRootView":
            continue
        prefix = cls.__name__.lower()
        view = views.setdefault(cls, SiteView(view=cls, prefix=prefix))
        actions = getattr(pattern.callback, "actions", None) or {
            method: method for method in cls.http_method_names if hasattr(cls, method)
        }
        view.urls.append((pattern.name or "", dict(actions)))
    return list(views.values())


def _is_rest(cls: Any) -> bool:
    return isinstance(cls, type) and issubclass(cls, APIView)


def _walk(resolver: URLResolver) -> Iterator[Any]:
    for pattern in resolver.url_patterns:
        if isinstance(pattern, URLResolver):
            yield from _walk(pattern)
        else:
            yield pattern


def make_rest(note: Note) -> tuple[MCPServer, list[SiteView]]:
    """Return a server with the tools of all REST views of the site."""
    from django.core.checks import run_checks

    server = MCPServer("circle-rest", public=True, output_schemas="full", max_result_tokens=None)
    views = find_views()
    for view in views:
        try:
            viewset_tools(view.view, server=server, prefix=view.prefix)
        except Exception as error:  # noqa: BLE001  (whatever stops a site)
            note("", view.prefix, "start", f"{type(error).__name__}: {error}")
    for problem in run_checks(tags=["django_mcp"]):
        if problem.obj is server and problem.id not in PASSING:
            name = problem.msg.partition(" of ")[2].split(" ")[0].rpartition(".")[2].lower()
            note("", name, "start", problem.msg)
    return server, views
