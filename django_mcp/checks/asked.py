"""Which permissions the site's own code asks for by their names, read without running it.

It knows the names that stand in a call: `user.has_perm("shop.change_order")`, also as a constant of the module, and in
the functions of the same package that are called by their names. A name that is put together is not known.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator
from dis import Positions, get_instructions
from types import CodeType, FunctionType
from typing import Any

from django_mcp.auth.permissions import object_permission
from django_mcp.registry.problems import innermost, is_of_framework
from django_mcp.servers import MCPServer

_METHODS = frozenset(["has_perm", "has_perms", "ahas_perm", "ahas_perms"])


def find_asked(server: MCPServer) -> Iterator[tuple[Any, str]]:
    """Yield the functions of the site that decide who may do what on a server, with the permissions they ask for."""
    reader = _Reader()
    for rules in server.engine.derived.requirements.rules.values():
        for rule in rules:
            yield from reader.read(rule)
    for entry in server.registry.entries():
        origin: Any = entry.handler.origin
        check = entry.access.check
        if isinstance(check, object_permission):
            yield origin, check.permission
        yield from reader.read(check)
        yield from reader.read(origin)
        for find in (getattr(origin, name, tuple) for name in ("find_rules", "find_code")):
            for each in find():
                yield from reader.read(each)
    for completer in server.registry.completers.values():
        yield from reader.read(completer.origin)


class _Reader:
    """Reads functions and classes, each once."""

    def __init__(self) -> None:
        self._seen: set[Any] = set()

    def read(self, given: Any) -> Iterator[tuple[Any, str]]:
        """Yield the functions behind something that is called, with the permissions that they ask for."""
        target = innermost(given)
        target = getattr(target, "__func__", target)
        if isinstance(target, type):
            for cls in target.__mro__:
                for each in () if is_of_framework(cls) else list(vars(cls).values()):
                    yield from self._read_function(getattr(each, "__func__", each))
        elif isinstance(target, FunctionType):
            yield from self._read_function(target)
        elif hasattr(target, "__wrapped__"):
            yield from self.read(target.__wrapped__)
        elif callable(target) and not is_of_framework(type(target)):
            yield from self.read(type(target))

    def _read_function(self, function: Any) -> Iterator[tuple[Any, str]]:
        if not isinstance(function, FunctionType) or function in self._seen:
            return
        self._seen.add(function)
        closure = _of_closure(function)
        for behind in (getattr(function, "__wrapped__", None), *closure.values()):
            yield from self._read_function(behind)
        if is_of_framework(function):
            return
        values = {**function.__globals__, **closure}
        for code in _with_inner(function.__code__):
            for name in _read_code(code, values):
                yield function, name
            for called in map(function.__globals__.get, code.co_names):
                if isinstance(called, FunctionType) and _are_together(function, called):
                    yield from self._read_function(called)


def _of_closure(function: FunctionType) -> dict[str, Any]:
    values = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            values[name] = cell.cell_contents
        except ValueError:  # it has no value yet
            continue
    return values


def _are_together(one: Any, other: Any) -> bool:
    """Return whether two functions are of one package."""
    return bool(one.__module__.partition(".")[0] == str(other.__module__).partition(".")[0])


def _with_inner(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _with_inner(each)


def _read_code(code: CodeType, values: dict[str, Any]) -> Iterator[str]:
    if _METHODS.isdisjoint(code.co_names):
        return
    calls = (each for each in get_instructions(code) if each.opname.startswith("CALL"))
    for place in dict.fromkeys(each.positions for each in calls):
        call = None if place is None else _parse(code.co_filename, place)
        if isinstance(call, ast.Call) and call.args:
            # Of a call over several lines, Python may have no more than what stands behind the dot.
            receiver = call.func.value if isinstance(call.func, ast.Attribute) else None
            name = call.func.attr if isinstance(call.func, ast.Attribute) else _name_of(call.func)
            if name in _METHODS:
                may_be_short = len(call.args) > 1 or not _name_of(receiver).endswith("user")
                for asked in find_texts(call.args[0], values):
                    if "." in asked or not may_be_short:
                        yield asked


def _name_of(node: ast.expr | None) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _parse(path: str, place: Positions) -> ast.expr | None:
    """Return the expression at a place in a file; None, if its text is not there."""
    first, last, start, end = place
    if None in place or first is None or last is None:
        return None
    lines = [line.encode() for line in linecache.getlines(path)[first - 1 : last]]
    if len(lines) != last - first + 1:
        return None
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][start:]
    try:
        return ast.parse(b"(" + b"".join(lines) + b")", mode="eval").body
    except (SyntaxError, ValueError):  # the file is another one than when it was loaded
        return None


def find_texts(node: ast.expr, values: dict[str, Any]) -> Iterator[str]:
    """Yield the texts that an expression is or has, as far as they are known."""
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        for each in node.elts:
            yield from find_texts(each, values)
    elif isinstance(node, ast.IfExp):
        yield from find_texts(node.body, values)
        yield from find_texts(node.orelse, values)
    else:
        known = node.value if isinstance(node, ast.Constant) else values.get(_name_of(node))
        is_plain = isinstance(node, ast.Constant | ast.Name)
        several = known if isinstance(known, list | tuple | set | frozenset) else [known]
        yield from (each for each in several if is_plain and isinstance(each, str))
