"""System check of filters that give anonymous callers the rows of nobody, whose owner is NULL.

Functions are read, and not run. Only what their text and the modules around them make certain is told.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from django.core import checks
from django.core.checks import CheckMessage, Tags
from django.core.exceptions import FieldDoesNotExist

from django_mcp.checks.declared import check
from django_mcp.checks.function_text import find_filtered, read_text
from django_mcp.endpoints.usable_entries import find_unguarded
from django_mcp.servers import all_servers

_KEYS = ("ctx.user.id", "ctx.user.pk", "user.id", "user.pk", "request.user.id", "request.user.pk")
_ASKING = ("is_authenticated", "is_anonymous")


@check(Tags.security, id="django_mcp.W052")
def check_rows_of_nobody() -> Iterator[CheckMessage]:
    """W052: a filter by the key of a caller who may be anonymous finds the rows that belong to nobody."""
    for server in all_servers():
        authentication = server.engine.authentication
        if authentication is not None and not authentication.is_public:
            continue
        for entry in find_unguarded(server):
            for name, key, line in find_filters_of_nobody(entry.handler.origin):
                yield checks.Warning(
                    f"{entry.source} filters {name} by {key} in line {line}, which is None for anonymous callers, so "
                    "that they get the rows that belong to nobody.",
                    hint="Give it permission=signed_in, or ask user.is_authenticated first.",
                )


def find_filters_of_nobody(
    given: Any, default: type | None = None
) -> Iterator[tuple[str, str, int]]:
    """Yield the fields that may be NULL and are filtered by the key of the caller, with the key and the line.

    Args:
        given: a function or a method.
        default: the model of the rows whose model the text does not tell.
    """
    text = read_text(given)
    if text is None:
        return
    nodes = list(ast.walk(text.node))
    if any(isinstance(each, ast.Attribute) and each.attr in _ASKING for each in nodes):
        return
    keys = _find_keys(nodes)
    for call in nodes:
        if not isinstance(call, ast.Call):
            continue
        conditions = [
            (each.arg, ast.unparse(each.value), each.value.lineno)
            for part in (call, *_find_conditions(call))
            for each in part.keywords
            if each.arg is not None and ast.unparse(each.value) in keys
        ]
        rows = find_filtered(call) if conditions else None
        model = None if rows is None else text.find_model(rows) or default
        for name, key, line in conditions if model is not None else ():
            if _may_be_null(model, name):
                yield name, key, line


def _find_keys(nodes: list[ast.AST]) -> set[str]:
    """Return how a function writes the key of its caller, without what it asks before it filters."""
    parameters = {each.arg for each in nodes if isinstance(each, ast.arg)}
    keys = {each for each in _KEYS if each.partition(".")[0] in parameters}
    assigned = [each for each in nodes if isinstance(each, ast.Assign)]
    for each in assigned:
        if ast.unparse(each.value) in keys:
            keys |= {target.id for target in each.targets if isinstance(target, ast.Name)}
    tests = [each.test for each in nodes if isinstance(each, ast.If | ast.IfExp | ast.Assert)]
    return keys - {ast.unparse(each) for test in tests for each in ast.walk(test)}


def _find_conditions(call: ast.Call) -> Iterator[ast.Call]:
    """Yield the `Q(...)` in the arguments of a call."""
    for given in call.args:
        for each in ast.walk(given):
            if isinstance(each, ast.Call) and ast.unparse(each.func).rpartition(".")[2] == "Q":
                yield each


def _may_be_null(model: Any, lookup: str) -> bool:
    """Return whether a lookup such as `order__owner_id` is NULL for some rows."""
    for name in lookup.removesuffix("__exact").split("__"):
        fields = {each.attname: each for each in model._meta.concrete_fields}
        try:
            field = (
                model._meta.pk if name == "pk" else fields.get(name) or model._meta.get_field(name)
            )
        except FieldDoesNotExist:
            return False
        if field.null:
            return True
        model = field.related_model
        if model is None:
            break
    return False
