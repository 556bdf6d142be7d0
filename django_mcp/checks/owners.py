"""System check of functions that find objects of users, and do not look at who calls.

Functions are read, and not run. Only what their text and the modules around them make certain is told.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from typing import Any

from django.apps import apps
from django.conf import settings as site_settings
from django.core.checks import CheckMessage, Info, Tags
from django.db.models import Model

from django_mcp.auth.permissions import signed_in
from django_mcp.checks.declared import check
from django_mcp.checks.function_text import COPYING, FunctionText, Rows, find_filtered, read_text
from django_mcp.registry.problems import is_of_framework
from django_mcp.servers import MCPServer, all_servers


@check(Tags.security, id="django_mcp.I019")
def check_owners() -> Iterator[CheckMessage]:
    """I019: a function finds objects that belong to users, and does not look at the user."""
    for server in all_servers():
        for source, function in _find_open(server):
            for model, name, line in _find_read(function):
                by = f" by {name}" if name else ""
                yield Info(
                    f"{source} finds objects of {model._meta.label}{by} in line {line}, whoever calls, and these "
                    "objects belong to users.",
                    hint="Filter by ctx.user, or write a check= that looks at the object, which completions do not ask. If "
                    "every caller may choose every object, silence this check.",
                )


def _find_open(server: MCPServer) -> Iterator[tuple[str, Any]]:
    """Yield the functions that run for everybody who is signed in, with where they are: of entries and of completions."""
    registry, rules = server.registry, server.engine.derived.requirements.rules
    for entry in registry.entries():
        if rules.get(entry, frozenset()) - {signed_in}:
            continue
        if entry.access.check is None:
            yield entry.source, entry.handler.origin
        # The check of an entry does not run for its completions.
        for (mapping, key, _argument), completer in registry.completers.items():
            is_its_own = (mapping, key) == (entry.kind.mapping, entry.key)
            if is_its_own and not rules.get(completer, frozenset()) - {signed_in}:
                yield completer.source, completer.origin


def find_user_model() -> type[Model] | None:
    """Return the model of the users; None: the site has none."""
    try:
        return apps.get_model(site_settings.AUTH_USER_MODEL)
    except (LookupError, ValueError):
        return None


def belongs_to_users(model: type[Model]) -> bool:
    """Return whether a model is of the users, or has a foreign key to them."""
    users = find_user_model()
    if users is None:
        return False
    owners = [field.related_model for field in model._meta.fields if field.is_relation]
    return any(isinstance(each, type) and issubclass(users, each) for each in (model, *owners))


def _find_read(given: Any) -> Iterator[tuple[Any, str, int]]:
    """Yield the models of which a function without a look at the user finds objects, with the argument for one and the line."""
    text = read_text(given)
    if text is None or is_of_framework(text.function) or _looks_at_user(text):
        return
    found = {line: (model, name, line) for model, name, line in _find_in(text)}
    for call in [each for each in text.nodes if isinstance(each, ast.Call)]:
        inner = text.find_inner(call)
        if inner is None or inner.node is text.node or _looks_at_user(inner):
            continue
        for model, _name, _line in _find_in(inner):
            found.setdefault(call.lineno, (model, "", call.lineno))
    yield from found.values()


def _looks_at_user(text: FunctionText) -> bool:
    arguments = text.find_plain_parameters()
    # What is only logged decides nothing.
    logged = {
        each
        for call in ast.walk(text.node)
        if isinstance(call, ast.Call) and _LOGGING.match(ast.unparse(call.func))
        for each in ast.walk(call)
    }
    names = {
        each.attr if isinstance(each, ast.Attribute) else each.id
        for each in ast.walk(text.node)
        if isinstance(each, ast.Attribute | ast.Name) and each not in logged
    }
    # A user who is named by the client need not be the one who calls.
    return any("user" in each or "owner" in each for each in names - arguments)


_LOGGING = re.compile(r"(self\.)?_?(log|logger|logging|print)\b(?!\.getLogger)", re.IGNORECASE)


def _find_in(text: FunctionText) -> Iterator[tuple[Any, str, int]]:
    found = {
        line: (model, name, line)
        for model, name, line in _find_chosen(text, text.find_plain_parameters())
    }
    for model, line in _find_lists(text):
        found.setdefault(line, (model, "", line))
    yield from found.values()


def _find_chosen(text: FunctionText, arguments: set[str]) -> Iterator[tuple[Any, str, int]]:
    """Yield the models whose objects are found by an argument that chooses one, or its owner."""
    for call in ast.walk(text.node):
        if not isinstance(call, ast.Call):
            continue
        rows = find_filtered(call)
        model: Any = None if rows is None else text.find_model(rows)
        if model is None or not belongs_to_users(model):
            continue
        fields = _find_choosing(model)
        for each in call.keywords:
            is_argument = isinstance(each.value, ast.Name) and each.value.id in arguments
            if is_argument and each.arg is not None and _names_one_of(fields, each.arg):
                yield model, ast.unparse(each.value), call.lineno


_ITERATING = frozenset(("aiterator", "ain_bulk", "in_bulk", "iterator"))
"""The methods of a queryset that give all its objects. The others make another one, count, write, or give one object."""


def _find_lists(text: FunctionText) -> Iterator[tuple[Any, int]]:
    """Yield the models of which a function reads a list of objects."""
    nodes = list(ast.walk(text.node))
    parents = {child: node for node in nodes for child in ast.iter_child_nodes(node)}
    for node in nodes:
        if not isinstance(node, ast.Call | ast.Name) or isinstance(
            getattr(node, "ctx", None), ast.Store
        ):
            continue
        rows = text.infer(node)
        if isinstance(rows, Rows) and rows.model is not None and belongs_to_users(rows.model):
            parent, lists = parents[node], _ITERATING
            if isinstance(parent, ast.Subscript) and isinstance(parent.slice, ast.Slice):
                # What a slice is made into is not known by its text.
                parent, lists = parents[parent], _ITERATING | COPYING
            if _lists(parent, lists):
                yield rows.model, node.lineno


def _lists(parent: ast.AST, lists: Collection[str]) -> bool:
    """Return whether what is done with a queryset reads all its objects, as those methods do."""
    if isinstance(parent, ast.Attribute):
        return parent.attr in lists
    if isinstance(parent, ast.Call):
        return ast.unparse(parent.func) not in ("bool", "len")
    # A variable that keeps it, one object of it, and whether there are any.
    return not isinstance(
        parent,
        ast.Assign
        | ast.AnnAssign
        | ast.NamedExpr
        | ast.Subscript
        | ast.If
        | ast.BoolOp
        | ast.UnaryOp,
    )


def _find_choosing(model: Any) -> set[str]:
    """Return the names of the fields that choose one object of a model, or the objects of one user."""
    users: Any = find_user_model()
    names = {"pk"}
    for field in model._meta.fields:
        of_user = field.is_relation and issubclass(users, field.related_model)
        if field.unique or of_user:
            names |= {field.name, field.attname}
    return names


def _names_one_of(fields: Collection[str], lookup: str) -> bool:
    """Return whether a lookup is of one of the fields, or through it to a field of the user, and by equality."""
    name, *rest = lookup.split("__")
    return name in fields and (
        not rest or rest[-1] in ("email", "exact", "id", "iexact", "pk", "username")
    )
