"""Tell from the code of `save_model()` and `delete_model()` whether they write anything."""

from __future__ import annotations

import ast
import builtins
import inspect
import re
import sys
from typing import Any

from django_mcp.checks.function_text import read_function

NOT_WRITTEN = (
    "neither writes the object nor passes it on, so that a call succeeds and changes nothing"
)
"""What is wrong with such a method, after its name."""

HINT = "Call super().{}(...) at its end. If it is to refuse, let it raise an error."
"""What to do, for the name of the method."""

_WRITES = re.compile(
    r"(?:^|_)a?(?:super|save|create|update|delete|destroy|remove|insert|add|set|clear|bulk|write|execute|publish|archive"
    r"|move|restore|apply|send|post|put|patch|delay|enqueue|submit|commit)(?:_|$)"
)
"""Names of what may write. An attribute such as `created_by` has another one."""

_HARMLESS = ("builtins", "django.utils.", "django.contrib.messages", "logging")
_OF_VALUES = frozenset(dir(str)) | frozenset(
    (
        "clean", "full_clean", "get", "has_changed", "has_perm", "has_perms", "is_valid", "items", "keys",
        "message_user", "values", "critical", "debug", "error", "exception", "info", "warning",
    )
)  # fmt: skip
"""Methods that write no object that they are given."""


def writes_nothing(method: Any) -> bool:
    """Return whether a method of a site neither writes an object that it is given nor passes it on.

    A method that ends with an error is not meant, nor one whose text cannot be read.

    Args:
        method: `save_model` or `delete_model` of a `ModelTools` class or an admin, whose parameters are `self`, the
            user or the request, the object, and for saving the form.
    """
    # Without reading a file, which takes longer.
    code = getattr(getattr(method, "__func__", method), "__code__", None)
    if code is not None and any(map(_WRITES.search, code.co_names)):
        return False
    read = read_function(method)
    if read is None:
        return False
    node, function = read
    given = [each.arg for each in (*node.args.posonlyargs, *node.args.args)][2:4]
    if not given or node.args.vararg is not None or isinstance(node.body[-1], ast.Raise):
        return False
    for each in (part for statement in node.body for part in ast.walk(statement)):
        name = getattr(each, "attr", None) or getattr(each, "id", None)
        if name is not None and _WRITES.search(name):
            return False
        if isinstance(each, ast.Call) and _passes(each, given, function.__globals__):
            return False
        if isinstance(each, _KEEPING) and getattr(each.value, "id", None) in given:
            return False  # another variable keeps it
    return True


_KEEPING = (ast.Assign, ast.AnnAssign, ast.NamedExpr, ast.Return, ast.Yield)


def _passes(call: ast.Call, given: list[str], names: dict[str, Any]) -> bool:
    """Return whether a call may write: it gets the object or the form, or is a method of one of them."""
    arguments = [*call.args, *(each.value for each in call.keywords)]
    function = call.func
    if isinstance(function, ast.Attribute):
        if function.attr in _OF_VALUES:
            return False
        arguments.append(function.value)
    used = {
        each.id
        for argument in arguments
        for each in ast.walk(argument)
        if isinstance(each, ast.Name)
    }
    return not used.isdisjoint(given) and not _is_harmless(function, names)


def _is_harmless(function: ast.expr, names: dict[str, Any]) -> bool:
    """Return whether a function is one of Python or of Django's that only makes values."""
    path = ast.unparse(function).split(".")
    value = names.get(path[0], getattr(builtins, path[0], None))
    for name in path[1:]:
        value = inspect.getattr_static(value, name, None)
    module = str(getattr(value, "__module__", None) or getattr(type(value), "__module__", ""))
    is_callable = callable(value)
    is_pure = module.startswith(_HARMLESS) or module.partition(".")[0] in sys.stdlib_module_names
    return is_callable and is_pure and path[-1] not in ("exec", "eval", "partial", "getattr")
