"""What the text of a function makes certain, without running it: the models of its rows and objects, and what it calls."""

from __future__ import annotations

import ast
import builtins
import inspect
from collections.abc import Callable, Iterator
from functools import lru_cache
from textwrap import dedent
from types import CodeType, FunctionType, ModuleType
from typing import Any, TypeAlias
from uuid import UUID

from django.db.models import Model, QuerySet
from django.db.models.manager import BaseManager
from django.db.models.options import Options
from django.shortcuts import aget_object_or_404, get_object_or_404
from msgspec import Struct

from django_mcp.registry.problems import innermost, is_of_framework

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)

COPYING = frozenset(
    (
        "alias", "all", "annotate", "complex_filter", "dates", "datetimes", "defer", "difference", "distinct",
        "exclude", "extra", "filter", "intersection", "none", "only", "order_by", "prefetch_related",
        "select_for_update", "select_related", "union", "using", "values", "values_list",
    )
)  # fmt: skip
"""The methods of a queryset that do nothing but return another. `reverse` is one of lists, too."""

ENDING = frozenset(name for name in dir(QuerySet) if not name.startswith("_")) - COPYING
"""The methods of a queryset that return something else."""


class Instance(Struct, frozen=True):
    """Some object of a class."""

    cls: type


class Known(Struct, frozen=True, eq=False):
    """An object that a name stands for."""

    value: Any


class Rows(Struct, frozen=True):
    """A queryset or a manager, of any model if none is known."""

    model: type | None = None


_OBJECTS = frozenset(("create", "earliest", "first", "get", "last", "latest"))
"""The methods of a queryset that return one object."""


def read_function(given: Any) -> tuple[Function, FunctionType] | None:
    """Return the text of a function and the function itself, inside of its decorators; None: it cannot be read."""
    target = inspect.unwrap(innermost(given)) if callable(given) else given
    target = getattr(target, "__func__", target)
    node = _parse(target.__code__) if isinstance(target, FunctionType) else None
    return None if node is None else (node, target)


@lru_cache(512)
def _parse(code: CodeType) -> Function | None:
    """Return the text of a function by its code, which keeps no server alive. Nobody may change it.

    Many checks read the same functions. With this, those of the shop take half the time.
    """
    try:
        lines, first = inspect.getsourcelines(code)
        tree = ast.parse(dedent("".join(lines)))
    except (OSError, SyntaxError, TypeError):  # as of a lambda in the middle of an expression
        return None
    node = tree.body[0]
    if not isinstance(node, Function):
        return None
    ast.increment_lineno(node, first - 1)
    return node


def read_text(given: Any, first: Any = None) -> FunctionText | None:
    """Return the text of a function with what its names stand for; None: it cannot be read.

    Args:
        first: what is known of its first argument, such as `self`.
    """
    read = read_function(given)
    if read is None:
        return None
    node, function = read
    closure = inspect.getclosurevars(function).nonlocals if function.__closure__ else {}
    names = {**vars(builtins), **function.__globals__, **closure}
    return FunctionText(node, names, function, first)


class FunctionText:
    """The text of a function, and what is known of its names.

    Args:
        node: the text.
        names: what the names around the function stand for.
        function: the function; None: one inside of another.
        first: what is known of its first argument.

    Attributes:
        node, function: as they were given.
        nodes: of the function, without those of functions inside of it.
        parameters: its names.
        assigned: its other variables, with what is assigned to each.
        returned: the variables that are known to be querysets.
    """

    def __init__(
        self,
        node: Function,
        names: dict[str, Any],
        function: FunctionType | None,
        first: Any = None,
    ) -> None:
        self.node, self.function = node, function
        self.names = names
        self.nodes = list(_walk(node.body))
        given = node.args
        every = (*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg)
        self._first = {} if first is None or every[0] is None else {every[0].arg: first}
        self.parameters = {each.arg for each in every if each is not None}
        self._annotations = {} if function is None else _read_annotations(function)
        self.assigned: dict[str, list[ast.expr | None]] = {}
        for name, value in _find_assigned(self.nodes):
            self.assigned.setdefault(name, []).append(value)
        self.returned: set[str] = set()
        self._waiting: set[str] = set()

    def find_model(self, expression: ast.expr) -> type | None:
        """Return the model whose rows or object an expression has; None: it is not known."""
        found = self.infer(expression)
        if isinstance(found, Rows):
            return found.model
        # Functions such as `get_object_or_404()` take the model itself.
        cls = found.cls if isinstance(found, Instance) else getattr(found, "value", None)
        return cls if isinstance(cls, type) and issubclass(cls, Model) else None

    def find_plain_parameters(self) -> set[str]:
        """Return the parameters that take a text or a number, or may."""
        return {
            name
            for name in self.parameters
            if self._annotations.get(name, str) in (str, int, float, UUID, Any)
        }

    def find_called(self) -> Iterator[tuple[Any, int]]:
        """Yield the functions that it calls, as far as they are known, with the line."""
        for call in self.nodes:
            if isinstance(call, ast.Call):
                known = self.infer(call.func)
                if isinstance(known, Known):
                    yield known.value, call.lineno

    def find_inner(self, call: ast.Call) -> FunctionText | None:
        """Return the text of the site's function that is called, such as a method of a model; None: it is not known."""
        known = self.infer(call.func)
        function = known.value if isinstance(known, Known) else None
        if isinstance(function, staticmethod | classmethod):
            function = function.__func__
        if not isinstance(function, FunctionType) or is_of_framework(function):
            return None
        base = self.infer(call.func.value) if isinstance(call.func, ast.Attribute) else None
        return read_text(function, base if isinstance(base, Rows | Instance) else None)

    def infer(self, node: ast.expr) -> Any:
        """Return what is known of an expression: `Rows`, `Known`, `Instance`, or None."""
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
        if name in self.returned:
            return Rows()
        if name in self.parameters and name not in self.assigned:
            if name in self._first:
                return self._first[name]
            cls = self._annotations.get(name)
            if cls is None:
                return None
            return Rows() if issubclass(cls, QuerySet) else Instance(cls)
        if name in self.assigned:
            return self.infer_variable(name)
        return _know(self.names[name]) if name in self.names else None

    def infer_variable(self, name: str) -> Any:
        if name in self._waiting:
            return _WAITING
        if name in self.parameters:
            return None
        self._waiting.add(name)
        found = [each and self.infer(each) for each in self.assigned[name]]
        self._waiting.discard(name)
        values = [each for each in found if each is not _WAITING]
        if values and all(isinstance(each, Rows) for each in values):
            return values[0]
        is_same = bool(values) and isinstance(values[0], Instance) and len(set(values)) == 1
        return values[0] if is_same else None

    def _infer_attribute(self, node: ast.Attribute) -> Any:
        base = self.infer(node.value)
        if node.attr in ("_default_manager", "_base_manager"):
            return Rows()
        if isinstance(base, Rows):
            return _look_up(QuerySet, node.attr) or _find_own_method(base, node.attr)
        if isinstance(base, Instance):
            return _look_up(base.cls, node.attr)
        if not isinstance(base, Known):
            return None
        value = base.value
        if isinstance(value, ModuleType):
            return _know(vars(value)[node.attr]) if node.attr in vars(value) else None
        # `Model` itself has no managers.
        options = getattr(value, "_meta", None) if isinstance(value, type) else None
        if isinstance(options, Options) and node.attr in options.managers_map:
            return Rows(value)
        return _look_up(value if isinstance(value, type) else type(value), node.attr)

    def _infer_call(self, node: ast.Call, prefix: str) -> Any:
        """Return what is known of the result of a call, which is awaited with the prefix `a`."""
        function = node.func
        if isinstance(function, ast.Attribute):
            base = self.infer(function.value)
            if base is _WAITING:
                return _WAITING if function.attr in COPYING else None
            if isinstance(base, Rows):
                if function.attr.startswith(prefix) and function.attr[len(prefix) :] in _OBJECTS:
                    return base.model and Instance(base.model)
                # A method of the site's own returns a queryset, too, as far as is known.
                return None if function.attr in ENDING or prefix else base
            if function.attr == "get_queryset" and is_super(function.value):
                return Rows()
        called = self.infer(function)
        if not isinstance(called, Known):
            return None
        if (
            any(called.value is each for each in (get_object_or_404, aget_object_or_404))
            and node.args
        ):
            given = self.infer(node.args[0])
            model = given.model if isinstance(given, Rows) else getattr(given, "value", None)
            return Instance(model) if isinstance(model, type) else None
        return Instance(called.value) if isinstance(called.value, type) else None


_WAITING = object()
"""A variable that is assigned a value made from its own."""


def is_super(node: ast.expr) -> bool:
    """Return whether an expression is a call of `super`."""
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "super"


def _know(value: Any) -> Known | Rows | None:
    """Return what is known of an object; nothing, if asking for its class would load another in its place."""
    if isinstance(inspect.getattr_static(type(value), "__class__", None), property):
        return None
    if isinstance(value, BaseManager | QuerySet):
        return Rows(value.model)
    return Known(value)


def _look_up(cls: type, name: str) -> Known | None:
    """Return a function of a class as it stands there, without running a descriptor."""
    value = inspect.getattr_static(cls, name, None)
    is_function = isinstance(value, FunctionType | staticmethod | classmethod)
    return Known(value) if is_function else None


def _find_own_method(rows: Rows, name: str) -> Known | None:
    """Return a method of the site's own querysets or managers of a model."""
    managers = () if rows.model is None else rows.model._meta.managers  # type: ignore[attr-defined]
    classes = [cls for each in managers for cls in (each._queryset_class, type(each))]
    return next(filter(None, (_look_up(cls, name) for cls in classes)), None)


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
        if not isinstance(each, SCOPES):
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


_GETTING = ("get_object_or_404", "aget_object_or_404", "get_list_or_404", "aget_list_or_404")
_FILTERS = ("exclude", "filter", "get", "aget")


def find_filtered(call: ast.Call) -> ast.expr | None:
    """Return the rows that a call filters; None: it filters none."""
    if isinstance(call.func, ast.Attribute) and call.func.attr in _FILTERS:
        return call.func.value
    is_getting = ast.unparse(call.func).rpartition(".")[2] in _GETTING
    return call.args[0] if is_getting and call.args else None
