"""The operations of a Django Ninja API as tools: which of them, and under which names."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from ninja import NinjaAPI

from django_mcp.contrib.credentials import find_credential_word
from django_mcp.contrib.generated import GeneratedOptions, check_actions, report, report_later
from django_mcp.contrib.ninja.authentication import Authentication, Replaced
from django_mcp.contrib.ninja.calls import OperationTool
from django_mcp.contrib.ninja.families import Families
from django_mcp.contrib.ninja.found import find_operations
from django_mcp.contrib.ninja.names import name_operations
from django_mcp.contrib.ninja.routes import find_routes_of
from django_mcp.contrib.view_problems import (
    ViewProblem,
    note_files,
    note_patterns,
    note_problem,
)
from django_mcp.registry.entries import ToolEntry
from django_mcp.servers import MCPServer


class Operations:
    """The operations of an API that have one of some tags.

    Attributes:
        names: of all.
        shown: the names of those that the API's schema shows.
    """

    def __init__(
        self, api: Any, *, tags: Collection[str] | None, auth: Authentication | None
    ) -> None:
        self._api = api
        if not isinstance(api, NinjaAPI):
            raise ImproperlyConfigured(f"operation_tools() takes a NinjaAPI, not {api!r:.100}.")
        found = list(find_operations(api))
        if not found:
            raise ImproperlyConfigured(
                "operation_tools(): the API has no operations. Call it after all routers were added to the API."
            )
        known = {tag for each in found for tag in each.operation.tags or ()}
        if isinstance(tags, str):
            raise ImproperlyConfigured(f"operation_tools(): write tags=[{tags!r}].")
        check_actions("operation_tools(): the API", sorted(known), kind="tag", tags=tags)
        self._found = [
            (name, each)
            for name, each in zip(name_operations(found), found, strict=True)
            if tags is None or set(each.operation.tags or ()) & set(tags)
        ]
        self._auth = auth
        self.names = {name for name, _ in self._found}
        self.shown = {name for name, each in self._found if each.operation.include_in_schema}

    def register(
        self,
        server: MCPServer,
        options: GeneratedOptions,
        *,
        named: Collection[str],
        rename: Mapping[str, str],
        listed_if: Callable[..., Any] | None,
    ) -> list[ToolEntry]:
        """Register those that the options include, and return the tools.

        Args:
            server: gets the tools.
            options: of all.
            named: the operations that the site has named one by one.
            rename: other names for arguments.
            listed_if: says to whom the tools are shown.
        """
        taken: set[str] = set()
        entries = []
        own = [(name, each) for name, each in self._found if options.has(name)]
        families = Families()
        replaced = Replaced(self._auth, [each.operation for _, each in own])
        for name, each in own:
            what = f"The operation {each.label}"
            try:
                if name in taken:
                    raise ViewProblem(
                        f"another operation is named {name!r} too", "Give it an operation_id=."
                    )
                taken.add(name)
                routes = find_routes_of(self._api, each)
                tool = OperationTool(name, each, routes, replaced, rename, options.max_results)
            except ViewProblem as problem:
                note_problem(server, what, problem, "django_mcp.ninja.W001")
                continue
            word = None if name in named else find_credential_word(tool.words)
            if word is not None:
                message = f"{what} is no tool: {word} is about passwords, tokens or sign-ins."
                hint = f"Name it in include= if it may be one ({name!r}), or leave it out with exclude=."
                report(server, message, hint, "django_mcp.ninja.W003")
                continue
            note_files(server, what, tool.arguments.files, "django_mcp.ninja.I001")
            note_patterns(server, what, tool.arguments.patterns, "django_mcp.ninja.I001")
            report_later(server, partial(tool.find_fault, what))
            entry = tool.register(server, options, listed_if, families)
            if entry is not None:
                entries.append(entry)
        return entries
