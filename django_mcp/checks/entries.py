"""System checks of how tools, resources and prompts are written: types, descriptions and schemas."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import date, timedelta
from functools import partial
from itertools import chain
from types import CellType
from typing import Any, get_args, get_origin
from weakref import ReferenceType

from django.core import checks
from django.core.checks import CheckMessage, Error, Info, Tags
from django.db.models import Model, QuerySet
from django.dispatch import Signal
from django.http.response import HttpResponseBase
from django.utils import timezone
from msgspec import Struct

from django_mcp import signals
from django_mcp.checks.declared import check, list_some
from django_mcp.checks.discarded import find_discarded
from django_mcp.checks.function_text import read_function
from django_mcp.conf import settings
from django_mcp.models import HealthAlert
from django_mcp.protocol.json import to_pointer
from django_mcp.protocol.subschemas import KEYWORDS, walk
from django_mcp.protocol.tokens import estimate_tokens
from django_mcp.registry import hints
from django_mcp.registry.entries import PromptEntry, TemplateEntry, ToolEntry
from django_mcp.registry.problems import (
    describe_source,
    did_you_mean,
    find_near,
    innermost,
    is_of_framework,
)
from django_mcp.registry.signatures import EMPTY, find_view_guard, read_docs, returns_nothing
from django_mcp.servers import MCPServer, all_servers
from django_mcp.signals import tool_called

_DESCRIBING = {"title", "description", "default"}
"""The keywords of a schema that accepts everything."""


@check(id="django_mcp.E014")
def check_returned_models() -> Iterator[CheckMessage]:
    """E014: a function declares that it returns a model or a queryset, without the fields to publish."""
    for server in all_servers():
        registry = server.registry
        for entry in chain(
            registry.tools.values(), registry.resources.values(), registry.templates.values()
        ):
            for model in dict.fromkeys(_find_models(entry.handler.returns)):
                row = "Row" if issubclass(model, QuerySet) else model.__name__
                yield Error(
                    f"{entry.source} returns {model.__name__}, and nothing names the fields to publish.",
                    hint="Declare them with a dataclass, a TypedDict or a pydantic model, as in -> "
                    f"list[{row}Out] or @tool(returns=list[{row}Out]); the function may return model objects "
                    "or a queryset.",
                )


def _find_models(annotation: Any) -> Iterator[type[Model | QuerySet[Any]]]:
    plain = hints.strip(annotation)
    origin, arguments = get_origin(plain), get_args(plain)
    if isinstance(plain, type) and origin is None and issubclass(plain, Model | QuerySet):
        yield plain
    for argument in arguments:
        yield from _find_models(argument)


@check(id="django_mcp.W026")
def check_missing_returns() -> Iterator[CheckMessage]:
    """W026: a function never returns the value that it should."""
    for server in all_servers():
        registry = server.registry
        for entry in registry.entries():
            is_tool = isinstance(entry, ToolEntry)
            if returns_nothing(entry.handler.origin) and not (
                is_tool and _admits_nothing(entry.handler.returns)
            ):
                yield checks.Warning(
                    f"{entry.source} never returns a value.",
                    hint="Write `return` before what clients shall get"
                    + (", or `-> None` if that is nothing." if is_tool else "."),
                )
        for rule, sources in _find_silent_rules(server).values():
            others = f" and {len(sources) - 1} more ask" if len(sources) > 1 else " asks"
            yield checks.Warning(
                f"{describe_source(rule)} never returns a value, which counts as False. {sources[0]}{others} it.",
                hint="Write `return` before what it finds out, such as True or False.",
            )
        for completer in registry.completers.values():
            if returns_nothing(completer.origin):
                yield checks.Warning(
                    f"{completer.source} never returns a value.",
                    hint="Return a list of strings.",
                )


def _find_silent_rules(server: MCPServer) -> dict[Any, tuple[Any, list[str]]]:
    """Return the rules of what tools are generated from that never return a value, with the sources of the tools."""
    silent: dict[Any, tuple[Any, list[str]]] = {}
    for entry in server.registry.entries():
        find_rules = getattr(entry.handler.origin, "find_rules", tuple)
        for rule in find_rules():
            function = getattr(rule, "__func__", rule)
            if not is_of_framework(function) and returns_nothing(rule):
                _rule, sources = silent.setdefault(function, (rule, []))
                if entry.source not in sources:
                    sources.append(entry.source)
    return silent


def _admits_nothing(annotation: Any) -> bool:
    plain = hints.strip(annotation)
    return plain in (None, type(None), Any, EMPTY) or hints.is_nullable(plain)


@check(id="django_mcp.W038")
def check_discarded() -> Iterator[CheckMessage]:
    """W038: a function calls a coroutine function without `await`, or discards a queryset or a change that it made."""
    for server in all_servers():
        registry = server.registry
        handlers = [*(each.handler for each in registry.entries()), *registry.completers.values()]
        sources = {handler.origin: handler.source for handler in handlers}
        asked: list[Any] = [*server.engine.derived.requirements.all_rules]
        asked += [each.access.check for each in registry.entries()]
        sources.update((rule, describe_source(rule)) for rule in asked if callable(rule))
        for function, source in sources.items():
            for each in find_discarded(function):
                yield checks.Warning(f"{source} {each.problem}.", hint=each.hint)


@check(id="django_mcp.W027")
def check_unreachable_templates() -> Iterator[CheckMessage]:
    """W027: a resource template is never read, because an earlier one matches the same URIs."""
    for server in all_servers():
        rules = server.engine.derived.requirements.rules
        earlier: list[TemplateEntry] = []
        for template in server.registry.templates.values():
            samples = _make_samples(template.key)
            for first in earlier:
                # A caller who does not see the first reads the other one.
                if rules.get(first, set()) <= rules.get(template, set()) and all(
                    first.template.match(sample) is not None for sample in samples
                ):
                    yield checks.Warning(
                        f"{template.source}: the template {template.key!r} is never read, because "
                        f"{first.key!r} of {first.source} matches the same URIs.",
                        hint="Give one of them another scheme or path, or register the narrower one first.",
                    )
                    break
            earlier.append(template)


_VARIABLE = re.compile(r"\{([+/?]?)([^{}]*)\}")
_SAMPLES = {"": ("q7x", "x8:@$"), "+": ("q7x/x8", "q7x?x8"), "/": ("/q7x", "/x8")}
"""Values by the operator of a variable, which no literal has by chance."""


def _make_samples(template: str) -> list[str]:
    """Return URIs of a template, which one that matches each of its URIs has to match."""

    def fill(found: re.Match[str], *, place: int, has_query: bool) -> str:
        operator, names = found.groups()
        if operator == "?":
            pairs = "&".join(f"{name.removesuffix('*')}=q7x" for name in names.split(","))
            return f"?{pairs}" if has_query else ""
        value = _SAMPLES[operator][place]
        return value * 2 if place and names.endswith("*") else value

    return [
        _VARIABLE.sub(partial(fill, place=place, has_query=bool(place)), template)
        for place in range(2)
    ]


@check(Tags.security, id="django_mcp.W025")
def check_outer_decorators() -> Iterator[CheckMessage]:
    """W025: a decorator above `@tool` and the like does not run for calls, such as one that refuses users."""
    for server in all_servers():
        registry = server.registry
        handlers = [entry.handler for entry in registry.entries()]
        for handler in [*handlers, *registry.completers.values()]:
            if _is_wrapped(handler.origin) or find_view_guard(handler.origin) is not None:
                yield checks.Warning(
                    f"{handler.source} has a decorator above it that does not run for its calls.",
                    hint="Write @tool, @resource, @prompt or @completion above all other decorators. Who may "
                    "call is said by permission= and check=. A decorator of a queue, such as @shared_task, "
                    "queues no calls in either place: task= does.",
                )


def _is_wrapped(function: Any) -> bool:
    """Return whether the name of a function stands for something that calls it."""
    if not inspect.isfunction(function):
        return False
    named: Any = sys.modules.get(function.__module__)
    for name in function.__qualname__.split("."):
        named = getattr(named, name, None)
    found: set[int] = set()
    waiting = [named]
    while waiting and len(found) < _MAX_WRAPPERS:
        each = waiting.pop()
        if each is function:
            return named is not function
        # What cannot be called is looked at only if the name stands for it, as for a task of a queue.
        if (callable(each) or each is named) and id(each) not in found:
            found.add(id(each))
            waiting += _find_kept(each)
    return False


def _find_kept(wrapper: Any) -> Iterator[Any]:
    """Yield what a function or an object keeps, such as the function that it calls."""
    slots = [
        name
        for cls in type(wrapper).__mro__
        for name in vars(cls).get("__slots__", ())
        if isinstance(name, str)
    ]
    kept = [getattr(wrapper, name, None) for name in (*_WRAPS, *slots)]
    kept += getattr(wrapper, "__dict__", {}).values()
    cells = getattr(wrapper, "__closure__", None) or ()
    kept += [cell.cell_contents for cell in cells if cell != _EMPTY_CELL]
    for each in kept:
        yield each
        if isinstance(each, dict):
            yield from each.values()
        elif isinstance(each, list | tuple | set | frozenset):
            yield from each


_WRAPS = ("__wrapped__", "__func__", "__self__", "func", "args", "keywords")
"""Where a function, a method, and a partial or what asgiref makes keep the function that they call."""

_EMPTY_CELL = CellType()

_MAX_WRAPPERS = 50
"""Functions and objects that are looked at."""


@check(id="django_mcp.W030")
def check_returned_responses() -> Iterator[CheckMessage]:
    """W030: a function declares that it returns a response of HTTP, which is no result."""
    for server in all_servers():
        for entry in server.registry.entries():
            plain = hints.strip(entry.handler.returns)
            if isinstance(plain, type) and issubclass(plain, HttpResponseBase):
                yield checks.Warning(
                    f"{entry.source} returns {plain.__name__}, so that each call fails.",
                    hint="Return the data that the response would have, or a File.",
                )


@check(id="django_mcp.W031")
def check_dated_defaults() -> Iterator[CheckMessage]:
    """W031: a default is the time at which the process started, such as that of `at: datetime = timezone.now()`."""
    now = timezone.now()
    # In every time zone.
    days = {(now + timedelta(days=each)).date() for each in (-1, 0, 1)}
    for source, parameter in _find_parameters():
        default = parameter.default
        if isinstance(default, date) and date(default.year, default.month, default.day) in days:
            yield checks.Warning(
                f"{source}: the default of the parameter `{parameter.name}` is the time at which the process "
                "started.",
                hint=f"Write {parameter.name}: {type(default).__name__} | None = None, and take the present time in "
                "the function.",
            )


@check(id="django_mcp.W032")
def check_alternatives() -> Iterator[CheckMessage]:
    """W032: an annotation joins types with `or` or `and`, of which Python keeps one."""
    for source, parameter in _find_parameters():
        written = _find_annotations(parameter.function).get(parameter.name)
        if written is not None and any(isinstance(node, ast.BoolOp) for node in ast.walk(written)):
            yield checks.Warning(
                f"{source}: Python reads the annotation `{ast.unparse(written)}` of the parameter "
                f"`{parameter.name}` as one of these types.",
                hint="Write alternatives as int | None.",
            )


class _Given(Struct, frozen=True):
    """A parameter as its function has it."""

    name: str
    default: Any
    function: Any


def _find_parameters() -> Iterator[tuple[str, _Given]]:
    """Yield the parameters of all functions that are registered, with their sources."""
    for server in all_servers():
        for entry in server.registry.entries():
            function = inspect.unwrap(innermost(entry.handler.origin))
            try:
                parameters = inspect.signature(function).parameters.values()
            except (TypeError, ValueError):
                continue
            for each in parameters:
                yield entry.source, _Given(each.name, each.default, function)


def _find_annotations(function: Any) -> Mapping[str, ast.expr]:
    """Return the annotations of a function as they are written, by parameter; none if its text is not there."""
    if not inspect.isfunction(function) or not function.__annotations__:
        return {}
    read = read_function(function)
    if read is None:
        return {}
    given = read[0].args
    every = (*given.posonlyargs, *given.args, *given.kwonlyargs)
    return {each.arg: each.annotation for each in every if each.annotation is not None}


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


_READING = re.compile(
    r"(?:count|describe|fetch|find|get|list|look_?up|read|search|show|view)(?:_|$)"
)
"""Begins the names of tools that read."""


@check(id="django_mcp.I015")
def check_reading_tools() -> Iterator[CheckMessage]:
    """I015: tools are named as those that read, and do not say that they only read."""
    for server in all_servers():
        names = [
            tool.name
            for tool in server.registry.tools.values()
            if not tool.stated_hints and tool.redirect is None and _READING.match(tool.name)
        ]
        if names:
            yield Info(
                f"{', '.join(names[:10])}{' and others' if len(names) > 10 else ''} of the server {server.name!r} may "
                "delete data, as far as clients are told: many ask the user before each call, and keys that only read "
                "do not see them.",
                hint="Give tools that change nothing read_only=True, and others destructive=False or True.",
            )


@check(id="django_mcp.I012")
def check_recorded_arguments() -> Iterator[CheckMessage]:
    """I012: tools have `record_arguments=True`, and no calls are recorded."""
    # Receivers get the arguments, recorded or not.
    if settings.RECORD_CALLS or tool_called.receivers:
        return
    for server in all_servers():
        tools = server.registry.tools.values()
        names = [tool.name for tool in tools if tool.record_arguments]
        if names:
            yield Info(
                f"The server {server.name!r} keeps no arguments of {', '.join(names)}, since no calls are "
                "recorded; record_arguments=True says that it may.",
                hint="Set DJANGO_MCP['RECORD_CALLS'] to True or to a share of the calls, or leave "
                "record_arguments out.",
            )


_LONG_S = 3600


@check(id="django_mcp.I023")
def check_timeouts() -> Iterator[CheckMessage]:
    """I023: a call may take longer than an hour, as where a timeout is meant in milliseconds."""
    for server in all_servers():
        given = {
            f"{tool.name} {tool.timeout_s:g} s": tool.timeout_s
            for tool in server.registry.tools.values()
            if tool.timeout_s is not None
        }
        default = server.options.call_timeout_s
        if default is not None:
            given[f"others {default:g} s, by CALL_TIMEOUT"] = default
        names = [name for name, seconds in given.items() if seconds > _LONG_S]
        if names:
            yield Info(
                f"A call to the server {server.name!r} may take longer than an hour: {list_some(names)}.",
                hint="Timeouts are in seconds. A connection is seldom open for that long: let a task do such work, or "
                "silence this check.",
            )


@check(id="django_mcp.W043")
def check_senders() -> Iterator[CheckMessage]:
    """W043: a receiver of a signal waits for a sender that is no server, and so never runs."""
    servers = {id(server) for server in all_servers()} | {id(None)}
    alerts = {id(HealthAlert), id(None)}
    for name, signal in vars(signals).items():
        # Alerts are about the whole site.
        is_alert = name.startswith("alert_")
        senders, wanted = (alerts, "not HealthAlert") if is_alert else (servers, "no server")
        right = (
            "the model HealthAlert"
            if is_alert
            else "the MCPServer itself: write sender=default_server"
        )
        for key, receiver, *_rest in signal.receivers if isinstance(signal, Signal) else ():
            function = receiver() if isinstance(receiver, ReferenceType) else receiver
            if key[1] not in senders and function is not None:
                yield checks.Warning(
                    f"{describe_source(function)} never runs: it receives {name} of a sender that is {wanted}.",
                    hint=f"The sender is {right}, or leave sender= out.",
                )


MAX_LIST_TOKENS = 10_000
"""Tokens of generated tools that no model should have to read before each conversation."""


@check(id="django_mcp.I011")
def check_list_size() -> Iterator[CheckMessage]:
    """I011: the generated tools of a server take much of a model's context."""
    for server in all_servers():
        size = sum(
            estimate_tokens([tool.name, str(tool.description), tool.published(tool.input_schema)])
            for tool in server.registry.tools.values()
            if tool.is_listed and tool.origin in ("admin", "model")
        )
        if size > MAX_LIST_TOKENS:
            yield Info(
                f"A model reads about {size:,} tokens of generated tools of the server {server.name!r}, "
                "before it does anything.",
                hint="Give style='compact' to admin_tools() or the ModelTools classes, or leave tools out "
                "with include= and exclude=.",
            )


@check(id="django_mcp.I008")
def check_annotations() -> Iterator[CheckMessage]:
    """I008: nothing says what a parameter of a tool is, or that of a prompt is no text."""
    for server in all_servers():
        for tool in server.registry.tools.values():
            for parameter in _find_unannotated(tool):
                name = parameter.name
                yield Info(
                    f"{tool.source}: the parameter `{name}` has no annotation, so clients may send "
                    "anything.",
                    hint="Write user: User, with your user model, to get the caller. If clients send it, "
                    "annotate it with its type."
                    if name == "user"
                    else f"Annotate it, as in {name}: {_name_type(parameter.default)}.",
                )
        for prompt in server.registry.prompts.values():
            for parameter in _find_texts(prompt):
                yield Info(
                    f"{prompt.source}: the parameter `{parameter.name}` has no annotation, so it is the text that a client "
                    f"sends, such as 'false', and {parameter.default!r} only without one.",
                    hint=f"Annotate it, as in {parameter.name}: {_name_type(parameter.default)}.",
                )


def _name_type(default: Any) -> str:
    """Return the name of a type for a parameter with a default."""
    plain = (bool, int, float, list, dict)
    return type(default).__name__ if type(default) in plain else "str"


def _find_texts(prompt: PromptEntry) -> Iterator[inspect.Parameter]:
    """Yield the arguments of a prompt that are texts, though their defaults are none."""
    with suppress(TypeError, ValueError):
        for name, parameter in inspect.signature(prompt.handler.origin).parameters.items():
            is_bare = parameter.annotation is inspect.Parameter.empty
            is_other = isinstance(parameter.default, bool | int | float)
            if name in prompt.argument_names and is_bare and is_other:
                yield parameter


def _find_unannotated(tool: ToolEntry) -> Iterator[inspect.Parameter]:
    """Yield the arguments of a tool that neither its function nor its schema restricts."""
    published = tool.input_schema.get("properties", {})
    try:
        parameters = inspect.signature(tool.handler.origin).parameters.values()
    except (TypeError, ValueError):
        return
    for parameter in parameters:
        schema = published.get(parameter.name)
        is_free = isinstance(schema, dict) and schema.keys() <= _DESCRIBING
        if is_free and parameter.annotation is inspect.Parameter.empty:
            yield parameter


@check(id="django_mcp.I010")
def check_described_parameters() -> Iterator[CheckMessage]:
    """I010: a docstring describes a parameter that the function does not have."""
    for server in all_servers():
        registry = server.registry
        for entry in chain(
            registry.tools.values(), registry.templates.values(), registry.prompts.values()
        ):
            described = read_docs(entry.handler.origin)[1]
            known = _find_names(entry) if described else []
            for name in described:
                if name not in known:
                    yield Info(
                        f"{entry.source}: its docstring describes `{name}`, which is no parameter of it.",
                        hint=f"Correct the name.{did_you_mean(name, known)}",
                    )


def _find_names(entry: Any) -> list[str]:
    """Return the parameters of a function, and the arguments that it gets as one dict."""
    if isinstance(entry, ToolEntry):
        arguments = list(entry.input_schema.get("properties", ()))
    else:
        arguments = list(entry.argument_names)
    return [*arguments, *inspect.signature(entry.handler.origin).parameters]


@check(id="django_mcp.W022")
def check_keywords() -> Iterator[CheckMessage]:
    """W022: a schema has a keyword that looks misspelled or is not for its type, such as an option of `Field`."""
    for server in all_servers():
        for tool in server.registry.tools.values():
            for schema in (tool.form_schema, tool.output_schema):
                for path, keyword, near in _find_misspelled(schema):
                    yield checks.Warning(
                        f"{tool.source}: its schema has the keyword {keyword!r} at "
                        f"{to_pointer(path) or 'its root'}, which clients do not know.",
                        hint=f"Did you mean {near!r}? pydantic publishes options that Field() does not have.",
                    )
                for path, keyword in _find_misplaced(schema):
                    yield checks.Warning(
                        f"{tool.source}: its schema has the keyword {keyword!r} at "
                        f"{to_pointer(path) or 'its root'}, which is not for the type there.",
                        hint="Field(le=...) and the like are for numbers, Field(max_length=...) and the like for "
                        "texts and lists. A call with such an argument fails.",
                    )


_OF_NUMBERS = {"le", "ge", "lt", "gt", "multiple_of"}
"""Options of `Field` that pydantic publishes under this name where the type is no number."""

_OF_LENGTHS = {"minLength", "maxLength"}


def _find_misplaced(schema: Any) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield the keywords of a schema that pydantic wrote beside a type that they do not fit."""
    for path, _depth, node in walk(schema):
        if isinstance(node, dict):
            is_number = node.get("type") in ("integer", "number", "boolean")
            wrong = _OF_NUMBERS | _OF_LENGTHS if is_number else _OF_NUMBERS
            yield from ((path, keyword) for keyword in node if keyword in wrong)


def _find_misspelled(schema: Any) -> Iterator[tuple[tuple[str | int, ...], str, str]]:
    """Yield the unknown keywords of a schema that are like an option of `Field` or a keyword."""
    unknown = [
        (path, keyword)
        for path, _depth, node in walk(schema)
        if isinstance(node, dict)
        for keyword in node
        if keyword not in KEYWORDS
    ]
    if not unknown:
        return
    from pydantic import Field

    options = {*inspect.signature(Field).parameters} - {"extra"}
    for path, keyword in unknown:
        near = [] if keyword in options else find_near(keyword, [*options, *KEYWORDS], cutoff=0.8)
        if near:
            yield path, keyword, near[0]
