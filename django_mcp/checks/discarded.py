"""What functions discard without effect: a coroutine that is never awaited, and a queryset made from another.

Functions are read, and not run. Only what their text and the modules around them make certain is told.
"""

from __future__ import annotations

import ast
import builtins
import inspect
from collections.abc import Callable, Iterator
from textwrap import dedent
from types import FunctionType, ModuleType
from typing import Any, TypeAlias

from django.db.models import QuerySet
from django.db.models.manager import BaseManager
from django.db.models.options import Options
from django.shortcuts import aget_object_or_404, get_object_or_404
from msgspec import Struct

from django_mcp.registry.problems import innermost
from django_mcp.registry.signatures import is_async_callable

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)

_COPYING = frozenset(
    (
        "alias", "all", "annotate", "complex_filter", "dates", "datetimes", "defer", "difference", "distinct",
        "exclude", "extra", "filter", "intersection", "none", "only", "order_by", "prefetch_related",
        "select_for_update", "select_related", "union", "using", "values", "values_list",
    )
)  # fmt: skip
"""The methods of a queryset that do nothing but return another. `reverse` is one of lists, too."""

_ENDING = frozenset(name for name in dir(QuerySet) if not name.startswith("_")) - _COPYING
"""The methods of a queryset that return something else."""


class Discarded(Struct, frozen=True):
    """A call whose result its function discards.

    Attributes:
        call: its text, shortened.
        line: where it is in the file.
        is_coroutine: it returns a coroutine; else a queryset.
    """

    call: str
    line: int
    is_coroutine: bool

    @property
    def problem(self) -> str:
        """What is wrong, after the name of the function."""
        if self.is_coroutine:
            return f"calls {self.call} in line {self.line} without await, so that it never runs"
        return f"discards the queryset that {self.call} in line {self.line} returns"

    @property
    def hint(self) -> str:
        """What to do."""
        if self.is_coroutine:
            return "Write await before it in an async def function, or async_to_sync(...)(...) in another one."
        return "A method of a queryset changes nothing, but returns a new one: assign it, or return it."


class _Instance(Struct, frozen=True):
    """Some object of a class."""

    cls: type


class _Known(Struct, frozen=True, eq=False):
    """An object that a name stands for."""

    value: Any


class _Rows(Struct, frozen=True):
    """A queryset or a manager, of any model if none is known."""

    model: type | None = None


_OBJECTS = frozenset(("create", "earliest", "first", "get", "last", "latest"))
"""The methods of a queryset that return one object."""


def read_function(given: Any) -> tuple[Function, FunctionType] | None:
    """Return the text of a function and the function itself, inside of its decorators; None: it cannot be read."""
    target = inspect.unwrap(innermost(given)) if callable(given) else given
    target = getattr(target, "__func__", target)
    if not isinstance(target, FunctionType):
        return None
    try:
        lines, first = inspect.getsourcelines(target)
        tree = ast.parse(dedent("".join(lines)))
    except (OSError, SyntaxError, TypeError):  # as of a lambda in the middle of an expression
        return None
    node = tree.body[0]
    if not isinstance(node, Function):
        return None
    ast.increment_lineno(node, first - 1)
    return node, target


def find_discarded(given: Any, *, returns_rows: bool = False) -> Iterator[Discarded]:
    """Yield what a function discards.

    Args:
        given: a function, a method, or what stands around one.
        returns_rows: it has to return a queryset, so that a variable that it returns is one.
    """
    read = read_function(given)
    if read is None:
        return
    node, function = read
    closure = inspect.getclosurevars(function).nonlocals if function.__closure__ else {}
    names = {**vars(builtins), **function.__globals__, **closure}
    scope = _Scope(node, names, function)
    if returns_rows:
        scope.find_returned()
    yield from scope.find()


class _Scope:
    """The variables of a function, and what is known of them."""

    def __init__(
        self, node: Function, names: dict[str, Any], function: FunctionType | None
    ) -> None:
        self._node = node
        self._names = names
        self._nodes = list(_walk(node.body))
        given = node.args
        every = (*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg)
        self._parameters = {each.arg for each in every if each is not None}
        self._annotations = {} if function is None else _read_annotations(function)
        self._assigned: dict[str, list[ast.expr | None]] = {}
        for name, value in _find_assigned(self._nodes):
            self._assigned.setdefault(name, []).append(value)
        self._returned: set[str] = set()
        self._waiting: set[str] = set()

    def find_returned(self) -> None:
        """Take the variables that the function returns, or makes its result from, for querysets."""
        for each in self._nodes:
            value = each.value if isinstance(each, ast.Return) else None
            while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
                value = value.func.value if value.func.attr in _COPYING else None
            if isinstance(value, ast.Name):
                self._returned.add(value.id)

    def find(self) -> Iterator[Discarded]:
        """Yield what the function discards, with the functions inside of it."""
        for each, is_guarded in _find_statements(self._node.body):
            is_coroutine = self._returns_coroutine(each)
            if is_coroutine or (self._is_copy(each) and not is_guarded):
                text = ast.unparse(each)
                call = text if len(text) <= _MAX_CALL else f"{ast.unparse(each.func)}(...)"
                yield Discarded(f"{call:.{_MAX_CALL}}", each.lineno, is_coroutine)
        for node in self._nodes:
            if isinstance(node, Function):
                hidden = {*self._parameters, *self._assigned}
                names = {name: value for name, value in self._names.items() if name not in hidden}
                yield from _Scope(node, names, None).find()

    def _returns_coroutine(self, call: ast.Call) -> bool:
        called = self._infer(call.func)
        return isinstance(called, _Known) and _is_coroutine_function(called.value)

    def _is_copy(self, call: ast.Call) -> bool:
        function = call.func
        return (
            isinstance(function, ast.Attribute)
            and function.attr in _COPYING
            and isinstance(self._infer(function.value), _Rows)
        )

    def _infer(self, node: ast.expr) -> Any:
        """Return what is known of an expression: `_Rows`, `_Known`, `_Instance`, or None."""
        if isinstance(node, ast.Name):
            return self._infer_name(node.id)
        if isinstance(node, ast.Attribute):
            return self._infer_attribute(node)
        if isinstance(node, ast.Call):
            return self._infer_call(node, "")
        if isinstance(node, ast.Await) and isinstance(node.value, ast.Call):
            return self._infer_call(node.value, "a")
        return None

    def _infer_name(self, name: str) -> Any:
        if name in self._returned:
            return _Rows()
        if name in self._parameters and name not in self._assigned:
            cls = self._annotations.get(name)
            if cls is None:
                return None
            return _Rows() if issubclass(cls, QuerySet) else _Instance(cls)
        if name in self._assigned:
            return self._infer_variable(name)
        return _know(self._names[name]) if name in self._names else None

    def _infer_variable(self, name: str) -> Any:
        if name in self._waiting:
            return _WAITING
        if name in self._parameters:
            return None
        self._waiting.add(name)
        found = [each and self._infer(each) for each in self._assigned[name]]
        self._waiting.discard(name)
        values = [each for each in found if each is not _WAITING]
        if values and all(isinstance(each, _Rows) for each in values):
            return values[0]
        is_same = bool(values) and isinstance(values[0], _Instance) and len(set(values)) == 1
        return values[0] if is_same else None

    def _infer_attribute(self, node: ast.Attribute) -> Any:
        base = self._infer(node.value)
        if node.attr in ("_default_manager", "_base_manager"):
            return _Rows()
        if isinstance(base, _Rows):
            return _look_up(QuerySet, node.attr)
        if isinstance(base, _Instance):
            return _look_up(base.cls, node.attr)
        if not isinstance(base, _Known):
            return None
        value = base.value
        if isinstance(value, ModuleType):
            return _know(vars(value)[node.attr]) if node.attr in vars(value) else None
        # `Model` itself has no managers.
        options = getattr(value, "_meta", None) if isinstance(value, type) else None
        if isinstance(options, Options) and node.attr in options.managers_map:
            return _Rows(value)
        return _look_up(value if isinstance(value, type) else type(value), node.attr)

    def _infer_call(self, node: ast.Call, prefix: str) -> Any:
        """Return what is known of the result of a call, which is awaited with the prefix `a`."""
        function = node.func
        if isinstance(function, ast.Attribute):
            base = self._infer(function.value)
            if base is _WAITING:
                return _WAITING if function.attr in _COPYING else None
            if isinstance(base, _Rows):
                if function.attr.startswith(prefix) and function.attr[len(prefix) :] in _OBJECTS:
                    return base.model and _Instance(base.model)
                # A method of the site's own returns a queryset, too, as far as is known.
                return None if function.attr in _ENDING or prefix else base
            if function.attr == "get_queryset" and _is_super(function.value):
                return _Rows()
        called = self._infer(function)
        if not isinstance(called, _Known):
            return None
        if (
            any(called.value is each for each in (get_object_or_404, aget_object_or_404))
            and node.args
        ):
            given = self._infer(node.args[0])
            model = given.model if isinstance(given, _Rows) else getattr(given, "value", None)
            return _Instance(model) if isinstance(model, type) else None
        return _Instance(called.value) if isinstance(called.value, type) else None


_WAITING = object()
"""A variable that is assigned a value made from its own."""

_MAX_CALL = 80


def _is_super(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "super"


def _know(value: Any) -> _Known | _Rows | None:
    """Return what is known of an object; nothing, if asking for its class would load another in its place."""
    if isinstance(inspect.getattr_static(type(value), "__class__", None), property):
        return None
    if isinstance(value, BaseManager | QuerySet):
        return _Rows(value.model)
    return _Known(value)


def _is_coroutine_function(value: Any) -> bool:
    if isinstance(value, staticmethod | classmethod):
        value = value.__func__
    is_callable = callable(value) and not isinstance(value, type)
    return is_callable and is_async_callable(value)


def _look_up(cls: type, name: str) -> _Known | None:
    """Return a function of a class as it stands there, without running a descriptor."""
    value = inspect.getattr_static(cls, name, None)
    is_function = isinstance(value, FunctionType | staticmethod | classmethod)
    return _Known(value) if is_function else None


def _read_annotations(function: Callable[..., Any]) -> dict[str, type]:
    """Return the parameters that are annotated with a class."""
    try:
        found = inspect.get_annotations(function, eval_str=True)
    except Exception:  # noqa: BLE001 - the annotations are the site's
        return {}
    return {name: value for name, value in found.items() if isinstance(value, type)}


def _walk(body: list[Any]) -> Iterator[ast.AST]:
    """Yield the nodes of a function, and the functions inside of it without theirs."""
    for each in body:
        yield each
        if not isinstance(each, _SCOPES):
            yield from _walk(list(ast.iter_child_nodes(each)))


def _find_assigned(nodes: list[ast.AST]) -> Iterator[tuple[str, ast.expr | None]]:
    """Yield the variables that nodes assign, with what they assign to them if that is one expression."""
    values: dict[ast.AST, ast.expr | None] = {}
    for node in nodes:
        if isinstance(node, ast.Assign):
            values.update(dict.fromkeys(node.targets, node.value))
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr):
            values[node.target] = node.value
    for node in nodes:
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Store):
                yield node.id, values.get(node)
        elif isinstance(node, ast.alias):
            yield node.asname or node.name.partition(".")[0], None
        elif name := getattr(node, "name", None):  # of a function, a class, an error or a pattern
            yield name, None


def _find_statements(
    body: list[Any], *, is_guarded: bool = False
) -> Iterator[tuple[ast.Call, bool]]:
    """Yield the calls that are statements, with whether they may be there for the errors that they raise."""
    for each in body:
        if isinstance(each, ast.Expr):
            yield from ((call, is_guarded) for call in _find_calls(each.value))
        elif not isinstance(each, _SCOPES):
            for name, value in ast.iter_fields(each):
                parts = value if isinstance(value, list) else []
                statements = [part for part in parts if isinstance(part, _BLOCKS)]
                is_watched = name == "body" and (
                    (isinstance(each, ast.Try) and bool(each.handlers))
                    or (isinstance(each, ast.With) and any(map(_suppresses, each.items)))
                )
                yield from _find_statements(statements, is_guarded=is_guarded or is_watched)


_BLOCKS = (ast.stmt, ast.ExceptHandler, ast.match_case)


def _find_calls(value: ast.expr) -> Iterator[ast.Call]:
    if isinstance(value, ast.Call):
        yield value
    elif isinstance(value, ast.IfExp):
        yield from _find_calls(value.body)
        yield from _find_calls(value.orelse)
    elif isinstance(value, ast.BoolOp):
        yield from _find_calls(value.values[-1])


def _suppresses(item: ast.withitem) -> bool:
    call = item.context_expr
    name = ast.unparse(call.func) if isinstance(call, ast.Call) else ""
    return name.rpartition(".")[2] in ("suppress", "raises", "assertRaises")
