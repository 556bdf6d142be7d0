"""Registers the tools of a view: what the class tells at once, and what the URLs tell when the site is loaded."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any

from django_mcp.contrib.credentials import find_credential_word
from django_mcp.contrib.drf.actions import ViewAction, ViewClass
from django_mcp.contrib.drf.arguments import ActionArguments, ReadView, read_action
from django_mcp.contrib.drf.calls import ActionTool, find_alias
from django_mcp.contrib.drf.routes import RoutesOfView, find_routes_of
from django_mcp.contrib.generated import (
    GeneratedOptions,
    report,
    report_later,
    reports_of,
    take_back,
    to_ascii,
)
from django_mcp.contrib.view_problems import (
    DatabaseProblem,
    ViewProblem,
    note_files,
    note_patterns,
    note_problem,
)
from django_mcp.protocol.json import JSONObject
from django_mcp.registry.entries import Family, ToolEntry
from django_mcp.registry.problems import RegistrationError, suggest
from django_mcp.servers import MCPServer


class ToolsOfView:
    """The tools of one view.

    Attributes:
        entries: the tools that are registered.
    """

    def __init__(
        self,
        server: MCPServer,
        view_class: ViewClass,
        options: GeneratedOptions,
        *,
        is_named_by_view: bool,
        query: Mapping[str, Mapping[str, JSONObject]],
        path: Mapping[str, JSONObject],
        rename: Mapping[str, str],
        listed_if: Callable[..., Any] | None,
    ) -> None:
        self.entries: list[ToolEntry] = []
        self._server, self._view_class, self._options = server, view_class, options
        self._family = Family()
        self._is_named_by_view, self._query = is_named_by_view, query
        self._path, self._rename = path, rename
        self._listed_if = listed_if
        # Those that the class tells.
        self._of_class: dict[str, ViewAction] = {}
        # Those that are left out beside a PATCH, with its key.
        self._beside_patch: list[tuple[ViewAction, str]] = []
        self._actions: dict[str, ViewAction] = {}
        self._read: dict[str, ReadView] = {}
        self._tools: dict[str, tuple[ActionTool, ToolEntry]] = {}
        self._aliases: dict[str, Any] = {}
        self._problems: dict[str, ViewProblem] = {}
        self._refused: dict[str, str] = {}
        self._removed: set[str] = set()
        self._reports: list[Callable[[], Any]] = []

    def register(self, actions: Iterable[ViewAction]) -> None:
        """Register the tools of some actions, unless the options leave them out."""
        included = [action for action in actions if self._options.has(action.key)]
        patches = [
            action.key
            for action in included
            if action.standard_name == "partial_update" and action.is_of_framework
        ]
        for action in included:
            # The framework's PATCH with all fields does what its PUT does.
            if patches and action.standard_name == "update" and self._options.include is None:
                self._beside_patch.append((action, patches[0]))
                continue
            self._of_class[action.key] = self._actions[action.key] = action
            self._add(action)
        self.entries[:] = [entry for _tool, entry in self._tools.values()]

    def finish(self) -> None:
        """Take over what the URLs tell, and have `manage.py check` report what is left.

        It is called again where tests have other URLs.
        """
        routes = RoutesOfView(self._view_class.source)
        for key in self._actions.keys() - self._of_class.keys():
            self._drop(key)
        for key, of_class in self._of_class.items():
            action = routes.with_variables(of_class, self._path) or of_class
            # Before the site was loaded, a view may have failed to read something.
            before = self._problems.get(key)
            # A test may have other routers of databases.
            is_elsewhere = key in self._tools and self._aliases[key] != find_alias(action)
            if action != self._actions[key] or before is not None or is_elsewhere:
                self._actions[key] = action
                self._add_late(action)
            if isinstance(before, DatabaseProblem) and key in self._problems:
                self._problems[key] = before
        for of_put, patch in self._beside_patch:
            if patch not in self._tools or self._tools[patch][0].routes.callbacks:
                continue
            if find_routes_of(of_put, self._path, is_named=False).callbacks:
                # The site has URLs for the PUT alone.
                action = routes.with_variables(of_put, self._path) or of_put
                self._actions[action.key] = action
                self._add_late(action)
        if self._view_class.given is None:
            self._add_bound(routes)
        self.entries[:] = [entry for _tool, entry in self._tools.values()]
        take_back(self._server, self._reports)
        before_report = reports_of(self._server)
        self._report()
        self._report_constants(routes.variables)
        self._reports = reports_of(self._server)[len(before_report) :]

    def _add_bound(self, routes: RoutesOfView) -> None:
        """Add what only a URL tells: functions of a view set that `as_view()` was given."""
        known = self._view_class.find_actions()
        pairs = {(action.method, action.name) for action in known}
        for method, name, callback in routes.find_bound():
            if (method, name) in pairs:
                continue
            pairs.add((method, name))
            action = self._view_class.bind(
                method, name, callback.actions, callback.initkwargs, known
            )
            if action is None or not self._options.has(action.key):
                continue
            known.append(action)
            action = routes.with_variables(action, self._path) or action
            self._actions[action.key] = action
            self._add_late(action)
        for name in self._options.include or ():
            if name not in self._actions and name in self._view_class.further_names:
                message = f"{self._what(name)} is no tool: no URL of the site leads to it."
                hint = f"Give viewset_tools() the result of as_view({{'get': {name!r}}})."
                report(self._server, message, hint, "django_mcp.drf.W002")

    def _drop(self, key: str) -> None:
        """Forget an action that the URLs told, and its tool."""
        registry = self._server._registry
        if key in self._tools:
            _tool, entry = self._tools.pop(key)
            if registry.registered["tools"].get(entry.name) is entry:
                self._server.remove_tool(entry.name)
        for known in (self._actions, self._read, self._problems, self._refused):
            known.pop(key, None)

    def _add_late(self, action: ViewAction) -> None:
        """Register the tool of an action after the start, when an error would reach a client."""
        try:
            self._add(action)
        except RegistrationError as error:
            hint = "Give it another name in names=, or leave it out with exclude=."
            self._problems[action.key] = ViewProblem(str(error), hint)

    def _add(self, action: ViewAction) -> None:
        """Register the tool of an action, in place of what there was before."""
        key = action.key
        if key in self._removed:
            return
        self._problems.pop(key, None)
        is_named = key in (self._options.include or ())
        try:
            if key not in self._read:
                if action.lacks_queryset:
                    raise ViewProblem(
                        "its view has neither a queryset nor a get_queryset()",
                        f"Write queryset = ... in {action.source.__qualname__}.",
                    )
                self._read[key] = read_action(
                    action,
                    query=self._query.get(key, {}),
                    max_results=self._options.max_results,
                )
            read = self._read[key]
            word = find_credential_word([*action.words, *read.credentials])
            if word is not None and not is_named:
                self._refused[key] = word
                return
            if read.annotated.is_excluded and self._options.include is None:
                return
            arguments = read.with_path(action, path=self._path, rename=self._rename)
            self._replace(action, arguments)
        except ViewProblem as problem:
            self._problems[key] = problem

    def _replace(self, action: ViewAction, arguments: ActionArguments) -> None:
        key = action.key
        registry = self._server._registry
        if key in self._tools:
            _tool, former = self._tools.pop(key)
            if registry.registered["tools"].get(former.name) is not former:
                self._removed.add(key)  # by the site
                return
            self._server.remove_tool(former.name)
        tool = ActionTool(
            self._server,
            action,
            self._options,
            arguments,
            family=self._family,
            path=self._path,
            listed_if=self._listed_if,
        )
        written = f"{action.default_prefix}_{key}" if self._is_named_by_view else key
        name = to_ascii(written) or written
        other = registry.registered["tools"].get(self._options.name_of(key, name))
        if other is not None:
            raise ViewProblem(
                f"there is a tool {other.name!r} already, by {other.source}",
                "Give viewset_tools() another prefix=, or the action another name in names=.",
            )
        self._aliases[key] = find_alias(action)
        entry = tool.register(name)
        if entry is not None:
            self._tools[key] = tool, entry

    def _what(self, key: str) -> str:
        source = self._view_class.source
        return f"The action {key!r} of {source.__module__}.{source.__qualname__}"

    def _report_constants(self, variables: Collection[str] | None) -> None:
        """Report names in `kwargs=` that are no variables of the site's URLs."""
        given = dict.fromkeys(name for action in self._actions.values() for name in action.kwargs)
        for name in given:
            if variables is not None and name not in variables:
                source = self._view_class.source
                report(
                    self._server,
                    f"viewset_tools({source.__module__}.{source.__qualname__}) has {name!r:.80} in kwargs=, which no URL "
                    "of the view has.",
                    suggest(name, variables) if variables else "Its URLs have no variables.",
                    "django_mcp.drf.W007",
                )

    def _report(self) -> None:
        server = self._server
        if not (self._actions or self._beside_patch or self._options.include):
            source = self._view_class.source
            end = ""
            if self._view_class.find_actions():
                end = " that the options of viewset_tools() leave"
            elif self._view_class.further_names:
                end = ", and no URL of the site leads to its functions"
            report(
                server,
                f"{source.__module__}.{source.__qualname__} makes no tools: it has no actions{end}.",
                "Name actions in actions=, or take the line with viewset_tools() out. The methods of an APIView are "
                "`get`, `post` and the like, those of a ViewSet `list`, `create` and the like.",
                "django_mcp.drf.W002",
            )
        for key, problem in self._problems.items():
            is_passing = isinstance(problem, DatabaseProblem)
            id = "django_mcp.drf.W001" if is_passing else "django_mcp.drf.W002"
            note_problem(server, self._what(key), problem, id)
        for key, word in self._refused.items():
            message = (
                f"{self._what(key)} is no tool: {word} is about passwords, tokens or sign-ins."
            )
            hint = f"Name it if it may be one: actions=[{key!r}]. Or leave it out with exclude=."
            report(server, message, hint, "django_mcp.drf.W005")
        for key, (tool, _entry) in self._tools.items():
            what, read = self._what(key), self._read[key]
            note_files(server, what, read.files, "django_mcp.drf.I001")
            note_patterns(server, what, read.patterns, "django_mcp.drf.I001")
            if read.query_readers:
                methods = " and ".join(f"{name}()" for name in read.query_readers)
                message = (
                    f"{what} reads parameters of the query in {methods}, which the tool lacks."
                )
                names = [name for names in read.query_readers.values() for name in names]
                report(server, message, _ask_for_query(key, names), "django_mcp.drf.I002")
            if read.lacks_body:
                message = (
                    f"{what} reads the body of its request, but its tool has no arguments for it."
                )
                example = f"{''.join(word.capitalize() for word in key.split('_'))}Serializer"
                hint = (
                    f"Name a serializer that says what is in it: serializers={{{key!r}: {example}}}, or None in its "
                    "place if calls need nothing of it."
                )
                report(server, message, hint, "django_mcp.drf.W006")
            for left_out in read.left_out:
                message = f"The tool of {what[0].lower()}{what[1:]} lacks arguments: {left_out}."
                report(server, message, _ask_for_query(key, ()), "django_mcp.drf.W004")
            report_later(server, partial(_tell_fault, what, tool.fault_finder))


def _ask_for_query(key: str, names: Iterable[str]) -> str:
    """Return what to write for the parameters of the query that a tool lacks, with their names where they are known."""
    known = dict.fromkeys(names)
    schemas = ", ".join(f"{name!r}: {{'type': 'string'}}" for name in known or ["NAME"])
    also = "" if known else ", with each parameter in place of NAME"
    return f"Name them: query={{{key!r}: {{{schemas}}}}}{also}."


def _tell_fault(
    what: str, find: Callable[[], tuple[str, str] | None]
) -> tuple[str, str, str] | None:
    fault = find()
    if fault is None:
        return None
    return f"{what} cannot be called: {fault[0]}.", fault[1], "django_mcp.drf.W003"
