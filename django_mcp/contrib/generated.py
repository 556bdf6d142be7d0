"""Tools generated from what a site already has: their common options, and how they are registered."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from inspect import Parameter, Signature
from typing import Any
from weakref import WeakKeyDictionary

from django.core import checks
from django.core.exceptions import ImproperlyConfigured, ObjectDoesNotExist
from django.db import IntegrityError
from django.utils.translation import gettext as _

from django_mcp.auth.permissions import find_granted
from django_mcp.context import Context
from django_mcp.contrib.all_or_nothing import saves_state
from django_mcp.contrib.short_schemas import leave_told, shorten
from django_mcp.forms.values import is_about_values, is_of_conversion, tell_refusal
from django_mcp.log import logger
from django_mcp.protocol.json import JSONObject, to_pointer
from django_mcp.registry.access import Permission, read_access
from django_mcp.registry.entries import Family, Redirect, ToolEntry
from django_mcp.registry.options import RULES
from django_mcp.registry.problems import ArgumentErrors, Problem, RegistrationError, did_you_mean
from django_mcp.registry.rules import TOOLSET, Rule
from django_mcp.servers import MCPServer, all_servers

MAX_RESULTS = 100
"""Rows on a page at most, unless the site sets another number."""

SINGLE = "single"
COMPACT = "compact"
STYLES = (SINGLE, COMPACT)

MAX_RELATED = 100
"""Rows of a to-many relation that are shown of each row."""

MAX_KEYS = 1000
"""Those of a to-many relation of which no more than the key or the name is shown."""

MAX_ROWS = 200_000
"""Rows of related models in one result, however many lists of them are inside of each other."""

TRUNCATED = "truncated"
"""Names, in results, the relations and lists of which only the first rows are shown."""

TRUNCATED_SCHEMA: JSONObject = {
    "type": "array",
    "items": {"type": "string"},
    "description": "Lists that have more rows than are shown; without it, all are shown.",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class GeneratedOptions:
    """Options of the tools that are generated from one source.

    An action is what a tool does with its source: `"search"`, `"update"`, the name of a viewset's
    action or of an operation.

    Attributes:
        include: the actions that become tools; None: all.
        exclude: actions that do not.
        prefix: what the names of all tools begin with, before an underscore.
        names: the names of tools by action, without `prefix`.
        descriptions: of tools by action, in place of the generated ones; may be lazy.
        annotations: hints and titles of tools by action, in place of the generated ones:
            `{"ship": {"idempotent": True, "title": "Ship"}}`.
        permission: needed in addition to what the source asks for; by default the server's.
        scopes: OAuth scopes that a token needs for each of the tools.
        check: a function of the user and the arguments that a call has to pass in addition.
        max_results: rows on a page at most.
        toolset: of all tools; by default the label of the app of the source.
        style: `"single"`: each tool is listed. `"compact"`: a few tools for all models lead to them, and they
            are not listed.
        app: whether hosts with MCP Apps show ready-made pages with the tools. A tool that deletes an object, or changes
            several, then asks before it runs; see `confirm` of `ToolOptions`.
    """

    include: Collection[str] | None = None
    exclude: Collection[str] = ()
    prefix: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    descriptions: Mapping[str, Any] = field(default_factory=dict)
    annotations: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    permission: Permission = None
    scopes: str | Sequence[str] | None = None
    check: Callable[..., Any] | None = None
    max_results: int = MAX_RESULTS
    toolset: str | None = None
    style: str = SINGLE
    app: bool = False

    def __post_init__(self) -> None:
        if self.style not in STYLES:
            styles = " or ".join(map(repr, STYLES))
            raise ImproperlyConfigured(f"style= is {styles}, not {self.style!r:.100}.")

    def has(self, action: str) -> bool:
        """Return whether an action becomes a tool."""
        is_included = self.include is None or action in self.include
        return is_included and action not in self.exclude

    def name_of(self, action: str, default: str) -> str:
        """Return the name of the tool of an action."""
        return self.with_prefix(self.names.get(action, default))

    def with_prefix(self, name: str) -> str:
        """Return a name behind `prefix` and an underscore."""
        return join_words(self.prefix, name)

    def find_toolset(self, app_label: str | None) -> str | None:
        """Return the toolset, by default an app's label if it can be one; None: that of the source's module."""
        return self.toolset or (app_label if TOOLSET.accepts(app_label) else None)

    def is_open_to(self, server: MCPServer, user: Any) -> bool:
        """Return whether a user has the permissions that the tools on a server need."""
        default = read_access(server.name, permission=server.options.permission)
        rules = read_access(server.name, permission=self.permission).rules(default)
        return not rules or rules <= find_granted(user, rules)


def join_words(prefix: str, name: str) -> str:
    """Return a name behind a prefix, if there is one, and an underscore, which the prefix may have already."""
    return f"{prefix.removesuffix('_')}_{name}" if prefix else name


def check_actions(
    owner: str,
    known: Collection[str],
    *,
    kind: str = "action",
    **options: Iterable[str] | None,
) -> None:
    """Refuse options that name what a source does not do, since nothing would read them.

    Args:
        owner: the function that was called, and its source, for the message.
        known: the names of what the source does.
        kind: what those are called.
        options: the names that each option has.

    Raises:
        ImproperlyConfigured: with all known names and the nearest one.
    """
    for option, names in options.items():
        for name in names or ():
            if name not in known:
                raise ImproperlyConfigured(
                    f"{owner} has no {kind} {name!r}, which {option}= names."
                    f"{did_you_mean(name, known)} It has {', '.join(known) or 'none'}."
                )


def refuse_positional(given: Sequence[object], call: str, remedy: str) -> None:
    """Refuse arguments by position, which Python's own error does not say what to do with."""
    if given:
        raise ImproperlyConfigured(
            f"{call} takes its options by name: {remedy}, and another server is server=."
        )


def check_rules(owner: str, **options: Any) -> None:
    """Refuse functions that decide access and cannot do that, before others are put around them.

    Args:
        owner: the function that was called, for the message.
        options: `permission`, `check`, `listed_if` and `auth`, as they were given.

    Raises:
        RegistrationError: one takes other arguments, is asynchronous or never returns a value.
    """
    for option, given in options.items():
        for rule in given.values() if isinstance(given, Mapping) else (given,):
            if rule is not None:
                _RULES[option].demand(rule, f"{owner}: {option}=", RegistrationError)


_RULES = {**RULES, "auth": Rule(callable, "a function of the request").that_answers()}

ConvertForCheck = Callable[[Context, Mapping[str, Any]], Mapping[str, Any]]
"""Takes the context and the arguments of a call, and returns the arguments as a check gets them."""


def converting_key(
    name: str, to_key: Callable[[Any], Any], *, is_filter: bool = False
) -> ConvertForCheck:
    """Return what converts a key for a check, which would not know another spelling of it.

    Args:
        name: the argument with the key.
        to_key: returns the key as the tool compares it; raises `DoesNotExist` if no object can have it.
        is_filter: whether the argument need not be a key, so that the tool itself refuses a wrong value.
    """

    def convert(_ctx: Context, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        if name not in arguments:
            return arguments
        try:
            return {**arguments, name: to_key(arguments[name])}
        except ObjectDoesNotExist:
            if is_filter:
                return arguments
            raise

    return convert


READY_APPS: Mapping[str, str] = {
    "search": "table",
    "get": "card",
    "summarize": "chart",
}
"""The ready-made pages of tools, by their roles, as the option `app=` of a tool names them."""

CONFIRMED = ("delete", "update_many")
"""The roles of tools that ask on a page before they run."""

_ALL = "arguments_of_call"
"""The parameter for all arguments as one dict; no argument should have its name."""


class GeneratedFunction:
    """A function that is made from a source, under the name of that source.

    Args:
        run: takes the context and the arguments as a dict, and returns the result.
        source: the class or object that it is made from.
        action: what it does with it.
        origin: what sort of source it is, in one word.
        variables: the arguments of a template, which are strings; None: the arguments are those of
            an input schema.

    Attributes:
        origin, is_listed, is_only_listed, asks_itself, leads_to, redirect: of the tool; see `ToolEntry`.
        convert_for_check: see `ObjectCheck.convert`.
        drops_null: whether the published schema leaves out null; see `short_schemas.shorten`.
        told_at: the tool that says of the same fields what they are for, to callers who see it.
        find_rules: returns the functions of the source that say whether a user may use it. `manage.py check`
            reads them.
        find_code: returns further functions and classes that may look at the permissions of a user.
        family, role: of the tool; see `ToolEntry`.
        sources: the members of an object that a tool which changes it has to be sent, by argument.
    """

    def __init__(
        self,
        run: Callable[[Context, dict[str, Any]], Any],
        source: Any,
        action: str,
        *,
        origin: str,
        variables: Sequence[str] | None = None,
    ) -> None:
        owner = source if hasattr(source, "__qualname__") else type(source)
        self._run = run
        self.is_listed = True
        self.is_only_listed = False
        self.asks_itself = False
        self.leads_to: Callable[[], Collection[str]] | None = None
        self.redirect: Redirect | None = None
        self.convert_for_check: ConvertForCheck | None = None
        self.drops_null = False
        self.told_at: ToolEntry | None = None
        self.find_rules: Callable[[], Iterable[Any]] = tuple
        self.find_code: Callable[[], Iterable[Any]] = tuple
        self.family: Family | None = None
        self.role = action
        self.sources: Mapping[str, str] = {}
        self.origin = origin
        self._is_of_template = variables is not None
        self.__name__ = action
        self.__module__ = owner.__module__
        self.__qualname__ = f"{owner.__qualname__}.{action}"
        kind = Parameter.KEYWORD_ONLY
        self.__signature__ = Signature(
            [
                Parameter("ctx", kind, annotation=Context),
                *(Parameter(name, kind) for name in variables or (_ALL,)),
            ]
        )

    def __call__(self, ctx: Context, **arguments: Any) -> Any:
        """Return the result of a call."""
        return self._run(ctx, arguments if self._is_of_template else arguments[_ALL])

    def shorten_input(self, schema: JSONObject) -> JSONObject:
        """Return the input schema as it is published."""
        short = shorten(schema, drops_null=self.drops_null)
        told_at = self.told_at
        return short if told_at is None else leave_told(short, told_at.name, told_at.input_schema)

    def explain(self, error: Exception, arguments: Mapping[str, Any]) -> Exception:
        """Return what a caller is told in place of an error: its arguments are wrong, if they are.

        Values are checked before they reach a query. This is for those that only the database knows to
        be wrong, and for those that reach it through the site's own code.
        """
        return explain_values(self.__qualname__, error, arguments)


# All generated tools have them, and a text would be compiled for each.
GeneratedFunction.__call__.__annotations__.update({"ctx": Context, _ALL: Any, "return": Any})


def explain_values(what: str, error: Exception, arguments: Mapping[str, Any]) -> Exception:
    """Return the error for arguments whose values a database cannot take; another error, as it is.

    Args:
        what: was called, for the log.
        error: of the call.
        arguments: of the call.
    """
    if not is_about_values(error):
        return error
    logger.warning("A value of %s was refused: %s", what, error)
    logger.debug("Why a value of %s was refused", what, exc_info=error)
    if isinstance(error, IntegrityError):
        told = tell_refusal(error)
    elif is_of_conversion(error):
        told = _("Enter a valid value.")
    else:
        told = _("The database cannot take a value: it is too large, too long, or not valid.")
    pointer = to_pointer(list(arguments)) if len(arguments) == 1 else ""
    return ArgumentErrors([Problem(pointer, told)])


def _choose_app(function: GeneratedFunction) -> Any:
    """Return the ready-made page of a tool, as the option `app=` of a tool names it; None: it has none."""
    role, family = function.role, function.family
    if role == "create":
        return {"form": {}}
    if role != "update" or family is None:
        return READY_APPS.get(role)
    read = family.tools.get("get")
    if family.key is None or read is None:
        # A form without the values of the object would overwrite them.
        return None
    return {"form": {"keys": (family.key,), "read": read, "sources": dict(function.sources)}}


def register_generated(
    server: MCPServer,
    options: GeneratedOptions,
    function: GeneratedFunction,
    *,
    action: str,
    name: str,
    **tool: Any,
) -> ToolEntry | None:
    """Register the tool of an action, unless the options leave it out.

    Args:
        server: gets the tool.
        options: of the source.
        function: runs a call.
        action: what the tool does.
        name: the tool's name if the options have none for the action.
        tool: options of `MCPServer.register_tool`; `input_schema` and `output_schema` are needed.
            `listed_if` is what the source itself asks of a user. `app_label` is that of the source's app,
            if it is not the one of the source's module.

    Raises:
        RegistrationError: the options do not fit, or there is a tool of that name.
    """
    if not options.has(action):
        return None
    function.is_listed = options.style == SINGLE
    tool = {
        "app": _choose_app(function) if options.app else None,
        "confirm": "app" if options.app and function.role in CONFIRMED else None,
        **tool,
        **options.annotations.get(action, {}),
    }
    description = options.descriptions.get(action, tool.pop("description", None))
    entry = server.register_tool(
        function,
        name=options.name_of(action, name),
        description=description,
        permission=options.permission,
        scopes=options.scopes,
        check=options.check,
        toolset=options.find_toolset(tool.pop("app_label", None)),
        # The limits of the schema are limits of queries. The source says what a tool may do, so its hints are
        # stated, though they are the defaults.
        **{
            "validate_input": True,
            "read_only": False,
            "destructive": tool.get("read_only") is not True,
            "open_world": False,
            **tool,
        },
    )
    if function.family is not None:
        function.family.tools[function.role] = entry.name
    return entry


def to_ascii(text: str) -> str:
    """Return a text for a name, without letters that only some languages have: `gross` for `groß`."""
    plain = unicodedata.normalize("NFKD", text.replace("ß", "ss")).encode("ascii", "ignore")
    return plain.decode()


Report = tuple[str, str, str]
"""The message, the hint and the id of a check."""

_reports: WeakKeyDictionary[MCPServer, list[Callable[[], Report | None]]] = WeakKeyDictionary()


@saves_state
def _save(server: MCPServer) -> Callable[[], object]:
    before = reports_of(server)
    return lambda: _reports.__setitem__(server, before)


_LEVELS = {"E": checks.Error, "W": checks.Warning, "I": checks.Info, "M": checks.Warning}


def report(server: MCPServer, message: str, hint: str, id: str) -> None:
    """Have `manage.py check` say what did not become a tool, or what a tool lacks.

    Args:
        server: without the tool.
        message: what is missing, and why.
        hint: what to do.
        id: of the check; the letter of its number says how severe it is, where M is a warning.
    """
    report_later(server, lambda: (message, hint, id))


def report_later(server: MCPServer, find: Callable[[], Report | None]) -> None:
    """Have `manage.py check` say what a function returns, which may look at the site's URLs."""
    _reports.setdefault(server, []).append(find)


def reports_of(server: MCPServer) -> list[Callable[[], Report | None]]:
    """Return what was reported about a server so far, for `take_back`."""
    return list(_reports.get(server, ()))


def take_back(server: MCPServer, reports: Sequence[Callable[[], Report | None]]) -> None:
    """Have `manage.py check` not say any more what some functions return."""
    _reports[server] = [each for each in reports_of(server) if each not in reports]


@checks.register("django_mcp")
def check_generated(**_options: Any) -> list[checks.CheckMessage]:
    """Report what did not become a tool, and what tools lack."""
    for server in all_servers():
        # What waits for the whole site reports as well. A wrong setting has a check of its own.
        with suppress(ImproperlyConfigured):
            server._finish()
    reports_found = [
        (server, find()) for server, reports in list(_reports.items()) for find in reports
    ]
    return [
        _LEVELS[each[2].rpartition(".")[2][0]](each[0], hint=each[1], obj=server, id=each[2])
        for server, each in reports_found
        if each is not None
    ]
