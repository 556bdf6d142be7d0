"""System check of functions that call the function of a tool themselves, so that nobody asks for its permission.

Functions are read, and not run. Only what their text and the modules around them make certain is told.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import FunctionType
from typing import Any

from django.core.checks import CheckMessage, Info, Tags

from django_mcp.checks.declared import check
from django_mcp.checks.function_text import read_text
from django_mcp.registry.entries import Entry
from django_mcp.registry.problems import innermost
from django_mcp.servers import all_servers


@check(Tags.security, id="django_mcp.I017")
def check_direct_calls() -> Iterator[CheckMessage]:
    """I017: a function calls that of another entry, whose permission and check are not asked then."""
    needed: dict[int, tuple[Entry, set[Any]]] = {}
    entries: list[tuple[Entry, set[Any]]] = []
    for server in all_servers():
        needs = server.engine.derived.requirements
        for entry in server.registry.entries():
            rules = {*needs.rules.get(entry, ()), *needs.scopes.get(entry, ()), entry.access.check}
            rules.discard(None)
            entries.append((entry, rules))
            if rules:
                needed[id(innermost(entry.handler.origin))] = entry, rules
    for entry, rules in entries if needed else ():
        text = read_text(entry.handler.origin)
        for function, line in () if text is None else text.find_called():
            if not isinstance(function, FunctionType):
                continue
            called, missing = needed.get(id(innermost(function)), (entry, set()))
            if called is not entry and not missing <= rules:
                yield Info(
                    f"{entry.source} calls the function of the {called.kind.word} {called.key} in line {line}. "
                    "That asks neither its permission nor its check.",
                    hint=f"Give {entry.key} the same, or make the call in process, with call_tool(..., user=ctx.user) of "
                    "the server, which asks both. If callers may do this without them, silence this check.",
                )
