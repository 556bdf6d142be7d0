"""System check of texts that are translated when a module is imported, and so have one language for everybody.

Modules are read, and not run. Only what their text and the names in them make certain is told.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from types import ModuleType
from typing import Any

from django.conf import settings as site_settings
from django.core import checks
from django.core.checks import CheckMessage
from django.utils import translation
from django.utils.functional import Promise
from msgspec import Struct

from django_mcp.checks.declared import check
from django_mcp.conf import settings
from django_mcp.registry.problems import innermost, is_of_framework
from django_mcp.servers import all_servers

_AT_ONCE = (translation.gettext, translation.ngettext, translation.pgettext, translation.npgettext)
_LAZY = (
    translation.gettext_lazy,
    translation.ngettext_lazy,
    translation.pgettext_lazy,
    translation.npgettext_lazy,
)
_REGISTERING = frozenset(
    ("tool", "resource", "prompt", "skill", "register_tool", "register_resource", "register_prompt", "register")
)  # fmt: skip
_UNKNOWN: Any = object()
_MAX_DEPTH = 30


class Frozen(Struct, frozen=True):
    """A text that is translated too early.

    Attributes:
        path: the file.
        line: where it is there.
        name: the keyword, attribute, parameter or variable that it is for.
        text: the expression.
    """

    path: str
    line: int
    name: str
    text: str


@check(id="django_mcp.W047")
def check_frozen_texts() -> Iterator[CheckMessage]:
    """W047: a text is translated when its module is imported, and not in the language of each client."""
    if not site_settings.USE_I18N or len(site_settings.LANGUAGES) < 2:
        return
    for module in _find_modules():
        for each in find_frozen(module):
            yield checks.Warning(
                f"{each.path}:{each.line}: {each.name} is translated at the start, and has one language for "
                f"everybody: {each.text}.",
                hint="Use gettext_lazy, and format_lazy in place of an f-string, %, + and str().",
            )


def _find_modules() -> list[ModuleType]:
    """Return the modules of the site that register something."""
    own = settings.AUTODISCOVER_MODULE
    names = {name for name in list(sys.modules) if own and f".{own}." in f"{name}."}
    for server in all_servers():
        for entry in server.registry.entries():
            function: Any = entry.handler.origin
            target = inspect.unwrap(innermost(function)) if callable(function) else function
            names.add(str(getattr(target, "__module__", "")))
    found = [sys.modules.get(name) for name in sorted(names)]
    return [each for each in found if isinstance(each, ModuleType) and not _is_installed(each)]


def _is_installed(module: ModuleType) -> bool:
    """Return whether a module is not of the site: its texts are not for the developer to change."""
    path = getattr(module, "__file__", None) or "site-packages"
    is_own_package = module.__name__.partition(".")[0] == __name__.partition(".")[0]
    return is_own_package or "site-packages" in path or "dist-packages" in path


def find_frozen(module: ModuleType) -> list[Frozen]:
    """Return the texts of a module that are translated when it is imported."""
    try:
        source = inspect.getsource(module)
    except (OSError, TypeError):
        return []
    # To parse a module takes long.
    if "gettext" not in source and "translation" not in source and not _has_function(module):
        return []
    reader = _Reader(module)
    reader.visit(ast.parse(source))
    return reader.found


def _has_function(module: ModuleType) -> bool:
    """Return whether a module has a function for translations, which another module may have renamed."""
    return any(value is each for value in vars(module).values() for each in (*_AT_ONCE, *_LAZY))


class _Reader(ast.NodeVisitor):
    """Reads a module, for what it does when it is imported and for how functions in it register others."""

    def __init__(self, module: ModuleType) -> None:
        self.found: list[Frozen] = []
        self._names = vars(module)
        self._path = str(module.__file__)
        self._told: set[ast.AST] = set()
        self._classes: list[str] = []
        self._kept: tuple[str, ast.expr] | None = None
        self._runs_later = 0

    # -- what is read

    def visit(self, node: ast.AST) -> None:
        """Read a node, and then tell of it unless something inside of it was told by its own name."""
        super().visit(node)
        if not self._runs_later and self._is_frozen(node):
            name, value = self._kept or ("a text", node)
            self._tell(name, value)

    def visit_Assign(self, node: ast.Assign | ast.AnnAssign | ast.AugAssign) -> None:
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        if node.value is not None:
            self._kept = ".".join([*self._classes, ast.unparse(target)]), node.value
        self.generic_visit(node)
        self._kept = None

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.visit_Assign(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.visit_Assign(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        """Leave it alone: nothing keeps its text."""

    def visit_With(self, node: ast.With) -> None:
        calls = [each.context_expr for each in node.items]
        # Its language is meant to be that one.
        is_meant = any(
            isinstance(each, ast.Call) and self._resolve(each.func) is translation.override
            for each in calls
        )
        self._runs_later += is_meant
        self.generic_visit(node)
        self._runs_later -= is_meant

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        if any(self._is_ours(base) for base in node.bases):
            for each in node.body:
                if isinstance(each, ast.Assign | ast.AnnAssign) and each.value is not None:
                    target = each.targets[0] if isinstance(each, ast.Assign) else each.target
                    self._tell(f"{node.name}.{ast.unparse(target)}", each.value)
        self._classes.append(node.name)
        self.generic_visit(node)
        self._classes.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for each in node.decorator_list:
            self.visit(each)
        is_ours = any(self._is_ours(each) for each in node.decorator_list)
        arguments = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
        for argument in arguments:
            if argument.annotation is not None and (is_ours or not self._runs_later):
                self._tell(f"the parameter {argument.arg} of {node.name}", argument.annotation)
        for default in _defaults(node.args):
            self._kept = f"a default of {node.name}()", default
            self.visit(default)
        self._kept = None
        self._runs_later += 1
        for statement in node.body:
            self.visit(statement)
        self._runs_later -= 1

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.visit_FunctionDef(node)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        """Read its defaults alone: it runs later."""
        for default in _defaults(node.args):
            self.visit(default)

    def visit_Call(self, node: ast.Call) -> None:
        # What a handler calls is for its caller.
        is_registering = _last_name(node.func) in _REGISTERING
        if self._is_ours(node.func) and (is_registering or not self._runs_later):
            for keyword in node.keywords:
                name = f"{keyword.arg}=" if keyword.arg else "**"
                # A call inside is read by itself.
                if not (isinstance(keyword.value, ast.Call) and self._is_ours(keyword.value.func)):
                    self._tell(f"{name} of {ast.unparse(node.func)}()", keyword.value)
        self.generic_visit(node)

    def _is_ours(self, node: ast.expr) -> bool:
        """Return whether an expression is of this package: a decorator, a class, or a method of a server."""
        named = node.func if isinstance(node, ast.Call) else node
        value = self._resolve(named)
        if value is _UNKNOWN:
            # A server may be a variable of a function.
            if not (isinstance(named, ast.Attribute) and isinstance(named.value, ast.Name)):
                return False
            return named.attr in _REGISTERING - {"register"}
        if isinstance(value, type):
            return any(_is_ours(each) for each in value.__mro__)
        return _is_ours(getattr(value, "__func__", value)) or _is_ours(
            type(getattr(value, "__self__", None))
        )

    # -- what is told

    def _tell(self, name: str, value: ast.AST) -> None:
        """Tell of the first text inside of an expression that is translated at once, unless it was told."""
        if (text := self._find_frozen(value)) is not None:
            self._told.update(ast.walk(value))
            self.found.append(Frozen(self._path, text.lineno, name, f"{ast.unparse(text):.80}"))

    def _find_frozen(self, node: ast.AST, depth: int = 0) -> ast.expr | None:
        """Return the expression inside of another one that is translated at once."""
        if depth > _MAX_DEPTH or node in self._told:
            return None
        if isinstance(node, ast.expr) and self._is_frozen(node):
            return node
        inside: Iterable[ast.AST] = ast.iter_child_nodes(node)
        if isinstance(node, ast.Lambda):
            inside = _defaults(node.args)
        for child in inside:
            if (found := self._find_frozen(child, depth + 1)) is not None:
                return found
        return None

    def _is_frozen(self, node: ast.AST) -> bool:
        is_call = isinstance(node, ast.Call) and self._is_one_of(node.func, _AT_ONCE)
        return is_call or self._formats_lazy(node)

    def _formats_lazy(self, node: ast.AST) -> bool:
        if isinstance(node, ast.JoinedStr):
            return any(
                isinstance(each, ast.FormattedValue) and self._is_lazy(each.value)
                for each in node.values
            )
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod | ast.Add):
            right = node.right.elts if isinstance(node.right, ast.Tuple) else [node.right]
            return any(map(self._is_lazy, [node.left, *right]))
        if not isinstance(node, ast.Call):
            return False
        if isinstance(node.func, ast.Name) and self._resolve(node.func) is str:
            return any(map(self._is_lazy, node.args))
        if not isinstance(node.func, ast.Attribute):
            return False
        given = [*node.args, *(each.value for each in node.keywords)]
        is_text = isinstance(node.func.value, ast.Constant | ast.JoinedStr)
        inside = [each for one in given for each in getattr(one, "elts", [one])]
        return self._is_lazy(node.func.value) or (is_text and any(map(self._is_lazy, inside)))

    def _is_lazy(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Call):
            return self._is_one_of(node.func, _LAZY)
        return _is_translation(self._resolve(node))

    def _is_one_of(self, node: ast.expr, functions: tuple[Any, ...]) -> bool:
        value = self._resolve(node)
        return any(value is each for each in functions)

    def _resolve(self, node: ast.expr) -> Any:
        """Return what an expression of names stands for in the module."""
        if isinstance(node, ast.Name):
            builtins = vars(sys.modules["builtins"])
            return self._names.get(node.id, builtins.get(node.id, _UNKNOWN))
        if isinstance(node, ast.Attribute):
            base = self._resolve(node.value)
            if base is _UNKNOWN or isinstance(base, Promise):
                return _UNKNOWN
            return getattr(base, node.attr, _UNKNOWN) if _may_ask(base) else _UNKNOWN
        return _UNKNOWN


def _defaults(arguments: ast.arguments) -> list[ast.expr]:
    return [each for each in (*arguments.defaults, *arguments.kw_defaults) if each is not None]


def _is_translation(value: Any) -> bool:
    """Return whether a value is a lazy text, and not a lazy URL or the like."""
    if not isinstance(value, Promise):
        return False
    # What a lazy object calls is only in what it is pickled as.
    with suppress(Exception):
        pickled: Any = value.__reduce__()
        return pickled[1][0].__module__ in ("django.utils.text", "django.utils.translation")
    return False


def _may_ask(value: Any) -> bool:
    """Return whether asking for an attribute of an object runs nothing of the site."""
    return isinstance(value, ModuleType | type) or is_of_framework(type(value))


def _is_ours(value: Any) -> bool:
    return str(getattr(value, "__module__", "")).partition(".")[0] == "django_mcp"


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
